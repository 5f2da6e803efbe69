"""Removes what runs at a backend for no job: nobody follows it, and it may cost money."""

from __future__ import annotations

from openmanus_rl.errors import OpenManusError
from openmanus_rl.jobs.backends.base import Attempt, Backend, parse_name
from openmanus_rl.managers.jobs import ACTIVE, JobManager

__all__ = ["remove_leftovers"]


def remove_leftovers(backend: Backend) -> list[str]:
    """Remove attempts of jobs that have ended, or that are in a later attempt, and return their names.

    An orchestrator that was frozen while it launched may leave one. What belongs to no job of this database is left
    alone: it may be another database's. What cannot be removed now is an error, after all others are.
    """
    removed: list[str] = []
    failures: list[OpenManusError] = []
    for name in backend.names():
        try:
            attempt = _find_leftover(backend, name)
            if attempt is not None:
                backend.remove(attempt)
                removed.append(name)
        except OpenManusError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return removed


def _find_leftover(backend: Backend, name: str) -> Attempt | None:
    parts = parse_name(name)
    job = None if parts is None else JobManager.find_by_digits(parts[0], parts[1])
    if parts is None or job is None or job["backend"] != backend.kind:
        return None
    is_over = job["status"] not in ACTIVE or job["attempt"] > parts[2]
    return Attempt(name, job["id"], parts[2], job["config"]) if is_over else None
