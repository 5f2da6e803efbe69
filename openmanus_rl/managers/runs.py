"""Training runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.managers.base import EditableManager, OneOrMany, matching
from openmanus_rl.records import TrainingRun
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.statuses import RunStatus, Visibility
from openmanus_rl.transport.filters import Filter, Order, Page
from openmanus_rl.transport.rest import Row

__all__ = ["TrainingRunManager"]


class TrainingRunManager(EditableManager):
    """Creates, finds, changes and measures training runs."""

    table = "training_runs"
    view = "run_overview"
    noun = "training run"
    model = TrainingRun

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
    ) -> Row:
        """Create a run and return it; `run_name`, if given, must be new, and finds the run again after a restart."""
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
    def get_run(cls, run_id: Id) -> Row:
        """Return a run; an unknown id is a `NotFoundError`."""
        return cls._get(run_id, field="run_id")

    @classmethod
    def get_by_run_name(cls, run_name: str) -> Row:
        """Return the run of this `run_name`; an unknown one is a `NotFoundError`."""
        run = cls.find_by_run_name(run_name)
        if run is None:
            raise cls._unknown(repr(run_name), field="run_name")
        return run

    @classmethod
    def find_by_run_name(cls, run_name: str) -> Row | None:
        """Return the run of this `run_name`, or None."""
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
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = "-created_at",
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of runs, newest first; `shown_status` is "stalled" where a running run's heartbeat stopped."""
        conditions = [
            *matching(status=status, shown_status=shown_status, algorithm=algorithm, environment=environment),
            *filters,
        ]
        if name_contains is not None:
            conditions.append(Filter.contains_text("name", name_contains))
        if tag is not None:
            conditions.append(Filter.contains_element("tags", tag))
        return cls._page(conditions, order_by=order_by, limit=limit, offset=offset, count=count, table=cls.view)

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
    ) -> Row:
        """Change what is given and return the run; objects are merged into what they hold already."""
        return cls._update(
            run_id,
            field="run_id",
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

    @classmethod
    def update_status(
        cls,
        run_id: Id,
        status: RunStatus,
        metrics: Mapping[str, Any] | None = None,
        *,
        message: str | None = None,
    ) -> Row:
        """Move a run to another status and return it; `metrics` are merged into its summary."""
        return cls._move(run_id, status, field="run_id", message=message, summary=metrics)

    @classmethod
    def finish(
        cls,
        run_id: Id,
        *,
        status: RunStatus = "completed",
        summary: Mapping[str, Any] | None = None,
        message: str | None = None,
    ) -> Row:
        """End a run with its last figures and return it."""
        return cls._move(run_id, status, field="run_id", message=message, summary=summary)

    @classmethod
    def list_rewinds(cls, run_id: Id) -> list[int]:
        """Return the steps to which a run was rewound, the oldest first."""
        of_run = [Filter.eq("training_run_id", as_id(run_id, field="run_id"))]
        page = cls._client().select("rewinds", columns="to_step", filters=of_run, order=[Order("timeline")])
        return [int(row["to_step"]) for row in page.rows]

    @classmethod
    def heartbeat(cls, run_id: Id, *, progress: float | None = None, current_step: int | None = None) -> str:
        """Say that a run is alive, and return when that was noted."""
        params = {"run_id": as_id(run_id, field="run_id"), "progress": progress, "current_step": current_step}
        return str(cls._client().rpc("heartbeat", params))

    @classmethod
    def get_metrics(cls, run_id: Id | None = None, *, environment: str | None = None, rollout_limit: int = 100) -> Row:
        """Return counts, success rate and averages of a run's rollouts (or of all), with the newest of them."""
        run = None if run_id is None else as_id(run_id, field="run_id")
        params = {"training_run_id": run, "environment": environment, "rollout_limit": rollout_limit}
        return dict(cls._client().rpc("run_metrics", params))

    @classmethod
    def delete_run(cls, run_id: Id) -> None:
        """Delete a run with everything that hangs on it, but not its files in storage."""
        cls._delete(run_id, field="run_id")
