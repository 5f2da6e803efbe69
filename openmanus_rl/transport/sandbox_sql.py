"""Reads rows from the Postgres of a rollout's environment, which the agent may have changed in any way."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any
from uuid import UUID

import psycopg

from openmanus_rl.errors import TooLargeError
from openmanus_rl.transport.translate import translated

__all__ = ["Rows", "read_rows"]

_CONNECT_SECONDS = 10
_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Rows:
    """The result of a query; values are as JSON has them, but for exact decimals."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def read_rows(database_url: str, query: str, *, timeout_seconds: float, max_rows: int = 10_000) -> Rows:
    """Return the rows of a `select`, read in a transaction that can't write; more than `max_rows` is an error.

    It is declared as a cursor: Postgres then takes no other kind of statement, and no second one.
    """
    options = f"-c default_transaction_read_only=on -c statement_timeout={max(1, round(timeout_seconds * 1000))}"
    with (
        translated("query the environment's database"),
        psycopg.connect(
            database_url, connect_timeout=_CONNECT_SECONDS, application_name="openmanus-rl", options=options
        ) as connection,
        _ended_after(connection, timeout_seconds + _GRACE_SECONDS),
    ):
        statement = f"declare verified no scroll cursor for {query.strip().rstrip(';')}"
        connection.execute(statement.encode(), prepare=True)
        cursor = connection.execute(f"fetch forward {max_rows + 1} from verified".encode())
        rows = cursor.fetchall()
        columns = tuple(column.name for column in cursor.description or ())
    if len(rows) > max_rows:
        raise TooLargeError(f"the query returns more than {max_rows:,} rows", field="query")
    return Rows(columns, [tuple(_plain(value) for value in row) for row in rows])


@contextmanager
def _ended_after(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Break the connection after some time: a server that was stopped keeps no time limit of its own."""
    descriptor = os.dup(connection.fileno())
    timer = threading.Timer(seconds, _shut, [descriptor])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        os.close(descriptor)


def _shut(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as other_end:
        other_end.shutdown(socket.SHUT_RDWR)


def _plain(value: Any) -> Any:
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, timedelta)):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return f"\\x{bytes(value).hex()}"
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
