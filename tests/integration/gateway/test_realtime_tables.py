"""Live changes of any published table, under row level security: what arrives, in which form, and for whom."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import websockets.sync.client
from psycopg.types.json import Jsonb
from websockets.sync.client import ClientConnection

from .process import Gateway, GatewaySettings, eventually

TABLES_SQL = """
create table public.postcards (
  id bigint primary key,
  owner uuid,
  body text,
  secret text,
  price numeric(10, 2),
  tags text[],
  extra jsonb,
  written_at timestamptz,
  part varchar(3)
);
create table public.jottings (id int, part text, body text, primary key (id, part));
create table public.keyless (body text);
create table public.unpublished (id int primary key);
create domain public.filled as text not null check (value <> '');
create domain public.document as jsonb;
create table public.peculiar (
  id int primary key, name public.filled, extra public.document, raw json, numbers numeric[]
);
create table public.touchy (id int primary key);
alter table public.touchy enable row level security;
create policy "one divided by the id" on public.touchy for select to anon using (1 / id > 0);
create policy "all of touchy" on public.touchy for select to service_role using (true);
grant select on public.peculiar, public.touchy to anon, service_role;
alter table public.postcards enable row level security;
create policy "postcards are for their owners" on public.postcards for select to authenticated
  using (owner = auth.uid());
create policy "all postcards" on public.postcards for select to service_role using (true);
grant select (id, owner, body, price, tags, extra, written_at) on public.postcards to authenticated;
grant select on public.postcards to service_role;
grant select on public.jottings, public.keyless, public.unpublished to anon, authenticated, service_role;
alter publication supabase_realtime add table public.postcards, public.jottings, public.keyless, public.peculiar,
  public.touchy;
"""
ME, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
MOST = 9_007_199_254_740_993
"""An integer that no double holds."""


class Socket:
    """A client of Realtime that speaks its protocol by hand."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ref = 0

    def join(self, topic: str = "any", *, token: str = "", **config: Any) -> dict[str, Any]:
        """Join a channel and return the reply."""
        payload = {"config": config, "access_token": token}
        self.send(topic, "phx_join", payload)
        reply = self.next("phx_reply")
        answer: dict[str, Any] = reply["payload"]
        return answer

    def follow(self, token: str = "", **binding: Any) -> Socket:
        """Join a channel with one binding, and wait until changes are told."""
        asked = {"event": "*", "schema": "public", **binding}
        answer = self.join(token=token, postgres_changes=[asked])
        assert answer["status"] == "ok", answer
        assert self.next("system")["payload"]["status"] == "ok"
        return self

    def send(self, topic: str, event: str, payload: dict[str, Any]) -> None:
        self._ref += 1
        message = {"topic": f"realtime:{topic}", "event": event, "payload": payload, "ref": str(self._ref)}
        self._connection.send(json.dumps(message | {"join_ref": "1"}))

    def next(self, event: str, *, seconds: float = 60) -> dict[str, Any]:
        """Return the next message of an event."""
        deadline = time.monotonic() + seconds
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=max(0.01, deadline - time.monotonic())))
            if message["event"] == event:
                return message

    def change(self) -> dict[str, Any]:
        data: dict[str, Any] = self.next("postgres_changes")["payload"]["data"]
        return data


@contextmanager
def opened(gateway: Gateway, key: str | None = None, **options: Any) -> Iterator[Socket]:
    address = gateway.url.replace("http", "ws") + "/realtime/v1/websocket?vsn=1.0.0&apikey="
    address += key or gateway.settings.publishable_key
    with websockets.sync.client.connect(address, **options) as connection:
        yield Socket(connection)


@pytest.fixture(scope="module")
def tables(settings: GatewaySettings) -> Iterator[None]:
    with psycopg.connect(settings.database_url, autocommit=True) as sql:
        sql.execute(TABLES_SQL)
        yield
        sql.execute("drop table public.postcards, public.jottings, public.keyless, public.unpublished, public.touchy")
        sql.execute("drop table public.peculiar; drop domain public.filled, public.document")


