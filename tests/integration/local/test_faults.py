"""What can be wrong with a home, a port or a disk is handled, or reported with a way out."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from openmanus_rl.local.ports import DEFAULT_PORT


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which this very process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def small_disk(homes: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that mounts a small disk; only root may mount."""
    mounted: list[Path] = []

    def mount(*, options: str) -> Path:
        folder = homes / f"disk-{os.urandom(4).hex()}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"mounting a small disk is not permitted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def refused(home: Any, *arguments: str) -> str:
    """Start, expect a refusal, and return its message."""
    done = home.run("up", "--detach", *(arguments or ("--port", "0")))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not home.processes(), "a refused start leaves nothing running"
    return str(done.stderr)


def test_a_taken_port_is_named_in_the_error_with_its_holder(home: Any, taken_port: int) -> None:
    message = refused(home, "--port", str(taken_port))
    assert f"port {taken_port} is taken by" in message
    assert str(os.getpid()) in message
    assert "--port 0" in message


def test_an_impossible_port_is_refused(home: Any) -> None:
    assert "port 70000 does not exist" in refused(home, "--port", "70000")


def test_a_half_made_database_is_made_anew(fresh_home: Any) -> None:
    process = fresh_home.spawn("up", "--port", "0")
    fresh_home.wait_until(lambda: bool(list(fresh_home.root.glob(".postgres-*/data/base"))), what="initdb")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert fresh_home.up()["healthy"]


@pytest.mark.parametrize(("written", "way_out"), [("13", "apt install postgresql-13"), ("99", "pip install --upgrade")])
def test_data_of_another_postgres_is_refused_untouched(home: Any, written: str, way_out: str) -> None:
    (home.root / "postgres" / "PG_VERSION").write_text(f"{written}\n")
    before = sorted(path.name for path in (home.root / "postgres").iterdir())
    message = refused(home)
    assert f"written by Postgres {written}" in message
    assert "Postgres 18 is installed" in message
    assert way_out in message
    assert sorted(path.name for path in (home.root / "postgres").iterdir()) == before


def test_damaged_keys_are_reported_with_the_way_out(home: Any) -> None:
    (home.root / "keys.json").write_text('{"publishable_key": "sb_pub')
    message = refused(home)
    assert "keys.json is damaged" in message
    assert "delete it" in message


def test_a_read_only_folder_is_reported(fresh_home: Any, request: pytest.FixtureRequest) -> None:
    if os.geteuid() == 0:  # Permission bits do not bind root; a read-only file system does.
        folder = request.getfixturevalue("small_disk")(options="ro")
        reason = "read-only file system"
    else:
        folder = fresh_home.root.parent / "closed"
        folder.mkdir(mode=0o555)
        reason = "no permission to write"
    fresh_home.env["OPENMANUS_RL_HOME"] = str(folder / "home")
    message = refused(fresh_home)
    assert reason in message
    assert "OPENMANUS_RL_HOME" in message


def test_a_home_that_is_a_file_is_reported(fresh_home: Any) -> None:
    fresh_home.root.write_text("not a folder")
    assert "not a folder" in refused(fresh_home)


def test_a_nearly_full_disk_is_reported_before_the_start(fresh_home: Any, small_disk: Callable[..., Path]) -> None:
    fresh_home.env["OPENMANUS_RL_HOME"] = str(small_disk(options="size=100m") / "home")
    message = refused(fresh_home)
    assert "99 MB free" in message
    assert "needs 200 MB" in message


