"""Entries of refused.jsonl: how to compare, count and describe them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

__all__ = ["count_places", "identity", "name_of", "printable", "reason_of"]

_LONGEST_REASON = 500
_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# How Postgres ends a message about a value that does not fit a type.
_VALUE = re.compile(r': ".*"$', re.DOTALL)


def identity(entry: dict[str, Any]) -> bytes:
    """Return a digest that is equal for refusals of the same record, whatever the reason."""
    kind, record = entry["kind"], entry["record"]
    if kind == "metric_chunks":
        said: Any = [kind, record.get("id")]
    else:
        # A metric may be refused at the same step more than once.
        said = [kind, record, entry.get("places") if kind == "metrics" else None]
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).digest()


def count_places(places: Iterable[list[int]]) -> int:
    """Return how many records were refused: several refusals may concern one record, and one refusal several."""
    return len({place for some in places for place in some})


def name_of(entry: Mapping[str, Any]) -> str:
    """Return the name of what was refused: a metric, or a field of a kind of record."""
    if entry.get("kind") == "metrics":
        return f"metric {entry.get('field') or entry['record'].get('name')!r}"
    field = entry.get("field")
    return printable(f"{entry.get('kind')}.{field}" if field else f"a record of {entry.get('kind')}")


def reason_of(entry: Mapping[str, Any]) -> str:
    """Return the reason without ids and values, so that refusals with the same cause read the same."""
    reason = str(entry.get("message"))[:_LONGEST_REASON]
    record = entry.get("record")
    row_id = record.get("id") if isinstance(record, dict) else None
    for prefix in (f"{entry.get('kind')} {row_id}: ", f"{entry.get('kind')}: ", f"{name_of(entry)}: "):
        reason = reason.removeprefix(prefix)
    reason = reason.removeprefix(f"{entry.get('field')}: ")
    return printable(_ID.sub("…", _VALUE.sub(': "…"', reason)))


def printable(text: str) -> str:
    """Return text without control characters, safe to print on a terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
