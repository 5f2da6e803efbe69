"""Live changes through supabase-js as a browser would get them: what arrives, for whom, and at what cost."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import queue
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import psycopg
import pytest
import websockets.sync.client
from supabase import AsyncClient, Client, create_async_client

from .process import ROOT, Gateway, GatewaySettings, deno_binary, eventually

SCRIPT = ROOT / "tests" / "integration" / "gateway" / "realtime.ts"
PERMISSIONS = ["--no-config", "--no-lock", "--allow-net=127.0.0.1", "--allow-env"]
EVERYTHING = {"event": "*", "schema": "public", "table": "activity"}
# The product's table, with policies that are easy to see through: a row is for its owner, or for all.
ACTIVITY_SQL = """
create table public.activity (
  id uuid primary key default gen_random_uuid(),
  training_run_id uuid unique nulls not distinct,
  changed_at timestamptz not null default clock_timestamp()
);
create table public.activity_owners (training_run_id uuid primary key, owner uuid);
alter table public.activity enable row level security;
create function public.owner_of(run uuid) returns uuid language sql stable security definer
  as $$ select o.owner from public.activity_owners o where o.training_run_id = run $$;
create policy "rows are for their owners or for all" on public.activity for select to anon, authenticated
  using (coalesce(public.owner_of(training_run_id) = auth.uid(), public.owner_of(training_run_id) is null));
grant select on public.activity to anon, authenticated, service_role;
"""


class Browser:
    """A running supabase-js client and what it has said."""

    def __init__(self, url: str, key: str, binding: dict[str, str], token: str = "") -> None:
        self._process = subprocess.Popen(
            [deno_binary(), "run", *PERMISSIONS, str(SCRIPT), url, key, json.dumps(binding), token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def next(self, kind: str, *, seconds: float = 60) -> Any:
        """Return the next thing of a kind that the client says."""
        deadline = time.monotonic() + seconds
        while True:
            said = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            if kind in said:
                return said if kind == "status" else said[kind]

    def joined(self) -> Browser:
        """Wait until changes are told."""
        while self.next("status")["status"] != "SUBSCRIBED":
            pass
        assert self.next("system")["status"] == "ok"
        return self

    def changed_run(self) -> str | None:
        run: str | None = self.next("change")["new"]["training_run_id"]
        return run

    def tell(self, **what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def activity(settings: GatewaySettings) -> Iterator[None]:
    with psycopg.connect(settings.database_url, autocommit=True) as sql:
        sql.execute(ACTIVITY_SQL)
    yield
    with psycopg.connect(settings.database_url, autocommit=True) as sql:  # Anew: Postgres was restarted meanwhile.
        sql.execute("drop table public.activity, public.activity_owners; drop function public.owner_of")


@pytest.fixture
def own_gateway(settings: GatewaySettings, activity: None) -> Iterator[Gateway]:  # noqa: ARG001
    """A gateway that nobody else listens to, and that this test may harm."""
    with Gateway(settings) as running:
        yield running


@pytest.fixture
def browse(own_gateway: Gateway) -> Iterator[Callable[..., Browser]]:
    opened: list[Browser] = []

    def open_one(*, token: str = "", key: str | None = None, **binding: str) -> Browser:
        key = key or own_gateway.settings.publishable_key
        opened.append(Browser(own_gateway.url, key, EVERYTHING | binding, token))
        return opened[-1]

    yield open_one
    for browser in opened:
        browser.end()


def new_run(sql: psycopg.Connection, owner: str | None = None) -> str:
    """Make a run's row without telling anybody of it; return the run."""
    run = sql.execute("select gen_random_uuid()::text").fetchone()
    assert run is not None
    sql.execute("insert into public.activity_owners values (%s, %s)", (run[0], owner))
    sql.execute("insert into public.activity (training_run_id) values (%s)", run)
    return str(run[0])


def mark(sql: psycopg.Connection, run: str) -> None:
    sql.execute("update public.activity set changed_at = clock_timestamp() where training_run_id = %s", (run,))


