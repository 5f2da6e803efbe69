"""Steps, groups, evaluations, baselines and checkpoints, on a real database."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from openmanus_rl.errors import InvalidInput, NotFoundError, TransitionError
from openmanus_rl.records.ids import new_id, step_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import (
    EvaluationManager,
    EvaluationResultManager,
    ModelCheckpointManager,
    RolloutGroupManager,
    RolloutManager,
    TrainingStepManager,
)


def test_a_step_is_started_measured_and_completed(client: Client, run: Row) -> None:
    steps = TrainingStepManager.using(client)
    started = steps.start_step(run["id"], 10, phase="rollout")
    steps.update_step(run["id"], 10, rollout_progress=0.5, metrics={"a": 1})
    done = steps.complete_step(run["id"], 10, phase="training", loss=0.3, kl=0.01, tokens=1000, metrics={"b": 2})

    assert started["id"] == step_id(run["id"], 10)
    assert (done["status"], done["loss"], done["metrics"]) == ("completed", 0.3, {"a": 1, "b": 2})
    assert steps.get_step(run["id"], 10) == done
    assert steps.start_step(run["id"], 10)["status"] == "completed"
    with pytest.raises(TransitionError):
        steps.update_status(run["id"], 10, "running")


def test_figures_of_a_step_that_diverged_are_kept(client: Client, run: Row) -> None:
    steps = TrainingStepManager.using(client)
    steps.start_step(run["id"], 1)
    steps.update_step(run["id"], 1, loss=math.nan, grad_norm=math.inf)

    for step in (steps.get_step(run["id"], 1), steps.list_steps(run["id"])[0]):
        assert math.isnan(step["loss"])
        assert (step["grad_norm"], step["kl"]) == (math.inf, None)
    with pytest.raises(InvalidInput, match=r"^metrics\.loss can't be sent as JSON: nan") as caught:
        steps.update_status(run["id"], 1, "completed", metrics={"loss": math.nan})
    assert caught.value.field == "metrics.loss"


def test_steps_are_listed_in_order_and_by_range(client: Client, run: Row) -> None:
    steps = TrainingStepManager.using(client)
    for step in (3, 1, 2):
        steps.start_step(run["id"], step)

    assert [row["step"] for row in steps.list_steps(run["id"])] == [1, 2, 3]
    assert [row["step"] for row in steps.list_steps(run["id"], from_step=2, to_step=2)] == [2]
    with pytest.raises(NotFoundError, match="training step 9 of run"):
        steps.get_step(run["id"], 9)
    with pytest.raises(NotFoundError):
        steps.update_step(run["id"], 9, loss=1.0)


def test_groups_number_themselves_and_count_their_rollouts(client: Client, run: Row) -> None:
    step = TrainingStepManager.using(client).start_step(run["id"], 1)
    groups, rollouts = RolloutGroupManager.using(client), RolloutManager.using(client)
    made = [groups.create_group(training_step_id=step["id"], task_description="find the ball") for _ in range(3)]
    for reward in (0.0, 1.0):
        rollout = rollouts.create_rollout(group_id=made[0]["id"])
        rollouts.complete_rollout(rollout["id"], "success" if reward else "failed", reward, 1)

    assert [group["number"] for group in made] == [0, 1, 2]
    group = groups.get_group(made[0]["id"])
    assert (group["rollout_count"], group["success_count"], group["reward_mean"], group["reward_std"]) == (
        2,
        1,
        0.5,
        0.5,
    )
    members = rollouts.list_rollouts(group_id=group["id"])
    assert {(r["training_run_id"], r["environment"], r["task_description"]) for r in members} == {
        (run["id"], "alfworld", "find the ball")
    }
    assert [g["number"] for g in groups.list_groups(training_step_id=step["id"])] == [0, 1, 2]
    numbered = groups.create_group(training_step_id=step["id"], number=7)
    assert groups.create_group(training_step_id=step["id"], number=7)["id"] == numbered["id"]
    groups.delete_group(group["id"])
    assert rollouts.list_rollouts(group_id=group["id"]).rows == []


def test_groups_made_at_once_each_get_a_number(client: Client, run: Row) -> None:
    step = TrainingStepManager.using(client).start_step(run["id"], 1)
    groups = RolloutGroupManager.using(client)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: groups.create_group(training_step_id=step["id"]), range(8)))

    assert sorted(group["number"] for group in made) == list(range(8))
    assert len({group["id"] for group in made}) == 8


def test_a_group_has_exactly_one_parent(client: Client) -> None:
    groups = RolloutGroupManager.using(client)

    with pytest.raises(InvalidInput, match="exactly one parent"):
        groups.create_group()
    with pytest.raises(InvalidInput, match="exactly one parent"):
        groups.create_group(training_step_id=new_id(), evaluation_id=new_id())
    with pytest.raises(NotFoundError, match="training_step_id"):
        groups.create_group(training_step_id=new_id(), number=0)


def test_an_evaluation_is_measured_by_its_rollouts(client: Client, run: Row) -> None:
    evaluations, rollouts = EvaluationManager.using(client), RolloutManager.using(client)
    evaluation = evaluations.create_evaluation(run["id"], step=5, model="policy-5", environment="alfworld")
    group = RolloutGroupManager.using(client).create_group(evaluation_id=evaluation["id"])
    for status, reward in (("success", 1.0), ("failed", 0.0), ("failed", 0.5)):
        rollout = rollouts.create_rollout(group_id=group["id"])
        rollouts.complete_rollout(rollout["id"], status, reward, 4)  # type: ignore[arg-type]
    evaluations.update_progress(evaluation["id"], 0.9)

    done = evaluations.complete_evaluation(evaluation["id"])

    assert (done["status"], done["progress"], done["mean_reward"], done["mean_turns"]) == ("completed", 1.0, 0.5, 4.0)
    assert done["success_rate"] == pytest.approx(1 / 3)
    assert {r["source"] for r in rollouts.list_rollouts(group_id=group["id"])} == {"evaluation"}
    assert evaluations.get_evaluation(evaluation["id"]) == done


def test_a_baseline_may_stand_alone(client: Client, run: Row) -> None:
    evaluations = EvaluationManager.using(client)
    model = f"model {new_id()}"
    baseline = evaluations.create_baseline(model=model, environment="alfworld")
    evaluations.create_evaluation(run["id"], model=model)
    evaluations.complete_evaluation(baseline["id"], success_rate=0.25)

    assert [e["id"] for e in evaluations.list_evaluations(kind="baseline", model=model)] == [baseline["id"]]
    assert len(evaluations.list_evaluations(model=model)) == 2
    with pytest.raises(InvalidInput) as caught:
        evaluations.complete_evaluation(evaluations.create_evaluation()["id"], success_rate=1.5)
    assert caught.value.field == "success_rate"


def test_checkpoints_are_known_by_run_and_number(client: Client, run: Row) -> None:
    checkpoints = ModelCheckpointManager.using(client)
    assert checkpoints.get_latest(run["id"]) is None
    first = checkpoints.save_checkpoint(run["id"], 1, f"{run['id']}/checkpoint_1.pt", {"reward": 1.0}, step=100)
    again = checkpoints.save_checkpoint(run["id"], 1, metrics={"loss": 0.1}, size_bytes=12)
    second = checkpoints.save_checkpoint(training_run_id=run["id"], checkpoint_number=2, storage_path="x")

    assert again["id"] == first["id"]
    assert (again["metrics"], again["size_bytes"], again["step"]) == ({"reward": 1.0, "loss": 0.1}, 12, 100)
    assert checkpoints.get_latest(run["id"]) == second
    assert checkpoints.get_by_number(run["id"], 1) == again
    assert checkpoints.get_checkpoint(first["id"]) == again
    assert [c["checkpoint_number"] for c in checkpoints.list_checkpoints(training_run_id=run["id"])] == [1, 2]
    checkpoints.delete_checkpoint(second["id"])
    with pytest.raises(NotFoundError, match="checkpoint 2 of run"):
        checkpoints.get_by_number(run["id"], 2)


def test_a_checkpoints_evaluation_replaces_its_earlier_self(client: Client, run: Row) -> None:
    checkpoints, results = ModelCheckpointManager.using(client), EvaluationResultManager.using(client)
    checkpoint = checkpoints.save_checkpoint(run["id"], 1)
    first = checkpoints.log_evaluation(checkpoint["id"], "alfworld", success_rate=0.5, episode_count=10)
    second = checkpoints.log_evaluation(checkpoint["id"], "alfworld", success_rate=0.75, metrics={"a": 1})
    checkpoints.log_evaluation(checkpoint["id"], "webshop", mean_reward=2.0)

    assert first["id"] == second["id"]
    assert (second["success_rate"], second["episode_count"], second["training_run_id"]) == (0.75, 10, run["id"])
    assert len(results.list_results(checkpoint=checkpoint["id"])) == 2
    assert [r["id"] for r in results.list_results(training_run_id=run["id"], environment="alfworld")] == [first["id"]]
    assert results.get_result(first["id"]) == second
