"""Direct connections to Postgres, for migrations and COPY, with time limits and translated errors.

Any local process may listen on a port of this machine. Passwords for this machine are therefore used with SCRAM only:
the server must prove that it knows the password, and never sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo, pq

from openmanus_rl._setting_checks import check_database_url
from openmanus_rl.errors import SettingsError
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.translate import translated

__all__ = ["answers", "connect", "lift_limits", "session", "settle"]

PostgresConnection = psycopg.Connection[tuple[Any, ...]]


def connect(
    database_url: str,
    *,
    autocommit: bool = False,
    connect_timeout_seconds: float = 5.0,
    retry: RetryPolicy | None = None,
) -> PostgresConnection:
    """Open a connection; retry while the server can't be reached or is starting."""
    check_database_url(database_url)
    protection = _protection(database_url)

    def attempt(_remaining_seconds: float) -> PostgresConnection:
        with translated("connect to Postgres"):
            connection = psycopg.connect(
                database_url,
                autocommit=True,
                # libpq takes whole seconds, and 1 means 2.
                connect_timeout=max(2, round(connect_timeout_seconds)),
                application_name="openmanus-rl",
                # Not what the environment, the role or the database has: any text is recorded.
                client_encoding="utf8",
                # A pooler, such as Supabase's, may use another session for each transaction.
                prepare_threshold=None,
                **protection,
            )
            settle(connection)
            connection.autocommit = autocommit
            return connection

    return (retry or RetryPolicy()).run(attempt)


def answers(database_url: str, *, timeout_seconds: float) -> bool:
    """Return whether a Postgres server responds; does not sign in."""
    address = conninfo.conninfo_to_dict(database_url)
    # Without a password libpq stops at the server's request for one, which shows that it responds.
    address.pop("password", None)
    # libpq takes whole seconds, and 1 means 2.
    address |= {"passfile": "/nonexistent", "connect_timeout": max(2, round(timeout_seconds))}
    answer = pq.Ping(pq.PGconn.ping(conninfo.make_conninfo("", **address).encode()))
    return answer in (pq.Ping.OK, pq.Ping.REJECT)


@contextmanager
def session(
    database_url: str,
    *,
    attempt: str,
    autocommit: bool = False,
    connect_timeout_seconds: float = 5.0,
    retry: RetryPolicy | None = None,
) -> Iterator[PostgresConnection]:
    """Open a connection for the block: commit at its end, roll back on an error, and close it."""
    connection = connect(
        database_url, autocommit=autocommit, connect_timeout_seconds=connect_timeout_seconds, retry=retry
    )
    with translated(attempt), connection:
        yield connection


# What the server tells of these, and how our SQL and psycopg are written. A database or a role may have them otherwise.
_WRITTEN_FOR = {"standard_conforming_strings": "on", "DateStyle": "ISO"}


def settle(connection: PostgresConnection) -> None:
    """Give a session the settings that statements and values are written for."""
    for name, value in _WRITTEN_FOR.items():
        if not (connection.info.parameter_status(name) or value).startswith(value):
            connection.execute(f"set {name} = {value}".encode())


# By name, because a server knows only those of its version.
_LIFT_LIMITS = b"""
select set_config(name, '0', false) from pg_catalog.pg_settings
where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout',
  'idle_session_timeout')
"""


def lift_limits(connection: PostgresConnection) -> None:
    """Let the statements of a session, and their waiting for others, take as long as they take."""
    connection.execute(_LIFT_LIMITS)


_LOOPBACK = ("127.", "localhost", "::1")
_FIRST_LIBPQ_TO_REQUIRE = 160000


def _protection(database_url: str) -> dict[str, Any]:
    """Return libpq options that keep a password for this machine from other processes on its port."""
    try:
        given = conninfo.conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:
        return {}  # Connecting reports what is wrong with it.
    hosts = str(given.get("hostaddr") or given.get("host") or "").split(",")
    is_local = any(host.startswith(_LOOPBACK) for host in hosts)
    if not is_local or not given.get("password") or given.get("require_auth"):
        return {}
    if pq.version() < _FIRST_LIBPQ_TO_REQUIRE:
        raise SettingsError(
            f"libpq {pq.version() // 10000} cannot require SCRAM, and would send the database password to any server",
            setting="DATABASE_URL",
            hint="install `psycopg[binary]`, which brings a newer libpq",
        )
    return {"require_auth": "scram-sha-256"}
