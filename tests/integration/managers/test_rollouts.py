"""Rollouts and what is logged in them, on a real database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError, TransitionError
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import (
    GenerationManager,
    ObservationManager,
    RewardManager,
    RolloutManager,
    ToolCallManager,
    TrainingRunManager,
    TurnManager,
    ValidationManager,
)

Rollouts = type[RolloutManager]


def test_a_rollout_is_recorded_turn_by_turn_and_read_back(rollouts: Rollouts, run: Row) -> None:
    rollout = rollouts.create_rollout(
        training_run_id=run["id"],
        episode_number=1,
        environment="alfworld",
        task_description="find the red ball",
        metadata={"difficulty": "easy"},
    )
    first = rollouts.log_agent_state(
        rollout_id=rollout["id"], step_number=0, observation="a room", action="go north", thought="explore"
    )
    second = rollouts.log_agent_state(
        rollout["id"], 1, "a hall", "search", memory_summary="north is a hall", info={"doors": 2}, duration_ms=12.5
    )
    rollouts.log_tool_call(
        agent_state_id=second,
        tool_name="search",
        tool_input={"query": "ball"},
        tool_output={"hits": [1]},
        success=True,
        execution_time_ms=150,
    )
    rollouts.log_tool_call(second, "open", success=False, error_message="locked")
    rollouts.log_reward(
        rollout_id=rollout["id"], step_number=1, reward=0.5, reward_type="step", details={"why": "found"}
    )
    rollouts.log_reward(rollout["id"], None, 1.0, "outcome")
    done = rollouts.complete_rollout(rollout_id=rollout["id"], status="success", total_reward=1.5, step_count=2)

    assert (done["status"], done["total_reward"], done["step_count"]) == ("success", 1.5, 2)
    trajectory = rollouts.get_trajectory(rollout["id"])
    assert [turn["id"] for turn in trajectory["turns"]] == [first, second]
    assert trajectory["turns"][0]["tool_calls"] == []
    assert trajectory["turns"][1]["memory_summary"] == "north is a hall"
    calls = trajectory["turns"][1]["tool_calls"]
    assert [(call["tool_name"], call["position"], call["success"]) for call in calls] == [
        ("search", 0, True),
        ("open", 1, False),
    ]
    assert calls[0]["tool_output"] == '{"hits": [1]}'
    assert [(r["step_number"], r["reward_type"], r["reward"]) for r in trajectory["rewards"]] == [
        (1, "step", 0.5),
        (None, "outcome", 1.0),
    ]


def test_episode_zero_and_an_empty_observation_are_valid(rollouts: Rollouts, client: Client, run: Row) -> None:
    rollout = rollouts.create_rollout(run["id"], 0, "alfworld", "")
    turn_id = rollouts.log_agent_state(rollout["id"], 0, "", "")

    turn = TurnManager.using(client).get_turn(turn_id)
    assert (rollout["episode_number"], rollout["task_description"]) == (0, "")
    assert (turn["observation"], turn["action"], turn["thought"]) == ("", "", None)


def test_a_turn_and_all_in_it_are_written_together(rollouts: Rollouts, client: Client, rollout: Row) -> None:
    turn_id = rollouts.log_agent_state(
        rollout["id"],
        3,
        "o",
        "a",
        tool_calls=[{"tool_name": "x", "success": True}, {"tool_name": "y", "tool_output": None}],
        rewards=[{"reward": 0.25}],
        observations=[{"kind": "screenshot", "media_path": "a.png"}],
        generations=[{"prompt_ids": [1], "completion_ids": [2, 3], "logprobs": [-0.5, -0.25]}],
    )

    calls = ToolCallManager.using(client).list_tool_calls(agent_state_id=turn_id)
    assert [call["tool_name"] for call in calls] == ["x", "y"]
    assert ObservationManager.using(client).list_observations(agent_state_id=turn_id)[0]["media_path"] == "a.png"
    assert GenerationManager.using(client).list_generations(agent_state_id=turn_id)[0]["logprobs"] == [-0.5, -0.25]
    assert RewardManager.using(client).list_rewards(rollout["id"])[0]["step_number"] == 3
    assert ToolCallManager.using(client).get_tool_call(calls[0]["id"]) == calls[0]


def test_observations_and_generations_may_follow_their_turn(rollouts: Rollouts, client: Client, rollout: Row) -> None:
    turn_id = rollouts.log_agent_state(rollout["id"], 1, "o", "a", observations=[{"kind": "page", "text": "<p>"}])
    observations, generations = ObservationManager.using(client), GenerationManager.using(client)

    seen = observations.log_observation(turn_id, "screenshot", media_path="b.png")
    made = generations.log_generation(
        turn_id, completion_ids=[5, 6], mask=[True, False], advantages=[0.5], policy_version=3
    )

    assert (seen["position"], made["position"], made["mask"]) == (1, 0, [True, False])
    assert observations.get_observation(seen["id"]) == seen
    assert generations.get_generation(made["id"]) == made
    assert [row["kind"] for row in observations.list_observations(agent_state_id=turn_id)] == ["page", "screenshot"]
    assert len(generations.list_generations(training_run_id=rollout["training_run_id"], policy_version=3)) == 1
    with pytest.raises(InvalidInput, match="logprobs"):
        generations.log_generation(turn_id, completion_ids=[1, 2], logprobs=[-0.1])


def test_a_turn_with_a_bad_tool_call_is_not_written_at_all(rollouts: Rollouts, client: Client, rollout: Row) -> None:
    with pytest.raises(InvalidInput) as caught:
        rollouts.log_agent_state(rollout["id"], 1, "o", "a", tool_calls=[{"tool_name": "x"}, {"tool_name": ""}])

    assert caught.value.field == "tool_name"
    assert TurnManager.using(client).list_turns(rollout["id"]).rows == []


def test_a_step_number_is_taken_once(rollouts: Rollouts, rollout: Row) -> None:
    rollouts.log_agent_state(rollout["id"], 1, "o", "a")

    with pytest.raises(ConflictError, match="step_number"):
        rollouts.log_agent_state(rollout["id"], 1, "o", "another")


def test_the_same_turn_again_changes_nothing(rollouts: Rollouts, client: Client, rollout: Row) -> None:
    turn_id = new_id()
    for action in ("first", "second"):
        assert rollouts.log_agent_state(rollout["id"], 1, "o", action, turn_id=turn_id) == turn_id

    assert TurnManager.using(client).get_by_step_number(rollout["id"], 1)["action"] == "first"


def test_concurrent_tool_calls_each_get_a_place(rollouts: Rollouts, client: Client, rollout: Row) -> None:
    turn_id = rollouts.log_agent_state(rollout["id"], 1, "o", "a")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: rollouts.log_tool_call(turn_id, name), [f"tool {n}" for n in range(8)]))

    calls = ToolCallManager.using(client).list_tool_calls(agent_state_id=turn_id)
    assert [call["position"] for call in calls] == list(range(8))
    assert len({call["tool_name"] for call in calls}) == 8


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"episode_number": -1}, "episode_number"),
        ({"environment": ""}, "environment"),
        ({"source": "dreams"}, "source"),
        ({"status": "sleeping"}, "status"),
        ({"group_id": "7"}, "group_id"),
    ],
)
def test_what_a_rollout_cannot_be_is_refused_by_its_field(
    rollouts: Rollouts, run: Row, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        rollouts.create_rollout(**{"training_run_id": run["id"], "environment": "alfworld", **fields})

    assert caught.value.field == field


def test_an_unknown_parent_is_named(rollouts: Rollouts) -> None:
    unknown = new_id()
    calls = [
        (lambda: rollouts.create_rollout(unknown, 1, "alfworld", "x"), "training_run_id"),
        (lambda: rollouts.log_agent_state(unknown, 1, "o", "a"), "rollout_id"),
        (lambda: rollouts.log_tool_call(unknown, "x"), "agent_state_id"),
        (lambda: rollouts.log_reward(unknown, 1, 1.0), "rollout_id"),
        (lambda: rollouts.complete_rollout(unknown, "success"), "rollout_id"),
        (lambda: rollouts.get_rollout(unknown), "rollout_id"),
        (lambda: rollouts.delete_rollout(unknown), "rollout_id"),
    ]
    for call, field in calls:
        with pytest.raises(NotFoundError, match=unknown) as caught:
            call()
        assert caught.value.field == field


def test_a_finished_rollout_cannot_run_again_but_may_be_judged_anew(rollouts: Rollouts, rollout: Row) -> None:
    rollouts.complete_rollout(rollout["id"], "completed", 1.0, 3)

    with pytest.raises(TransitionError):
        rollouts.update_status(rollout["id"], "running")
    assert rollouts.update_status(rollout["id"], "success")["status"] == "success"


def test_rollouts_are_listed_by_what_they_are(rollouts: Rollouts, run: Row) -> None:
    made = [rollouts.create_rollout(run["id"], n, "a" if n % 2 else "b", "t", source="manual") for n in range(4)]
    rollouts.complete_rollout(made[3]["id"], "failed", 0.0, 1)

    assert [r["episode_number"] for r in rollouts.list_rollouts(training_run_id=run["id"])] == [3, 2, 1, 0]
    assert [r["episode_number"] for r in rollouts.list_rollouts(training_run_id=run["id"], environment="b")] == [2, 0]
    assert [r["id"] for r in rollouts.list_rollouts(training_run_id=run["id"], status="failed")] == [made[3]["id"]]
    assert rollouts.list_rollouts(training_run_id=run["id"], source="manual", limit=1, count=True).total == 4


def test_a_runs_figures_follow_its_rollouts(rollouts: Rollouts, client: Client, run: Row) -> None:
    runs = TrainingRunManager.using(client)
    assert runs.get_metrics(run["id"])["success_rate"] is None
    ids = [rollouts.create_rollout(run["id"], n, "alfworld", "t")["id"] for n in range(4)]
    rollouts.complete_rollout(ids[0], "success", 2.0, 10)
    rollouts.complete_rollout(ids[1], "failed", 0.0, 20)

    figures = runs.get_metrics(run["id"], rollout_limit=3)

    assert {name: figures[name] for name in figures if name != "rollouts"} == {
        "total_rollouts": 4,
        "completed_rollouts": 2,
        "successful_rollouts": 1,
        "success_rate": 0.5,
        "average_reward": 1.0,
        "average_steps": 15.0,
    }
    assert len(figures["rollouts"]) == 3
    rollouts.delete_rollout(ids[0])
    assert runs.get_metrics(run["id"])["success_rate"] == 0.0


def test_a_verdict_can_be_revised(client: Client, rollout: Row) -> None:
    validations = ValidationManager.using(client)
    first = validations.log_validation(rollout["id"], "error", validator_name="judge", message="timed out")
    second = validations.log_validation(rollout["id"], "pass", validator_name="judge", score=0.9)

    assert first["id"] == second["id"]
    assert validations.get_validation(first["id"])["verdict"] == "pass"
    assert len(validations.list_validations(rollout_id=rollout["id"], verdict="pass")) == 1
    with pytest.raises(InvalidInput, match="verdict must be one of pass, fail, error"):
        validations.log_validation(rollout["id"], "maybe")  # type: ignore[arg-type]


def test_texts_that_are_no_text_are_kept_as_the_recorder_keeps_them(rollouts: Rollouts, run: Row) -> None:
    rollout = rollouts.create_rollout(run["id"], 0)
    rollouts.log_agent_state(rollout["id"], 0, {"room": [1, None], "é": True}, ["go", 0.5])
    (turn,) = rollouts.get_trajectory(rollout["id"])["turns"]
    assert (turn["observation"], turn["action"]) == ('{"room":[1,null],"é":true}', '["go",0.5]')


def test_numbers_of_any_type_are_rewards_and_figures(rollouts: Rollouts, run: Row) -> None:
    rollout = rollouts.create_rollout(run["id"], seed=np.int64(7), episode_number=3.0)  # type: ignore[arg-type]
    reward = rollouts.log_reward(rollout["id"], 0, True)
    done = rollouts.complete_rollout(rollout["id"], "success", Decimal("0.25"), np.float32(2))  # type: ignore[arg-type]
    assert (rollout["seed"], rollout["episode_number"], reward["reward"]) == (7, 3, 1.0)
    assert (done["total_reward"], done["step_count"]) == (0.25, 2)
