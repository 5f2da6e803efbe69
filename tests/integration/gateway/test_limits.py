"""What the publishable key, a stranger or nobody can make the gateway do ends soon and leaves room for others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest
from supabase import Client

from .process import Gateway, eventually

FUNCTIONS = """
create or replace function public.slow(seconds float8) returns text language sql volatile set search_path = '' as $$
  select 'done' from pg_catalog.pg_sleep(seconds)
$$;
create or replace function public.time_limit() returns text language sql stable set search_path = '' as $$
  select current_setting('statement_timeout')
$$;
create or replace function public.take(value jsonb) returns int language sql immutable set search_path = '' as $$
  select 1
$$;
create table public.marks (id integer primary key);
insert into public.marks values (1);
grant select, delete on public.marks to anon;
grant execute on function public.slow, public.time_limit, public.take to anon, authenticated, service_role;
"""
RUNNING = """
select count(*) from pg_stat_activity where query like '%slow%' and state = 'active' and pid <> pg_backend_pid()
"""
MB = 1024 * 1024


@pytest.fixture
def keys(gateway: Gateway, member: Client) -> dict[str, dict[str, str]]:
    session = member.auth.get_session()
    assert session is not None
    publishable = {"apikey": gateway.settings.publishable_key}
    return {
        "anon": publishable,
        "authenticated": publishable | {"Authorization": f"Bearer {session.access_token}"},
        "service_role": {"apikey": gateway.settings.secret_key},
    }


@pytest.fixture(scope="module", autouse=True)
def functions(gateway: Gateway) -> Iterator[None]:
    with psycopg.connect(gateway.settings.database_url, autocommit=True) as sql:
        sql.execute(FUNCTIONS)
        headers = {"apikey": gateway.settings.secret_key}
        address = f"{gateway.url}/rest/v1/rpc/time_limit"
        eventually(lambda: httpx.post(address, json={}, headers=headers, trust_env=False).status_code == 200)
        yield
        sql.execute("drop function public.slow, public.time_limit, public.take; drop table public.marks")


def call(http: httpx.Client, headers: dict[str, str], name: str, **options: Any) -> httpx.Response:
    return http.post(f"/rest/v1/rpc/{name}", headers=headers, **options)


def test_each_role_has_its_time_and_a_statement_beyond_it_is_ended(
    http: httpx.Client, keys: dict[str, dict[str, str]], sql: psycopg.Connection
) -> None:
    limits = {role: call(http, headers, "time_limit", json={}).json() for role, headers in keys.items()}
    assert limits == {"anon": "3s", "authenticated": "8s", "service_role": "2min"}
    ended = call(http, keys["anon"], "slow", json={"seconds": 100}, timeout=60)
    assert (ended.status_code, ended.json()["code"]) == (500, "57014")
    assert sql.execute(RUNNING).fetchone() == (0,)


def test_a_query_ends_when_its_client_has_gone(
    http: httpx.Client, keys: dict[str, dict[str, str]], sql: psycopg.Connection
) -> None:
    with pytest.raises(httpx.ReadTimeout):
        http.get("/rest/v1/rpc/slow?seconds=100", headers=keys["service_role"], timeout=2)
    eventually(lambda: sql.execute(RUNNING).fetchone() == (0,))
    assert call(http, keys["service_role"], "slow", json={"seconds": 0}).json() == "done"


def test_one_key_does_not_take_every_connection(
    http: httpx.Client, gateway: Gateway, keys: dict[str, dict[str, str]], sql: psycopg.Connection
) -> None:
    def hog(_: int) -> int:
        with httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as client:
            return call(client, keys["anon"], "slow", json={"seconds": 2}).status_code

    with ThreadPoolExecutor(24) as pool:
        hogs = [pool.submit(hog, number) for number in range(24)]
        eventually(lambda: sql.execute(RUNNING).fetchone() == (6,))
        for role in ("authenticated", "service_role"):
            assert call(http, keys[role], "slow", json={"seconds": 0}).json() == "done"
        assert not all(one.done() for one in hogs), "the others still wait"
        assert {one.result() for one in hogs} <= {200, 503}


@pytest.mark.parametrize("select", ["books(authors(" * 8 + "id" + "))" * 8, ",".join(["books(id)"] * 100)])
def test_embeds_are_bounded(http: httpx.Client, keys: dict[str, dict[str, str]], select: str) -> None:
    for role in ("anon", "service_role"):
        answer = http.get("/rest/v1/authors", params={"select": select}, headers=keys[role])
        assert (answer.status_code, answer.json()["code"]) == (400, "too_deep")
    logic = {"or": "(" + "or(" * 3000 + "id.is.null" + ")" * 3001}
    assert http.get("/rest/v1/authors", params=logic, headers=keys["anon"]).json()["code"] == "too_deep"
    long = http.get("/rest/v1/authors", params={"name": "eq." + "x" * 40_000}, headers=keys["anon"])
    assert long.status_code == 414


def test_what_nobody_waits_for_any_more_is_not_begun(
    http: httpx.Client, gateway: Gateway, keys: dict[str, dict[str, str]], sql: psycopg.Connection
) -> None:
    def hog(_: int) -> int:
        with httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as client:
            return call(client, keys["anon"], "slow", json={"seconds": 2.5}).status_code

    with ThreadPoolExecutor(6) as pool:
        hogs = [pool.submit(hog, number) for number in range(6)]
        eventually(lambda: sql.execute(RUNNING).fetchone() == (6,))
        with pytest.raises(httpx.ReadTimeout):
            http.delete("/rest/v1/marks?id=eq.1", headers=keys["anon"], timeout=0.5)
        assert [one.result() for one in hogs] == [200] * 6
    assert call(http, keys["anon"], "slow", json={"seconds": 0}).json() == "done", "its place is free"
    assert sql.execute("select count(*) from public.marks").fetchone() == (1,)


def test_json_is_bounded_in_depth_and_size(http: httpx.Client, keys: dict[str, dict[str, str]]) -> None:
    brackets = b"[" * (10 * MB)
    headers = {"Content-Type": "application/json"}
    statuses = {
        role: call(http, key | headers, "take", content=brackets, timeout=60).status_code for role, key in keys.items()
    }
    assert statuses == {"anon": 413, "authenticated": 400, "service_role": 400}
    nested = b"[" * (2 * MB) + b"]" * (2 * MB)
    for unusual, code in {"application/JSON": "too_deep", "text/csv": "PGRST202", "any/thing": "PGRST102"}.items():
        key = keys["authenticated"] | {"Content-Type": unusual}
        assert call(http, key, "take", content=nested, timeout=60).json()["code"] == code
    in_text = {"value": {"text": "[" * 5000 + '\\"' + "{" * 5000, "nested": json.loads("[" * 400 + "]" * 400)}}
    assert call(http, keys["anon"], "take", json=in_text).json() == 1, "brackets in strings are text"
    for path in ("/functions/v1/metrics", "/functions/v1/submit-rollout"):
        refused = http.post(path, content=b'{"a":' + brackets, headers=keys["service_role"] | headers, timeout=60)
        assert refused.status_code == 400
        assert "nested" in refused.json()["error"]["message"]


def test_a_body_whose_length_nobody_told_is_bounded_as_well(
    http: httpx.Client, keys: dict[str, dict[str, str]], gateway: Gateway
) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * MB

    headers = {"Content-Type": "application/json"}
    before = gateway.memory_bytes()
    assert call(http, keys["anon"] | headers, "take", content=endless()).status_code == 413
    assert http.post("/auth/v1/token?grant_type=password", content=endless(), headers=keys["anon"]).status_code == 413
    assert http.post("/auth/v1/verify", content=endless()).status_code == 413
    assert gateway.memory_bytes() - before < 100 * MB


@pytest.mark.parametrize("path", ["/rest/v1/authors", "/auth/v1/token?grant_type=password", "/functions/v1/metrics"])
def test_without_a_key_no_body_is_kept(http: httpx.Client, gateway: Gateway, path: str) -> None:
    before = gateway.peak_memory_bytes()
    with ThreadPoolExecutor(4) as pool:
        body = b" " * (64 * MB)
        answers = list(pool.map(lambda _: http.post(path, content=body, timeout=120).status_code, range(4)))
    assert answers == [401] * 4
    assert gateway.peak_memory_bytes() - before < 128 * MB, "four times 64 MB were sent"


def test_a_compressed_body_is_read_as_what_it_was(http: httpx.Client, keys: dict[str, dict[str, str]]) -> None:
    headers = keys["service_role"] | {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    body = gzip.compress(json.dumps({"value": ["ä" * 100_000]}).encode())
    answer = call(http, headers, "take", content=body)
    assert (answer.status_code, answer.json()) == (200, 1)
    assert answer.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("role", ["anon", "authenticated"])
def test_what_a_compressed_body_becomes_is_limited_too(
    http: httpx.Client, keys: dict[str, dict[str, str]], role: str
) -> None:
    headers = keys[role] | {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    bomb = gzip.compress(b'{"value":"' + b"a" * (200 * MB) + b'"}', compresslevel=1)
    assert len(bomb) < MB
    answer = call(http, headers, "take", content=bomb, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert call(http, keys[role], "take", json={"value": 1}).json() == 1


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("br", b"{}", 415),
        ("gzip, gzip", gzip.compress(b"{}", mtime=0), 415),
        ("gzip", b'{"value": 1}', 400),
        ("gzip", gzip.compress(b'{"value": 1}', mtime=0)[:-5], 400),
        ("gzip", b"", 400),
    ],
)
def test_a_body_that_is_not_compressed_as_it_says_is_refused(
    http: httpx.Client, keys: dict[str, dict[str, str]], encoding: str, body: bytes, status: int
) -> None:
    headers = keys["service_role"] | {"Content-Type": "application/json", "Content-Encoding": encoding}
    assert call(http, headers, "take", content=body).status_code == status
