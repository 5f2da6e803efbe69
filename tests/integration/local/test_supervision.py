"""What dies is restarted; nothing committed is lost; nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from typing import Any

import httpx
import psutil
import psycopg

from openmanus_rl.local.processes import has_ended, wait_for_end


def test_a_dead_gateway_is_restarted_on_the_same_port(running: Any) -> None:
    home, before = running, running.status()
    pid = home.gateway_pid()
    os.kill(pid, signal.SIGKILL)
    home.wait_until(lambda: "the gateway is running again" in home.supervisor_log(), what="the restart")
    home.wait_until_healthy()
    assert home.gateway_pid() != pid
    assert home.status()["SUPABASE_URL"] == before["SUPABASE_URL"]
    assert "the gateway ended (killed by SIGKILL)" in home.supervisor_log()


def test_a_dead_postgres_is_restarted_with_all_that_was_committed(running: Any) -> None:
    home, report = running, running.status()
    with psycopg.connect(report["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("create table public.kept (id int)")
        connection.execute("insert into public.kept select generate_series(1, 1000)")
        pid = home.postgres_pid()
        os.kill(pid, signal.SIGKILL)
    home.wait_until(lambda: "Postgres is running again" in home.supervisor_log(), what="the restart")
    home.wait_until_healthy()
    assert home.postgres_pid() != pid
    with psycopg.connect(report["DATABASE_URL"]) as connection:
        assert connection.execute("select count(*) from public.kept").fetchone() == (1000,)
    # The gateway, which lived through it, finds the new server.
    headers = {"apikey": report["SUPABASE_SERVICE_ROLE_KEY"]}
    answer = httpx.get(f"{report['SUPABASE_URL']}/rest/v1/training_runs", headers=headers, trust_env=False)
    assert answer.status_code == 200, answer.text


def test_a_killed_supervisor_takes_the_gateway_along_and_the_next_start_clears_up(home: Any) -> None:
    before = home.up()
    gateway, postgres = psutil.Process(home.gateway_pid()), psutil.Process(home.postgres_pid())
    os.kill(before["pid"], signal.SIGKILL)
    assert wait_for_end(gateway, timeout_seconds=30)
    assert home.run("status").returncode == 3, "a stale stack.json is not a running stack"

    after = home.up()
    assert after["started"]
    assert has_ended(postgres)
    assert after["DATABASE_URL"] == before["DATABASE_URL"], "the port of the database is remembered"
    assert len([process for process in home.processes() if process.name() == "deno"]) == 1


def test_down_after_a_killed_supervisor_stops_what_it_left(home: Any) -> None:
    report = home.up()
    postgres = psutil.Process(home.postgres_pid())
    os.kill(report["pid"], signal.SIGKILL)
    done = home.run("down")
    assert done.returncode == 0
    assert "Stopped" in done.stdout
    assert has_ended(postgres)


def test_a_gateway_that_lost_its_port_returns_when_the_port_is_free_again(running: Any) -> None:
    home, report = running, running.status()
    os.kill(home.gateway_pid(), signal.SIGSTOP)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        os.kill(home.gateway_pid(), signal.SIGKILL)
        home.wait_until(lambda: _bound(thief, report["port"]), what="taking the port", seconds=10)
        thief.listen()
        home.wait_until(lambda: f"lost port {report['port']}" in home.supervisor_log(), what="the notice")
        assert home.status()["healthy"] is False
    home.wait_until_healthy()
    assert home.status()["port"] == report["port"]


def test_a_stack_whose_folder_was_removed_ends_by_itself(home: Any) -> None:
    home.up()
    processes = home.processes()
    assert len(processes) >= 3
    shutil.rmtree(home.root)
    _, alive = psutil.wait_procs(processes, timeout=90)
    assert not alive, f"still there: {alive}"


def _bound(thief: Any, port: int) -> bool:
    try:
        thief.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
