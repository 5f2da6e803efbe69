"""Evaluations of a model, and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, OneOrMany, Paging, counting, matching, of_ids
from openmanus_rl.records.ids import Id
from openmanus_rl.records.rows import Evaluation
from openmanus_rl.records.statuses import EvaluationKind, EvaluationStatus
from openmanus_rl.transport.filters import Page

__all__ = ["EvaluationManager"]


class EvaluationManager(EditableManager[Evaluation]):
    """Starts, ends and finds evaluations; figures that are not given are computed from the rollouts."""

    table = "evaluations"
    noun = "evaluation"

    @classmethod
    def create_evaluation(
        cls,
        training_run_id: Id | None = None,
        *,
        kind: EvaluationKind = "eval",
        name: str | None = None,
        step: int | None = None,
        model: str | None = None,
        environment: str | None = None,
        checkpoint_id: Id | None = None,
        metadata: Mapping[str, Any] | None = None,
        status: EvaluationStatus = "running",
        evaluation_id: Id | None = None,
    ) -> Evaluation:
        """Start an evaluation, of a run or on its own, and return it."""
        return cls._create(
            evaluation_id,
            status=status,
            training_run_id=training_run_id,
            kind=kind,
            name=name,
            step=step,
            model=model,
            environment=environment,
            checkpoint_id=checkpoint_id,
            metadata=metadata,
        )

    @classmethod
    def create_baseline(cls, training_run_id: Id | None = None, **fields: Any) -> Evaluation:
        """Start a baseline and return it; further arguments are those of `create_evaluation`."""
        return cls.create_evaluation(training_run_id, kind="baseline", **fields)

    @classmethod
    def update_progress(cls, evaluation: Id, progress: float) -> Evaluation:
        """Set the progress of an evaluation, from 0 to 1, and return it."""
        return cls._change(cls._get(evaluation, field="evaluation_id"), {"progress": progress})

    @classmethod
    def update_status(cls, evaluation: Id, status: EvaluationStatus, *, message: str | None = None) -> Evaluation:
        """Change the status of an evaluation and return it."""
        return cls._move(evaluation, status, field="evaluation_id", message=message)

    @classmethod
    def complete_evaluation(
        cls,
        evaluation: Id,
        *,
        success_rate: float | None = None,
        mean_reward: float | None = None,
        mean_turns: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        message: str | None = None,
    ) -> Evaluation:
        """End an evaluation and return it with its figures."""
        return cls._move(
            evaluation,
            "completed",
            field="evaluation_id",
            message=message,
            progress=1.0,
            success_rate=success_rate,
            mean_reward=mean_reward,
            mean_turns=mean_turns,
            metadata=metadata,
        )

    @classmethod
    def get_evaluation(cls, evaluation: Id) -> Evaluation:
        """Return an evaluation; an unknown id raises `NotFoundError`."""
        return cls._get(evaluation, field="evaluation_id")

    @classmethod
    def list_evaluations(
        cls,
        *,
        training_run_id: Id | None = None,
        kind: OneOrMany | None = None,
        status: OneOrMany | None = None,
        model: OneOrMany | None = None,
        environment: OneOrMany | None = None,
        checkpoint_id: Id | None = None,
        include_rewound: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[Evaluation]:
        """Return a page of evaluations and baselines, newest first; those hidden by a rewind only if asked for."""
        conditions = [
            *of_ids(training_run_id=training_run_id, checkpoint_id=checkpoint_id),
            *matching(kind=kind, status=status, model=model, environment=environment),
            *counting(include_rewound=include_rewound),
        ]
        return cls._page(*conditions, **paging)
