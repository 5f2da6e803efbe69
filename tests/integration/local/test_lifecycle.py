"""up, status and down, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
from collections.abc import Callable
from typing import Any

import httpx
import psutil
import psycopg
import pytest

ENV_NAMES = ["SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL"]


def test_a_detached_stack_serves_until_down_and_keeps_its_data(fresh_home: Any) -> None:
    home = fresh_home
    first = home.up()
    with psycopg.connect(first["DATABASE_URL"]) as connection:
        connection.execute("create table public.kept (id int)")
        connection.execute("insert into public.kept values (7)")

    stopped = home.run("down")
    assert stopped.returncode == 0
    assert str(home.root) in stopped.stdout
    assert not home.processes()
    assert not (home.root / "stack.json").exists()

    second = home.up()
    with psycopg.connect(second["DATABASE_URL"]) as connection:
        assert connection.execute("select id from public.kept").fetchall() == [(7,)]
    same = ["SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL"]
    assert [first[name] for name in same] == [second[name] for name in same]


def test_down_says_so_when_nothing_runs(fresh_home: Any) -> None:
    done = fresh_home.run("down")
    assert done.returncode == 0
    assert "Nothing is running" in done.stdout
    assert not fresh_home.root.exists(), "down must not make a home"


def test_status_of_nothing_is_exit_code_3(home: Any) -> None:
    assert home.run("status").returncode == 3
    assert home.run("status", "--env").returncode == 3
    done = home.run("status", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["running"] is False


def test_status_prints_settings_that_work(running: Any) -> None:
    home = running
    report = home.status()
    done = home.run("status", "--env")
    lines = done.stdout.splitlines()
    assert [line.split("=", 1)[0] for line in lines] == ENV_NAMES
    settings = dict(line.split("=", 1) for line in lines)
    assert settings == {name: report[name] for name in ENV_NAMES}
    expected = {
        "dashboard_url",
        "running",
        "pid",
        "port",
        "home",
        "version",
        "postgres_version",
        "uptime_seconds",
        "disk_bytes",
    }
    assert expected <= report.keys()
    assert report["disk_bytes"] > 2**20

    headers = {"apikey": settings["SUPABASE_SERVICE_ROLE_KEY"]}
    answer = httpx.get(f"{settings['SUPABASE_URL']}/rest/v1/training_runs", headers=headers, trust_env=False)
    assert answer.status_code == 200, answer.text

    # The same lines, used as settings, still name the embedded stack.
    human = home.run("status", **settings)
    assert human.returncode == 0
    assert report["SUPABASE_URL"] in human.stdout
    assert settings["SUPABASE_SERVICE_ROLE_KEY"] not in human.stdout


def test_status_of_another_supabase_says_which_and_whether_it_is_well(running: Any, fresh_home: Any) -> None:
    other = running.status()
    settings = {name: other[name] for name in ENV_NAMES}
    done = fresh_home.run("status", **settings)
    assert done.returncode == 0
    assert other["SUPABASE_URL"] in done.stdout

    settings["SUPABASE_URL"] = "http://127.0.0.1:1"
    gone = fresh_home.run("status", "--json", **settings)
    assert gone.returncode == 3
    assert json.loads(gone.stdout)["healthy"] is False


def test_secrets_are_readable_by_the_owner_only(running: Any) -> None:
    for name in ("keys.json", "stack.json"):
        assert stat.S_IMODE((running.root / name).stat().st_mode) == 0o600
    assert not stat.S_IMODE(running.root.stat().st_mode) & 0o067
    # Nor may they show in the process list, which every user may read.
    content = json.loads((running.root / "keys.json").read_text())
    arguments = " ".join(" ".join(process.cmdline()) for process in running.processes())
    assert not [name for name, value in content.items() if value in arguments]


def test_only_loopback_is_listened_on(running: Any) -> None:
    pids = {process.pid for process in running.processes()}
    listening = [c.laddr.ip for c in psutil.net_connections("inet") if c.status == psutil.CONN_LISTEN and c.pid in pids]
    assert len(listening) == 2
    assert set(listening) == {"127.0.0.1"}


def test_the_database_refuses_a_wrong_password(running: Any) -> None:
    url = running.status()["DATABASE_URL"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace("://openmanus_owner:", "://openmanus_owner:wrong"))


def test_a_database_that_was_thrown_away_is_made_anew(home: Any) -> None:
    shutil.rmtree(home.root / "postgres")
    with psycopg.connect(home.up()["DATABASE_URL"]) as connection:
        assert connection.execute("select count(*) from public.training_runs").fetchone() == (0,)


def test_any_folder_will_do(new_home: Callable[..., Any]) -> None:
    name = "/".join(
        ["with spaces, commas, ünïcode and 'quotes'", *["x" * 60] * 4]
    )  # Longer than a socket's path may be.
    assert new_home(name, fresh=True).up()["healthy"]


def test_ctrl_c_stops_a_foreground_stack_cleanly(home: Any) -> None:
    process = home.spawn("up", "--port", "0")
    home.wait_until(lambda: (home.root / "stack.json").exists(), what="the start")
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does: the whole group gets it.
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "The stack is running" in out
    assert str(home.root) in out
    assert not home.processes()
    assert "database system is shut down" in (home.root / "logs" / "postgres.log").read_text()
    assert not (home.root / "stack.json").exists()


def test_a_start_that_is_interrupted_leaves_nothing_behind(fresh_home: Any) -> None:
    process = fresh_home.spawn("up", "--port", "0")
    fresh_home.wait_until(lambda: (fresh_home.root / "postgres").exists(), what="the database")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert not fresh_home.processes()


def test_the_address_shows_the_dashboard(stack: Any) -> None:
    page = httpx.get(stack.url, timeout=30)
    assert page.status_code == 200
    assert '<div id="root">' in page.text
    script = re.search(r'src="\./(assets/[^"]+\.js)"', page.text)
    assert script is not None
    assert httpx.get(f"{stack.url}/{script[1]}", timeout=30).headers["content-type"].startswith("text/javascript")
