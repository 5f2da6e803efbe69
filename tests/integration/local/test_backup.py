"""A backup holds one moment of database and files while both change; a restore is whole or did not happen."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import stat
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest


def ended(home: Any, *arguments: str, code: int = 0) -> Any:
    """Run a command with --json and return what it prints."""
    done = home.run(*arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def refusal(home: Any, *arguments: str, **env: str) -> str:
    done = home.run(*arguments, **env)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return str(done.stderr)


@pytest.fixture
def report(running: Any) -> Any:
    return running.status()


@pytest.fixture
def storage(report: Any) -> Iterator[httpx.Client]:
    headers = {"apikey": report["SUPABASE_SERVICE_ROLE_KEY"]}
    headers["Authorization"] = f"Bearer {report['SUPABASE_SERVICE_ROLE_KEY']}"
    base = f"{report['SUPABASE_URL']}/storage/v1/object"
    with httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=30) as client:
        yield client


def rows(report: Any, statement: str) -> Any:
    with psycopg.connect(report["DATABASE_URL"], autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def written_to(report: Any, storage: httpx.Client) -> Iterator[None]:
    """Change both for as long as the block runs: pairs of rows in one transaction, files replaced and deleted."""
    stopping, failures = threading.Event(), []

    def repeat(act: Callable[[int], None]) -> None:
        try:
            number = 0
            while not stopping.is_set():
                act(number)
                number += 1
        except (psycopg.Error, httpx.HTTPError) as error:
            failures.append(error)

    def write_rows(_: int) -> None:
        with psycopg.connect(report["DATABASE_URL"]) as connection:
            for table in ("tasks", "validators"):
                connection.execute(f"insert into public.{table}_written (id) values (gen_random_uuid())".encode())

    def write_files(number: int) -> None:
        name = f"/datasets/backup/{number % 5}.txt"
        storage.post(name, content=os.urandom(5000), headers={"x-upsert": "true"}).raise_for_status()
        if number % 3 == 0:
            storage.delete(f"/datasets/backup/{(number + 2) % 5}.txt")

    threads = [threading.Thread(target=repeat, args=[act]) for act in (write_rows, write_files, write_files)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert failures == []


def stored_files(running: Any) -> list[Path]:
    return sorted(path for path in (running.root / "storage").rglob("*") if path.is_file())


@pytest.fixture
def backup(running: Any, report: Any, storage: httpx.Client, tmp_path: Path) -> Path:
    """A backup of a stack that holds a run and a file."""
    storage.post("/datasets/kept.txt", content=b"kept", headers={"x-upsert": "true"}).raise_for_status()
    rows(
        report,
        "insert into public.training_runs (name, algorithm, environment) values ('kept', 'ppo', 'house') returning id",
    )
    path = tmp_path / "taken.backup"
    ended(running, "backup", str(path))
    return path


def test_a_backup_taken_under_writes_restores_one_moment(
    running: Any, report: Any, storage: httpx.Client, tmp_path: Path
) -> None:
    rows(
        report,
        "create table public.tasks_written (id uuid); create table public.validators_written (id uuid)",
    )
    path = tmp_path / "busy.backup"
    with written_to(report, storage):
        time.sleep(1)
        taken = ended(running, "backup", str(path))
    assert taken["missing_files"] == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list((running.root / "storage").glob(".backup-*"))
    later = rows(report, "select count(*) from public.tasks_written")

    assert ended(running, "restore", str(path), "--yes")["restored"] is True
    report = running.status()
    assert report["healthy"]
    ((tasks,), (validators,)) = rows(
        report, "select count(*) from public.tasks_written union all select count(*) from public.validators_written"
    )
    assert tasks == validators > 0, "a transaction is in the backup whole or not at all"
    assert tasks < later[0][0]
    objects = rows(report, "select name, metadata ->> 'eTag' from storage.objects where name like 'backup/%'")
    assert len(objects) == taken["files"] - len(rows(report, "select 1 from storage.objects where name = 'kept.txt'"))
    for name, etag in objects:
        content = storage.get(f"/datasets/{name}").raise_for_status().content
        assert f'"{hashlib.md5(content).hexdigest()}"' == etag, "each row's file is the one it names"
    on_disk = [path for path in (running.root / "storage").rglob("*") if path.is_file()]
    assert len(on_disk) == taken["files"], "files that only the replaced database named are gone"


def test_what_was_reset_comes_back_and_users_stay_throughout(
    running: Any, report: Any, storage: httpx.Client, backup: Path
) -> None:
    users = rows(report, "select count(*) from auth.users")
    members = rows(report, "select user_id, role from public.members")
    assert "--yes" in refusal(running, "reset"), "nobody is there to type the word"
    assert rows(report, "select 1 from public.training_runs where name = 'kept'")

    rows(report, "select public.resume_run(id, gen_random_uuid()) from public.training_runs where name = 'kept'")
    removed = ended(running, "reset", "--yes")["removed"]
    assert removed["runs"] >= 1
    assert rows(report, "select count(*) from public.training_runs") == [(0,)]
    assert rows(report, "select count(*) from public.activity") == [(1,)]
    assert rows(report, "select count(*) from internal.launches") == [(0,)]
    assert rows(report, "select count(*) from auth.users") == users
    assert rows(report, "select user_id, role from public.members") == members
    assert not [path for path in (running.root / "storage").rglob("*") if path.is_file()]
    assert storage.get("/datasets/kept.txt").status_code in (400, 404)

    ended(running, "restore", str(backup))  # Nothing is recorded any more: nothing to confirm.
    assert rows(running.status(), "select 1 from public.training_runs where name = 'kept'")
    assert storage.get("/datasets/kept.txt").content == b"kept"


def damaged(path: Path, how: str) -> Path:
    """Return a copy of a backup that has a fault."""
    content = bytearray(path.read_bytes())
    copy = path.with_name(f"{how}.backup")
    if how == "flipped":
        content[len(content) // 2] ^= 1
    elif how == "cut":
        del content[len(content) // 2 :]
    elif how == "unfinished":
        with tarfile.open(path) as source, tarfile.open(copy, "w") as target:
            for entry in source:
                if entry.name != "manifest.json":
                    target.addfile(entry, source.extractfile(entry))
        return copy
    elif how == "foreign":
        content = bytearray(b"not a backup at all" * 100)
    copy.write_bytes(content)
    return copy


def test_a_damaged_backup_is_refused(running: Any, backup: Path) -> None:
    assert ended(running, "restore", str(backup), "--check")["restored"] is False
    for how in ("flipped", "cut", "unfinished", "foreign"):
        message = refusal(running, "restore", str(damaged(backup, how)), "--yes")
        assert any(word in message for word in ("damaged", "not complete")), how


def test_a_restore_that_fails_leaves_all_as_it_was(running: Any, report: Any, backup: Path) -> None:
    wrong = backup.with_name("wrong.backup")
    with tarfile.open(backup) as source, tarfile.open(wrong, "w") as target:
        for entry in source:
            content = source.extractfile(entry)
            assert content is not None
            data = content.read()
            if entry.name == "manifest.json":  # It claims a row more than the dump holds.
                manifest = json.loads(data)
                manifest["rows"]["public.training_runs"] += 1
                data = json.dumps(manifest).encode()
                entry.size = len(data)
            target.addfile(entry, io.BytesIO(data))
    before = rows(report, "select id from public.training_runs order by id")
    files = stored_files(running)
    assert "nothing was restored" in refusal(running, "restore", str(wrong), "--yes")
    assert rows(report, "select id from public.training_runs order by id") == before
    assert rows(report, "select datname from pg_database where datname like 'restoring%'") == []
    assert stored_files(running) == files

    # Nor does one that is killed; the next one clears up after it.
    process = running.spawn("restore", str(backup), "--yes")
    running.wait_until(
        lambda: bool(rows(report, "select 1 from pg_database where datname like 'restoring%'")), what="the loading"
    )
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert running.status()["healthy"]
    assert rows(report, "select id from public.training_runs order by id") == before
    ended(running, "restore", str(backup), "--yes")
    assert rows(running.status(), "select datname from pg_database where datname ~ '^(restoring|before)_'") == []


def test_nothing_is_replaced_unasked(running: Any, backup: Path) -> None:
    assert "exists already" in refusal(running, "backup", str(backup))
    assert "--yes" in refusal(running, "restore", str(backup))
    assert "not a folder" in refusal(running, "backup", str(backup.parent / "nowhere" / "x.backup"))
    message = refusal(running, "backup", str(backup.with_name("other")), DATABASE_URL="postgresql://u:p@127.0.0.1:1/x")
    assert "connect to Postgres" in message
