"""`openmanus-rl rollouts`: listed by what they are, and read turn by turn."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import RolloutManager, TrainingRunManager, ValidationManager


@pytest.fixture
def run() -> Row:
    return TrainingRunManager.create_run("with rollouts", environment="alfworld", run_name=f"run-{uuid4().hex}")


@pytest.fixture
def rollout(run: Row) -> Row:
    """Three turns, with tools that worked and failed, rewards and a verdict."""
    made = RolloutManager.create_rollout(run["id"], 7, task_description="find the [red] ball", model="small")
    for number in range(1, 4):
        RolloutManager.log_agent_state(
            made["id"],
            number,
            observation=f"room {number} " + "with much to see " * 50,
            thought="explore",
            action=f"go {number}",
            tool_calls=[
                {"tool_name": "search", "tool_input": {"q": "ball"}, "tool_output": "found", "success": True},
                {"tool_name": "map", "success": False, "error_message": "no signal", "execution_time_ms": 12.5},
            ],
        )
        RolloutManager.log_reward(made["id"], number, 0.25)
    RolloutManager.log_reward(made["id"], None, 1.0, reward_type="success")
    ValidationManager.log_validation(made["id"], "fail", validator_name="exact", expected="ball", actual="box")
    return RolloutManager.complete_rollout(made["id"], "failed", total_reward=1.75, step_count=3)


def test_rollouts_are_listed_by_run_status_and_reward(cli: Any, run: Row, rollout: Row) -> None:
    better = RolloutManager.create_rollout(run["id"], 8)
    RolloutManager.complete_rollout(better["id"], "success", total_reward=9.0, step_count=1)
    listed = cli("rollouts", "list", "--run", run["run_name"], "--sort=-reward", "--json").json
    assert [row["id"] for row in listed["rollouts"]] == [better["id"], rollout["id"]]
    only = cli("rollouts", "list", "--run", run["id"], "--status", "failed").out
    assert rollout["id"] in only
    assert better["id"] not in only
    assert "No rollouts match" in cli("rollouts", "list", "--run", run["id"], "--status", "timeout").out


def test_a_rollout_reads_turn_by_turn(cli: Any, rollout: Row) -> None:
    done = cli("rollouts", "show", rollout["id"])
    assert done.code == 0, done.err
    shown = " ".join(done.out.split())
    assert "find the [red] ball" in shown
    assert "Turn 3 reward +0.250" in shown
    assert "thought explore" in shown
    assert "did go 2" in shown
    assert '✓ search({"q": "ball"}) → found' in shown
    assert "✗ map() 12.5 ms → no signal" in shown
    assert "success +1.000" in shown
    assert "exact fail ball box" in shown
    assert "…" in shown
    assert "…" not in cli("rollouts", "show", rollout["id"], "--full").out


def test_turns_are_read_in_pages(cli: Any, rollout: Row) -> None:
    first = cli("rollouts", "show", rollout["id"], "--turns", "2", "--json").json
    assert [turn["step_number"] for turn in first["turns"]] == [1, 2]
    assert first["next_from"] == 3
    second = cli("rollouts", "show", rollout["id"], "--from", "3", "--json").json
    assert [turn["step_number"] for turn in second["turns"]] == [3]
    assert second["next_from"] is None
    assert [len(turn["tool_calls"]) for turn in second["turns"]] == [2]
    assert "--from 3" in cli("rollouts", "show", rollout["id"], "--turns", "2").out


def test_a_rollout_without_turns_can_be_shown(cli: Any, run: Row) -> None:
    empty = RolloutManager.create_rollout(run["id"], 0)
    done = cli("rollouts", "show", empty["id"])
    assert done.code == 0, done.err
    assert "running" in done.out


def test_a_rollout_of_the_demo_can_be_read(cli: Any, demo: dict[str, Any]) -> None:
    done = cli("rollouts", "show", demo["example_rollout_id"])
    assert done.code == 0, done.err
    assert "You are in the" in done.out
    assert "right_thing" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("show", "ffffffff-ffff"), 1, "openmanus-rl rollouts list"),
        (("show", "not an id"), 1, "not an id"),
        (("show", "ffffffff", "--turns", "0"), 2, "--turns"),
        (("list", "--run", "no-such-run"), 1, "no-such-run"),
        (("list", "--status", "great"), 2, "truncated"),
        (("list", "--source", "luck"), 2, "baseline"),
        (("list", "--sort", "luck"), 2, "reward"),
    ],
)
def test_bad_input_is_refused_with_what_is_possible(
    cli: Any, arguments: tuple[str, ...], code: int, named: str
) -> None:
    done = cli("rollouts", *arguments)
    assert done.code == code
    assert named in done.message
