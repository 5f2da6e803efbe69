"""Starting, stopping, and living through the loss of the database."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest
from supabase import create_client

from .process import Gateway, GatewaySettings, eventually


@pytest.fixture
def own_gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    """A gateway that this test may harm."""
    with Gateway(settings) as running:
        yield running


def test_readiness_is_one_line_of_json_on_stdout(own_gateway: Gateway) -> None:
    assert own_gateway.ready == {"ready": True, "port": int(own_gateway.url.rsplit(":", 1)[1])}
    create_client(own_gateway.url, own_gateway.settings.secret_key).table("authors").select("id").execute()
    own_gateway.process.terminate()
    rest, _ = own_gateway.process.communicate(timeout=30)
    assert rest == ""


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT"])
def test_it_ends_when_it_is_told_to_or_its_parent_is_gone(own_gateway: Gateway, how: str) -> None:
    if how == "stdin":
        assert own_gateway.process.stdin is not None
        own_gateway.process.stdin.close()
        own_gateway.process.stdin = None
    else:
        own_gateway.process.send_signal(getattr(signal, how))
    assert own_gateway.process.wait(timeout=30) == 0


def test_it_listens_on_loopback_only(gateway: Gateway) -> None:
    port = int(gateway.url.rsplit(":", 1)[1])
    listening = subprocess.run(["ss", "-ltn", f"sport = :{port}"], capture_output=True, text=True, check=False)
    if listening.returncode != 0:
        pytest.skip("ss is not installed")
    addresses = [line.split()[3] for line in listening.stdout.splitlines()[1:]]
    assert addresses == [f"127.0.0.1:{port}"]


def test_init_may_run_again_and_again(settings: GatewaySettings, sql: psycopg.Connection) -> None:
    before = sql.execute("select count(*) from pg_class").fetchone()
    settings.initialise()
    assert sql.execute("select count(*) from pg_class").fetchone() == before


def test_a_missing_setting_is_named(settings: GatewaySettings) -> None:
    environment = {name: value for name, value in settings.environment.items() if name != "STORAGE_DIR"}
    result = subprocess.run([*settings.command, "serve"], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "STORAGE_DIR" in result.stderr


def test_a_taken_port_is_an_error(gateway: Gateway, settings: GatewaySettings) -> None:
    taken = dataclasses.replace(settings, port=int(gateway.url.rsplit(":", 1)[1]))
    result = subprocess.run(
        [*taken.command, "serve"], env=taken.environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert "Address already in use" in result.stderr


def test_a_changed_schema_is_served_without_a_restart(gateway: Gateway, sql: psycopg.Connection) -> None:
    client = create_client(gateway.url, gateway.settings.secret_key)
    sql.execute("create table public.fresh (id integer primary key); grant all on public.fresh to service_role")

    def works() -> bool:
        url = f"{gateway.url}/rest/v1/fresh?select=id"
        return httpx.get(url, headers={"apikey": gateway.settings.secret_key}).status_code == 200

    eventually(works)
    sql.execute("alter table public.fresh add column note text")
    eventually(
        lambda: (
            httpx.post(
                f"{gateway.url}/rest/v1/fresh",
                json={"id": 1, "note": "x"},
                headers={"apikey": gateway.settings.secret_key, "Prefer": "resolution=merge-duplicates"},
            ).is_success
        )
    )
    assert client.table("fresh").select("note").execute().data == [{"note": "x"}]
    sql.execute("drop table public.fresh")
    eventually(lambda: not works())


def test_a_hangup_signal_reads_the_schema_again(own_gateway: Gateway, sql: psycopg.Connection) -> None:
    def answer_for(table: str) -> int:
        headers = {"apikey": own_gateway.settings.secret_key}
        return httpx.get(f"{own_gateway.url}/rest/v1/{table}", headers=headers).status_code

    sql.execute("set session_replication_role = replica")  # event triggers stay silent
    # A gateway reads the schema once more when it has just started, and may so find the first of them.
    tables = ["unannounced", "unannounced_either"]
    try:
        for table in tables:
            sql.execute(f"create table public.{table} (id integer); grant all on public.{table} to service_role")
            if (answer := answer_for(table)) == 404:
                break
        assert answer == 404
        os.kill(own_gateway.process.pid, signal.SIGHUP)
        eventually(lambda: answer_for(table) == 200)
    finally:
        for table in tables:
            sql.execute(f"drop table if exists public.{table}")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_it_answers_503_while_postgres_is_away_and_recovers_by_itself(
    own_gateway: Gateway, postgres: object, mode: str
) -> None:
    headers = {"apikey": own_gateway.settings.secret_key}
    with httpx.Client(base_url=own_gateway.url, timeout=30, headers=headers) as http:
        assert http.get("/rest/v1/authors").status_code == 200
        assert http.get("/functions/v1/health").json()["database"] == "ok"
        postgres.stop(mode=mode)  # type: ignore[attr-defined]
        try:
            for method, path, body in (
                ("GET", "/rest/v1/authors", None),
                ("POST", "/rest/v1/rpc/add_numbers", {"a": 1}),
                ("POST", "/rest/v1/authors", {"name": "lost"}),
                ("GET", "/storage/v1/bucket", None),
                ("GET", "/auth/v1/admin/users", None),
                ("GET", "/functions/v1/health", None),
                ("POST", "/auth/v1/token?grant_type=password", {"email": "a@example.com", "password": "password123"}),
            ):
                answer = http.request(method, path, json=body)
                assert answer.status_code == 503, f"{method} {path}: {answer.status_code} {answer.text}"
                assert answer.headers["content-type"].startswith("application/json")
            assert http.get("/functions/v1/health").json() == {
                "status": "unavailable",
                "version": "1.2.3",
                "database": "unreachable",
            }
        finally:
            postgres.start()  # type: ignore[attr-defined]
        for path in ("/rest/v1/authors", "/storage/v1/bucket", "/auth/v1/admin/users", "/functions/v1/health"):
            eventually(lambda path=path: http.get(path).status_code == 200)
        assert http.post("/rest/v1/rpc/add_numbers", json={"a": 1}).json() == 2
        assert own_gateway.process.poll() is None


def test_the_schema_is_watched_again_after_postgres_came_back(
    own_gateway: Gateway, postgres: object, settings: GatewaySettings
) -> None:
    postgres.stop()  # type: ignore[attr-defined]
    postgres.start()  # type: ignore[attr-defined]
    with psycopg.connect(settings.database_url, autocommit=True) as sql:
        sql.execute("create table public.later (id integer); grant all on public.later to service_role")
        headers = {"apikey": own_gateway.settings.secret_key}
        try:
            eventually(lambda: httpx.get(f"{own_gateway.url}/rest/v1/later", headers=headers).status_code == 200)
        finally:
            sql.execute("drop table public.later")


def test_connections_cut_by_the_server_are_replaced(gateway: Gateway, sql: psycopg.Connection) -> None:
    client = create_client(gateway.url, gateway.settings.secret_key)
    for _ in range(3):
        sql.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%gateway'")
        eventually(
            lambda: (
                httpx.get(f"{gateway.url}/rest/v1/authors", headers={"apikey": gateway.settings.secret_key}).status_code
                == 200
            )
        )
    assert client.rpc("add_numbers", {"a": 1}).execute().data == 2


def test_a_request_outlasts_the_end_of_connections_that_are_not_its_own(
    own_gateway: Gateway, sql: psycopg.Connection
) -> None:
    headers = {"apikey": own_gateway.settings.secret_key}
    running = "from pg_stat_activity where application_name like '%gateway' and wait_event = 'PgSleep'"

    def sleep(seconds: float) -> int:
        url = f"{own_gateway.url}/rest/v1/rpc/sleeper"
        return httpx.post(url, json={"seconds": seconds}, headers=headers, timeout=30).status_code

    body = "language sql begin atomic select pg_sleep(seconds); end"
    sql.execute(f"create function public.sleeper(seconds float) returns void {body}")  # type: ignore[arg-type]
    try:
        eventually(lambda: sleep(0) == 204)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(sleep, 2.5)
            eventually(lambda: sql.execute(f"select {running}").rowcount == 1)  # type: ignore[arg-type]
            # As `idle_session_timeout` and firewalls do.
            sql.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                f" where application_name like '%gateway' and pid not in (select pid {running})"  # type: ignore[arg-type]
            )
            assert asked.result() == 204
    finally:
        sql.execute("drop function public.sleeper")


def test_keys_are_never_logged(settings: GatewaySettings) -> None:
    process = subprocess.Popen(
        [*settings.command, "serve"],
        env=settings.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().split(":")[-1].strip(" }\n"))
    headers = {"apikey": settings.secret_key, "Authorization": f"Bearer {settings.secret_key}"}
    for path in ("/rest/v1/nope", "/rest/v1/authors?id=eq.x", "/storage/v1/object/nope/x", "/functions/v1/nope"):
        httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers)
    httpx.post(f"http://127.0.0.1:{port}/rest/v1/rpc/fail_with", json={"state": "XX000"}, headers=headers)
    process.terminate()
    _, log = process.communicate(timeout=30)
    for value in (settings.secret_key, settings.publishable_key, settings.jwt_secret, settings.database_url):
        assert value not in log
    assert "told to fail" in log, "a failure on the server's side is logged"
