"""Loads a record without a field that was refused, so that the record and its children are not lost with it."""

from __future__ import annotations

from typing import Any

from openmanus_rl.delivery.batches import Batch, Load

__all__ = ["load_with_ends", "without_refused"]

# Kinds that other records reference.
_KINDS = frozenset(
    {"training_runs", "training_steps", "evaluations", "rollout_groups", "rollouts", "agent_states"}
)  # fmt: skip
_NEEDED = frozenset({"id", "name", "status", "status_change_id"})

_Place = tuple[str, int]


def load_with_ends(batch: Batch, load: Load) -> list[dict[str, Any]]:
    """Load a batch and return its refusals; a record refused for one field is loaded without that field.

    Otherwise one bad value would leave a rollout running forever, or all records of a run without a parent. Such a
    refusal's `record` has only the id and the field: sent again, it must not repeat the change of status.
    """
    refused = {_place(refusal): refusal for refusal in load(batch)}
    left_out: dict[_Place, list[dict[str, Any]]] = {}
    rest = {place: batch[place[0]][place[1]] for place in refused}
    while spoiled := [place for place in rest if _can_do_without(place[0], rest[place], refused[place])]:
        for place in spoiled:
            left_out.setdefault(place, []).append(refused[place])
            rest[place] = {name: value for name, value in rest[place].items() if name != refused[place]["field"]}
        # All of them: the others may have been refused because of these.
        refused = _load_again(rest, load)
        rest = {place: rest[place] for place in refused}
    for place, fields in left_out.items():
        if place in refused:
            # Refused without the field too: report the first reason.
            refused[place] = fields[0]
    kept = [
        {**refusal, "record": {name: batch[kind][index].get(name) for name in ("id", refusal["field"])}}
        for (kind, index), fields in left_out.items()
        if (kind, index) not in refused
        for refusal in fields
    ]
    return [*refused.values(), *kept]


def _load_again(records: dict[_Place, dict[str, Any]], load: Load) -> dict[_Place, dict[str, Any]]:
    """Load records and return the refusals by the records' places in the original batch."""
    batch: Batch = {}
    places: dict[_Place, _Place] = {}
    for (kind, index), record in sorted(records.items(), key=lambda item: item[0]):
        some = batch.setdefault(kind, [])
        places[kind, len(some)] = (kind, index)
        some.append(record)
    found = {places[_place(refusal)]: refusal for refusal in load(batch)}
    return {(kind, index): {**refusal, "index": index} for (kind, index), refusal in found.items()}


def _place(refusal: dict[str, Any]) -> _Place:
    return refusal["kind"], refusal["index"]


def _can_do_without(kind: str, record: dict[str, Any], refusal: dict[str, Any]) -> bool:
    field = refusal.get("field")
    return kind in _KINDS and refusal["code"] == "OM400" and field in record and field not in _NEEDED


def without_refused(batch: Batch, refusals: list[dict[str, Any]]) -> Batch:
    """Return the records that were stored, including those stored without a field."""
    refused = {(refusal["kind"], refusal["index"]) for refusal in refusals if "record" not in refusal}
    if not refused:
        return batch
    return {
        kind: [record for index, record in enumerate(records) if (kind, index) not in refused]
        for kind, records in batch.items()
    }
