"""Apply migrations to any Postgres. The history table is that of the Supabase CLI, so both tools can be used."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl.errors import OpenManusError, SchemaMismatch, TransientError
from openmanus_rl.local.history import Applied, Migration, require_known
from openmanus_rl.transport.postgres import PostgresConnection, lift_limits, session, settle
from openmanus_rl.transport.postgres_names import quoted
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.translate import translated

__all__ = ["Applied", "Migration", "MigrationPlan", "check", "find_migrations", "migrate", "plan", "require_known"]

_FILE_NAME = re.compile(r"(?P<version>\d{14})_(?P<name>[A-Za-z0-9_\-]+)\.sql")
# Short, to report a wrong address soon, and long enough for a server that is just starting.
_CONNECT_LIMIT_SECONDS = 5.0
# An arbitrary number, the same in every version of this package.
_LOCK_KEY = 7_301_956_220_411

# The same statements as in the Supabase CLI 3.1.
_HISTORY = """
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
alter table supabase_migrations.schema_migrations add column if not exists statements text[];
alter table supabase_migrations.schema_migrations add column if not exists name text;
"""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The applied and the pending migrations of a database."""

    applied: list[str]
    pending: list[Migration]


def find_migrations(folder: Path) -> list[Migration]:
    """Return the migrations of a folder in the order in which they are applied."""
    found: dict[str, Migration] = {}
    for path in sorted(folder.glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise SchemaMismatch(f"{path.name} is not a migration's name; use <14 digits>_<name>.sql")
        migration = Migration(version=match["version"], name=match["name"], path=path)
        if migration.version in found:
            raise SchemaMismatch(
                f"{path.name} and {found[migration.version].path.name} have the same version; renumber one"
            )
        found[migration.version] = migration
    if not found:
        raise SchemaMismatch(f"{folder} holds no migrations")
    return list(found.values())


def plan(database_url: str, *, folder: Path, place: str = "the database") -> MigrationPlan:
    """Return the plan for a database without changing it; refuse a database of an incompatible version."""
    with _connected(database_url) as connection:
        return _plan(connection, find_migrations(folder), place=place)


def check(connection: PostgresConnection, *, folder: Path, place: str) -> MigrationPlan:
    """Return the plan for the database of a connection, as `plan` does."""
    return _plan(connection, find_migrations(folder), place=place)


def migrate(
    database_url: str,
    *,
    folder: Path,
    on_apply: Callable[[Migration], None] = lambda _: None,
    place: str = "the database",
    role: str | None = None,
) -> MigrationPlan:
    """Apply the pending migrations, each in one transaction with its history row; return the plan that was executed.

    What they create belongs to the given role, or else to the one that connects.
    """
    migrations = find_migrations(folder)
    with _connected(database_url) as connection:
        if role is not None:
            connection.execute(f"set role {quoted(role)}".encode())
        # Concurrent migrations would apply a file twice: the second waits, then finds nothing to do.
        connection.execute("select pg_advisory_lock(%s)", [_LOCK_KEY])
        try:
            todo = _plan(connection, migrations, place=place)
            if todo.pending and not todo.applied:
                _make_history(connection)
            for migration in todo.pending:
                on_apply(migration)
                _apply(connection, migration)
            if todo.pending:
                connection.execute("notify pgrst, 'reload schema'")
        finally:
            if not connection.closed and not connection.broken:
                connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])
    return todo


def _plan(connection: PostgresConnection, migrations: list[Migration], *, place: str) -> MigrationPlan:
    applied = _read_history(connection)
    require_known(applied, migrations, place=place)
    versions = [row.version for row in applied]
    return MigrationPlan(applied=versions, pending=[m for m in migrations if m.version not in set(versions)])


def _read_history(connection: PostgresConnection) -> list[Applied]:
    exists = connection.execute("select to_regclass('supabase_migrations.schema_migrations') is not null").fetchone()
    if not exists or not exists[0]:
        return []
    # Read as JSON because older history tables lack the columns `name` and `statements`.
    rows = connection.execute(
        "select version, to_jsonb(h) ->> 'name', to_jsonb(h) -> 'statements'"
        " from supabase_migrations.schema_migrations h order by version"
    )
    return [Applied(*row) for row in rows]


def _make_history(connection: PostgresConnection) -> None:
    with connection.transaction():
        connection.execute(_HISTORY)


def _apply(connection: PostgresConnection, migration: Migration) -> None:
    statements = migration.statements()
    statement = ""
    try:
        connection.execute("reset all")  # Settings of the previous file must not affect this one.
        settle(connection)
        lift_limits(connection)
        with translated(f"migration {migration.path.name}"), connection.transaction():
            for statement in statements:
                # Without parameters, a percent sign needs no escaping.
                connection.execute(statement.encode())
            statement = "insert into supabase_migrations.schema_migrations"
            connection.execute(
                "insert into supabase_migrations.schema_migrations (version, name, statements) values (%s, %s, %s)",
                [migration.version, migration.name, statements],
            )
    except TransientError:
        raise
    except OpenManusError as error:
        raise SchemaMismatch(
            f"{error.message}; the migration was rolled back; statement: {_shorten(statement)}",
            code=error.code,
            details={"migration": migration.path.name, "statement": statement, "postgres": error.details},
        ) from error


def _connected(database_url: str) -> AbstractContextManager[PostgresConnection]:
    return session(
        database_url,
        attempt="migrate the database",
        autocommit=True,
        retry=RetryPolicy(limit_seconds=_CONNECT_LIMIT_SECONDS),
    )


def _shorten(statement: str, *, limit: int = 300) -> str:
    flat = " ".join(statement.split())
    return flat if len(flat) <= limit else f"{flat[:limit]}…"
