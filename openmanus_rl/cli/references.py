"""Find a run, a rollout, a job or a sweep by its id, the start of its id, or its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from openmanus_rl.errors import ConflictError, NotFoundError
from openmanus_rl.managers.jobs import JobManager
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.sweeps import SweepManager
from openmanus_rl.records.rows import Job, Rollout, RunOverview, Sweep
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["find_job", "find_rollout", "find_run", "find_sweep"]

RowT = TypeVar("RowT", bound=Mapping[str, Any])

_SOME_HEX = re.compile(r"[0-9a-f]{4,32}")
_SHOWN_CANDIDATES = 5


def find_run(reference: str) -> RunOverview:
    """Return the run with this run_name, id or start of an id; no match or several are an error."""
    named = TrainingRunManager.find_by_run_name(reference) if reference else None
    if named is not None:
        return _overview(named["id"])
    return _find_by_id(
        reference,
        lambda condition: TrainingRunManager.list_runs(filters=condition, limit=_SHOWN_CANDIDATES + 1),
        noun="run",
        way_out="list them with `openmanus-rl runs list`; give an id, its first characters, or a run_name",
    )


def find_rollout(reference: str) -> Rollout:
    """Return the rollout with this id or start of an id; no match or several are an error."""
    return _find_by_id(
        reference,
        lambda condition: RolloutManager.list_rollouts(
            filters=condition, include_rewound=True, limit=_SHOWN_CANDIDATES + 1
        ),
        noun="rollout",
        way_out="list them with `openmanus-rl rollouts list`; give an id or its first characters",
    )


def find_sweep(reference: str) -> Sweep:
    """Return the sweep with this id or start of an id; no match or several are an error."""
    return _find_by_id(
        reference,
        lambda condition: SweepManager.list_sweeps(filters=condition, limit=_SHOWN_CANDIDATES + 1),
        noun="sweep",
        way_out="list them with `openmanus-rl sweeps list`; give an id or its first characters",
    )


def find_job(reference: str) -> Job:
    """Return the job with this id or start of an id; no match or several are an error."""
    return _find_by_id(
        reference,
        lambda condition: JobManager.list_jobs(filters=condition, limit=_SHOWN_CANDIDATES + 1),
        noun="job",
        way_out="list them with `openmanus-rl jobs list`; give an id or its first characters",
    )


def _overview(run_id: str) -> RunOverview:
    return TrainingRunManager.list_runs(filters=[Filter.eq("id", run_id)], limit=1)[0]


def _find_by_id(reference: str, search: Callable[[list[Filter]], Page[RowT]], *, noun: str, way_out: str) -> RowT:
    digits = reference.strip().lower().replace("-", "")
    # Fewer than four digits match too many ids.
    candidates = search(_starting_with(digits)).rows if _SOME_HEX.fullmatch(digits) else []
    if not candidates:
        raise NotFoundError(f"no {noun} matches {reference!r}", field=noun, hint=way_out)
    if len(candidates) > 1:
        shown = ", ".join(str(row["id"]) for row in candidates[:_SHOWN_CANDIDATES])
        more = " and more" if len(candidates) > _SHOWN_CANDIDATES else ""
        raise ConflictError(
            f"{reference!r} matches several {noun}s: {shown}{more}", field=noun, hint="give more characters of the id"
        )
    return candidates[0]


def _starting_with(digits: str) -> list[Filter]:
    """Return the range of ids with this prefix; the database can compare ids, but not match their text."""
    lowest, highest = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    return [Filter.gte("id", lowest), Filter.lte("id", highest)]
