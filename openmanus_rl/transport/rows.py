"""Values of records as text that Postgres reads, for COPY and for batches over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

from openmanus_rl.records.plain import as_text
from openmanus_rl.transport.json_codec import encode

__all__ = ["ADAPTERS", "Record", "as_json", "cleared_fields", "field_names", "values_of"]

Record = Mapping[str, Any]

# Columns of the staging tables that are not fields of records.
_STAGING_COLUMNS = frozenset({"ordinal", "round", "cleared"})


def field_names(records: Iterable[Record], *, but: tuple[str, ...] = ()) -> list[str]:
    """Return the fields of some records."""
    # Most records of a kind have the same fields: looking at each combination once is far less than at each field.
    combinations = {tuple(record) for record in records}
    return list(dict.fromkeys(name for combination in combinations for name in combination if name not in but))


def cleared_fields(record: Record) -> list[str] | None:
    """Return the fields that are null, which a row alone cannot tell from missing ones; None if there are none."""
    if not _STAGING_COLUMNS.isdisjoint(record):
        raise ValueError(f"{record.get('id')}: no such field")
    return [name for name, value in record.items() if value is None] or None


def values_of(
    entries: Sequence[tuple[tuple[Any, ...], Record]], names: list[str], types: Mapping[str, str]
) -> Iterator[list[Any]]:
    """Yield the values of each record, behind those that are added to it, in the form that COPY takes."""
    get_all = itemgetter(*names) if len(names) > 1 else None
    first = len(entries[0][0]) if entries else 0
    adapters = [
        (first + place, adapt) for place, name in enumerate(names) if (adapt := ADAPTERS.get(types.get(name, "")))
    ]
    for values, record in entries:
        if get_all is not None and len(record) >= len(names):
            try:
                row = [*values, *get_all(record)]
            except KeyError:
                row = [*values, *map(record.get, names)]
        else:
            row = [*values, *map(record.get, names)]
        for place, adapt in adapters:
            value = row[place]
            # Text is what most columns hold, and what COPY takes for all of them but JSON.
            if value is not None and (value.__class__ is not str or adapt is as_json):
                row[place] = adapt(value)
        yield row


def _array(values: Any) -> Any:
    """Return a list as a Postgres array; for numbers, times and booleans that is JSON with other brackets."""
    if not isinstance(values, list):
        return values
    text = orjson.dumps(values)
    if b"null" in text:
        # orjson writes None and NaN as null; `encode` refuses NaN.
        text = encode(values)
    return "{" + text[1:-1].decode() + "}"


def as_json(value: Any) -> str:
    """Return a value as JSON; orjson writes NaN as null, so values with null go through `encode`, which refuses NaN."""
    text = orjson.dumps(value)
    return (encode(value) if b"null" in text else text).decode()


_PLAIN_ARRAYS = ("bigint", "integer", "double precision", "real", "boolean", "timestamp with time zone")
ADAPTERS: dict[str, Callable[[Any], Any]] = {
    "jsonb": as_json,
    "text": as_text,
    **{f"{kind}[]": _array for kind in _PLAIN_ARRAYS},
}
"""By type of the database: how a value becomes what COPY takes; of other types it is that already, or is refused."""