def token_of(client: Client) -> tuple[str, str]:
    session = client.auth.get_session()
    assert session is not None
    return session.user.id, session.access_token


def test_a_change_arrives_as_hosted_realtime_tells_it(browse: Callable[..., Browser], sql: psycopg.Connection) -> None:
    run = new_run(sql)
    browser = browse().joined()
    mark(sql, run)
    change = browser.next("change")
    row = sql.execute("select to_jsonb(a) from public.activity a where training_run_id = %s", (run,)).fetchone()
    assert row is not None
    assert change["new"] == row[0]
    assert (change["schema"], change["table"], change["eventType"]) == ("public", "activity", "UPDATE")
    assert change["errors"] is None
    fresh = new_run(sql)
    assert browser.changed_run() == fresh, "a new row is a change too"


def test_rows_go_to_whom_row_level_security_shows_them(
    browse: Callable[..., Browser], sql: psycopg.Connection, member: Client, own_gateway: Gateway
) -> None:
    user, token = token_of(member)
    stranger = own_gateway.settings.jwt(role="authenticated", sub="00000000-0000-4000-8000-000000000000")
    private, public = new_run(sql, owner=user), new_run(sql)
    owner = browse(token=token).joined()
    others = [browse().joined(), browse(token=stranger).joined()]
    admin = browse(key=own_gateway.settings.secret_key).joined()
    mark(sql, private)
    assert owner.changed_run() == private
    assert admin.changed_run() == private
    mark(sql, public)
    assert [browser.changed_run() for browser in others] == [public, public], "the private one must not have come"


def test_who_came_first_may_go_first(
    browse: Callable[..., Browser], sql: psycopg.Connection, own_gateway: Gateway
) -> None:
    run = new_run(sql)
    first = browse().joined()
    stranger = own_gateway.settings.jwt(role="authenticated", sub="00000000-0000-4000-8000-000000000000")
    later = browse(token=stranger).joined()
    first.end()
    for _ in range(5):
        mark(sql, run)
        assert later.changed_run() == run


def test_a_filter_leaves_other_runs_out(browse: Callable[..., Browser], sql: psycopg.Connection) -> None:
    first, second = new_run(sql), new_run(sql)
    browser = browse(filter=f"training_run_id=eq.{second}").joined()
    everything = browse().joined()
    mark(sql, first)
    assert everything.changed_run() == first
    mark(sql, second)
    assert browser.changed_run() == second


def test_a_mark_that_is_committed_late_is_not_missed(
    browse: Callable[..., Browser], sql: psycopg.Connection, settings: GatewaySettings
) -> None:
    early, late = new_run(sql), new_run(sql)
    browser = browse().joined()
    with psycopg.connect(settings.database_url) as slow:
        mark(slow, early)
        mark(sql, late)
        assert browser.changed_run() == late
    assert browser.changed_run() == early


@pytest.mark.parametrize(
    ("binding", "told"),
    [
        ({"table": "authors"}, "public.authors are not published"),
        ({"schema": "auth", "table": "users"}, "auth.users are not published"),
        ({"event": "DELETE"}, "told as UPDATE"),
        ({"filter": "changed_at=gt.2020-01-01"}, "changed_at=gt"),
    ],
    ids=["table", "schema", "event", "filter"],
)
def test_what_is_not_followed_is_refused_in_words(
    browse: Callable[..., Browser], binding: dict[str, str], told: str
) -> None:
    said = browse(**binding).next("status")
    assert said["status"] == "CHANNEL_ERROR"
    assert told in said["error"]