def test_a_disk_that_fills_up_ends_nothing_and_loses_nothing_that_was_committed(
    new_home: Callable[..., Any], small_disk: Callable[..., Path]
) -> None:
    home = new_home("full")
    disk = small_disk(options="size=220m,mode=755")
    subprocess.run(["cp", "-a", str(home.root), str(disk / "home")], check=True)
    home.root = disk / "home"
    home.env["OPENMANUS_RL_HOME"] = str(home.root)
    report = home.up()
    assert [note for note in report["notes"] if re.search(r"has only \d+ MB free", note)], "little room is told"
    url = report["DATABASE_URL"]
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table public.kept as select 7 as id")
            with open(home.root / "logs" / "gateway.log", "ab") as log:
                log.write(b"x" * (10 * 2**20 + 1))  # As long as it may be: it is to be rotated, without any room.
            _fill(disk)
            assert home.up()["started"] is False, "what runs is found on a full disk too"
            with pytest.raises(psycopg.Error, match=r"(?i)no space left|closed|terminat|crash|could not extend"):
                connection.execute(
                    "create table public.big as select repeat(md5(n::text), 100) from generate_series(1, 500000) n"
                )
        _fill(disk)
        postgres = psutil.Process(home.postgres_pid())
        postgres.kill()
        home.wait_until(lambda: not postgres.is_running(), what="the end of Postgres")
        # Whether it comes back without any room is its own matter, and there may be none to log it.
        with contextlib.suppress(AssertionError):
            home.wait_until(lambda: _answers(url), what="a restart", seconds=5)
        assert psutil.pid_exists(report["pid"]), "the supervisor outlives a full disk"
        for filler in disk.glob("filler-*"):
            filler.unlink()
        home.wait_until_healthy()
        with psycopg.connect(url) as connection:
            assert connection.execute("select id from public.kept").fetchall() == [(7,)]
            connection.execute("create table public.more as select repeat('x', 1000) from generate_series(1, 1000)")
    finally:
        assert home.run("down").returncode == 0


def _fill(disk: Path) -> None:
    free = os.statvfs(disk)
    with contextlib.suppress(OSError), open(disk / f"filler-{os.urandom(4).hex()}", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize))


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.Error:
        return False
    return True


def test_another_port_is_chosen_and_told_when_the_usual_one_is_taken(home: Any) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # If something else listens there, that is just as well.
            listener.bind(("127.0.0.1", DEFAULT_PORT))
            listener.listen()
        done = home.run("up", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["port"] != DEFAULT_PORT
    assert [note for note in report["notes"] if f"port {DEFAULT_PORT} is taken" in note and str(report["port"]) in note]


def test_files_that_a_crash_left_behind_are_no_running_stack(home: Any) -> None:
    # The process number that they name belongs to someone else by now: to this very process.
    names = ("version", "url", "database_url", "postgres_version", "publishable_key", "secret_key", "jwt_secret")
    stale = dict.fromkeys(names, "x") | {"pid": os.getpid(), "port": 1, "postgres_port": 1}
    stale |= {"dashboard_url": "x", "started_at": "2024-01-01T00:00:00+00:00"}
    (home.root / "stack.json").write_text(json.dumps(stale))
    (home.root / "stack.lock").write_text(f"{os.getpid()}\n")
    (home.root / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{home.root}/postgres\n0\n1\n\n127.0.0.1\n")
    assert home.run("status").returncode == 3
    assert home.up()["started"]
    assert home.status()["healthy"]


def test_an_older_schema_is_brought_up_to_date_and_a_newer_one_refused(home: Any) -> None:
    latest = "select max(version) from supabase_migrations.schema_migrations"
    with psycopg.connect(home.up()["DATABASE_URL"], autocommit=True) as connection:
        expected = connection.execute(latest).fetchone()
        connection.execute("drop schema supabase_migrations, public, internal cascade")
        connection.execute("create schema public")
        policies = connection.execute("select policyname from pg_policies where schemaname = 'storage'").fetchall()
        for (name,) in policies:
            connection.execute(f'drop policy "{name}" on storage.objects')
        connection.execute("delete from storage.buckets")
    home.run("down")
    with psycopg.connect(home.up()["DATABASE_URL"], autocommit=True) as connection:
        assert connection.execute(latest).fetchone() == expected
        assert connection.execute("select count(*) from public.training_runs").fetchone() == (0,)
        connection.execute(
            "insert into supabase_migrations.schema_migrations (version, name) values ('99990101000000', 'future')"
        )
    home.run("down")
    message = refused(home)
    assert "99990101000000" in message
    assert "pip install --upgrade openmanus-rl" in message


def test_lost_keys_are_made_anew_and_the_data_stays(home: Any) -> None:
    before = json.loads((home.root / "keys.json").read_text())
    (home.root / "keys.json").unlink()
    after = home.up()
    assert after["SUPABASE_SERVICE_ROLE_KEY"] != before["secret_key"]
    with psycopg.connect(after["DATABASE_URL"]) as connection:
        assert connection.execute("select count(*) > 0 from supabase_migrations.schema_migrations").fetchone() == (
            True,
        )
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            after["DATABASE_URL"].replace(
                after["DATABASE_URL"].split(":")[2].split("@")[0], before["database_password"]
            )
        )
