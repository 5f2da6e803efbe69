"""Postgres itself, for migrations and COPY: connections with a time limit, failures translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from openmanus_rl._setting_checks import check_database_url
from openmanus_rl.gateway.retry import RetryPolicy
from openmanus_rl.gateway.translate import translated

__all__ = ["connect", "session"]

PostgresConnection = psycopg.Connection[tuple[Any, ...]]


def connect(
    database_url: str,
    *,
    autocommit: bool = False,
    connect_timeout_seconds: float = 5.0,
    retry: RetryPolicy | None = None,
) -> PostgresConnection:
    """Open a connection, trying again while the server can't be reached or is starting."""
    check_database_url(database_url)

    def attempt(_remaining_seconds: float) -> PostgresConnection:
        with translated("connect to Postgres"):
            return psycopg.connect(
                database_url,
                autocommit=autocommit,
                # libpq takes whole seconds, and 1 means 2.
                connect_timeout=max(2, round(connect_timeout_seconds)),
                application_name="openmanus-rl",
                # A pooler, such as Supabase's, may give each transaction another session.
                prepare_threshold=None,
            )

    return (retry or RetryPolicy()).run(attempt)


@contextmanager
def session(
    database_url: str,
    *,
    attempt: str,
    autocommit: bool = False,
    connect_timeout_seconds: float = 5.0,
    retry: RetryPolicy | None = None,
) -> Iterator[PostgresConnection]:
    """Give a connection for the block: committed at its end, rolled back if it fails, closed in any case."""
    connection = connect(
        database_url, autocommit=autocommit, connect_timeout_seconds=connect_timeout_seconds, retry=retry
    )
    with translated(attempt), connection:
        yield connection
