"""Batches of records, and how to load one that the database refuses as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openmanus_rl.errors import InvalidInput, UnsupportedError
from openmanus_rl.spool.files import LEASE_FIELD

__all__ = ["Batch", "Load", "has_leases", "load_in_parts", "load_under_leases"]

Batch = dict[str, list[dict[str, Any]]]
"""Records by kind."""
Load = Callable[[Batch], list[dict[str, Any]]]
"""Writes a batch in one transaction, and returns what was refused."""
LoadUnderLeases = Callable[[Batch, list[str]], list[dict[str, Any]]]


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


def load_under_leases(batch: Batch, load: LoadUnderLeases) -> list[dict[str, Any]]:
    """Load a batch under the leases of its records, and return what was refused.

    The database takes a record if one of the batch's leases is that of its rollout. A worker that lost a rollout may
    have got it again: the records of both attempts then go one after the other, so that none is taken for the other's.
    """
    plain, leases = _without_leases(batch)
    rounds = _rounds(batch) if len(leases) > 1 else {}
    if not any(rounds.values()):
        return load(plain, leases)
    refused: list[dict[str, Any]] = []
    for number in range(max(rounds.values()) + 1):
        places = {
            kind: [
                place for place, record in enumerate(records) if rounds.get(record.get(LEASE_FIELD, ""), 0) == number
            ]
            for kind, records in batch.items()
        }
        part = {kind: [plain[kind][place] for place in chosen] for kind, chosen in places.items() if chosen}
        found = load(part, [lease for lease in leases if rounds.get(lease, 0) == number])
        refused += [{**one, "index": places[one["kind"]][one["index"]]} for one in found]
    return refused


def has_leases(batch: Batch) -> bool:
    """Return whether a batch is a worker's."""
    # All records of a worker have the field, others never do: the first of each kind tells.
    return any(LEASE_FIELD in records[0] for records in batch.values() if records)


def _rounds(batch: Batch) -> dict[str, int]:
    """Return, for each lease, how many other leases of its rollout come before it."""
    of_rollouts: dict[str, list[str]] = {}
    for kind, records in batch.items():
        for record in records:
            rollout = record.get("id") if kind == "rollouts" else record.get("rollout_id")
            lease = record.get(LEASE_FIELD)
            if rollout is not None and lease is not None:
                leases = of_rollouts.setdefault(rollout, [])
                if lease not in leases:
                    leases.append(lease)
    return {lease: number for leases in of_rollouts.values() for number, lease in enumerate(leases)}


def _without_leases(batch: Batch) -> tuple[Batch, list[str]]:
    """Return a batch without the field that names the lease of a worker's record, and these leases.

    The records themselves keep it: a refused one that is sent again must not be taken for somebody else's.
    """
    if not has_leases(batch):
        return batch, []
    leases = {record[LEASE_FIELD] for records in batch.values() for record in records if LEASE_FIELD in record}
    plain = {
        kind: [{name: value for name, value in record.items() if name != LEASE_FIELD} for record in records]
        for kind, records in batch.items()
    }
    return plain, sorted(leases)
