"""Batches of records, and how to load one that the database refuses as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openmanus_rl.errors import InvalidInput, UnsupportedError

__all__ = ["Batch", "Load", "load_in_parts"]

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