def test_a_renewed_token_keeps_a_channel_and_an_expired_one_ends_it(
    browse: Callable[..., Browser], sql: psycopg.Connection, member: Client, own_gateway: Gateway
) -> None:
    user, _ = token_of(member)

    def expiring(seconds: int) -> str:
        return own_gateway.settings.jwt(role="authenticated", sub=user, exp=int(time.time()) + seconds)

    run = new_run(sql, owner=user)
    renewed, expired = browse(token=expiring(6)).joined(), browse(token=expiring(6)).joined()
    renewed.tell(token=expiring(3600))
    assert expired.next("system") == {
        "status": "error",
        "message": "Token has expired",
        "extension": "system",
        "channel": "test",
    }
    assert expired.next("status")["status"] == "CLOSED"
    mark(sql, run)
    assert renewed.changed_run() == run
    refused = browse(token=expiring(-10)).next("status")
    assert (refused["status"], refused["error"]) == ("CHANNEL_ERROR", "Invalid or expired token")


def test_a_token_that_is_no_longer_good_ends_the_channel(browse: Callable[..., Browser], own_gateway: Gateway) -> None:
    browser = browse(token=own_gateway.settings.jwt(role="authenticated", sub="x")).joined()
    browser.tell(token="forged.forged.forged")
    assert browser.next("system")["status"] == "error"
    assert browser.next("status")["status"] == "CLOSED"


def test_it_heals_when_the_database_connections_die(browse: Callable[..., Browser], sql: psycopg.Connection) -> None:
    run = new_run(sql)
    browser = browse().joined()
    for _ in range(3):
        sql.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%gateway'")
        mark(sql, run)
        assert browser.changed_run() == run


def test_it_heals_when_postgres_was_away(
    browse: Callable[..., Browser], postgres: Any, settings: GatewaySettings
) -> None:
    with psycopg.connect(settings.database_url, autocommit=True) as sql:
        run = new_run(sql)
    browser = browse().joined()
    postgres.stop(mode="fast")
    postgres.start()
    with psycopg.connect(settings.database_url, autocommit=True) as sql:
        mark(sql, run)
    assert browser.changed_run() == run


def test_a_join_while_postgres_is_away_is_refused_and_succeeds_later(
    browse: Callable[..., Browser], postgres: Any
) -> None:
    postgres.stop(mode="fast")
    try:
        browser = browse()
        assert "database is unavailable" in browser.next("status")["error"]
    finally:
        postgres.start()
    browser.joined()


@pytest.mark.usefixtures("activity")
def test_a_client_finds_a_gateway_that_was_restarted(settings: GatewaySettings, sql: psycopg.Connection) -> None:
    run = new_run(sql)
    with Gateway(settings) as first:
        browser = Browser(first.url, settings.publishable_key, EVERYTHING).joined()
        port = int(first.url.rsplit(":", 1)[1])
    try:
        with Gateway(dataclasses.replace(settings, port=port)):
            browser.joined()
            mark(sql, run)
            assert browser.changed_run() == run
    finally:
        browser.end()


def looks(sql: psycopg.Connection) -> list[Any]:
    """Return when the gateways' connections last looked at the activity."""
    query = """select pid, query_start from pg_stat_activity
      where application_name like '%gateway' and query like '%public.activity%' order by pid"""
    return sql.execute(query).fetchall()


def test_nothing_is_asked_of_the_database_while_nobody_listens(
    browse: Callable[..., Browser], sql: psycopg.Connection
) -> None:
    before = looks(sql)
    browser = browse().joined()
    eventually(lambda: looks(sql) != before)
    seen = looks(sql)
    eventually(lambda: looks(sql) != seen)  # It looks again and again while someone listens.
    browser.tell(leave=True)
    assert browser.next("left") == "ok"
    time.sleep(1)  # More than two intervals: a look may have been under way.
    quiet = looks(sql)
    time.sleep(1.5)
    assert looks(sql) == quiet
    again = browse().joined()
    run = new_run(sql)
    assert again.changed_run() == run


def address(gateway: Gateway, **query: str) -> str:
    query = {"apikey": gateway.settings.publishable_key, "vsn": "2.0.0"} | query
    return f"{gateway.url.replace('http', 'ws')}/realtime/v1/websocket?{httpx.QueryParams(query)}"


@pytest.mark.parametrize("key", ["", "sb_publishable_wrong", "forged.forged.forged"])
def test_a_wrong_key_is_refused_before_the_connection_is_made(own_gateway: Gateway, key: str) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        websockets.sync.client.connect(address(own_gateway, apikey=key))
    assert refused.value.response.status_code == 401


