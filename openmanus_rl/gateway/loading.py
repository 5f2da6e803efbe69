"""Batches straight into Postgres: COPY into the staging tables, then the database's own merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb, set_json_dumps

from openmanus_rl.errors import OpenManusError
from openmanus_rl.gateway.json_codec import encode
from openmanus_rl.gateway.postgres import PostgresConnection, connect
from openmanus_rl.gateway.retry import RetryPolicy
from openmanus_rl.gateway.translate import translated

__all__ = ["Loader"]

Record = Mapping[str, Any]
Batch = Mapping[str, Sequence[Record]]

# What COPY says of a value that does not fit its column; `ingest` finds the record that holds it.
_BAD_VALUES = (
    ValueError,
    TypeError,
    psycopg.DataError,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.ProgramLimitExceeded,
)


def _floats(values: Sequence[Any]) -> list[float]:
    # JSON has no NaN, so that one comes as text; a list must be of one kind.
    return [float(value) for value in values]


_ADAPTERS: dict[str, Callable[[Any], Any]] = {"jsonb": Jsonb, "double precision[]": _floats, "real[]": _floats}


class Loader:
    """Loads batches over one connection, which is opened anew after a failure."""

    def __init__(self, database_url: str, *, connect_timeout_seconds: float = 5.0) -> None:
        self._database_url = database_url
        self._connect_timeout_seconds = connect_timeout_seconds
        self._connection: PostgresConnection | None = None
        self._types: dict[str, dict[str, str]] = {}

    def load(self, batch: Batch) -> list[dict[str, Any]]:
        """Write a batch in one transaction and return what was refused; a failure writes nothing."""
        connection = self._connected()
        try:
            with translated("load a batch"):
                try:
                    with connection.transaction():
                        return self._copy_and_merge(connection, batch)
                except _BAD_VALUES:
                    # One bad value spoils a whole COPY. As JSON, the database says which record it is in.
                    with connection.transaction():
                        return self._ingest(connection, batch)
        except OpenManusError:
            self.close()
            raise

    def interrupt(self, entries: Mapping[str, Sequence[Sequence[str]]], reason: str) -> None:
        """Mark what a process left running when it ended."""
        connection = self._connected()
        try:
            with translated("interrupt what was left running"):
                connection.execute("select public.interrupt(%s, %s)", [Jsonb(entries), reason])
        except OpenManusError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> PostgresConnection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                self._database_url,
                autocommit=True,
                connect_timeout_seconds=self._connect_timeout_seconds,
                retry=RetryPolicy(limit_seconds=0),
            )
            set_json_dumps(encode, self._connection)
        return self._connection

    def _copy_and_merge(self, connection: PostgresConnection, batch: Batch) -> list[dict[str, Any]]:
        kinds = list(batch)
        connection.execute("select internal.open_stage(%s)", [kinds])
        for kind, records in batch.items():
            self._copy(connection, kind, records)
        return _refused(connection.execute("select internal.merge_stage(%s)", [kinds]).fetchone())

    def _ingest(self, connection: PostgresConnection, batch: Batch) -> list[dict[str, Any]]:
        return _refused(connection.execute("select public.ingest(%s)", [Jsonb(batch)]).fetchone())

    def _copy(self, connection: PostgresConnection, kind: str, records: Sequence[Record]) -> None:
        types = self._types.get(kind) or self._read_types(connection, kind)
        columns = list(dict.fromkeys(name for record in records for name in record))
        adapters = [_ADAPTERS.get(types.get(name, "")) for name in columns]
        statement = sql.SQL("copy {} (ordinal, {}) from stdin").format(
            sql.Identifier("pg_temp", f"stage_{kind}"), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for number, record in enumerate(records):
                row: list[Any] = [number]
                for name, adapt in zip(columns, adapters, strict=True):
                    value = record.get(name)
                    row.append(value if value is None or adapt is None else adapt(value))
                copy.write_row(row)

    def _read_types(self, connection: PostgresConnection, kind: str) -> dict[str, str]:
        rows = connection.execute("select name, type from internal.record_columns(%s)", [kind])
        self._types[kind] = {str(row[0]): str(row[1]) for row in rows}
        return self._types[kind]


def _refused(answer: tuple[Any, ...] | None) -> list[dict[str, Any]]:
    assert answer is not None, "a function that returns a value returns a row"
    refused: list[dict[str, Any]] = answer[0]["refused"]
    return refused
