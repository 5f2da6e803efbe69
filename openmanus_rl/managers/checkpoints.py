"""Checkpoints of a run, and their evaluation results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, OneOrMany, Paging, counting, matching, of_ids
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.ids import Id, as_id, as_optional_id, checkpoint_id, evaluation_result_id
from openmanus_rl.records.rows import EvaluationResult, ModelCheckpoint
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["EvaluationResultManager", "ModelCheckpointManager"]


class EvaluationResultManager(EditableManager[EvaluationResult]):
    """Records and reads the results of checkpoints, by environment and task."""

    table = "evaluation_results"
    noun = "evaluation result"

    @classmethod
    def log_result(
        cls,
        checkpoint: Id,
        environment: str,
        *,
        success_rate: float | None = None,
        mean_reward: float | None = None,
        mean_turns: float | None = None,
        episode_count: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        evaluation_id: Id | None = None,
        task_id: Id | None = None,
        result_path: str | None = None,
    ) -> EvaluationResult:
        """Record a checkpoint's result and return it; the same environment, evaluation and task again replaces it."""
        of_checkpoint = as_id(checkpoint, field="checkpoint_id")
        evaluation = as_optional_id(evaluation_id, field="evaluation_id")
        task = as_optional_id(task_id, field="task_id")
        return cls._create(
            evaluation_result_id(of_checkpoint, environment, evaluation, task),
            checkpoint_id=of_checkpoint,
            environment=environment,
            evaluation_id=evaluation,
            task_id=task,
            success_rate=success_rate,
            mean_reward=mean_reward,
            mean_turns=mean_turns,
            episode_count=episode_count,
            metrics=metrics,
            result_path=result_path,
        )

    @classmethod
    def get_result(cls, result: Id) -> EvaluationResult:
        """Return a result; an unknown id raises `NotFoundError`."""
        return cls._get(result, field="evaluation_result_id")

    @classmethod
    def list_results(
        cls,
        *,
        checkpoint: Id | None = None,
        training_run_id: Id | None = None,
        evaluation_id: Id | None = None,
        task_id: Id | None = None,
        environment: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[EvaluationResult]:
        """Return a page of results, newest first."""
        parents = of_ids(
            checkpoint_id=checkpoint, training_run_id=training_run_id, evaluation_id=evaluation_id, task_id=task_id
        )
        return cls._page(*parents, *matching(environment=environment), **paging)


class ModelCheckpointManager(EditableManager[ModelCheckpoint]):
    """Records and finds checkpoints, which are identified by their run and number."""

    table = "model_checkpoints"
    noun = "checkpoint"
    order_by = ("training_run_id", "checkpoint_number")

    @classmethod
    def save_checkpoint(
        cls,
        training_run_id: Id,
        checkpoint_number: int,
        storage_path: str | None = None,
        metrics: Mapping[str, Any] | None = None,
        *,
        step: int | None = None,
        size_bytes: int | None = None,
        checksum: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ModelCheckpoint:
        """Record a checkpoint and return it; for an existing number, update the given fields.

        `storage_path` is what `StorageManager.upload_checkpoint` returned.
        """
        run = as_id(training_run_id, field="training_run_id")
        fields: dict[str, Any] = {
            "training_run_id": run,
            "checkpoint_number": checkpoint_number,
            "storage_path": storage_path,
            "metrics": metrics,
            "step": step,
            "size_bytes": size_bytes,
            "checksum": checksum,
            "metadata": metadata,
        }
        hidden = cls._find(Filter.eq("id", checkpoint_id(run, checkpoint_number)), Filter.not_null("rewound_at"))
        if hidden is None:
            return cls._create(checkpoint_id(run, checkpoint_number), **fields)
        # The id is used by a checkpoint that a rewind hid.
        rewinds = cls._sibling(TrainingRunManager).list_rewinds(run)
        return cls._create(checkpoint_id(run, checkpoint_number, step=step, rewinds=rewinds), **fields)

    @classmethod
    def log_evaluation(cls, checkpoint: Id, environment: str, **figures: Any) -> EvaluationResult:
        """Record a checkpoint's result and return it; further arguments as in `EvaluationResultManager.log_result`."""
        return cls._sibling(EvaluationResultManager).log_result(checkpoint, environment, **figures)

    @classmethod
    def get_checkpoint(cls, checkpoint: Id) -> ModelCheckpoint:
        """Return a checkpoint; an unknown id raises `NotFoundError`."""
        return cls._get(checkpoint, field="checkpoint_id")

    @classmethod
    def get_by_number(cls, training_run_id: Id, checkpoint_number: int) -> ModelCheckpoint:
        """Return a run's checkpoint by its number; an unknown one raises `NotFoundError`."""
        run = as_id(training_run_id, field="training_run_id")
        of_number = Filter.eq("training_run_id", run), Filter.eq("checkpoint_number", checkpoint_number)
        what = f"{checkpoint_number} of run {run}"
        return cls._require(*of_number, *counting(), what=what, field="checkpoint_number")

    @classmethod
    def get_latest(cls, training_run_id: Id) -> ModelCheckpoint | None:
        """Return a run's checkpoint with the highest number, from which to resume, or None."""
        run = as_id(training_run_id, field="training_run_id")
        page = cls.list_checkpoints(training_run_id=run, order_by="-checkpoint_number", limit=1)
        return page[0] if page.rows else None

    @classmethod
    def list_checkpoints(
        cls,
        *,
        training_run_id: Id | None = None,
        include_rewound: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[ModelCheckpoint]:
        """Return a page of checkpoints, by run and number; those hidden by a rewind only if asked for."""
        conditions = [*of_ids(training_run_id=training_run_id), *counting(include_rewound=include_rewound)]
        return cls._page(*conditions, **paging)

    @classmethod
    def delete_checkpoint(cls, checkpoint: Id) -> None:
        """Delete a checkpoint's record with its results, but not its file."""
        cls._delete(checkpoint, field="checkpoint_id")
