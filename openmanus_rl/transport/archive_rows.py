"""The rows of a run that an archive holds: read in slices and copied back, over Postgres, so that values stay exact."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from openmanus_rl.errors import ConflictError
from openmanus_rl.transport.postgres import PostgresConnection, connect
from openmanus_rl.transport.translate import translated

__all__ = ["ARCHIVED", "COPIED", "ArchivedTable", "Content", "hold_run"]

T = TypeVar("T")

_LOCK_PATIENCE_SECONDS = 3.0
_LOCK_PAUSE_SECONDS = 0.1
_SLICE_ROLLOUTS = 200
_FETCHED_ROWS = 100
# The text of a row, from which its digest is computed, depends on these.
_SETTINGS = {
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # Slices are short, but what removes or restores a whole run is one transaction.
    "statement_timeout": "0",
}


@dataclass(frozen=True)
class ArchivedTable:
    """A table whose rows are archived; `t` is a row of it, and a slice of rollouts or the run is the parameter."""

    name: str
    condition: str
    order: str
    schema: str = "public"
    joined: str = ""
    added: tuple[str, ...] = ()
    """Further columns of the files, so that they can be read without the database."""
    by_rollout: bool = True


_OF_TURN = "join public.agent_states a on a.id = t.agent_state_id"
_OF_ROLLOUT = "a.rollout_id = any (%s::uuid[])"
_PART: dict[str, Any] = {
    "condition": _OF_ROLLOUT,
    "order": "a.rollout_id, a.step_number, t.position",
    "joined": _OF_TURN,
    "added": ("rollout_id", "step_number"),
}

# Parents first.
ARCHIVED = (
    ArchivedTable("agent_states", "t.rollout_id = any (%s::uuid[])", "t.rollout_id, t.step_number"),
    ArchivedTable("observations", **_PART),
    ArchivedTable("generations", **_PART),
    ArchivedTable("tool_calls", **_PART),
    ArchivedTable(
        # Not the rewards of whole rollouts.
        "rewards",
        "t.rollout_id = any (%s::uuid[]) and t.step_number is not null",
        "t.rollout_id, t.step_number, t.reward_type",
        schema="internal",
    ),
    ArchivedTable("metric_axes", "t.training_run_id = %s", "t.id", by_rollout=False),
    ArchivedTable("metric_chunks", "t.training_run_id = %s", "t.name, t.first_step, t.id", by_rollout=False),
)
"""The tables whose rows move to an archive."""

COPIED = ArchivedTable("rollouts", "t.id = any (%s::uuid[])", "t.id")
"""Stays in the database too: the files alone then say what the turns belong to."""

_ADDED_TYPES = {"rollout_id": "uuid", "step_number": "integer"}


class Content:
    """The archived rows of runs, over one connection."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._open = connect(database_url, autocommit=True)
        self._columns: dict[str, dict[str, str]] = {}

    def close(self) -> None:
        """Close the connection."""
        self._open.close()

    @property
    def _connection(self) -> PostgresConnection:
        # Archiving many runs takes hours: one that lost the connection must not fail those after it.
        if self._open.closed:
            self._open = connect(self._database_url, autocommit=True)
        return self._open

    @contextmanager
    def transaction(self, attempt: str) -> Iterator[PostgresConnection]:
        """Open a transaction in which rows have one text, whatever the server's settings."""
        with translated(attempt):
            connection = self._connection
            with connection.transaction():
                for name, value in _SETTINGS.items():
                    connection.execute("select set_config(%s, %s, true)", [name, value])
                yield connection

    def columns(self, table: ArchivedTable) -> dict[str, str]:
        """Return the columns of a table in the database, with their types."""
        if table.name not in self._columns:
            with translated(f"read the columns of {table.name}"):
                found = self._connection.execute(
                    "select attname, format_type(atttypid, atttypmod) from pg_catalog.pg_attribute"
                    " where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum",
                    [f"{table.schema}.{table.name}"],
                )
                self._columns[table.name] = {str(name): str(kind) for name, kind in found}
        return self._columns[table.name]

    def file_columns(self, table: ArchivedTable) -> dict[str, str]:
        """Return the columns of a table's files, with the types of the database."""
        return {**self.columns(table), **{name: _ADDED_TYPES[name] for name in table.added}}

    # Reading

    def call(self, statement: str, values: Sequence[Any], *, attempt: str, undo: bool = False) -> Any:
        """Call a function of the database in a transaction of its own, and return its answer."""
        answer = None
        with self.transaction(attempt) as connection:
            answer = _single(connection, statement, [_plain(value) for value in values])
            if undo:
                raise psycopg.Rollback
        return answer

    def rollouts(self, run_id: str) -> Iterator[list[str]]:
        """Yield the ids of a run's rollouts in their order, a slice at a time."""
        with self.transaction("list the rollouts") as connection, connection.cursor(name="rollouts") as cursor:
            cursor.itersize = 10_000
            cursor.execute("select id::text from public.rollouts where training_run_id = %s order by id", [run_id])
            ids = [str(row[0]) for row in cursor]
        for start in range(0, len(ids), _SLICE_ROLLOUTS):
            yield ids[start : start + _SLICE_ROLLOUTS]

    def read(self, table: ArchivedTable, of: str | list[str]) -> Iterator[tuple[dict[str, Any], int, int]]:
        """Yield the rows of a run or a slice of rollouts, each with its digest and its size in the database."""
        statement = self._selection(table)
        with (
            self.transaction(f"read {table.name}") as connection,
            # A cursor of the server: a slice may hold more than fits in memory.
            connection.cursor(name="archived", row_factory=dict_row) as cursor,
        ):
            cursor.itersize = _FETCHED_ROWS
            cursor.execute(statement, [of])
            for row in _exact(cursor):
                digest, size = int(row.pop("row_digest")), int(row.pop("row_bytes"))
                yield row, digest, size

    def measure(self, table: ArchivedTable, run_id: str) -> tuple[int, int]:
        """Return how many rows of a run there are, and their size."""
        rows = size = 0
        for part in self.rollouts(run_id) if table.by_rollout else [run_id]:
            statement = sql.SQL("select count(*), coalesce(sum({}), 0) from {} t {} where {}").format(
                self._size(table), _name(table), sql.SQL(table.joined), sql.SQL(table.condition)
            )
            with self.transaction(f"measure {table.name}") as connection:
                found = connection.execute(statement, [part]).fetchone()
            assert found is not None
            rows, size = rows + int(found[0]), size + int(found[1])
        return rows, size

    def _selection(self, table: ArchivedTable) -> sql.Composed:
        columns = [
            sql.SQL("{}::text as {}" if kind in ("uuid", "jsonb") else "{} as {}").format(
                sql.Identifier("a" if name in table.added else "t", name), sql.Identifier(name)
            )
            for name, kind in self.file_columns(table).items()
        ]
        return sql.SQL("select {}, {} as row_digest, {} as row_bytes from {} t {} where {} order by {}").format(
            sql.SQL(", ").join(columns),
            _digest(self.columns(table)),
            self._size(table),
            _name(table),
            sql.SQL(table.joined),
            sql.SQL(table.condition),
            sql.SQL(table.order),
        )

    def _size(self, table: ArchivedTable) -> sql.Composed:
        # As they are stored, compressed or not, with the header of a row.
        sizes = [
            sql.SQL("coalesce(pg_column_size({}), 0)").format(sql.Identifier("t", name)) for name in self.columns(table)
        ]
        return sql.SQL("({} + 28)").format(sql.SQL(" + ").join(sizes))

    # Copying back

    def stage(
        self,
        connection: PostgresConnection,
        table: ArchivedTable,
        columns: Sequence[str],
        rows: Iterable[Mapping[str, Any]],
    ) -> tuple[int, int]:
        """Copy rows to a new temporary table like the real one; return their number and digest."""
        staged = sql.Identifier("pg_temp", f"restored_{table.name}")
        connection.execute(sql.SQL("drop table if exists {}").format(staged))
        connection.execute(
            sql.SQL("create temporary table {} (like {} including defaults) on commit drop").format(
                sql.Identifier(f"restored_{table.name}"), _name(table)
            )
        )
        # The functions that insert from it run as the owner of the tables.
        connection.execute(sql.SQL("grant select on {} to public").format(staged))
        names = [name for name in columns if name in self.columns(table)]
        statement = sql.SQL("copy {} ({}) from stdin").format(staged, sql.SQL(", ").join(map(sql.Identifier, names)))
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([_as_text(row[name]) for name in names])
        found = connection.execute(
            sql.SQL("select count(*), coalesce(sum({}), 0) from {} t").format(_digest(names), staged)
        ).fetchone()
        assert found is not None
        return int(found[0]), int(found[1])


