"""Workers that are stopped, killed and taken over from; rollouts that are cancelled and deleted."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest

from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.runs import TrainingRunManager

Ask = Callable[..., list[str]]

SERVER = """
import http.server, os
address = ("127.0.0.1", int(os.environ["PORT"]))
http.server.HTTPServer(address, http.server.SimpleHTTPRequestHandler).serve_forever()
"""
SITE = {
    "services": {"web": {"command": [sys.executable, "-c", SERVER], "health": {"http": "/"}}},
    "url": "http://web/",
}


def script(*actions: Any) -> dict[str, Any]:
    return {"metadata": {"script": list(actions)}}


def test_a_running_rollout_is_cancelled(queue: Any, ask: Ask) -> None:
    EnvironmentManager.save_environment("site", kind="process", spec=SITE)
    [rollout] = ask(task={"environment": "site", **script({"sleep": 1000})}, agent="scripted")
    queue.work()
    queue.await_status(rollout, "running")

    QueueManager.cancel_rollouts([rollout])

    assert queue.await_status(rollout, "cancelled", "error") == "cancelled"
    queue.end_workers()
    assert queue.leftovers() == []


def test_a_running_rollout_that_is_deleted_is_stopped_first(queue: Any, ask: Ask) -> None:
    [rollout] = ask(task=script({"sleep": 1000}), agent="scripted")
    queue.work()
    queue.await_status(rollout, "running")

    QueueManager.delete_rollouts([rollout])

    deadline = time.monotonic() + 60
    while queue.status_of(rollout) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert queue.rows("select * from internal.leases") == []


def test_ctrl_c_lets_a_worker_finish_what_it_has_begun(queue: Any, ask: Ask) -> None:
    begun, waiting = ask(
        task={"expected_answer": "x", **script({"sleep": 3}, {"answer": "x"})}, agent="scripted", attempts=2
    )
    worker = queue.work("--max-workers", "1")
    deadline = time.monotonic() + 60
    while not (running := [one for one in (begun, waiting) if queue.status_of(one) == "running"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)

    worker.send_signal(signal.SIGINT)
    worker.wait(60)

    assert queue.status_of(running[0]) == "success"
    assert queue.status_of(next(one for one in (begun, waiting) if one not in running)) == "pending"


def test_sigterm_returns_the_work_to_the_queue(queue: Any, ask: Ask) -> None:
    EnvironmentManager.save_environment("site", kind="process", spec=SITE)
    [rollout] = ask(task={"environment": "site", **script({"sleep": 1000})}, agent="scripted")
    worker = queue.work()
    queue.await_status(rollout, "running")

    worker.send_signal(signal.SIGTERM)
    worker.wait(60)

    [row] = queue.rows("select status, attempt from public.rollouts where id = %s", rollout)
    # Returned, not lost: the attempt does not count.
    assert (row["status"], row["attempt"]) == ("pending", 1)
    assert queue.rows("select state from public.workers where state <> 'stopped'") == []
    assert queue.leftovers() == []


@pytest.mark.parametrize("whole_group", [False, True])
def test_the_next_worker_takes_over_and_cleans_up_after_a_kill(queue: Any, ask: Ask, whole_group: bool) -> None:
    EnvironmentManager.save_environment("site", kind="process", spec=SITE)
    [rollout] = ask(
        task={"environment": "site", **script({"shell": "echo one"}, {"sleep": 8}, {"answer": "x"})}, agent="scripted"
    )
    worker = queue.work("--lease-seconds", "5")
    queue.await_status(rollout, "running")

    if whole_group:
        for process in _family(worker.pid):
            os.kill(process, signal.SIGKILL)
    else:
        worker.kill()
    worker.wait()
    queue.work_off("--lease-seconds", "5")

    [row] = queue.rows("select status, attempt, step_count from public.rollouts where id = %s", rollout)
    assert (row["status"], row["attempt"]) == ("completed", 2)
    turns = queue.rows("select step_number from public.agent_states where rollout_id = %s order by 1", rollout)
    assert [turn["step_number"] for turn in turns] == list(range(row["step_count"]))
    assert queue.leftovers() == []


def _family(pid: int) -> list[int]:
    """Return a worker and all that it started, except the courier, which is to survive it."""
    found = [pid]
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if "openmanus_rl.delivery" not in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


def test_resuming_a_run_leaves_rollouts_of_workers_alone(queue: Any, ask: Ask) -> None:
    run = TrainingRunManager.create_run(name="r", algorithm="a", environment="e")
    [rollout] = ask(
        task={"expected_answer": "x", **script({"sleep": 3}, {"answer": "x"})},
        agent="scripted",
        training_run_id=run["id"],
    )
    queue.work()
    queue.await_status(rollout, "running")

    queue.rows("select public.resume_run(%s, gen_random_uuid())", run["id"])

    assert queue.await_status(rollout, "success", "interrupted", "error") == "success"


def test_a_worker_ends_after_so_long_without_work_and_not_before(queue: Any, ask: Ask) -> None:
    [rollout] = ask(task=script({"sleep": 3}), agent="scripted")
    worker = queue.work("--idle-seconds", "1")

    out, _ = worker.communicate(timeout=120)

    assert worker.returncode == 0, out
    assert queue.status_of(rollout) == "completed"
    assert queue.rows("select state from public.workers order by started_at desc limit 1")[0]["state"] == "stopped"


def test_a_worker_that_gets_its_lost_rollout_again_ends_the_old_attempt_first(queue: Any, ask: Ask) -> None:
    EnvironmentManager.save_environment("shell", kind="process", spec={})
    steps = [{"shell": "touch here"}, {"sleep": 7}, {"shell": "ls here"}, {"answer": "x"}]
    [rollout] = ask(task={"environment": "shell", "expected_answer": "x", **script(*steps)}, agent="scripted")
    worker = queue.work("--until-idle", "--max-workers", "2")
    queue.await_status(rollout, "running")

    [slot] = [one for one in psutil.Process(worker.pid).children() if "slot_process" in " ".join(one.cmdline())]
    slot.suspend()
    # Before the worker renews it, which it does every few seconds.
    queue.rows("update internal.leases set expires_at = now() - interval '1 second' returning rollout_id")
    queue.rows("select internal.reclaim_expired()")
    queue.await_status(rollout, "provisioning")
    time.sleep(4)
    slot.resume()
    out, _ = worker.communicate(timeout=120)

    [row] = queue.rows("select status, attempt, step_count, error from public.rollouts where id = %s", rollout)
    assert (row["status"], row["attempt"], row["step_count"]) == ("success", 2, 4), (row, out)
    # Both work in one folder: the end of the first would remove the file of the second.
    assert out.index("cancelled after") < out.rindex("begins:"), out
    [turn] = queue.rows(
        "select o.observation from public.agent_states o where o.rollout_id = %s and o.step_number = 3", rollout
    )
    assert "here" in str(turn["observation"]), turn
    assert queue.leftovers() == []
