"""Databases to hammer: a migrated one for the whole session, fresh ones for whoever changes the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import psycopg
import pytest

from openmanus_rl.local.cluster import installed_binaries

from .servers import Server, apply_migrations, make_system_schema
from .writing import Database


@pytest.fixture(scope="session")
def server(one_at_a_time: Callable[[], AbstractContextManager[None]]) -> Iterator[Server]:
    """The Postgres of the embedded stack, with databases `system` (before the migrations) and `migrated`."""
    with ExitStack() as opened:
        with one_at_a_time():
            server = opened.enter_context(Server(installed_binaries().folder))
        make_system_schema(server.create_database("system"))
        apply_migrations(server.create_database("migrated", template="system"))
        yield server


@pytest.fixture(scope="session")
def database(server: Server) -> Database:
    """One migrated database that tests share: each makes its own runs in it."""
    return Database(server.create_database("shared", template="migrated"))


@pytest.fixture
def connect(database: Database) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    """Open sessions on the shared database, each with its own transaction, closed with the test."""
    opened: list[psycopg.Connection[Any]] = []

    def open_connection() -> psycopg.Connection[Any]:
        opened.append(database.connect())
        return opened[-1]

    yield open_connection
    for connection in opened:
        connection.close()


@pytest.fixture
def db(connect: Callable[[], psycopg.Connection[Any]]) -> psycopg.Connection[Any]:
    """A session on the shared database, as its owner, that commits every statement."""
    return connect()
