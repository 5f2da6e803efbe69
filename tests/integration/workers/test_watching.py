"""`rollouts watch` follows rollouts until they have ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from openmanus_rl.managers.queue import QueueManager
from tests.conftest import run_cli

Ask = Callable[..., list[str]]


def script(*actions: Any, **task: Any) -> dict[str, Any]:
    return {"metadata": {"script": list(actions)}, **task}


def watching(queue: Any, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "openmanus_rl", "rollouts", "watch", *arguments]
    return subprocess.Popen(
        command, env=queue.env, cwd=queue.home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_every_change_is_a_line_and_the_exit_code_says_whether_all_went_well(queue: Any, ask: Ask) -> None:
    [good] = ask(task=script({"sleep": 1.5}, {"answer": "x"}, expected_answer="x"), agent="scripted")
    [unverified] = ask(task=script({"answer": "x"}), agent="scripted")
    watcher = watching(queue, good, unverified[:18], "--json")
    assert watcher.stdout is not None
    first = [json.loads(watcher.stdout.readline()) for _ in range(2)]

    queue.work_off()
    rest, errors = watcher.communicate(timeout=60)

    assert [(state["id"], state["status"]) for state in first] == [(good, "pending"), (unverified, "pending")]
    states = [json.loads(line) for line in rest.splitlines()]
    *_, last = [state for state in states if state["id"] == good]
    assert last["status"] == "success"
    assert (last["turns"], last["total_reward"], last["error"]) == (2, 1.0, None)
    assert [state["status"] for state in states if state["id"] == unverified][-1] == "completed"
    assert (watcher.returncode, errors) == (0, "")


def test_all_that_waits_or_runs_is_followed_and_what_did_not_go_well_is_told(queue: Any, ask: Ask) -> None:
    wrong, cancelled, deleted = ask(task=script({"answer": "y"}, expected_answer="x"), agent="scripted", attempts=3)
    watcher = watching(queue)
    assert watcher.stdout is not None
    seen = [watcher.stdout.readline() for _ in range(3)]
    assert {line.split()[0] for line in seen} == {wrong, cancelled, deleted}

    QueueManager.cancel_rollouts([cancelled])
    QueueManager.delete_rollouts([deleted])
    queue.work_off()
    out, _ = watcher.communicate(timeout=60)

    told = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()}
    assert told[wrong] == "failed 1 turn reward 0.00 validator default: the answer is another text"
    assert (told[cancelled], told[deleted]) == ("cancelled", "deleted")
    assert out.splitlines()[-1] == "1 cancelled, 1 deleted, 1 failed"
    assert watcher.returncode == 1


def test_it_goes_on_when_the_database_is_back(queue: Any, ask: Ask) -> None:
    [rollout] = ask(task=script({"answer": "x"}), agent="scripted")
    watcher = watching(queue, rollout)
    assert watcher.stdout is not None
    watcher.stdout.readline()

    os.kill(int((queue.home / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    queue.work_off()
    out, _ = watcher.communicate(timeout=60)

    assert out.splitlines()[-1] == "1 completed"
    assert watcher.returncode == 0


def test_there_may_be_nothing_to_follow(queue: Any) -> None:
    done = run_cli("rollouts", "watch", env=queue.env)
    assert (done.returncode, done.stdout) == (0, "Nothing waits or runs\n")
    assert run_cli("rollouts", "watch", "--json", env=queue.env).stdout == ""

    unknown = run_cli("rollouts", "watch", str(uuid4()), env=queue.env)

    assert unknown.returncode == 1
    assert "no rollout matches" in unknown.stderr
