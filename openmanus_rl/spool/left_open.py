"""What began in a spool and did not end: when its process is gone, that was cut short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["REASON", "OpenBlocks", "as_entries", "still_open"]

OpenBlocks = dict[str, list[str]]
"""By id: the kind, and the change of status that began it."""

REASON = "the process that recorded it ended before it did"
_KINDS = ("rollouts", "evaluations", "training_steps", "training_runs")


def still_open(before: OpenBlocks, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> OpenBlocks:
    """Return what is open behind these records, given what was open before them."""
    found = dict(before)
    for kind in _KINDS:
        for record in records.get(kind, ()):
            if record.get("status") == "running" and "status_change_id" in record:
                found[record["id"]] = [kind, record["status_change_id"]]
            elif "status" in record or "status_change_id" in record:
                # It ended; or it is for another process to end, which says so by a change without a status.
                found.pop(record["id"], None)
    return found


def as_entries(blocks: OpenBlocks) -> dict[str, list[list[str]]]:
    """Return open blocks in the form in which the database takes them to be interrupted."""
    entries: dict[str, list[list[str]]] = {}
    for block_id, (kind, change_id) in blocks.items():
        entries.setdefault(kind, []).append([block_id, change_id])
    return entries
