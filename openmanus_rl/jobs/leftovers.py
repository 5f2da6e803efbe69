"""Removes what runs at a backend for no job: nobody follows it, and it may cost money."""

from __future__ import annotations

from openmanus_rl.jobs.backends.base import Attempt, Backend, parse_name
from openmanus_rl.managers.jobs import ACTIVE, JobManager

__all__ = ["remove_leftovers"]


def remove_leftovers(backend: Backend) -> list[str]:
    """Remove attempts of jobs that have ended, or that are in a later attempt, and return their names.

    An orchestrator that was frozen while it launched may leave one. What belongs to no job of this database is left
    alone: it may be another database's.
    """
    removed = []
    for name in backend.names():
        parts = parse_name(name)
        job = None if parts is None else JobManager.find_by_digits(parts[0], parts[1])
        if parts is None or job is None or job["backend"] != backend.kind:
            continue
        if job["status"] not in ACTIVE or job["attempt"] > parts[2]:
            backend.remove(Attempt(name, job["id"], parts[2], job["config"]))
            removed.append(name)
    return removed