@contextmanager
def hold_run(database_url: str, run_id: str) -> Iterator[None]:
    """Keep other processes from archiving or restoring the run meanwhile; the lock ends with the connection."""
    connection = connect(database_url)
    try:
        with translated(f"lock run {run_id}"):
            # Of the transaction, not the session: a pooler gives a session to others between transactions.
            statement = "select pg_try_advisory_xact_lock(hashtextextended('openmanus_rl.archive ' || %s, 0))"
            # Postgres may take a moment to notice the end of the process that held it.
            deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
            while not (held := _single(connection, statement, [run_id])) and time.monotonic() < deadline:
                time.sleep(_LOCK_PAUSE_SECONDS)
        if not held:
            raise ConflictError(
                f"run {run_id}: another process archives or restores it", hint="try again when it has ended"
            )
        yield
    finally:
        connection.close()


def _exact(rows: Iterator[T]) -> Iterator[T]:
    """Yield rows; raise an OverflowError for a value that Python does not have, such as a time without end."""
    try:
        yield from rows
    except psycopg.DataError as error:
        if error.sqlstate is not None:
            raise
        raise OverflowError(str(error)) from error


def _as_text(value: Any) -> Any:
    """Return a list of numbers, times or booleans as Postgres writes it: psycopg takes far longer for each element."""
    if not isinstance(value, list) or any(isinstance(element, str) for element in value[:1]):
        return value
    return "{" + ",".join(["NULL" if element is None else str(element) for element in value]) + "}"


def _digest(columns: Iterable[str]) -> sql.Composed:
    names = sql.SQL(", ").join(sql.Identifier("t", name) for name in columns)
    return sql.SQL("internal.row_digest(row({})::text)").format(names)


def _name(table: ArchivedTable) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _single(connection: psycopg.Connection[tuple[Any, ...]], statement: str, values: Sequence[Any]) -> Any:
    found = connection.execute(statement.encode(), values).fetchone()
    return found[0] if found else None


def _plain(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, (dict, list)) else value
