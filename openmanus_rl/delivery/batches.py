"""Batches of records, and how to load one that the database refuses as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openmanus_rl.errors import InvalidInput, UnsupportedError
from openmanus_rl.spool.files import LEASE_FIELD

__all__ = ["Batch", "Load", "load_in_parts", "without_leases"]

Batch = dict[str, list[dict[str, Any]]]
"""Records by kind."""
Load = Callable[[Batch], list[dict[str, Any]]]
"""Writes a batch in one transaction, and returns what was refused."""


def load_in_parts(batch: Batch, load: Load) -> list[dict[str, Any]]:
    """Load a batch and return what was refused.

    The database refuses single records. A batch that is refused as a whole, because it is too large or cannot be
    encoded, is halved until the record at fault is found.
    """
    try:
        return load(batch)
    except UnsupportedError:
        raise
    except InvalidInput as error:
        places = [(kind, index) for kind, records in batch.items() for index in range(len(records))]
        if len(places) == 1:
            kind, index = places[0]
            return [{"kind": kind, "index": index, "code": error.code, "message": f"{kind}: {error.message}"}]
    middle = len(places) // 2
    return [refusal for half in (places[:middle], places[middle:]) for refusal in _load_part(batch, half, load)]


def _load_part(batch: Batch, places: list[tuple[str, int]], load: Load) -> list[dict[str, Any]]:
    part: Batch = {}
    first: dict[str, int] = {}
    for kind, index in places:
        part.setdefault(kind, []).append(batch[kind][index])
        first.setdefault(kind, index)
    return [{**refusal, "index": refusal["index"] + first[refusal["kind"]]} for refusal in load_in_parts(part, load)]


def without_leases(batch: Batch) -> tuple[Batch, list[str]]:
    """Return a batch without the field that names the lease of a worker's record, and these leases.

    The records themselves keep it: a refused one that is sent again must not be taken for somebody else's.
    """
    # All records of a worker have the field, others never do: the first of each kind tells.
    if not any(LEASE_FIELD in records[0] for records in batch.values() if records):
        return batch, []
    leases = {record[LEASE_FIELD] for records in batch.values() for record in records if LEASE_FIELD in record}
    plain = {
        kind: [{name: value for name, value in record.items() if name != LEASE_FIELD} for record in records]
        for kind, records in batch.items()
    }
    return plain, sorted(leases)
