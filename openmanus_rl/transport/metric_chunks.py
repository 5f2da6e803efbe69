"""Metric chunks for COPY in binary form: reading a hundred thousand numbers and times as text takes Postgres long."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import sql

from openmanus_rl.transport.postgres import PostgresConnection

__all__ = ["copy_chunks", "is_plain_chunk"]

_COLUMNS = ("id", "training_run_id", "timeline", "name", "steps", "values", "times")
_NAMES = frozenset(_COLUMNS)
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = struct.pack(">h", -1)
_BIGINT, _DOUBLE, _TIMESTAMPTZ = 20, 701, 1184
# Postgres counts microseconds from here.
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def is_plain_chunk(record: Mapping[str, Any]) -> bool:
    """Say whether a chunk says all there is to say, as the recorder's do."""
    return record.keys() == _NAMES and None not in record.values()


def copy_chunks(
    connection: PostgresConnection,
    table: sql.Identifier,
    chunks: Iterable[tuple[int, Mapping[str, Any]]],
    *,
    staged: bool,
) -> None:
    """Copy numbered chunks to a table, to a staging table with their numbers; a bad value is a ValueError."""
    columns = ("ordinal", *_COLUMNS) if staged else _COLUMNS
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        table, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    moments: dict[str, int] = {}
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_HEADER)
        for ordinal, chunk in chunks:
            fields = [struct.pack(">i", ordinal)] if staged else []
            copy.write(_tuple([*fields, *_fields(chunk, moments)]))
        copy.write(_TRAILER)


def _fields(chunk: Mapping[str, Any], moments: dict[str, int]) -> list[bytes]:
    times = chunk["times"]
    for time in times:
        # Metrics that were logged together have the same.
        if time not in moments:
            moments[time] = (datetime.fromisoformat(time) - _ORIGIN) // _MICROSECOND
    try:
        return [
            bytes.fromhex(chunk["id"].replace("-", "")),
            bytes.fromhex(chunk["training_run_id"].replace("-", "")),
            struct.pack(">i", chunk["timeline"]),
            chunk["name"].encode(),
            _array(_BIGINT, "q", chunk["steps"]),
            # What is not finite comes by its name.
            _array(_DOUBLE, "d", [float(value) for value in chunk["values"]]),
            _array(_TIMESTAMPTZ, "q", [moments[time] for time in times]),
        ]
    except (struct.error, AttributeError, OverflowError) as error:
        raise ValueError(f"metric chunk {chunk['id']}: {error}") from error


def _array(element_type: int, code: str, values: list[Any]) -> bytes:
    """Return a list in the form in which Postgres sends arrays: each element behind its size, eight bytes."""
    count = len(values)
    sized: list[Any] = [8] * (2 * count)
    sized[1::2] = values
    return struct.pack(">5i", 1, 0, element_type, count, 1) + struct.pack(">" + f"i{code}" * count, *sized)


def _tuple(fields: list[bytes]) -> bytes:
    parts = [struct.pack(">h", len(fields))]
    for field in fields:
        parts += (struct.pack(">i", len(field)), field)
    return b"".join(parts)
