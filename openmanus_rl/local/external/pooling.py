"""Whether a connection pooler in between gives each transaction another session."""

from __future__ import annotations

from openmanus_rl.errors import OpenManusError, SettingsError
from openmanus_rl.transport.postgres import PostgresConnection, connect
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.translate import translated


def require_sessions(database_url: str, connection: PostgresConnection, place: str) -> None:
    """Refuse a pooler in transaction mode: notifications, temporary tables and locks belong to sessions."""
    before = _server_process(connection)
    # A pooler tells every client a process of its own invention, for cancelling.
    if before == connection.pgconn.backend_pid:
        return
    try:
        retry = RetryPolicy(limit_seconds=0)
        with translated("look for a pooler"), connect(database_url, retry=retry) as other:
            # While this transaction has the server's process, a pooler in transaction mode needs another one for us.
            _server_process(other)
            connection.execute("set statement_timeout = '5s'")
            after = _server_process(connection)
    except OpenManusError:
        after = None  # There is no other process for us: the pool has one only.
    if after == before:
        connection.execute("set statement_timeout = 0")
        return
    raise SettingsError(
        f"{place} is a connection pooler in transaction mode, which keeps no sessions",
        setting="DATABASE_URL",
        hint="use the address of the server itself (Neon: without `-pooler` in the host name; Supabase: port 5432), "
        "or set pool_mode=session in PgBouncer",
    )


def _server_process(connection: PostgresConnection) -> int:
    row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None, "every connection has a process"
    return int(row[0])