def test_a_users_token_is_no_key(own_gateway: Gateway, member: Client) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        websockets.sync.client.connect(address(own_gateway, apikey=token_of(member)[1]))
    assert refused.value.response.status_code == 401


def test_what_is_no_handshake_is_told(own_gateway: Gateway) -> None:
    url = address(own_gateway).replace("ws:", "http:")
    assert httpx.get(url).status_code == 426
    assert httpx.get(url, headers={"Upgrade": "websocket", "Connection": "upgrade"}).status_code == 400
    assert httpx.get(address(own_gateway, vsn="9").replace("ws:", "http:"), headers={"Upgrade": "websocket"}).is_error
    assert httpx.post(f"{own_gateway.url}/realtime/v1/api/nothing").status_code == 404
    assert httpx.get(url, headers={"Host": "rebound.example"}).status_code == 421


def test_connections_have_a_limit_and_a_closed_one_makes_room(own_gateway: Gateway) -> None:
    opened = [websockets.sync.client.connect(address(own_gateway)) for _ in range(500)]
    try:
        with pytest.raises(websockets.InvalidStatus) as refused:
            websockets.sync.client.connect(address(own_gateway))
        assert refused.value.response.status_code == 429
        opened.pop().close()

        def fits() -> bool:
            try:
                opened.append(websockets.sync.client.connect(address(own_gateway)))
            except websockets.InvalidStatus:
                return False
            return True

        eventually(fits)
    finally:
        for connection in opened:
            connection.close()


def test_a_gateway_that_stops_says_goodbye(own_gateway: Gateway) -> None:
    with websockets.sync.client.connect(address(own_gateway)) as connection:
        own_gateway.process.terminate()
        with pytest.raises(websockets.ConnectionClosedOK) as closed:
            connection.recv(timeout=20)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001
    assert own_gateway.process.wait(timeout=20) == 0


def test_noise_is_ignored_and_too_much_of_it_ends_the_connection(own_gateway: Gateway) -> None:
    with websockets.sync.client.connect(address(own_gateway)) as connection:
        for noise in ("", "no json", "{}", "[]", "[1,2,3,4,5]", b"\x03bytes", '[null,"1","realtime:x","phx_leave",[]]'):
            connection.send(noise)
        connection.send(json.dumps([None, "7", "phoenix", "heartbeat", {}]))
        answers = [json.loads(connection.recv(timeout=10)) for _ in range(2)]
        assert answers[-1] == [None, "7", "phoenix", "phx_reply", {"status": "ok", "response": {}}]
        connection.send("x" * 300_000)
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            connection.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def test_a_connection_has_a_limit_of_channels(own_gateway: Gateway) -> None:
    join = {"config": {"postgres_changes": [EVERYTHING]}}
    with websockets.sync.client.connect(address(own_gateway)) as connection:
        for number in range(101):
            connection.send(json.dumps([str(number), str(number), f"realtime:{number}", "phx_join", join]))
        replies = []
        while len(replies) < 101:
            message = json.loads(connection.recv(timeout=20))
            if message[3] == "phx_reply":
                replies.append(message[4]["status"])
    assert replies == ["ok"] * 100 + ["error"]


def test_many_listeners_are_told_of_the_last_change_and_not_of_every_one(
    own_gateway: Gateway, sql: psycopg.Connection
) -> None:
    run, listeners, changes = new_run(sql), 60, 40
    join = {"config": {"postgres_changes": [EVERYTHING]}}
    with websockets.sync.client.connect(address(own_gateway)) as connection:

        def receive() -> list[Any]:
            message: list[Any] = json.loads(connection.recv(timeout=60))
            return message

        for number in range(listeners):
            connection.send(json.dumps([str(number), str(number), f"realtime:{number}", "phx_join", join]))
        joined = 0
        while joined < listeners:
            joined += receive()[3] == "phx_reply"
        for _ in range(changes):
            mark(sql, run)
            time.sleep(0.05)
        (last,) = sql.execute("select to_jsonb(changed_at) from public.activity where training_run_id = %s", [run])
        told, waiting = 0, {f"realtime:{number}" for number in range(listeners)}
        while waiting:
            topic, event, payload = receive()[2:]
            if event == "postgres_changes":
                told += 1
                if payload["data"]["record"]["changed_at"] == last[0]:
                    waiting.discard(topic)
    assert told < listeners * changes / 4


