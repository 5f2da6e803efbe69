"""What agents and environments wrote is shown by every command, and obeyed by no terminal."""

from __future__ import annotations

import unicodedata
from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.utils.supabase_db import (
    EvaluationManager,
    MetricManager,
    ModelCheckpointManager,
    RewardManager,
    RolloutManager,
    TrainingRunManager,
)

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\x1b]8;;http://evil\x1b\\\r\b\x7f\u202egnp\u2066 [red]loud[/] \\"


def commands_in(text: str) -> list[str]:
    """Return what a terminal would obey, apart from line ends and tabs."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"]


@pytest.fixture
def hostile() -> dict[str, str]:
    """A run and a rollout in which every text is hostile."""
    name = f"{HOSTILE}{uuid4()}"
    run = TrainingRunManager.create_run(
        name=name, run_name=name, algorithm=HOSTILE, environment=name, config={HOSTILE: HOSTILE}, tags=[HOSTILE],
        description=HOSTILE,
    )  # fmt: skip
    other = TrainingRunManager.create_run(name=HOSTILE, environment=name, config={HOSTILE: "another"})
    rollout = RolloutManager.create_rollout(run["id"], 0, environment=name, task_description=HOSTILE, model=HOSTILE)
    turn = RolloutManager.log_agent_state(rollout["id"], 0, observation=HOSTILE, action=HOSTILE, thought=HOSTILE)
    RolloutManager.log_tool_call(turn, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, success=True)
    RolloutManager.log_tool_call(turn, HOSTILE, {}, "", success=False, error_message=HOSTILE)
    RewardManager.log_reward(rollout["id"], 1.0, reward_type=HOSTILE)
    RolloutManager.complete_rollout(rollout["id"], status="error", error=HOSTILE)
    MetricManager.log(run["id"], {HOSTILE: 1.0}, step=0)
    EvaluationManager.create_evaluation(training_run_id=run["id"], name=HOSTILE, model=HOSTILE)
    ModelCheckpointManager.save_checkpoint(run["id"], 0, storage_path=HOSTILE)
    TrainingRunManager.update_status(run["id"], "failed", message=HOSTILE)
    return {"run": run["id"], "other": other["id"], "rollout": rollout["id"], "environment": name, "run_name": name}


def test_no_listing_obeys_a_text(cli: Any, hostile: dict[str, str]) -> None:
    for arguments in (
        ("runs", "list", "--environment", hostile["environment"]),
        ("runs", "show", hostile["run"]),
        ("runs", "show", hostile["run_name"]),
        ("runs", "compare", hostile["run"], hostile["other"]),
        ("rollouts", "list", "--environment", hostile["environment"]),
        ("rollouts", "show", hostile["rollout"]),
        ("rollouts", "show", hostile["rollout"], "--full"),
        ("runs", "show", hostile["run"], "--json"),
        ("rollouts", "show", hostile["rollout"], "--json"),
        ("runs", "show", HOSTILE),
        ("runs", "delete", hostile["run"], "--yes"),
    ):
        done = cli(*arguments)
        said = done.out + done.err
        assert commands_in(said) == [], arguments
        assert "loud" in said, arguments
        assert "--json" in arguments or "[red]loud[/]" in said, arguments
