"""The trials of a sweep, as the search sees them: read from the rows of runs, jobs and metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from openmanus_rl.managers.sweeps import SweepOverview, TrialOverview

__all__ = ["Trial", "read_trials"]

_ACTIVE_JOBS = ("pending", "launching", "queued", "running")

State = Literal["active", "settling", "completed", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """A run of a sweep. `value` is a finite number if it completed; `problem` says why it failed."""

    number: int
    parameters: dict[str, Any]
    state: State
    value: float | None = None
    step: int = 0
    run_id: str | None = None
    is_pruned: bool = False
    problem: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.state not in ("active", "settling")


def read_trials(overview: SweepOverview, *, settle_seconds: float = 0) -> list[Trial]:
    """Return the trials of a sweep, by number.

    A trial that ended well but has no value yet is `settling` for so long: the last of its record may be on its way.
    """
    metric = overview["sweep"]["metric"]
    return sorted(_read(overview["trials"], metric, settle_seconds), key=lambda trial: trial.number)


def _read(found: Iterable[TrialOverview], metric: str, settle_seconds: float) -> Iterable[Trial]:
    for row in found:
        state, problem = _judge(row, metric, settle_seconds)
        value = row["value"]
        yield Trial(
            number=row["trial"],
            parameters=row["parameters"],
            state=state,
            value=value if value is not None and math.isfinite(value) else None,
            step=row["current_step"] or 0,
            run_id=row["training_run_id"],
            is_pruned=row["is_pruned"],
            problem=problem,
        )


def _judge(row: TrialOverview, metric: str, settle_seconds: float) -> tuple[State, str | None]:
    value = row["value"]
    if row["job_status"] in _ACTIVE_JOBS:
        return "active", None
    if row["job_status"] == "succeeded" and row["status"] == "completed":
        if value is not None and math.isfinite(value):
            return "completed", None
        if value is None and (row["seconds_since_end"] or 0) < settle_seconds:
            return "settling", None
        return "failed", f"it recorded no {metric}" if value is None else f"its last {metric} is {value}"
    if row["is_pruned"]:
        return "pruned", None
    if row["training_run_id"] is None:
        return "failed", "its run was deleted"
    return "failed", row["message"] or f"its job is {row['job_status']}"
