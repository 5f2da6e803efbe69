"""Copies metric chunks in binary format, which Postgres reads much faster than text."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import sql

from openmanus_rl.transport.postgres import PostgresConnection

__all__ = ["copy_chunks", "is_plain_chunk", "stage_chunks"]

_POINTS = ("steps", "times")
_AXIS_COLUMNS = ("id", "training_run_id", *_POINTS)
_COLUMNS = ("id", "training_run_id", "timeline", "name", "values", *_POINTS, "axis_id")
_NEEDED = frozenset({"id", "training_run_id", "timeline", "name", "values"})
# With its own steps; with an axis and its steps; with an axis whose steps another chunk carries.
_FORMS = (_NEEDED | {*_POINTS}, _NEEDED | {*_POINTS, "axis_id"}, _NEEDED | {"axis_id"})
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = struct.pack(">h", -1)
_NULL = struct.pack(">i", -1)
_BIGINT, _DOUBLE, _TIMESTAMPTZ = 20, 701, 1184
# Postgres stores times as microseconds since this date.
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Chunk = Mapping[str, Any]


def is_plain_chunk(record: Chunk) -> bool:
    """Return whether a chunk has exactly the fields that the recorder writes."""
    return record.keys() in _FORMS and None not in record.values()


def copy_chunks(connection: PostgresConnection, chunks: Sequence[Chunk]) -> None:
    """Copy new chunks and their axes to the tables; a bad value raises ValueError."""
    axes = [
        {"id": chunk["axis_id"], **{name: chunk[name] for name in _AXIS_COLUMNS[1:]}}
        for chunk in chunks
        if "axis_id" in chunk and "steps" in chunk
    ]
    if axes:
        _copy(connection, sql.Identifier("public", "metric_axes"), _AXIS_COLUMNS, map(_fields, axes))
    placed = ({**chunk, "steps": None, "times": None} if "axis_id" in chunk else chunk for chunk in chunks)
    _copy(connection, sql.Identifier("public", "metric_chunks"), _COLUMNS, map(_fields, placed))


def stage_chunks(connection: PostgresConnection, chunks: Iterable[tuple[int, Chunk]]) -> None:
    """Copy numbered chunks to their staging table; a bad value raises ValueError."""
    staged = ({**_fields(chunk), "ordinal": struct.pack(">i", number)} for number, chunk in chunks)
    _copy(connection, sql.Identifier("pg_temp", "stage_metric_chunks"), ("ordinal", *_COLUMNS), staged)


def _copy(
    connection: PostgresConnection, table: sql.Identifier, columns: Sequence[str], rows: Iterable[Mapping[str, bytes]]
) -> None:
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        table, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_HEADER)
        for row in rows:
            copy.write(_tuple([row.get(column) for column in columns]))
        copy.write(_TRAILER)


def _fields(chunk: Chunk) -> dict[str, bytes]:
    """Return the fields of a chunk by column, in Postgres's binary format."""
    try:
        return {name: _ENCODERS[name](value) for name, value in chunk.items() if value is not None}
    except (struct.error, AttributeError, OverflowError) as error:
        raise ValueError(f"metric chunk {chunk['id']}: {error}") from error


def _id(value: str) -> bytes:
    return bytes.fromhex(value.replace("-", ""))


def _numbers(values: list[Any]) -> bytes:
    try:
        numbers = array("d", values)
    except TypeError:
        # NaN and infinities are given as their names.
        numbers = array("d", map(float, values))
    return _array(_DOUBLE, numbers)


def _times(times: list[str]) -> bytes:
    moments = [(datetime.fromisoformat(time) - _ORIGIN) // _MICROSECOND for time in times]
    return _array(_TIMESTAMPTZ, array("q", moments))


def _array(element_type: int, elements: array[Any]) -> bytes:
    """Return an array in Postgres's binary format: each element is its size, then eight bytes."""
    count = len(elements)
    if sys.byteorder == "little":
        elements.byteswap()
    halves = array("I", elements.tobytes())
    words = array("I", struct.pack(">i", 8)) * (3 * count)
    words[1::3], words[2::3] = halves[0::2], halves[1::2]
    return struct.pack(">5i", 1, 0, element_type, count, 1) + words.tobytes()


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "id": _id,
    "training_run_id": _id,
    "axis_id": _id,
    "timeline": lambda timeline: struct.pack(">i", timeline),
    "name": str.encode,
    "steps": lambda steps: _array(_BIGINT, array("q", steps)),
    "values": _numbers,
    "times": _times,
}


def _tuple(fields: Sequence[bytes | None]) -> bytes:
    parts = [struct.pack(">h", len(fields))]
    for field in fields:
        parts += (_NULL,) if field is None else (struct.pack(">i", len(field)), field)
    return b"".join(parts)
