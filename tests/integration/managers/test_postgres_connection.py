"""A connection to Postgres itself: committed at its end, rolled back on failure, failures translated."""

from __future__ import annotations

from typing import Any

import pytest

from openmanus_rl.errors import AuthError, ConflictError, NotFoundError, SchemaMismatch
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.postgres import connect, session
from openmanus_rl.transport.rest import Row

INSERT = "insert into public.environments (id, name) values (%s, %s)"


def names(database_url: str, prefix: str) -> list[str]:
    with session(database_url, attempt="look") as connection:
        rows = connection.execute("select name from public.environments where name like %s", [prefix + "%"])
        return [str(row[0]) for row in rows.fetchall()]


def test_a_session_commits_what_ended_well_and_nothing_else(stack: Any) -> None:
    prefix = f"connection {new_id()}"
    with session(stack.database_url, attempt="add an environment") as connection:
        connection.execute(INSERT, [new_id(), prefix + " kept"])

    def add_both() -> None:
        with session(stack.database_url, attempt="add an environment") as connection:
            connection.execute(INSERT, [new_id(), prefix + " lost"])
            connection.execute(INSERT, [new_id(), prefix + " kept"])

    with pytest.raises(ConflictError, match="add an environment: duplicate key") as caught:
        add_both()

    assert caught.value.field == "name"
    assert names(stack.database_url, prefix) == [prefix + " kept"]
    assert connection.closed


def test_our_own_codes_arrive_as_our_own_errors(stack: Any, run: Row) -> None:
    with (
        pytest.raises(NotFoundError, match=r"training run .*: unknown"),
        session(stack.database_url, attempt="beat") as connection,
    ):
        connection.execute("select public.heartbeat(%s)", [new_id()])
    with (
        pytest.raises(SchemaMismatch, match="openmanus-rl migrate"),
        session(stack.database_url, attempt="x") as connection,
    ):
        connection.execute("select * from public.no_such_table")
    assert run["id"]


def test_a_wrong_password_and_a_missing_database_are_said_at_once(stack: Any) -> None:
    address = stack.database_url.rsplit("@", 1)[1]
    with pytest.raises(AuthError, match="DATABASE_URL") as caught:
        connect(f"postgresql://postgres:hunter2@{address}")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(NotFoundError, match="no_such_database"):
        connect(stack.database_url.rsplit("/", 1)[0] + "/no_such_database")
