"""Loads batches directly into Postgres: by COPY into the staging tables, then by the database's merge functions.

Turns and their parts never change, are most of the records, and are nearly always new. They are copied directly to
their tables, with the columns that the merge would derive; constraints and triggers apply as usual. If that fails, for
example for a turn that was delivered before, the whole batch is merged instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb, set_json_dumps

from openmanus_rl.errors import OpenManusError
from openmanus_rl.transport.json_codec import encode
from openmanus_rl.transport.metric_chunks import copy_chunks, is_plain_chunk, stage_chunks
from openmanus_rl.transport.postgres import PostgresConnection, connect
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.rows import Record, cleared_fields, field_names, values_of
from openmanus_rl.transport.translate import translated

__all__ = ["Loader"]

Batch = Mapping[str, Sequence[Record]]

# Errors of COPY for a value that does not fit its column; `ingest` then finds the record.
_BAD_VALUES = (
    ValueError,
    TypeError,
    psycopg.DataError,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.ProgramLimitExceeded,
)


_SET_LEASES = "select set_config('openmanus_rl.leases', %s, true)"


class _NeedsMerge(Exception):
    """Rows cannot be copied directly: a parent is missing, a step may have a reward, a worker or an archive has it."""


# The tables of rows that never change, and the field that names their parent.
_COPIED = {
    "agent_states": ("public", "rollout_id"),
    "rewards": ("internal", "rollout_id"),
    "tool_calls": ("public", "agent_state_id"),
    "observations": ("public", "agent_state_id"),
    "generations": ("public", "agent_state_id"),
}
# A row exists, has no parent or does not fit its columns: the merge finds the record.
_NOT_SIMPLY_NEW = (psycopg.IntegrityError, KeyError, _NeedsMerge, *_BAD_VALUES)


class Loader:
    """Loads batches over one connection, which is reopened after a failure."""

    def __init__(self, database_url: str | Callable[[], str], *, connect_timeout_seconds: float = 5.0) -> None:
        """Set the database by its URL, or by a function that is called for the URL before each connection."""
        self._database_url = database_url
        self._connect_timeout_seconds = connect_timeout_seconds
        self._connection: PostgresConnection | None = None
        self._types: dict[str, dict[str, str]] = {}

    def load(self, batch: Batch, leases: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Write a batch in one transaction and return what was refused; a failure writes nothing.

        A worker's batch is written under the leases of its rollouts.
        """
        connection = self._connected()
        try:
            with translated("load a batch"):
                try:
                    with connection.transaction():
                        if leases:
                            raise _NeedsMerge("which rollouts a worker still has is known to the merge")
                        return self._copy_what_is_new(connection, batch)
                except _NOT_SIMPLY_NEW:
                    pass
                try:
                    with connection.transaction():
                        if leases:
                            connection.execute(_SET_LEASES, [",".join(leases)])
                        numbered = {kind: list(enumerate(records)) for kind, records in batch.items()}
                        return self._copy_and_merge(connection, numbered)
                except _BAD_VALUES:
                    # One bad value fails the whole COPY. From JSON, the database refuses only its record.
                    with connection.transaction():
                        return self._ingest(connection, batch, leases)
        except OpenManusError:
            self.close()
            raise

    def interrupt(self, entries: Mapping[str, Sequence[Sequence[str]]], reason: str) -> None:
        """Mark everything that an ended process left running as interrupted."""
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
                self._database_url() if callable(self._database_url) else self._database_url,
                autocommit=True,
                connect_timeout_seconds=self._connect_timeout_seconds,
                retry=RetryPolicy(limit_seconds=0),
            )
            set_json_dumps(encode, self._connection)
        return self._connection

    def _copy_what_is_new(self, connection: PostgresConnection, batch: Batch) -> list[dict[str, Any]]:
        numbered = {kind: list(enumerate(records)) for kind, records in batch.items() if kind not in _COPIED}
        chunks = _new_chunks(connection, numbered.get("metric_chunks", []))
        if chunks:
            numbered["metric_chunks"] = [entry for entry in numbered["metric_chunks"] if entry[0] not in chunks]
        written = {chunk["training_run_id"] for chunk in chunks.values()}
        may_copy = connection.execute("select internal.begin_copy(%s::uuid[])", [list(written)]).fetchone()
        if may_copy != (True,):
            raise _NeedsMerge("a run is archived")
        merged = {kind: entries for kind, entries in numbered.items() if entries}
        # Media may reference turns: load it last.
        media = merged.pop("media", None)
        refused = self._copy_and_merge(connection, merged) if merged else []
        if chunks:
            copy_chunks(connection, list(chunks.values()))
        written |= self._copy_turns(connection, batch)
        if media is not None:
            refused += self._copy_and_merge(connection, {"media": media})
        if written:
            connection.execute("select internal.end_copy(%s::uuid[])", [list(written)])
        return refused

    def _copy_turns(self, connection: PostgresConnection, batch: Batch) -> set[str | None]:
        """Copy turns, their parts and rewards, and return the runs that they belong to."""
        copied = {kind: records for kind in _COPIED if (records := batch.get(kind))}
        if not copied:
            return set()
        runs = _lock_parents(connection, copied)
        for kind, records in copied.items():
            schema, parent = _COPIED[kind]
            placed = [((_run_of(record, parent, runs[parent]),), record) for record in records]
            self._copy(connection, kind, placed, sql.Identifier(schema, kind), added=("training_run_id",))
        return {run_id for known in runs.values() for run_id in known.values()}

    def _copy_and_merge(
        self, connection: PostgresConnection, batch: Mapping[str, list[tuple[int, Record]]]
    ) -> list[dict[str, Any]]:
        kinds = list(batch)
        connection.execute("select internal.open_stage(%s)", [kinds])
        for kind, entries in batch.items():
            if kind == "metric_chunks" and all(is_plain_chunk(record) for _, record in entries):
                stage_chunks(connection, entries)
            else:
                stage = sql.Identifier("pg_temp", f"stage_{kind}")
                staged = [((number, cleared_fields(record)), record) for number, record in entries]
                self._copy(connection, kind, staged, stage, added=("ordinal", "cleared"))
        return _refused(connection.execute("select internal.merge_stage(%s)", [kinds]).fetchone())

    def _ingest(self, connection: PostgresConnection, batch: Batch, leases: Sequence[str]) -> list[dict[str, Any]]:
        statement = "select public.ingest(%s, leases => %s::uuid[])"
        return _refused(connection.execute(statement, [Jsonb(batch), list(leases) or None]).fetchone())

    def _copy(
        self,
        connection: PostgresConnection,
        kind: str,
        entries: Sequence[tuple[tuple[Any, ...], Record]],
        table: sql.Identifier,
        *,
        added: tuple[str, ...],
    ) -> None:
        """Copy records to a table, each with the values of further columns."""
        types = self._types.get(kind) or self._read_types(connection, kind)
        names = field_names((record for _, record in entries), but=added)
        columns = sql.SQL(", ").join(map(sql.Identifier, [*added, *names]))
        statement = sql.SQL("copy {} ({}) from stdin").format(table, columns)
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            write_row = copy.write_row
            for row in values_of(entries, names, types):
                try:
                    write_row(row)
                except psycopg.ProgrammingError as error:
                    if error.sqlstate is None:
                        # psycopg cannot adapt a value, such as an object in a column of numbers.
                        raise ValueError(f"{kind}: {error}") from error
                    raise

    def _read_types(self, connection: PostgresConnection, kind: str) -> dict[str, str]:
        rows = connection.execute("select name, type from internal.record_columns(%s)", [kind])
        self._types[kind] = {str(row[0]): str(row[1]) for row in rows}
        return self._types[kind]


