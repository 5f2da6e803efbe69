"""A worker works on rollouts of the queue and records how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.managers.environments import EnvironmentManager

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


AGENTS = """
import os, signal

class Deadly:
    sees_solution = False
    def __init__(self, model=None, options=None): ...
    def run(self, task, environment, recorder):
        recorder.log_turn(observation="about to die", action="die")
        os.kill(os.getpid(), signal.SIGKILL)

class Wordy:
    sees_solution = False
    def __init__(self, model=None, options=None): ...
    def run(self, task, environment, recorder):
        return "x" * 10_000_000
"""


@pytest.fixture(autouse=True, scope="module")
def _worker(_queue_stack: Any) -> Iterator[None]:
    """One worker for all of these tests, which finds the agents above."""
    (_queue_stack.home / "their_agents.py").write_text(AGENTS)
    _queue_stack.env["PYTHONPATH"] = str(_queue_stack.home)
    worker = _queue_stack.work()
    _queue_stack.workers.clear()
    yield
    worker.terminate()
    worker.communicate(timeout=60)


def script(*actions: Any) -> dict[str, Any]:
    return {"metadata": {"script": list(actions)}}


@pytest.mark.parametrize(
    ("task", "status", "verdicts"),
    [
        ({"expected_answer": "42", **script({"answer": "42"})}, "success", ["pass"]),
        ({"expected_answer": "42", **script({"answer": "41"})}, "failed", ["fail"]),
        (script({"answer": "42"}), "completed", []),
        (
            {"validators": [{"kind": "regex", "spec": {"pattern": "("}}], **script({"answer": "x"})},
            "error",
            ["error"],
        ),
    ],
)
def test_the_status_says_what_the_validators_found(
    queue: Any, ask: Ask, task: dict[str, Any], status: str, verdicts: list[str]
) -> None:
    [rollout] = ask(task=task, agent="scripted")

    row = queue.ended(rollout)
    assert row["status"] == status
    found = queue.rows("select verdict from public.validations where rollout_id = %s", rollout)
    assert [one["verdict"] for one in found] == verdicts
    changes = queue.rows(
        "select new_status from public.status_history where entity_id = %s order by changed_at, id", rollout
    )
    assert [change["new_status"] for change in changes] == ["pending", "provisioning", "running", status]
    assert row["started_at"] is not None
    assert row["finished_at"] is not None


def test_a_shell_without_an_environment_is_an_error(queue: Any, ask: Ask) -> None:
    [rollout] = ask(
        task=script({"shell": "echo hello > out; cat out"}, {"answer": "done"}) | {"environment": None},
        agent="scripted",
    )

    row = queue.ended(rollout)
    turns = queue.rows("select * from public.agent_states where rollout_id = %s order by step_number", rollout)
    # There is no shell without an environment, which is said, and is not the agent's fault.
    assert row["status"] == "error"
    assert "environment" in row["error"]
    assert [turn["step_number"] for turn in turns] == list(range(row["step_count"]))


def test_an_unknown_agent_is_an_error_that_lists_the_known_ones(queue: Any, ask: Ask) -> None:
    [rollout] = ask(agent="nosuch")

    row = queue.ended(rollout)
    assert row["status"] == "error"
    assert "noop, oracle, scripted, chat, browser" in row["error"]


def test_an_environment_is_started_and_removed(queue: Any, ask: Ask) -> None:
    EnvironmentManager.save_environment("site", kind="process", spec=SITE)
    [rollout] = ask(
        task={"environment": "site", **script({"shell": "echo $((40 + 2))"}, {"answer": "done"})}, agent="scripted"
    )

    row = queue.ended(rollout)
    assert row["status"] == "completed", row["error"]
    assert queue.leftovers() == []


def test_an_episode_of_gymnasium_is_recorded_step_by_step(queue: Any, ask: Ask) -> None:
    EnvironmentManager.save_environment("pole", kind="gymnasium", spec={"id": "CartPole-v1", "seed": 3})
    steps = [{"step": action} for action in (0, 1, 0)]
    [rollout] = ask(task={"environment": "pole", **script(*steps)}, agent="scripted")

    row = queue.ended(rollout)

    assert (row["status"], row["total_reward"], row["step_count"]) == ("completed", 3.0, 3), row["error"]
    turns = queue.rows("select reward, observation from public.agent_states where rollout_id = %s", rollout)
    assert [turn["reward"] for turn in turns] == [1.0, 1.0, 1.0]
    assert len({turn["observation"] for turn in turns}) == 3


def test_the_echo_example_of_openenv_is_recorded_turn_by_turn(queue: Any, ask: Ask, tmp_path: Path) -> None:
    made = [Path(sys.executable).with_name("openenv"), "init", "echo_world", "--output-dir", tmp_path]
    subprocess.run(made, check=True, capture_output=True, env=os.environ | {"NO_COLOR": "1"})
    command = 'exec python -m uvicorn echo_world.server.app:app --host 127.0.0.1 --port "$PORT"'
    spec = {"command": command, "environment": {"PYTHONPATH": str(tmp_path)}}
    EnvironmentManager.save_environment("echo", kind="openenv", spec=spec)
    said = [{"step": {"message": word}} for word in ("one", "two")]
    [rollout] = ask(task={"environment": "echo", **script(*said, {"answer": "{observation}"})}, agent="scripted")

    row = queue.ended(rollout)

    assert row["status"] == "completed", row["error"]
    turns = queue.rows(
        "select a.reward, t.tool_output from public.agent_states a join public.tool_calls t on t.agent_state_id = a.id"
        " where a.rollout_id = %s order by a.step_number",
        rollout,
    )
    assert ["one" in turns[0]["tool_output"], "two" in turns[1]["tool_output"]] == [True, True]
    assert all(turn["reward"] is not None for turn in turns[:2])
    assert row["total_reward"] == pytest.approx(sum(turn["reward"] for turn in turns[:2]))


def test_an_environment_that_never_gets_healthy_is_an_error_with_its_logs(queue: Any, ask: Ask) -> None:
    command = [sys.executable, "-c", "import time; print('still warming up', flush=True); time.sleep(100)"]
    spec = {
        "services": {"web": {"command": command, "health": {"http": "/", "timeout_seconds": 1}}},
        "url": "http://web/",
    }
    EnvironmentManager.save_environment("slow", kind="process", spec=spec)
    [rollout] = ask(task={"environment": "slow"}, agent="noop")

    row = queue.ended(rollout)
    assert row["status"] == "error"
    assert "web" in row["error"]
    assert queue.leftovers() == []


def test_an_agent_that_never_stops_is_cut_off_at_its_time_limit(queue: Any, ask: Ask) -> None:
    [rollout] = ask(
        task={"expected_answer": "x", **script({"sleep": 1000}, {"answer": "x"})},
        agent="scripted",
        limits={"max_seconds": 1},
    )

    row = queue.ended(rollout)
    assert row["status"] == "timeout"
    assert "limit" in row["status_message"]


def test_a_process_that_dies_is_tried_again_and_then_an_error(queue: Any, ask: Ask) -> None:
    [rollout] = ask(agent="their_agents:Deadly", max_attempts=2)

    row = queue.ended(rollout)
    assert (row["status"], row["attempt"]) == ("error", 2)
    assert "signal 9" in row["error"]
    # What the lost attempt recorded is kept, in a rollout of its own.
    aside = queue.rows("select * from public.rollouts where attempt_of = %s", rollout)
    assert all(one["status"] == "interrupted" for one in aside)


def test_a_large_answer_is_a_file(queue: Any, ask: Ask) -> None:
    [rollout] = ask(task={"expected_answer": "y"}, agent="their_agents:Wordy")

    row = queue.ended(rollout)
    assert row["status"] == "failed"
    assert row["result"]["size_bytes"] == 10_000_000
    [media] = queue.rows("select * from public.media where rollout_id = %s", rollout)
    assert media["size_bytes"] == 10_000_000
    assert media["path"] == row["result"]["path"]