@pytest.fixture
def sql(settings: GatewaySettings, tables: None) -> Iterator[psycopg.Connection]:  # noqa: ARG001
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        yield connection
        connection.execute("truncate public.postcards, public.jottings, public.peculiar, public.touchy")


@pytest.fixture
def connect(gateway: Gateway) -> Iterator[Callable[..., Socket]]:
    managers = []

    def one(key: str | None = None, **options: Any) -> Socket:
        managers.append(opened(gateway, key, **options))
        return managers[-1].__enter__()

    yield one
    for manager in managers:
        manager.__exit__(None, None, None)


def member(gateway: Gateway, user: str = ME) -> str:
    return gateway.settings.jwt(role="authenticated", sub=user)


def test_inserts_updates_and_deletes_come_as_hosted_realtime_tells_them(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    socket = connect(gateway.settings.secret_key).follow(table="postcards")
    sql.execute(
        "insert into postcards values"
        " (%s, %s, 'hello', 'hidden', 12.50, '{a,\"b,c\"}', %s, '2026-01-02 03:04:05.678901+00')",
        [MOST, ME, Jsonb({"n": [1, 2.5]})],
    )
    inserted = socket.change()
    assert (inserted["type"], inserted["schema"], inserted["table"]) == ("INSERT", "public", "postcards")
    assert inserted["errors"] is None
    assert inserted["record"] == {
        "id": MOST,
        "owner": ME,
        "body": "hello",
        "secret": "hidden",
        "price": 12.5,
        "tags": ["a", "b,c"],
        "extra": {"n": [1, 2.5]},
        "written_at": "2026-01-02T03:04:05.678901+00:00",
        "part": None,
    }
    assert {"name": "price", "type": "numeric"} in inserted["columns"]
    assert {"name": "tags", "type": "_text"} in inserted["columns"]
    assert "old_record" not in inserted

    sql.execute("update postcards set body = null")
    updated = socket.change()
    assert (updated["type"], updated["record"]["body"], updated["old_record"]) == ("UPDATE", None, {"id": MOST})
    sql.execute("update postcards set id = 7")
    assert socket.change()["old_record"] == {"id": MOST}
    sql.execute("delete from postcards")
    deleted = socket.change()
    assert (deleted["type"], deleted["old_record"]) == ("DELETE", {"id": 7})
    assert "record" not in deleted


def test_rows_and_columns_go_to_whom_the_database_shows_them(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    mine, others = (connect().follow(member(gateway, user), table="postcards") for user in (ME, OTHER))
    nobody = connect().follow(table="postcards")
    sql.execute(
        "insert into postcards (id, owner, body, secret) values (1, %s, 'mine', 's'), (2, %s, 'theirs', 's')",
        [ME, OTHER],
    )
    assert mine.change()["record"]["id"] == 1
    told = others.change()
    assert told["record"]["body"] == "theirs"
    assert "secret" not in told["record"]
    assert "secret" not in {column["name"] for column in told["columns"]}
    # Without the right to read the table not even that a row is gone.
    sql.execute("delete from postcards where id = 1")
    assert mine.change()["old_record"] == {"id": 1}
    with pytest.raises(TimeoutError):
        nobody.next("postgres_changes", seconds=1)


FILTERS = {
    "id=eq.2": [2],
    "id=neq.2": [1, 3, 99],
    "id=in.(1,3)": [1, 3],
    "id=not.in.(1,3)": [2, 99],
    "id=gte.2": [2, 3, 99],
    "price=eq.1.50": [1],
    "price=lt.2": [1],
    "price=is.null": [99],
    "price=not.is.null": [1, 2, 3],
    "price=isdistinct.null": [1, 2, 3],
    "price=isdistinct.10": [1, 3, 99],
    "body=eq.a,b": [2],
    'body=eq."a,b"': [2],
    'body=in.("a,b",c)': [2, 3],
    "body=like.a%": [1, 2],
    "body=not.like.a%": [3, 99],
    "body=ilike.A": [1],
    "body=match.^(a|c)$": [1, 3],
    "body=imatch.^A,": [2],
    "part=eq.abcd": [],
    "id=gt.1,price=gt.9.5": [2],
    "id=lt.99,body=neq.c,written_at=is.null": [1],
    "written_at=gt.2026-01-01": [3],
}


def test_filters_compare_as_the_type_of_their_column_does(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    socket = connect(gateway.settings.secret_key)
    asked = [{"event": "INSERT", "schema": "public", "table": "postcards", "filter": text} for text in FILTERS]
    answer = socket.join(postgres_changes=asked)
    assert answer["status"] == "ok", answer
    sql.execute(
        "insert into postcards (id, body, part, price, written_at) values (1, 'a', 'abc', 1.5, null),"
        " (2, 'a,b', 'abc', 10, '2025-12-31'), (3, 'c', 'abc', 9, '2026-02-01'), (99, 'end', 'abc', null, null)"
    )
    found: dict[int, list[int]] = {binding["id"]: [] for binding in answer["response"]["postgres_changes"]}
    for _ in range(4):
        change = socket.next("postgres_changes")["payload"]
        for binding in change["ids"]:
            found[binding].append(change["data"]["record"]["id"])
    assert dict(zip(FILTERS, found.values(), strict=True)) == FILTERS


def test_values_that_json_or_a_domain_would_refuse_are_told_as_they_are_stored(
    connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    socket = connect().follow(table="peculiar")
    sql.execute("""insert into peculiar values (1, 'x', '{"a": [1]}', '"\\u0000"', '{NaN,Infinity}')""")
    assert socket.change()["record"] == {
        "id": 1,
        "name": "x",
        "extra": {"a": [1]},
        "raw": "\0",
        "numbers": ["NaN", "Infinity"],
    }
    sql.execute("update peculiar set name = 'y'")
    assert socket.change()["record"]["name"] == "y"
    sql.execute("delete from peculiar")
    assert socket.change()["old_record"] == {"id": 1}


def test_a_policy_that_fails_costs_only_its_own_listeners_and_they_are_told(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    failing, other = connect().follow(table="touchy"), connect(gateway.settings.secret_key).follow(table="touchy")
    sql.execute("insert into touchy values (0)")
    said = failing.next("system")["payload"]
    assert (said["status"], "missing" in said["message"]) == ("error", True)
    assert other.change()["record"] == {"id": 0}
    sql.execute("insert into touchy values (1)")
    assert other.change()["record"] == {"id": 1}


def test_a_filter_does_not_tell_what_its_column_hides(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    socket = connect().follow(member(gateway), table="postcards", filter="secret=eq.guess")
    sql.execute("insert into postcards (id, owner, secret) values (1, %s, 'guess')", [ME])
    with pytest.raises(TimeoutError):
        socket.next("postgres_changes", seconds=1)


def test_keys_of_several_columns_whole_schemas_and_chosen_columns(
    connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    everything = connect().follow()
    chosen = connect().follow(table="jottings", select=["body"], event="UPDATE")
    sql.execute("insert into jottings values (1, 'a', 'x')")
    sql.execute("update jottings set body = 'y'")
    assert [everything.change()["type"] for _ in range(2)] == ["INSERT", "UPDATE"]
    updated = chosen.change()
    assert updated["record"] == {"id": 1, "part": "a", "body": "y"}
    assert updated["old_record"] == {"id": 1, "part": "a"}


def test_many_changes_come_once_each_and_in_order(connect: Callable[..., Socket], sql: psycopg.Connection) -> None:
    socket = connect().follow(table="jottings")
    for first in range(0, 2000, 500):
        sql.execute("insert into jottings select n, 'p', 'x' from generate_series(%s::int, %s) n", [first, first + 499])
    assert [socket.change()["record"]["id"] for _ in range(2000)] == list(range(2000))


def test_a_rolled_back_change_is_never_told(connect: Callable[..., Socket], sql: psycopg.Connection) -> None:
    socket = connect().follow(table="jottings")
    with sql.transaction(force_rollback=True):
        sql.execute("insert into jottings values (1, 'a', 'x')")
    sql.execute("insert into jottings values (2, 'a', 'x')")
    assert socket.change()["record"]["id"] == 2


def test_a_value_that_is_too_long_is_left_out_and_said_so(
    connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    socket = connect().follow(table="jottings")
    sql.execute("insert into jottings values (1, 'a', repeat('x', 2000000))")
    told = socket.change()
    assert (told["record"], told["errors"]) == ({"id": 1, "part": "a"}, ["Error 413: Payload Too Large"])


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        ({"table": "unpublished"}, "alter publication supabase_realtime add table public.unpublished"),
        ({"table": "nothing"}, "not published"),
        ({"schema": "auth", "table": "users"}, "not published"),
        ({"table": "keyless"}, "no primary key"),
        ({"table": "postcards", "event": "TRUNCATE"}, "TRUNCATE"),
        ({"table": "postcards", "filter": "nonsense"}, "column=eq.value"),
        ({"table": "postcards", "filter": "nothing=eq.1"}, "no column nothing"),
        ({"table": "postcards", "filter": "id=eq.one"}, "invalid input syntax for type bigint"),
        ({"filter": "id=eq.1"}, "needs a table"),
        ({"table": "jot\0tings"}, "0x00"),
        ({"table": "postcards", "filter": "body=match.("}, "parentheses"),
        ({"table": "postcards", "filter": "body=is.true"}, "is compares with null"),
    ],
)
@pytest.mark.usefixtures("tables")
def test_what_would_never_be_told_is_refused_in_words(
    connect: Callable[..., Socket], binding: dict[str, Any], reason: str
) -> None:
    answer = connect().join(postgres_changes=[{"event": "*", "schema": "public", **binding}])
    assert answer["status"] == "error"
    assert reason in answer["response"]["reason"]


def test_a_client_that_does_not_read_is_let_go(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    idle, other = connect(gateway.settings.secret_key, max_queue=1, close_timeout=0.1), connect()
    for socket, key, asked in ((other, "other", []), (idle, "idle", [{"event": "*", "schema": "public"}])):
        assert socket.join("room", postgres_changes=asked, presence={"key": key})["status"] == "ok"
    idle.send("room", "presence", {"event": "track", "payload": {}})
    assert "idle" in other.next("presence_diff")["payload"]["joins"]
    sql.execute("insert into jottings select n, 'p', repeat('x', 500000) from generate_series(1, 40) n")
    assert "idle" in other.next("presence_diff", seconds=20)["payload"]["leaves"]


def test_who_listens_is_told_that_changes_were_missed_and_can_listen_again(
    gateway: Gateway, connect: Callable[..., Socket], sql: psycopg.Connection
) -> None:
    socket = connect().follow(table="jottings")
    sql.execute("select pg_terminate_backend(active_pid) from pg_replication_slots where temporary and active")
    said = socket.next("system")["payload"]
    assert (said["status"], "missing" in said["message"]) == ("error", True)
    socket.next("phx_close")
    again: list[Socket] = []

    def joins() -> bool:
        found = connect()
        answer = found.join(postgres_changes=[{"event": "*", "schema": "public", "table": "jottings"}])
        again.append(found)
        return bool(answer["status"] == "ok")

    eventually(joins)
    sql.execute("insert into jottings values (1, 'a', 'x')")
    assert again[-1].change()["record"]["id"] == 1
    assert gateway.process.poll() is None


def test_no_slot_is_left_behind(settings: GatewaySettings, sql: psycopg.Connection) -> None:
    def slots() -> int:
        found = sql.execute("select count(*) from pg_replication_slots where slot_name like 'openmanus%'").fetchone()
        assert found is not None
        return int(found[0])

    eventually(lambda: slots() == 0)
    with Gateway(settings) as own:
        with opened(own) as socket:
            socket.follow(table="jottings")
            assert slots() == 1
        eventually(lambda: slots() == 0)
        with opened(own) as socket:
            socket.follow(table="jottings")
            own.process.kill()
            own.process.wait()
    eventually(lambda: slots() == 0)