def _new_chunks(connection: PostgresConnection, chunks: Sequence[tuple[int, Record]]) -> dict[int, Record]:
    """Return the new chunks by their numbers; existing ones can only be extended, by the merge."""
    plain = {number: chunk for number, chunk in chunks if is_plain_chunk(chunk)}
    ids = [chunk["id"] for chunk in plain.values()]
    if not ids or len(set(ids)) < len(ids):
        return {}
    found = connection.execute("select id::text from public.metric_chunks where id = any (%s::uuid[])", [ids])
    known = {row[0] for row in found}
    return {number: chunk for number, chunk in plain.items() if chunk["id"] not in known}


def _lock_parents(connection: PostgresConnection, copied: Batch) -> dict[str, dict[str, str | None]]:
    """Lock the rollouts and turns that rows are added to, and return the run of each, by the field that names it."""
    turns = copied.get("agent_states", ())
    new = {turn["id"] for turn in turns}
    wanted: dict[str, set[str]] = {"rollout_id": set(), "agent_state_id": set()}
    for kind, records in copied.items():
        parent = _COPIED[kind][1]
        wanted[parent].update(record[parent] for record in records)
    statement = "select id::text, training_run_id::text, needs_merge from internal.lock_parents(%s::uuid[], %s::uuid[])"
    rollouts = connection.execute(statement, [list(wanted["rollout_id"]), []]).fetchall()
    # On its own: a part must not take a rollout for its turn.
    older = list(wanted["agent_state_id"] - new)
    known = connection.execute(statement, [[], older]).fetchall() if older else []
    if any(row[2] for row in (*rollouts, *known)) or any(map(_is_of_step, copied.get("rewards", ()))):
        raise _NeedsMerge("a step may have a reward already, or a worker has the rollout")
    runs: dict[str, str | None] = {row[0]: row[1] for row in rollouts}
    of_turns = {turn["id"]: runs[turn["rollout_id"]] for turn in turns if turn["rollout_id"] in runs}
    return {"rollout_id": runs, "agent_state_id": of_turns | {row[0]: row[1] for row in known}}


def _is_of_step(reward: Record) -> bool:
    return reward.get("reward_type") in (None, "step") and reward.get("step_number") is not None


def _run_of(record: Record, parent: str, runs: Mapping[str, str | None]) -> str | None:
    try:
        run_id = runs[record[parent]]
    except KeyError:
        raise _NeedsMerge(f"{parent} {record[parent]} is unknown") from None
    if record.get("training_run_id", run_id) != run_id:
        raise ValueError(f"{record['id']}: its run is another than that of its {parent}")
    return run_id


def _refused(answer: tuple[Any, ...] | None) -> list[dict[str, Any]]:
    assert answer is not None, "a function that returns a value returns a row"
    refused: list[dict[str, Any]] = answer[0]["refused"]
    return refused