def test_a_change_is_told_again_when_no_more_have_come_for_a_while(
    browse: Callable[..., Browser], sql: psycopg.Connection
) -> None:
    run = new_run(sql)
    browser = browse().joined()
    mark(sql, run)
    began = time.monotonic()
    assert browser.changed_run() == run
    # Marked all the time, it is told all the time, and not of what has settled.
    while time.monotonic() < began + 3:
        time.sleep(0.3)
        mark(sql, run)
    (last,) = sql.execute("select to_jsonb(changed_at) from public.activity where training_run_id = %s", [run])
    while browser.next("change")["new"]["changed_at"] != last[0]:
        pass
    # What was written within a second after the last mark made none.
    told_at = time.monotonic()
    assert browser.next("change")["new"]["changed_at"] == last[0]
    assert time.monotonic() - told_at > 1
    with pytest.raises(queue.Empty):
        browser.next("change", seconds=4)


def test_on_a_busy_server_listeners_are_told_less_often_but_each_in_its_turn(
    own_gateway: Gateway, sql: psycopg.Connection
) -> None:
    headers = {"apikey": own_gateway.settings.secret_key}
    run, listeners, busy_seconds = new_run(sql), 3, 9
    sql.execute("create or replace function public.nap() returns int language sql as 'select 1 from pg_sleep(0.4)'")
    eventually(lambda: httpx.post(f"{own_gateway.url}/rest/v1/rpc/nap", headers=headers).is_success)
    join = {"config": {"postgres_changes": [EVERYTHING]}}
    until = time.monotonic() + busy_seconds

    def read() -> None:
        with httpx.Client(base_url=own_gateway.url, headers=headers) as client:
            while time.monotonic() < until:
                client.post("/rest/v1/rpc/nap").raise_for_status()
                mark(sql, run)

    with websockets.sync.client.connect(address(own_gateway)) as connection, ThreadPoolExecutor() as readers:
        for number in range(listeners):
            connection.send(json.dumps([str(number), str(number), f"realtime:{number}", "phx_join", join]))
        reading = [readers.submit(read) for _ in range(4)]
        told: list[tuple[float, str]] = []
        with suppress(TimeoutError):
            while (left := until - time.monotonic()) > 0:
                topic, event = json.loads(connection.recv(timeout=left))[2:4]
                if event == "postgres_changes":
                    told.append((busy_seconds - left, topic))
        for one in reading:
            one.result()
    sql.execute("drop function public.nap")
    topics = [topic for _, topic in told]
    assert all(len(set(topics[at : at + listeners])) == listeners for at in range(len(topics) - listeners + 1)), topics
    # What was saved up for telling is spent by then.
    assert 1 <= sum(at > 3 for at, _ in told) <= 5, told


def test_supabase_py_is_served_too(own_gateway: Gateway, sql: psycopg.Connection) -> None:
    run = new_run(sql)

    async def follow() -> dict[str, Any]:
        client: AsyncClient = await create_async_client(own_gateway.url, own_gateway.settings.publishable_key)
        changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        joined = asyncio.Event()
        channel = client.channel(f"py-{secrets.token_hex(4)}").on_postgres_changes(
            "*", schema="public", table="activity", callback=changes.put_nowait
        )
        await channel.subscribe(lambda status, _: joined.set() if status == "SUBSCRIBED" else None)
        async with asyncio.timeout(20):
            await joined.wait()
            mark(sql, run)
            change = await changes.get()
        await client.remove_all_channels()
        return change

    assert asyncio.run(follow())["data"]["record"]["training_run_id"] == run
