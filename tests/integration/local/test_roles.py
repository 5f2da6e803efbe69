"""The roles that connect to the embedded database: none can leave it, raise itself, or stop those who look after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from openmanus_rl.local.keys import load_keys
from openmanus_rl.local.roles import api_url, owner_url, recorder_url

ROLES = {"openmanus_owner": owner_url, "authenticator": api_url, "openmanus_recorder": recorder_url}

OUTSIDE = [
    "copy (select 1) to program 'id'",
    "create temporary table t (line text); copy t from program 'id'",
    "create temporary table t (line text); copy t from '/etc/passwd'",
    "select pg_read_file('/etc/passwd')",
    "select pg_ls_dir('.')",
    "select lo_import('/etc/passwd')",
    "load 'plpgsql'; load '/tmp/x'",
    "create function f() returns int language c as '/tmp/x'",
    "create function f() returns int language internal as 'pg_backend_pid'",
    "set log_statement = 'all'",
]
HIGHER = [
    "alter role current_user superuser",
    "create role higher superuser login",
    "alter role postgres password 'x'",
    "set role postgres",
    "set session authorization postgres",
    "grant postgres to current_user",
    "grant pg_execute_server_program to current_user",
    "grant pg_read_server_files to current_user",
    "select pg_reload_conf()",
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postgres'",
    "create event trigger mine on ddl_command_end execute function extensions.pgrst_ddl_watch()",
    "create or replace function extensions.pgrst_ddl_watch() returns event_trigger language plpgsql as 'begin end'",
    "update pg_authid set rolsuper = true",
]
# What the owner of the database may do and those who merely write into it may not.
OWNERS = [
    "create role another",
    "create table public.mine (id int)",
    "drop table public.training_runs",
    "alter table public.training_runs disable row level security",
    "create or replace function public.heartbeat(run_id uuid) returns void language sql as ''",
    'drop policy "members read workspace files" on storage.objects',
]


@pytest.fixture(scope="module")
def urls(running: Any) -> dict[str, str]:
    keys = load_keys(running.root / "keys.json")
    assert keys is not None
    port = json.loads((running.root / "stack.json").read_text())["postgres_port"]
    return {role: url(keys, port) for role, url in ROLES.items()}


@pytest.fixture(scope="module")
def superuser(running: Any) -> Iterator[psycopg.Connection]:
    """Somebody to terminate."""
    with psycopg.connect(running.superuser_url()) as connection:
        yield connection


@pytest.mark.usefixtures("superuser")
@pytest.mark.parametrize("role", ROLES)
def test_no_role_gets_out_of_the_database_or_above_itself(urls: dict[str, str], role: str) -> None:
    attempts = OUTSIDE + HIGHER + ([] if role == "openmanus_owner" else OWNERS)
    allowed = []
    with psycopg.connect(urls[role]) as connection:
        for attempt in attempts:
            try:
                connection.execute(attempt.replace("current_user", role).encode())
                allowed.append(attempt)
            except psycopg.errors.InsufficientPrivilege:
                pass
            connection.rollback()
    assert allowed == []


def test_the_recorder_knows_no_users_secrets(urls: dict[str, str]) -> None:
    with psycopg.connect(urls["openmanus_recorder"], autocommit=True) as connection:
        for table in ("auth.users", "auth.sessions", "auth.refresh_tokens", "auth.sign_in_links", "pg_authid"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from {table}".encode())
        assert connection.execute("select count(*) from public.training_runs").fetchone() == (0,)


def test_what_is_published_is_nobodys_superuser_and_no_command_line_holds_a_secret(running: Any) -> None:
    secrets = json.loads((running.root / "keys.json").read_text())
    published = (running.root / "stack.json").read_text() + running.run("status", "--json").stdout
    assert secrets["superuser_password"] not in published
    assert "//postgres:" not in published
    lines = [" ".join(process.cmdline()) for process in running.processes()]
    assert lines
    assert not [line for line in lines for secret in secrets.values() if secret in line]
