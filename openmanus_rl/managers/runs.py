"""Training runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, Manager, OneOrMany, Paging, containing, known, matching
from openmanus_rl.records.columns import columns_of
from openmanus_rl.records.ids import Id, as_id, as_optional_id
from openmanus_rl.records.rows import RunOverview, TrainingRun
from openmanus_rl.records.statuses import RunStatus, Visibility
from openmanus_rl.transport.filters import Filter, Order, Page
from openmanus_rl.transport.rest import Row

__all__ = ["TrainingRunManager"]


class _OverviewManager(Manager[RunOverview]):
    """Reads runs from the view that computes `current_step` and `progress` from the run's records."""

    table = "run_overview"
    noun = "training run"


class TrainingRunManager(EditableManager[TrainingRun]):
    """Creates, finds, changes and measures training runs."""

    table = "training_runs"
    noun = "training run"

    @classmethod
    def create_run(
        cls,
        name: str,
        algorithm: str | None = None,
        environment: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        run_name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        total_steps: int | None = None,
        visibility: Visibility | None = None,
        heartbeat_timeout_seconds: int | None = None,
        status: RunStatus = "running",
        run_id: Id | None = None,
    ) -> TrainingRun:
        """Create a run and return it; a `run_name` must be unique, and identifies the run after a restart."""
        return cls._create(
            run_id,
            status=status,
            name=name,
            run_name=run_name,
            algorithm=algorithm,
            environment=environment,
            description=description,
            config=config,
            metadata=metadata,
            tags=tags,
            total_steps=total_steps,
            visibility=visibility,
            heartbeat_timeout_seconds=heartbeat_timeout_seconds,
        )

    @classmethod
    def get_run(cls, run_id: Id) -> TrainingRun:
        """Return a run; an unknown id raises `NotFoundError`."""
        return cls._get(run_id, field="run_id")

    @classmethod
    def get_by_run_name(cls, run_name: str) -> TrainingRun:
        """Return the run with this `run_name`; an unknown one raises `NotFoundError`."""
        return cls._require(Filter.eq("run_name", run_name), what=repr(run_name), field="run_name")

    @classmethod
    def find_by_run_name(cls, run_name: str) -> TrainingRun | None:
        """Return the run with this `run_name`, or None."""
        return cls._find(Filter.eq("run_name", run_name))

    @classmethod
    def list_runs(
        cls,
        *,
        status: OneOrMany | None = None,
        shown_status: OneOrMany | None = None,
        algorithm: OneOrMany | None = None,
        environment: OneOrMany | None = None,
        name_contains: str | None = None,
        tag: str | None = None,
        **paging: Unpack[Paging],
    ) -> Page[RunOverview]:
        """Return a page of runs, newest first; `shown_status` is "stalled" for a running run without a heartbeat."""
        conditions = [
            *matching(status=status, shown_status=shown_status, algorithm=algorithm, environment=environment),
            *containing(name=name_contains),
        ]
        if tag is not None:
            conditions.append(Filter.contains_element("tags", tag))
        return cls._sibling(_OverviewManager)._page(*conditions, **paging)

    @classmethod
    def update_run(
        cls,
        run_id: Id,
        *,
        name: str | None = None,
        description: str | None = None,
        config: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        total_steps: int | None = None,
        current_step: int | None = None,
        progress: float | None = None,
        visibility: Visibility | None = None,
    ) -> TrainingRun:
        """Update the given fields and return the run; objects are merged into the stored ones."""
        fields = known(
            name=name,
            description=description,
            config=config,
            summary=summary,
            metadata=metadata,
            tags=tags,
            total_steps=total_steps,
            current_step=current_step,
            progress=progress,
            visibility=visibility,
        )
        return cls._change(cls._get(run_id, field="run_id"), fields)

    @classmethod
    def update_status(
        cls,
        run_id: Id,
        status: RunStatus,
        metrics: Mapping[str, Any] | None = None,
        *,
        message: str | None = None,
    ) -> TrainingRun:
        """Change the status of a run and return it; `metrics` are merged into its summary."""
        return cls._move(run_id, status, field="run_id", message=message, summary=metrics)

    @classmethod
    def finish(
        cls,
        run_id: Id,
        *,
        status: RunStatus = "completed",
        summary: Mapping[str, Any] | None = None,
        message: str | None = None,
    ) -> TrainingRun:
        """End a run with its final metrics and return it."""
        return cls._move(run_id, status, field="run_id", message=message, summary=summary)

    @classmethod
    def stop_run(cls, run_id: Id) -> TrainingRun:
        """Ask a run, and its job if it has one, to end after the current step, and return the run."""
        return cls._checked(dict(cls._client().rpc("stop_run", {"run_id": as_id(run_id, field="run_id")})))

    @classmethod
    def list_rewinds(cls, run_id: Id) -> list[int]:
        """Return the steps to which a run was rewound, oldest first."""
        of_run = [Filter.eq("training_run_id", as_id(run_id, field="run_id"))]
        page = cls._client().select("rewinds", columns="to_step", filters=of_run, order=[Order("timeline")])
        return [int(row["to_step"]) for row in page.rows]

    @classmethod
    def heartbeat(cls, run_id: Id, *, progress: float | None = None, current_step: int | None = None) -> str:
        """Record a heartbeat of a run, and return its time."""
        params = {"run_id": as_id(run_id, field="run_id"), "progress": progress, "current_step": current_step}
        return str(cls._client().rpc("heartbeat", params))

    @classmethod
    def get_metrics(cls, run_id: Id | None = None, *, environment: str | None = None, rollout_limit: int = 100) -> Row:
        """Return counts, success rate and averages of the rollouts of a run, or of all, and the newest rollouts."""
        run = as_optional_id(run_id, field="run_id")
        params = {"training_run_id": run, "environment": environment, "rollout_limit": rollout_limit}
        return dict(cls._client().rpc("run_metrics", params))

    @classmethod
    def delete_run(cls, run_id: Id) -> None:
        """Delete a run with everything that belongs to it, except its files in storage."""
        cls._delete(run_id, field="run_id")

    @classmethod
    def _find(cls, *filters: Filter) -> TrainingRun | None:
        found = cls._sibling(_OverviewManager)._find(*filters)
        if found is None:
            return None
        # Only the columns of the table, so that reads and writes return the same.
        return cls._checked({name: value for name, value in found.items() if name in columns_of(TrainingRun)})
