"""SQL validators on a real Postgres: they read, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.transport import sandbox_sql
from openmanus_rl.verification import ValidatorSpec, Verdict, verify

Verify = Callable[..., Verdict]


class Database:
    """What an SQL validator uses of a sandbox."""

    def __init__(self, url: str) -> None:
        self._url = url

    def database_url(self, service: str | None = None) -> str:
        """Return the URL, or refuse an unknown service."""
        if service not in (None, "db"):
            raise SandboxError(f"there is no service {service!r}")
        return self._url


@pytest.fixture
def table(stack: Any) -> Iterator[str]:
    """A table with two rows, as an agent may have left it."""
    name = f"public.verified_{uuid4().hex}"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f"create table {name} (id int, name text, price numeric, at date, tags text[], more jsonb)")
        connection.execute(f"insert into {name} values (1, 'Anna', 1.10, '2024-01-02', '{{a,b}}', '{{\"x\": true}}')")
        connection.execute(f"insert into {name} values (2, null, 2.5, null, null, null)")
        yield name
        connection.execute(f"drop table {name}")


@pytest.fixture
def check(stack: Any) -> Verify:
    """Return the verdict of a query."""

    def run(query: str, expected: Any, **spec: Any) -> Verdict:
        sandbox: Any = Database(stack.database_url)
        validator = ValidatorSpec("sql", {"query": query, "expected": expected, **spec})
        (verdict,) = verify([validator], answer=None, sandbox=sandbox)
        return verdict

    return run


def test_rows_are_compared_as_lists_or_by_column(check: Verify, table: str) -> None:
    whole = [[1, "Anna", 1.1, "2024-01-02", ["a", "b"], {"x": True}], [2, None, 2.5, None, None, None]]

    assert check(f"select * from {table} order by id", whole).outcome == "pass"
    assert check(f"select id, name from {table} order by id desc;", [[2, None], [1, "Anna"]]).outcome == "pass"
    by_column = [{"id": 2}, {"id": 1}]
    assert check(f"select * from {table}", by_column, unordered=True, extra_keys=True).outcome == "pass"
    assert check(f"select sum(price) from {table}", [[3.5]], tolerance=0.2).outcome == "pass"
    assert check(f"select name like '%nn%' from {table} where id = 1", [[True]], service="db").outcome == "pass"
    assert check(f"select id from {table} where false", []).outcome == "pass"
    verdict = check(f"select price from {table} where id = 1", [[1.2]])
    assert verdict.outcome == "fail"
    assert verdict.message == "rows[0][0]: 1.2 is expected, not 1.1"


@pytest.mark.parametrize(
    "query",
    [
        "delete from {table}",
        "with gone as (delete from {table} returning 1) select * from gone",
        "select 1; delete from {table}",
        "select 1; commit; delete from {table}",
        "select * from nowhere",
        "select 1 as a, 2 as a",
        "select 1/0",
        "select from where",
        "select generate_series(1, 20000)",
        "select set_config('transaction_read_only', 'off', false); delete from {table}",
    ],
)
def test_whatever_is_no_plain_select_is_an_error_and_changes_nothing(
    check: Verify, table: str, query: str, stack: Any
) -> None:
    assert check(query.format(table=table), [{"a": 1}]).outcome == "error"

    with psycopg.connect(stack.database_url) as connection:
        assert connection.execute(f"select count(*) from {table}").fetchone() == (2,)


def test_a_function_that_writes_is_an_error(check: Verify, table: str, stack: Any) -> None:
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        function = f"{table}_clear"
        connection.execute(
            f"create function {function}() returns int language plpgsql as"
            f" $$ begin set transaction read write; delete from {table}; return 1; end $$"
        )
        try:
            assert check(f"select {function}()", [[1]]).outcome == "error"
            assert connection.execute(f"select count(*) from {table}").fetchone() == (2,)
        finally:
            connection.execute(f"drop function {function}()")


def test_a_slow_query_is_an_error(check: Verify) -> None:
    verdict = check("select pg_sleep(60)", [[None]], timeout_seconds=0.2)

    assert verdict.outcome == "error"


def test_a_service_or_server_that_is_not_there_is_an_error(check: Verify) -> None:
    assert check("select 1", [[1]], service="web").outcome == "error"
    sandbox: Any = Database("postgresql://postgres@127.0.0.1:1/postgres")
    validator = ValidatorSpec("sql", {"query": "select 1", "expected": [[1]]})
    (verdict,) = verify([validator], answer=None, sandbox=sandbox)
    assert verdict.outcome == "error"


# Passes everything on to the real server, until it is stopped.
FORWARD = """
import asyncio, sys
host, port = sys.argv[1], int(sys.argv[2])
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def serve(reader, writer):
    there, back = await asyncio.open_connection(host, port)
    await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def test_a_server_that_an_agent_stopped_does_not_hold_up_verification(
    stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = psycopg.conninfo.conninfo_to_dict(stack.database_url)
    command = [sys.executable, "-c", FORWARD, str(real["host"]), str(real["port"])]
    monkeypatch.setattr(sandbox_sql, "_GRACE_SECONDS", 0.5)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        port = forward.stdout.readline().strip()
        url = psycopg.conninfo.make_conninfo(stack.database_url, host="127.0.0.1", port=port)
        sandbox: Any = Database(url)
        # It stops while the query runs, and the answer never comes.
        stop = threading.Timer(0.5, os.kill, [forward.pid, signal.SIGSTOP])
        stop.start()
        spec = {"query": "select pg_sleep(1.5)", "expected": [[None]], "timeout_seconds": 2}
        (verdict,) = verify([ValidatorSpec("sql", spec)], answer=None, sandbox=sandbox)
        stop.join()
        os.kill(forward.pid, signal.SIGCONT)
        forward.terminate()
    assert verdict.outcome == "error"
