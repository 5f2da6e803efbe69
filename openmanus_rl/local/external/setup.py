"""Set a database up, or bring it to this version: roles, keys, what a Supabase project has, and the migrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from openmanus_rl._setting_checks import database_address
from openmanus_rl.local import gateway_process, migrations
from openmanus_rl.local.assets import Assets
from openmanus_rl.local.external import checks, roles
from openmanus_rl.local.external.facts import Facts, read_facts
from openmanus_rl.local.external.keys import DatabaseKeys, ensure_keys
from openmanus_rl.local.external.pooling import require_sessions
from openmanus_rl.local.history import Migration
from openmanus_rl.local.migrations import MigrationPlan
from openmanus_rl.transport.postgres import PostgresConnection, lift_limits, session
from openmanus_rl.transport.postgres_names import quoted
from openmanus_rl.transport.retry import RetryPolicy

# An arbitrary number, the same in every version of this package.
_LOCK_KEY = 7_301_956_220_413
_CONNECT_LIMIT_SECONDS = 5.0
# Databases of one server that are set up at once create the same roles.
_ATTEMPTS = 3
# A duplicate object, a duplicate row of the catalogue, and a row of it that another transaction has just changed.
_MADE_MEANWHILE = ("42710", "23505", "XX000")
# As in the embedded Postgres: to compile a claim of the queue takes many times as long as to run it.
_WITHOUT_JIT = """
do $$
begin
  if (select pg_has_role(d.datdba, 'usage') from pg_database d where d.datname = current_database()) then
    execute format('alter database %I set jit = off', current_database());
  end if;
end
$$"""


def set_up(
    database_url: str,
    *,
    assets: Assets,
    deno: str,
    on_apply: Callable[[Migration], None] = lambda _: None,
) -> MigrationPlan:
    """Make what is missing, and apply the pending migrations; refuse before anything is written if that cannot work."""
    place = database_address(database_url)
    statements = gateway_process.system_schema(assets, deno)
    with opened(database_url) as connection:
        require_sessions(database_url, connection, place)
        facts = examine(connection, place)
        migrations.check(connection, folder=assets.migrations, place=place)
        owner = facts.owner or facts.login
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with connection.transaction():
                    keys = _prepare(connection, owner, statements)
                break
            except Exception as error:
                if getattr(error, "sqlstate", None) not in _MADE_MEANWHILE or attempt == _ATTEMPTS:
                    raise
        done = migrations.migrate(
            database_url, folder=assets.migrations, on_apply=on_apply, place=place, role=owner if facts.owner else None
        )
        with connection.transaction():
            _lock(connection)
            roles.grant_to_gateway(connection, keys)
            roles.ensure_policies(connection)
        connection.execute("notify pgrst, 'reload schema'")
    return done


def is_external(database_url: str) -> bool:
    """Return whether a database has neither a Supabase nor an embedded stack, so that it must be set up here."""
    with opened(database_url) as connection:
        facts = read_facts(connection)
    return not (facts.is_hosted or facts.is_embedded)


def examine(connection: PostgresConnection, place: str) -> Facts:
    """Return what a database is, if it can be set up by this role."""
    facts = read_facts(connection)
    checks.require_usable(facts, place)
    if facts.owner not in (None, facts.login) and facts.acts_for_owner:
        # Everything belongs to whoever began, and the rights that count are theirs.
        connection.execute(f"set role {quoted(facts.owner or '')}".encode())
        facts = read_facts(connection)
    checks.require_rights(facts, place)
    checks.require_empty(facts, place)
    return facts


@contextmanager
def opened(database_url: str) -> Iterator[PostgresConnection]:
    """Connect for a setup, which may wait for others and take its time."""
    retry = RetryPolicy(limit_seconds=_CONNECT_LIMIT_SECONDS)
    with session(database_url, attempt="set up the database", autocommit=True, retry=retry) as connection:
        lift_limits(connection)
        yield connection


def _prepare(connection: PostgresConnection, owner: str, statements: list[str]) -> DatabaseKeys:
    _lock(connection)
    # Read again: another machine may have done it all while this one waited.
    facts = read_facts(connection)
    roles.ensure_api_roles(connection, facts, owner)
    connection.execute(_WITHOUT_JIT)
    keys = ensure_keys(connection, facts.database)
    roles.ensure_gateway_role(connection, facts, keys)
    for statement in statements:
        connection.execute(statement.encode())
    return keys


def _lock(connection: PostgresConnection) -> None:
    """Let one machine at a time set up a database, until the transaction ends."""
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
