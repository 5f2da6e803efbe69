"""None clears a field in `update` and in batches; everywhere else it is the same as nothing."""

from __future__ import annotations

from typing import Any

import pytest

from openmanus_rl.errors import InvalidInput, NotFoundError
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.rest import Row
from openmanus_rl.utils.supabase_db import (
    EnvironmentManager,
    EvaluationManager,
    EvaluationResultManager,
    ModelCheckpointManager,
    RolloutGroupManager,
    RolloutManager,
    TaskManager,
    TrainingRunManager,
    TrainingStepManager,
    ValidationManager,
    ValidatorManager,
    write_batch,
)

Runs = type[TrainingRunManager]


def test_an_update_clears_what_is_none_and_leaves_the_rest(runs: Runs, run: Row) -> None:
    said = runs.update(run["id"], description="a run", progress=0.5, summary={"a": 1}, total_steps=10.0)
    assert (said["description"], said["progress"], said["summary"], said["total_steps"]) == ("a run", 0.5, {"a": 1}, 10)

    cleared = runs.update(run["id"], description=None, summary={"b": None})

    assert (cleared["description"], cleared["progress"]) == (None, 0.5)
    assert cleared["summary"] == {"a": 1, "b": None}
    assert runs.get_run(run["id"]) == cleared


def test_an_update_needs_a_row_and_leaves_what_is_required(runs: Runs, run: Row) -> None:
    with pytest.raises(NotFoundError):
        runs.update(new_id(), description=None)
    with pytest.raises(InvalidInput, match="name is required") as caught:
        runs.update(run["id"], name=None, description="not written")
    assert caught.value.field == "name"
    with pytest.raises(InvalidInput) as caught:
        runs.update(run["id"], descripton=None)
    assert caught.value.field == "descripton"
    assert runs.update(run["id"]) == runs.get_run(run["id"])
    assert runs.get_run(run["id"])["description"] is None


def test_an_argument_that_is_left_out_or_none_clears_nothing_elsewhere(
    runs: Runs, rollouts: type[RolloutManager], client: Client, run: Row, rollout: Row
) -> None:
    steps, evaluations = TrainingStepManager.using(client), EvaluationManager.using(client)
    runs.update_run(run["id"], description="a run", progress=0.5)
    runs.update_run(run["id"], description=None, progress=None, total_steps=3)
    runs.update_status(run["id"], "interrupted", None, message=None)
    runs.heartbeat(run["id"])
    stored = runs.get_run(run["id"])
    assert (stored["description"], stored["progress"], stored["environment"]) == ("a run", 0.5, "alfworld")

    rollouts.complete_rollout(rollout["id"], "success", total_reward=2.0, step_count=3, error="e", message="found it")
    again = rollouts.complete_rollout(rollout["id"], "success")
    assert (again["total_reward"], again["error"], again["status_message"]) == (2.0, "e", "found it")

    steps.start_step(run["id"], 1, phase="rollout")
    steps.update_step(run["id"], 1, loss=0.5, kl=0.1)
    done = steps.complete_step(run["id"], 1, loss=None)
    assert (done["loss"], done["kl"], done["phase"]) == (0.5, 0.1, "rollout")

    evaluation = evaluations.create_evaluation(run["id"], name="dev", step=1)
    again = evaluations.create_evaluation(run["id"], evaluation_id=evaluation["id"])
    assert (again["name"], again["step"]) == ("dev", 1)


def test_saving_again_clears_nothing(client: Client, run: Row) -> None:
    name = f"environment {new_id()}"
    EnvironmentManager.using(client).save_environment(name, description="rooms")
    assert EnvironmentManager.using(client).save_environment(name)["description"] == "rooms"
    tasks = TaskManager.using(client)
    tasks.save_task("find it", external_id=name, expected_answer="red", split="train")
    tasks.import_tasks([{"external_id": name, "description": "find it", "expected_answer": None}])
    task = tasks.save_task("find it", external_id=name)
    assert (task["expected_answer"], task["split"]) == ("red", "train")
    checkpoints = ModelCheckpointManager.using(client)
    checkpoints.save_checkpoint(run["id"], 1, "a/b.pt", step=3)
    checkpoint = checkpoints.save_checkpoint(run["id"], 1)
    assert (checkpoint["storage_path"], checkpoint["step"]) == ("a/b.pt", 3)


def test_whatever_can_change_can_be_cleared_by_its_manager(client: Client, run: Row, rollout: Row) -> None:
    environment = EnvironmentManager.using(client).save_environment(f"e {new_id()}", description="rooms")
    task = TaskManager.using(client).save_task("find it", split="train")
    validator = ValidatorManager.using(client).save_validator(task["id"], kind="match", spec={"a": 1})
    step = TrainingStepManager.using(client).start_step(run["id"], 1, phase="rollout")
    group = RolloutGroupManager.using(client).create_group(training_step_id=step["id"], task_description="find it")
    evaluation = EvaluationManager.using(client).create_evaluation(run["id"], name="dev")
    checkpoint = ModelCheckpointManager.using(client).save_checkpoint(run["id"], 1, "a/b.pt")
    result = EvaluationResultManager.using(client).log_result(checkpoint["id"], "alfworld", mean_reward=1.0)
    validation = ValidationManager.using(client).log_validation(rollout["id"], "pass", message="same")
    rows: list[tuple[Any, Row, str]] = [
        (EnvironmentManager, environment, "description"),
        (TaskManager, task, "split"),
        (TrainingStepManager, step, "phase"),
        (RolloutGroupManager, group, "task_description"),
        (EvaluationManager, evaluation, "name"),
        (ModelCheckpointManager, checkpoint, "storage_path"),
        (EvaluationResultManager, result, "mean_reward"),
        (ValidationManager, validation, "message"),
        (RolloutManager, rollout, "task_description"),
    ]
    for manager, row, field in rows:
        assert row[field] is not None
        cleared = manager.using(client).update(row["id"], **{field: None})
        assert {**cleared, "updated_at": None} == {**row, field: None, "updated_at": None}
    with pytest.raises(InvalidInput, match="spec is required"):
        ValidatorManager.using(client).update(validator["id"], spec=None)


def test_a_batch_clears_what_it_gives_as_none(client: Client, runs: Runs, run: Row, rollout: Row) -> None:
    batch: dict[str, list[dict[str, Any]]] = {
        "training_runs": [{"id": run["id"], "environment": None}, {"id": run["id"], "config": None}],
        "rollouts": [
            {"id": rollout["id"], "model": "small", "task_description": None},
            {"id": rollout["id"], "seed": 1},
        ],
    }
    for _ in range(2):
        refused = write_batch(batch, client=client).refused
        assert [(one.index, one.field) for one in refused] == [(1, "config")]
        assert runs.get_run(run["id"])["environment"] is None
        stored = RolloutManager.using(client).get_rollout(rollout["id"])
        assert (stored["task_description"], stored["model"], stored["seed"]) == (None, "small", 1)
