"""What a Hugging Face trainer logs, evaluates and saves is in the record, also when it goes on from a checkpoint."""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

import openmanus_rl
from openmanus_rl.errors import ConflictError
from openmanus_rl.integrations.transformers import OpenManusCallback
from openmanus_rl.records.ids import new_id
from openmanus_rl.utils.supabase_storage import StorageManager

from ..recorder.conftest import Query, wait_until
from .tiny_models import make_model

pytestmark = pytest.mark.usefixtures("recorder_env")


class BreakAt(TrainerCallback):
    """Raises in the middle of a step, as a training loop with a fault does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if state.global_step + 1 == self.step:
            raise FloatingPointError("the loss is gone")


def make_trainer(folder: Path, *callbacks: TrainerCallback, **options: Any) -> Trainer:
    rows = [[3, 4, 5, 7], [3, 4, 6, 7], [8, 9, 8, 10], [11, 8, 9, 7]] * 4
    dataset = Dataset.from_dict({"input_ids": rows, "labels": rows})
    args = TrainingArguments(
        **{
            "output_dir": str(folder / "out"),
            "max_steps": 4,
            "per_device_train_batch_size": 2,
            "logging_steps": 1,
            "save_strategy": "steps",
            "save_steps": 2,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            "learning_rate": 1e-3,
        }
        | options
    )
    return Trainer(
        model=make_model(),
        args=args,
        train_dataset=dataset,
        eval_dataset=dataset.select(range(2)),
        callbacks=[*callbacks],
    )


def settled(query: Query, run_id: str, status: str = "completed") -> dict[str, Any]:
    wait_until(lambda: query("select 1 from training_runs where id = %s and status = %s", run_id, status) != [])
    return query("select * from training_runs where id = %s", run_id)[0]


def points(query: Query, run_id: str, name: str) -> dict[int, float]:
    found = query("select step, value from metrics where training_run_id = %s and name = %s order by 1", run_id, name)
    assert len({point["step"] for point in found}) == len(found)
    return {point["step"]: point["value"] for point in found}


def steps(query: Query, run_id: str) -> list[tuple[Any, ...]]:
    found = query(
        "select step, status, loss, grad_norm from training_steps"
        " where training_run_id = %s and rewound_at is null order by 1", run_id,
    )  # fmt: skip
    return [tuple(row.values()) for row in found]


def test_a_trainers_run_is_recorded_as_the_trainer_logged_it(query: Query, tmp_path: Path) -> None:
    callback = OpenManusCallback(environment="balls", tags=["tiny"])
    trainer = make_trainer(tmp_path, callback, run_name=f"tiny-{new_id()}", eval_strategy="steps", eval_steps=2)
    trainer.train()
    assert callback.run is not None
    run = settled(query, callback.run.id)

    assert (run["name"], run["environment"], run["tags"]) == (trainer.args.run_name, "balls", ["tiny"])
    assert (run["config"]["learning_rate"], run["config"]["model"]["n_embd"]) == (1e-3, 8)
    assert (run["algorithm"], run["total_steps"], run["current_step"], run["progress"]) == (None, 4, 4, 1.0)
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert points(query, run["id"], "loss") == {entry["step"]: entry["loss"] for entry in logged}
    assert steps(query, run["id"]) == [
        (entry["step"], "completed", entry["loss"], pytest.approx(entry["grad_norm"])) for entry in logged
    ]
    assert run["summary"]["train_loss"] == pytest.approx(sum(entry["loss"] for entry in logged) / 4)

    evaluated = {entry["step"]: entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry}
    assert points(query, run["id"], "eval_loss") == evaluated
    found = query("select * from evaluations where training_run_id = %s order by step", run["id"])
    assert [(row["step"], row["name"], row["status"]) for row in found] == [
        (2, "eval", "completed"),
        (4, "eval", "completed"),
    ]
    assert {row["step"]: row["metadata"]["metrics"]["eval_loss"] for row in found} == evaluated
    saved = query("select * from model_checkpoints where training_run_id = %s order by 1", run["id"])
    assert {row["step"]: row["metadata"]["path"] for row in saved} == {
        step: str((tmp_path / "out" / f"checkpoint-{step}").resolve()) for step in (2, 4)
    }
    assert [row["storage_path"] for row in saved] == [None, None]


def test_training_that_goes_on_from_a_checkpoint_goes_on_with_its_run(query: Query, tmp_path: Path) -> None:
    first = OpenManusCallback()
    with pytest.raises(FloatingPointError):
        make_trainer(tmp_path, first, BreakAt(4)).train()
    assert first.run is not None
    assert first.run.flush(timeout_seconds=30)
    first.run.finish("interrupted")
    assert [row[:2] for row in steps(query, first.run.id)] == [
        (1, "completed"),
        (2, "completed"),
        (3, "completed"),
        (4, "running"),
    ]

    second = OpenManusCallback()
    trainer = make_trainer(tmp_path, second)
    trainer.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert second.run is not None
    assert second.run.id == first.run.id
    settled(query, second.run.id)
    logged = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    assert list(logged) == [1, 2, 3, 4]
    assert points(query, second.run.id, "loss") == logged
    assert [row[:3] for row in steps(query, second.run.id)] == [
        (step, "completed", loss) for step, loss in logged.items()
    ]


def test_training_anew_under_the_same_name_hides_what_was_there(query: Query, tmp_path: Path) -> None:
    name = f"again-{new_id()}"
    callbacks = [OpenManusCallback(), OpenManusCallback()]
    with pytest.raises(FloatingPointError):
        make_trainer(tmp_path, callbacks[0], BreakAt(3), run_name=name, save_strategy="no").train()
    assert callbacks[0].run is not None
    assert callbacks[0].run.flush(timeout_seconds=30)
    callbacks[0].run.finish("interrupted")
    make_trainer(tmp_path, callbacks[1], run_name=name, max_steps=2, save_strategy="no").train()
    assert callbacks[1].run is not None
    assert callbacks[1].run.id == callbacks[0].run.id
    settled(query, callbacks[1].run.id)
    assert [row[:2] for row in steps(query, callbacks[1].run.id)] == [(1, "completed"), (2, "completed")]
    assert list(points(query, callbacks[1].run.id, "loss")) == [1, 2]
    with pytest.raises(ConflictError, match="there already"):
        make_trainer(tmp_path, OpenManusCallback(resume="never"), run_name=name).train()


def test_an_exception_marks_a_run_of_ones_own_as_failed(query: Query, tmp_path: Path) -> None:
    run = openmanus_rl.init("mine")
    trainer = make_trainer(tmp_path, OpenManusCallback(run), BreakAt(2), save_strategy="no")

    def train() -> None:
        with run:
            trainer.train()

    with pytest.raises(FloatingPointError):
        train()
    assert settled(query, run.id, "failed")["status_message"] == "FloatingPointError: the loss is gone"
    wait_until(lambda: [row[:2] for row in steps(query, run.id)] == [(1, "completed"), (2, "interrupted")])


def test_evaluations_before_and_after_training_belong_to_the_same_run(query: Query, tmp_path: Path) -> None:
    callback = OpenManusCallback()
    trainer = make_trainer(tmp_path, callback, max_steps=1, save_strategy="no")
    before = trainer.evaluate()
    assert callback.run is not None
    run_id = callback.run.id
    trainer.train()
    settled(query, run_id)
    after = trainer.evaluate()
    predicted = trainer.predict(trainer.eval_dataset)
    assert callback.run.id == run_id
    assert callback.run.flush(timeout_seconds=30)
    callback.run.finish()
    found = query(
        "select name, step, status, metadata from evaluations where training_run_id = %s order by created_at, step",
        run_id,
    )
    metrics = [row.pop("metadata")["metrics"] for row in found]
    assert [tuple(row.values()) for row in found] == [
        ("eval", 0, "completed"), ("eval", 1, "completed"), ("test", 1, "completed"),
    ]  # fmt: skip
    assert [metrics[0]["eval_loss"], metrics[1]["eval_loss"]] == [before["eval_loss"], after["eval_loss"]]
    assert metrics[2]["test_loss"] == points(query, run_id, "test_loss")[1] == predicted.metrics["test_loss"]


def test_a_second_training_in_a_run_that_was_given_goes_on_behind_the_first(query: Query, tmp_path: Path) -> None:
    with openmanus_rl.init(name="twice") as run:
        trainer = make_trainer(tmp_path, OpenManusCallback(run), max_steps=2)
        trainer.train()
        trainer.train()
        trainer.args.max_steps = 3
        trainer.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    settled(query, run.id)
    assert list(points(query, run.id, "loss")) == [1, 2, 3, 4, 5]
    assert [step for step, *_ in steps(query, run.id)] == [1, 2, 3, 4, 5]
    saved = query("select checkpoint_number from model_checkpoints where training_run_id = %s order by 1", run.id)
    assert [row["checkpoint_number"] for row in saved] == [2, 4, 5]


def test_training_again_after_an_evaluation_begins_another_run(query: Query, tmp_path: Path) -> None:
    callback = OpenManusCallback()
    trainer = make_trainer(tmp_path, callback, max_steps=1, save_strategy="no")
    runs = []
    for _ in range(2):
        trainer.train()
        trainer.evaluate()
        assert callback.run is not None
        runs.append(callback.run.id)
        assert os.environ["OPENMANUS_RL_RUN_ID"] == callback.run.id
    callback.run.finish()
    assert "OPENMANUS_RL_RUN_ID" not in os.environ
    assert len(set(runs)) == 2
    for run_id in runs:
        settled(query, run_id)
        assert list(points(query, run_id, "loss")) == [1]
        wait_until(lambda run_id=run_id: list(points(query, run_id, "eval_loss")) == [1])


def test_checkpoints_are_uploaded_whole_where_that_is_asked(query: Query, tmp_path: Path) -> None:
    callback = OpenManusCallback(upload_checkpoints=True)
    make_trainer(tmp_path, callback, max_steps=2).train()
    assert callback.run is not None
    run_id = callback.run.id

    def stored() -> list[dict[str, Any]]:
        return query("select * from model_checkpoints where training_run_id = %s and storage_path is not null", run_id)

    callback.run.finish()
    assert callback.run.flush(timeout_seconds=120), callback.run.stats
    (row,) = stored()
    target = tmp_path / "checkpoint.zip"
    StorageManager.download_file("model-checkpoints", row["storage_path"], target)
    with zipfile.ZipFile(io.BytesIO(target.read_bytes())) as archive:
        names = set(archive.namelist())
        weights = archive.read("model.safetensors")
    assert {"config.json", "trainer_state.json", "optimizer.pt"} <= names
    assert weights == (tmp_path / "out" / "checkpoint-2" / "model.safetensors").read_bytes()


def test_what_is_no_number_is_left_out_of_the_metrics(query: Query, tmp_path: Path) -> None:
    callback = OpenManusCallback()
    trainer = make_trainer(tmp_path, callback, max_steps=1, save_strategy="no")
    trainer.add_callback(
        _Logs(trainer, {"note": "three", "nothing": None, "tensor": torch.tensor(2.5), "bad": math.nan})
    )
    trainer.train()
    assert callback.run is not None
    run_id = callback.run.id
    settled(query, run_id)
    names = {row["name"] for row in query("select distinct name from metrics where training_run_id = %s", run_id)}
    assert {"tensor", "bad", "train_loss"} <= names
    assert names.isdisjoint({"note", "nothing"})
    assert points(query, run_id, "tensor") == {1: 2.5}
    assert math.isnan(points(query, run_id, "bad")[1])


class _Logs(TrainerCallback):
    def __init__(self, trainer: Trainer, values: dict[str, Any]) -> None:
        self.trainer, self.values = trainer, values

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.trainer.callback_handler.on_log(args, state, control, self.values)
