"""What hangs is replaced, what lost its database finds it again, and no command waits for minutes."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from openmanus_rl.local.health import check_health

# The same watch in a hurry: the limits are told by unit tests, here it is real processes that hang.
HURRIED = """
import sys
from openmanus_rl.local import launch, watch
watch._PAUSE_SECONDS = watch._PAUSE_AFTER_SILENCE_SECONDS = 0.3
watch._ANSWER_TIMEOUT_SECONDS = 2.0
watch._POSTGRES_SILENCE_SECONDS = 4.0
launch._RECOVERY_SECONDS = launch.SILENCE_SECONDS = 2.0
from openmanus_rl.cli import main
main()
"""


@pytest.fixture(scope="module")
def hurried(template: Any, homes: Any) -> Iterator[Any]:
    """A stack whose supervisor looks often and loses patience soon."""
    from tests.integration.local.conftest import HomeUnderTest

    root = homes / f"hurried-{os.urandom(4).hex()}"
    subprocess.run(["cp", "-a", str(template), str(root)], check=True)
    home = HomeUnderTest(root)
    command = [sys.executable, "-c", HURRIED, "up", "--port", "0"]
    process = subprocess.Popen(
        command, env=home.env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    home.wait_until(lambda: (root / "stack.json").exists(), what="the start")
    yield home
    done = home.run("down")
    assert process.wait(60) == 0, done.stderr


def stop_and_wait(home: Any, pid: int, *, name: str) -> None:
    seen = home.supervisor_log().count(f"{name} hangs")
    os.kill(pid, signal.SIGSTOP)
    home.wait_until(lambda: home.supervisor_log().count(f"{name} hangs") > seen, what=f"the notice that {name} hangs")
    home.wait_until_healthy()


def test_a_gateway_that_hangs_is_replaced(hurried: Any) -> None:
    pid = hurried.gateway_pid()
    stop_and_wait(hurried, pid, name="the gateway")
    assert hurried.gateway_pid() != pid


def test_a_postgres_that_hangs_is_replaced_with_all_that_was_committed(hurried: Any) -> None:
    url = json.loads((hurried.root / "stack.json").read_text())["database_url"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table public.kept_while_hung as select generate_series(1, 1000) as id")
    pid = hurried.postgres_pid()
    stop_and_wait(hurried, pid, name="Postgres")
    assert hurried.postgres_pid() != pid
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from public.kept_while_hung").fetchone() == (1000,)


def test_requests_find_the_database_again_at_once_after_it_was_killed_under_load(hurried: Any) -> None:
    report = hurried.status()
    headers = {"apikey": report["SUPABASE_SERVICE_ROLE_KEY"]}
    url = f"{report['SUPABASE_URL']}/rest/v1/training_runs?select=id&limit=1"
    ended = time.monotonic() + 60

    def ask(client: httpx.Client, until: float) -> list[int]:
        statuses = []
        while time.monotonic() < min(until, ended):
            statuses.append(client.get(url, headers=headers).status_code)
        return statuses

    with (
        httpx.Client(trust_env=False, timeout=30) as client,
        concurrent.futures.ThreadPoolExecutor(12) as pool,
    ):
        for _ in range(3):
            hurried.wait_until_healthy()
            asking = [pool.submit(ask, client, time.monotonic() + 3) for _ in range(12)]
            time.sleep(0.5)
            pid = hurried.postgres_pid()
            os.kill(pid, signal.SIGKILL)
            for each in asking:
                assert set(each.result()) <= {200, 503}
            hurried.wait_until_healthy()
        # Each of the pool's connections was cut off in the middle of something; none may be left to fail later.
        asking = [pool.submit(ask, client, time.monotonic() + 2) for _ in range(12)]
        assert [status for each in asking for status in each.result() if status != 200] == []


def test_a_server_left_running_by_a_killed_one_does_not_keep_postgres_from_starting(hurried: Any) -> None:
    url = hurried.status()["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        # It computes and looks at nothing else: without help it would hold the old memory for minutes.
        os.kill(pid, signal.SIGSTOP)
        os.kill(hurried.postgres_pid(), signal.SIGKILL)
        hurried.wait_until(lambda: not psutil.pid_exists(pid), what="the end of the orphan")
    hurried.wait_until_healthy()


def test_up_on_a_stack_that_does_not_get_well_says_so_and_ends(hurried: Any) -> None:
    supervisor = json.loads((hurried.root / "stack.json").read_text())["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(hurried.gateway_pid(), signal.SIGSTOP)
    try:
        command = [sys.executable, "-c", HURRIED, "up", "--detach"]
        done = subprocess.run(
            command, env=hurried.env, cwd="/", capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 1
        assert "is not healthy" in done.stderr
        assert "supervisor.log" in done.stderr
        report = hurried.status()
        assert report["healthy"] is False
        assert "the gateway does not respond" in report["health"]
    finally:
        os.kill(supervisor, signal.SIGCONT)
    hurried.wait_until_healthy()


def test_a_killed_supervisor_is_replaced_by_the_next_commands_at_the_same_address(home: Any) -> None:
    before = home.up()
    gateway = home.gateway_pid()
    os.kill(gateway, signal.SIGSTOP)  # It can't notice the end of its supervisor, and holds the port.
    os.kill(before["pid"], signal.SIGKILL)
    home.wait_until(lambda: not psutil.pid_exists(before["pid"]) or home.run("status").returncode == 3, what="the end")
    report = home.status()
    assert report["running"] is False
    assert f"process {before['pid']}, was killed" in report["health"]

    commands = [
        home.spawn(*command, "--json") for command in (["runs", "list"], ["dashboard"], ["migrate"], ["runs", "list"])
    ]
    for command in commands:
        out, err = command.communicate(timeout=120)
        assert command.returncode == 0, out + err
        assert json.loads(out) is not None
    after = home.status()
    assert after["healthy"] is True
    assert after["SUPABASE_URL"] == before["SUPABASE_URL"], "programs that hold the address find it again"
    assert len([process for process in home.processes() if process.name() == "deno"]) == 1


def test_the_gateway_says_that_it_is_alive_without_the_database(hurried: Any) -> None:
    report = hurried.status()
    alive = f"{report['SUPABASE_URL']}/gateway/alive"
    assert httpx.get(alive, trust_env=False).json()["version"] == report["version"]
    postgres = hurried.postgres_pid()
    os.kill(postgres, signal.SIGSTOP)
    try:
        assert httpx.get(alive, trust_env=False, timeout=10).status_code == 200
    finally:
        os.kill(postgres, signal.SIGCONT)
    hurried.wait_until(lambda: check_health(report["SUPABASE_URL"]).ok, what="health")
