"""Dumps of OpenManus-RL's rollout script: steps of many episodes, interleaved."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

Row = dict[str, Any]


def step_of(env_id: int, step: int, **fields: Any) -> Row:
    """Return a line as the script writes it for ALFWorld."""
    return {
        "batch_idx": env_id // 3,
        "test_idx": 0,
        "step": step,
        "env_id": env_id,
        "prompt": f"You are an expert agent. Your task is to: find ball {env_id}\nYou see door {step}.",
        "action": f"<think>why {step}</think>\n<action>open door {step}</action>",
        "reward": 0.0,
        "done": False,
        "won": False,
        "is_action_valid": True,
        "gamefile": f"game-{env_id}",
        **fields,
    }


def interleaved(*, envs: int = 3, steps: int = 4) -> list[Row]:
    """Return steps in the order of the script: all environments take each step together; environment 0 ends first."""
    lines = []
    for step in range(steps):
        for env_id in range(envs):
            last = step == (1 if env_id == 0 else steps - 1)
            if env_id == 0 and step > 1:
                continue
            ended = {"done": last, "won": last and env_id != 1, "reward": 10.0 if last and env_id != 1 else 0.5}
            lines.append(step_of(env_id, step, **ended))
    return lines


def wait_until(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_interleaved_episodes_become_rollouts_with_their_own_turns(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    done = command("import", write(interleaved()), "--run", run_name, "--json")

    assert done.code == 0, done.err
    assert {name: done.json[name] for name in ("rollouts", "new_rollouts", "turns", "refused")} == {
        "rollouts": 3,
        "new_rollouts": 3,
        "turns": 10,
        "refused": 0,
    }
    assert "steps of OpenManus-RL's rollout script" in done.message
    found = rollouts(run_name)
    assert [(one["status"], one["step_count"], one["total_reward"]) for one in found] == [
        ("success", 2, 10.5),
        ("failed", 4, 2.0),
        ("success", 4, 11.5),
    ]
    assert {(one["source"], one["environment"]) for one in found} == {("import", "alfworld")}
    assert [one["task_description"] for one in found] == ["find ball 0", "find ball 1", "find ball 2"]
    assert found[1]["metadata"] == {"batch_idx": 0, "test_idx": 0, "env_id": 1, "gamefile": "game-1"}
    turn = found[1]["turns"][2]
    assert turn["observation"] == step_of(1, 2)["prompt"]
    assert (turn["thought"], turn["action"]) == ("why 2", "open door 2")
    assert turn["model_response"] == step_of(1, 2)["action"]
    assert turn["info"] == {"is_action_valid": True, "done": False, "won": False}
    assert [one["reward"] for one in found[0]["turns"]] == [0.5, 10.0]


def test_the_run_is_completed_and_knows_its_environment(command: Any, write: Any, run_name: str, query: Any) -> None:
    command("import", write(interleaved()), "--run", run_name)

    (run,) = query("select status, environment from training_runs where run_name = %s", run_name)
    assert run == {"status": "completed", "environment": "alfworld"}


def test_importing_again_brings_nothing_and_a_dump_that_has_grown_brings_the_rest(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    lines = interleaved()
    first = command("import", write(lines[:6]), "--run", run_name, "--json")
    again = command("import", write(lines[:6], "copy.jsonl"), "--run", run_name, "--json")
    begun = rollouts(run_name)
    whole = command("import", write(lines), "--run", run_name, "--json")
    back = command("import", write(lines[:6]), "--run", run_name, "--json")

    assert [one.code for one in (first, again, whole, back)] == [0, 0, 0, 0]
    assert [one.json["new_rollouts"] for one in (first, again, whole, back)] == [3, 0, 0, 0]
    # The dump ends before the episodes do.
    assert [(one["status"], one["step_count"]) for one in begun] == [("success", 2), ("truncated", 2), ("truncated", 2)]
    found = rollouts(run_name)
    assert [one["id"] for one in found] == [one["id"] for one in begun]
    assert [(one["status"], one["step_count"], len(one["turns"])) for one in found] == [
        ("success", 2, 2),
        ("failed", 4, 4),
        ("success", 4, 4),
    ]


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_was_cut_short_is_completed_by_another(
    stack: Any,
    command: Any,
    write: Any,
    run_name: str,
    rollouts: Callable[[str], list[Row]],
    query: Any,
    ended_by: signal.Signals,
) -> None:
    # Of more than one batch: what was written before the end stays.
    lines = [{**line, "prompt": "much " * 50_000} for line in interleaved(envs=6)]
    process = subprocess.Popen(
        [sys.executable, "-m", "openmanus_rl", "import", "-", "--run", run_name],
        env=stack.env,
        cwd=stack.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    for line in lines[:-1]:
        process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()
    written = "select count(*) from agent_states a join training_runs r on r.id = a.training_run_id where run_name = %s"
    wait_until(lambda: query(written, run_name)[0]["count"] > 0)
    process.send_signal(ended_by)
    _, said = process.communicate(timeout=60)
    begun = rollouts(run_name)
    (run_then,) = query("select status from training_runs where run_name = %s", run_name)
    done = command("import", write(lines), "--run", run_name, "--json")

    assert {one["status"] for one in begun} == {"interrupted", "success"}
    if ended_by == signal.SIGINT:
        assert process.returncode == 130
        assert b"run the same command again to continue" in said
        assert run_then["status"] == "interrupted"
    assert done.code == 0, done.err
    found = rollouts(run_name)
    assert len(found) == 6
    assert {one["status"] for one in found} == {"success", "failed"}
    assert sum(len(one["turns"]) for one in found) == len(lines)
    assert query("select status from training_runs where run_name = %s", run_name) == [{"status": "completed"}]


def test_a_dump_that_was_appended_to_holds_each_episode_as_often_as_it_was_played(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    # The second time the first episode was cut short before it ended, and a third time begins.
    lines = [*interleaved(envs=1), step_of(0, 0), *interleaved(envs=1)]
    path = write(lines)

    done = command("import", path, "--run", run_name, "--json")
    again = command("import", path, "--run", run_name, "--json")

    assert (done.json["new_rollouts"], again.json["new_rollouts"]) == (3, 0)
    assert [(one["status"], one["step_count"]) for one in rollouts(run_name)] == [
        ("success", 2),
        ("truncated", 1),
        ("success", 2),
    ]


def test_dumps_that_number_their_episodes_alike_are_told_apart(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    first = write(interleaved(envs=2), "first.jsonl")
    second = write([{**line, "prompt": "another seed"} for line in interleaved(envs=2)], "second.jsonl")

    done = command("import", first, second, "--run", run_name, "--json")

    assert done.code == 0
    assert done.json["new_rollouts"] == 4
    assert len(rollouts(run_name)) == 4


def test_attempts_at_one_task_are_episodes_of_their_own(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    lines = [{**step_of(0, step, done=step == 1), "attempt_idx": attempt} for step in range(2) for attempt in range(3)]

    command("import", write(lines), "--run", run_name)

    assert [one["metadata"]["attempt_idx"] for one in rollouts(run_name)] == [0, 1, 2]


def test_what_a_line_says_beside_the_step_is_kept_once(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    further = {"model": "m-1", "env_type": "alfworld", "observation": "a door", "info": {"deep": [1]}}
    lines = [step_of(0, 0, **further), step_of(0, 1, **further | {"model": "m-2"}, prompt=None)]

    command("import", write(lines), "--run", run_name)

    (rollout,) = rollouts(run_name)
    first, second = rollout["turns"]
    usual = {"is_action_valid": True, "done": False, "won": False, "info": {"deep": [1]}}
    assert (rollout["model"], rollout["status"]) == ("m-1", "truncated")
    assert first["info"] == {**usual, "observation": "a door"}
    assert second["observation"] == "a door"
    assert second["info"] == {**usual, "model": "m-2"}


def test_bad_lines_are_named_and_the_others_written(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    lines: list[Any] = interleaved(envs=1, steps=2)
    bad = [
        '{"batch_idx": 0, ',
        {"batch_idx": 0, "prompt": "p", "action": "a"},
        {**lines[0], "step": -1},
        {**lines[0], "step": "0"},
        {**lines[0], "reward": "much"},
        {**lines[0], "done": "no"},
        {**lines[0], "action": ["a"]},
    ]
    done = command("import", write([lines[0], *bad, lines[1]]), "--run", run_name)

    assert done.code == 1
    for number, reason in enumerate(
        [
            "it is not JSON",
            "env_id, step: missing; a step has env_id, step, action",
            "step: a whole number from 0 to 2147483647 is expected, not -1",
            "step: a whole number is expected, not text",
            "reward: a number is expected, not text",
            "done: true or false is expected, not text",
            "action: text is expected, not a list",
        ],
        start=2,
    ):
        assert f"line {number}: {reason}" in done.message
    assert "7 of 9 lines refused" in done.out
    (rollout,) = rollouts(run_name)
    assert (rollout["status"], rollout["step_count"]) == ("success", 2)


def test_a_line_that_was_mended_joins_its_episode(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    lines: list[Any] = [step_of(0, step, done=step == 2, won=step == 2, reward=1.0) for step in range(3)]

    broken = command("import", write([lines[0], "{", lines[2]]), "--run", run_name)
    (before,) = rollouts(run_name)
    mended = command("import", write(lines), "--run", run_name)

    assert (broken.code, mended.code) == (1, 0)
    (after,) = rollouts(run_name)
    assert after["id"] == before["id"]
    assert [(one["step_count"], one["total_reward"], len(one["turns"])) for one in (before, after)] == [
        (2, 2.0, 2),
        (3, 3.0, 3),
    ]


def test_what_the_database_refuses_is_named_by_its_line(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    command("import", write(interleaved(envs=1)), "--run", run_name)
    changed = [interleaved(envs=1)[0], step_of(0, 1, done=True, action="something else")]

    done = command("import", write(changed), "--run", run_name, "--json")

    assert done.code == 1
    (refusal,) = done.json["files"][0]["refusals"]
    assert refusal["line"] == 2
    assert "another turn is recorded for this step already" in refusal["reason"]
    assert rollouts(run_name)[0]["turns"][1]["action"] == "open door 1"


def test_rewards_that_are_unknown_or_no_numbers_are_kept_as_they_are(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    lines = [step_of(0, 0, reward=None, done=True), json.dumps(step_of(1, 0, reward=math.nan, done=True, won=None))]

    assert command("import", write(lines), "--run", run_name).code == 0

    unknown, nan = rollouts(run_name)
    assert (unknown["status"], unknown["total_reward"], unknown["turns"][0]["reward"]) == ("failed", None, None)
    assert nan["status"] == "completed"
    assert math.isnan(nan["total_reward"])
    assert math.isnan(nan["turns"][0]["reward"])


def test_an_environment_that_nothing_names_must_be_said(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    line = step_of(0, 0, done=True)
    del line["gamefile"]
    path = write([line])

    unsaid = command("import", path, "--run", run_name)
    said = command("import", path, "--run", run_name, "--environment", "babyai")

    assert unsaid.code == 1
    assert "line 1 does not say in which environment it was played; say it with --environment" in unsaid.message
    assert said.code == 0
    assert [one["environment"] for one in rollouts(run_name)] == ["babyai"]
