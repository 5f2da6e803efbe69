"""Training steps of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, OneOrMany, Paging, between, counting, known, matching
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.ids import Id, as_id, step_id
from openmanus_rl.records.rows import TrainingStep
from openmanus_rl.records.statuses import StepPhase, StepStatus
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["TrainingStepManager"]


class TrainingStepManager(EditableManager[TrainingStep]):
    """Starts, updates and ends the steps of a run; a step is identified by its run and number."""

    table = "training_steps"
    noun = "training step"
    order_by = "step"

    @classmethod
    def start_step(
        cls,
        training_run_id: Id,
        step: int,
        *,
        phase: StepPhase | None = None,
        status: StepStatus = "running",
    ) -> TrainingStep:
        """Start a run's step and return it; an existing step is left unchanged."""
        run = as_id(training_run_id, field="training_run_id")
        fields: dict[str, Any] = {"status": status, "training_run_id": run, "step": step, "phase": phase}
        row = cls._create(step_id(run, step), **fields)
        if row["rewound_at"] is None:
            return row
        # A rewind hid the step with that id; its replacement needs another.
        rewinds = cls._sibling(TrainingRunManager).list_rewinds(run)
        return cls._create(step_id(run, step, rewinds=rewinds), **fields)

    @classmethod
    def update_step(
        cls,
        training_run_id: Id,
        step: int,
        *,
        phase: StepPhase | None = None,
        rollout_progress: float | None = None,
        training_progress: float | None = None,
        loss: float | None = None,
        kl: float | None = None,
        grad_norm: float | None = None,
        reward_mean: float | None = None,
        reward_std: float | None = None,
        tokens: int | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> TrainingStep:
        """Update the given fields of a started step and return it; `metrics` are merged."""
        figures = known(
            phase=phase,
            rollout_progress=rollout_progress,
            training_progress=training_progress,
            loss=loss,
            kl=kl,
            grad_norm=grad_norm,
            reward_mean=reward_mean,
            reward_std=reward_std,
            tokens=tokens,
            metrics=metrics,
        )
        return cls._change(cls.get_step(training_run_id, step), figures)

    @classmethod
    def update_status(
        cls, training_run_id: Id, step: int, status: StepStatus, *, message: str | None = None, **figures: Any
    ) -> TrainingStep:
        """Change the status of a step, with any of the fields of `update_step`, and return it."""
        row = cls.get_step(training_run_id, step)
        return cls._move(row["id"], status, field="step", message=message, **figures)

    @classmethod
    def complete_step(cls, training_run_id: Id, step: int, **figures: Any) -> TrainingStep:
        """Complete a step, with any of the fields of `update_step`, and return it."""
        return cls.update_status(training_run_id, step, "completed", **figures)

    @classmethod
    def get_step(cls, training_run_id: Id, step: int) -> TrainingStep:
        """Return a run's step; an unknown one raises `NotFoundError`."""
        run = as_id(training_run_id, field="training_run_id")
        of_step = Filter.eq("training_run_id", run), Filter.eq("step", step)
        return cls._require(*of_step, *counting(), what=f"{step} of run {run}", field="step")

    @classmethod
    def list_steps(
        cls,
        training_run_id: Id,
        *,
        status: OneOrMany | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
        include_rewound: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[TrainingStep]:
        """Return a page of a run's steps in order; those hidden by a rewind only if asked for."""
        conditions = [
            Filter.eq("training_run_id", as_id(training_run_id, field="training_run_id")),
            *matching(status=status),
            *between("step", from_step, to_step),
            *counting(include_rewound=include_rewound),
        ]
        return cls._page(*conditions, **paging)
