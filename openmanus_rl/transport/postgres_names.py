"""Names in SQL, and the parameters of a Postgres connection."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from psycopg import conninfo

from openmanus_rl.transport.postgres import PostgresConnection

__all__ = ["quoted", "resolved_options", "resolved_url", "with_options"]


def quoted(names: str | Sequence[str]) -> str:
    """Return a name, or several, as SQL takes any name."""
    given = [names] if isinstance(names, str) else names
    return ", ".join('"' + name.replace('"', '""') + '"' for name in given)


def resolved_options(connection: PostgresConnection) -> dict[str, str]:
    """Return what libpq connected with, from the URL, the environment and its files; the password is among it."""
    return {option.keyword.decode(): (option.val or b"").decode() for option in connection.pgconn.info}


def resolved_url(connection: PostgresConnection) -> str:
    """Return a URL with all that libpq connected with but the password; needs no environment, nor its files."""
    found = {
        option.keyword.decode(): option.val.decode()
        for option in connection.pgconn.info
        # What another libpq presumes as well, it may not know by name.
        if option.val and option.val != option.compiled and option.keyword != b"password"
    }
    return with_options("postgresql://", **found)


def with_options(database_url: str, **changes: str | None) -> str:
    """Return the URL with other connection parameters, and without those that are None."""
    options = conninfo.conninfo_to_dict(database_url) | changes
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in options.items() if value is not None)
    return f"postgresql:///?{query}"
