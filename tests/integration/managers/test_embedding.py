"""What belongs together is read together over the API, with or without a foreign key."""

from __future__ import annotations

from typing import Any

import pytest
from postgrest.exceptions import APIError

from openmanus_rl.records.ids import new_id
from openmanus_rl.utils.supabase_client import get_supabase
from openmanus_rl.utils.supabase_db import RolloutManager, TrainingRunManager

pytestmark = pytest.mark.usefixtures("_stack_settings")


@pytest.fixture
def rollout() -> dict[str, Any]:
    run = TrainingRunManager.create_run(name="embedded", environment="e")
    made = RolloutManager.create_rollout(training_run_id=run["id"], episode_number=0, environment="e")
    for number in range(3):
        turn_id = RolloutManager.log_agent_state(made["id"], number, f"room {number}", "go")
        RolloutManager.log_tool_call(turn_id, "search", {"n": number}, "found", success=True)
        RolloutManager.log_reward(made["id"], number, float(number), "step")
    RolloutManager.log_reward(made["id"], None, 9.0, "outcome")
    return dict(made)


def select(table: str, columns: str, **equals: str) -> list[dict[str, Any]]:
    request = get_supabase().table(table).select(columns)
    for name, value in equals.items():
        request = request.eq(name, value)
    rows: Any = request.execute().data
    return list(rows)


def test_a_rollout_brings_its_turns_their_tool_calls_and_its_rewards(rollout: dict[str, Any]) -> None:
    [found] = select(
        "rollouts", "id, agent_states(step_number, tool_calls(tool_name, tool_input)), rewards(*)", id=rollout["id"]
    )
    turns = sorted(found["agent_states"], key=lambda turn: turn["step_number"])
    assert [turn["tool_calls"] for turn in turns] == [
        [{"tool_name": "search", "tool_input": {"n": number}}] for number in range(3)
    ]
    rewards = sorted((reward["reward_type"], reward["reward"]) for reward in found["rewards"])
    assert rewards == [("outcome", 9.0), ("step", 0.0), ("step", 1.0), ("step", 2.0)]


def test_a_part_brings_its_turn_and_that_its_rollout(rollout: dict[str, Any]) -> None:
    [turn] = select("agent_states", "id, rollouts(id, training_runs(name))", rollout_id=rollout["id"], step_number="1")
    assert turn["rollouts"] == {"id": rollout["id"], "training_runs": {"name": "embedded"}}
    [call] = select("tool_calls", "agent_states(step_number)", agent_state_id=turn["id"])
    assert call == {"agent_states": {"step_number": 1}}
    [reward] = select("rewards", "reward, rollouts(id)", rollout_id=rollout["id"], reward_type="outcome")
    assert reward == {"reward": 9.0, "rollouts": {"id": rollout["id"]}}


def test_what_is_embedded_can_be_filtered_ordered_and_required(rollout: dict[str, Any]) -> None:
    request = (
        get_supabase().table("rollouts").select("id, agent_states!inner(step_number)").eq("id", rollout["id"])
        .gte("agent_states.step_number", 1).order("step_number", desc=True, foreign_table="agent_states")
    )  # fmt: skip
    found: Any = request.execute().data
    assert [turn["step_number"] for turn in found[0]["agent_states"]] == [2, 1]
    none: Any = request.gt("agent_states.step_number", 77).execute().data
    assert none == []


def test_rewards_are_added_changed_and_deleted_over_the_api(rollout: dict[str, Any]) -> None:
    rewards = get_supabase().table("rewards")
    turn_id = RolloutManager.log_agent_state(rollout["id"], 7, "room", "go", rewards=[{"reward": 0.5}])
    added: Any = (
        rewards.insert({"rollout_id": rollout["id"], "step_number": 7, "reward_type": "form", "reward": 1})
        .execute()
        .data
    )
    assert added[0]["reward"] == 1
    changed: Any = rewards.update({"reward": 0.75}).eq("id", turn_id).execute().data
    assert [(row["id"], row["reward"]) for row in changed] == [(turn_id, 0.75)]
    assert select("agent_states", "reward", id=turn_id) == [{"reward": 0.75}]
    with pytest.raises(APIError) as refused:
        rewards.insert({"rollout_id": rollout["id"], "step_number": 7, "reward": 2}).execute()
    assert refused.value.code == "23505"
    deleted: Any = rewards.delete().eq("id", turn_id).execute().data
    assert [row["reward"] for row in deleted] == [0.75]
    assert [row["reward"] for row in select("rewards", "reward", rollout_id=rollout["id"], step_number="7")] == [1]


def test_an_unknown_parent_is_refused_by_name() -> None:
    with pytest.raises(APIError) as refused:
        get_supabase().table("agent_states").insert({"rollout_id": new_id(), "step_number": 0}).execute()
    assert refused.value.code == "23503"
    assert "rollout_id" in str(refused.value.details)
