"""A write whose answer is lost is sent again, and is still one write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import (
    MetricManager,
    RewardManager,
    RolloutGroupManager,
    RolloutManager,
    StatusHistoryManager,
    ToolCallManager,
    TrainingRunManager,
    TrainingStepManager,
    TurnManager,
)

if TYPE_CHECKING:
    from .conftest import LossyTransport


@pytest.fixture
def lose(transport: LossyTransport) -> Any:
    """Return a function that makes the next two answers vanish after their requests arrived."""

    def two_answers() -> None:
        transport.answers_to_lose = 2

    return two_answers


def test_a_run_is_created_once(client: Client, lose: Any) -> None:
    runs = TrainingRunManager.using(client)
    lose()
    made = runs.create_run(f"lost {id(lose)}", run_name=None)

    found = runs.list_runs(name_contains=made["name"])
    assert [row["id"] for row in found] == [made["id"]]


def test_a_status_change_is_noted_once(client: Client, run: Row, lose: Any) -> None:
    lose()
    TrainingRunManager.using(client).finish(run["id"], status="failed")

    history = StatusHistoryManager.using(client).list_changes(entity_id=run["id"])
    assert [change["new_status"] for change in history] == ["running", "failed"]


def test_turns_tool_calls_and_rewards_are_written_once(client: Client, rollout: Row, lose: Any) -> None:
    rollouts = RolloutManager.using(client)
    lose()
    turn_id = rollouts.log_agent_state(rollout["id"], 1, "o", "a", tool_calls=[{"tool_name": "first"}])
    lose()
    rollouts.log_tool_call(turn_id, "second", position=1)
    lose()
    rollouts.log_reward(rollout["id"], 1, 1.0)

    assert len(TurnManager.using(client).list_turns(rollout["id"])) == 1
    assert len(ToolCallManager.using(client).list_tool_calls(agent_state_id=turn_id)) == 2
    assert len(RewardManager.using(client).list_rewards(rollout["id"])) == 1


def test_a_numbered_group_takes_one_number(client: Client, run: Row, lose: Any) -> None:
    step = TrainingStepManager.using(client).start_step(run["id"], 1)
    lose()
    group = RolloutGroupManager.using(client).create_group(training_step_id=step["id"])

    assert [g["id"] for g in RolloutGroupManager.using(client).list_groups(training_step_id=step["id"])] == [
        group["id"]
    ]


def test_metric_points_arrive_once(client: Client, run: Row, lose: Any) -> None:
    metrics = MetricManager.using(client)
    lose()
    metrics.append(run["id"], {"loss": [(1, 0.5), (2, 0.25)]})

    assert [point.step for point in metrics.get_series(run["id"])["loss"]] == [1, 2]
