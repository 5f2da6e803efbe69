"""The embedded stack with its files in S3: upload, back up, restore, and what is told when it is set up wrong."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..s3_server import Relay, S3Server, s3_server
from .conftest import HomeUnderTest
from .test_backup import ended, refusal, rows, written_to

LARGE = os.urandom(20_000_000)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def s3_home(home: HomeUnderTest, server: S3Server) -> HomeUnderTest:
    """A home whose files are in S3, below a prefix of its own."""
    home.env |= server.settings | {"OPENMANUS_RL_STORAGE": f"s3://records/{os.urandom(4).hex()}"}
    return home


def client_of(report: Any) -> httpx.Client:
    key = report["SUPABASE_SERVICE_ROLE_KEY"]
    base = f"{report['SUPABASE_URL']}/storage/v1/object"
    return httpx.Client(base_url=base, headers={"apikey": key}, trust_env=False, timeout=60)


def test_files_go_to_s3_and_back_and_a_backup_holds_them(
    s3_home: HomeUnderTest, server: S3Server, tmp_path: Path
) -> None:
    s3_home.up()
    report = s3_home.status()
    path = tmp_path / "busy.backup"
    create = "create table public.tasks_written (id uuid); create table public.validators_written (id uuid)"
    rows(report, create)
    with client_of(report) as storage:
        storage.post("/datasets/large.bin", content=LARGE).raise_for_status()
        assert (
            storage.get("/datasets/large.bin", headers={"Range": "bytes=8388600-8388615"}).content
            == (LARGE[8388600:8388616])
        )
        with written_to(report, storage):
            taken = ended(s3_home, "backup", str(path))
        assert taken["missing_files"] == []
        assert taken["files"] > 1
        prefix = s3_home.env["OPENMANUS_RL_STORAGE"].rsplit("/", 1)[1]

        def stored() -> set[str]:
            return {key for key in server.object_keys() if key.startswith(prefix)}

        before = stored()
        ended(s3_home, "reset", "--yes")
        assert ended(s3_home, "restore", str(path), "--yes")["restored"] is True
        for key in before:  # A removal that the reset began, and that reaches S3 only now.
            server.client.delete_object(Bucket="records", Key=key)
        report = s3_home.status()
        assert storage.get("/datasets/large.bin").content == LARGE
        objects = rows(report, "select name, metadata ->> 'eTag', version from storage.objects")
        assert len(objects) == taken["files"]
        for name, etag, _ in objects:
            content = storage.get(f"/datasets/{name}").raise_for_status().content
            assert f'"{hashlib.md5(content).hexdigest()}"' == etag, "each row's file is the one it names"
        named = {f"{prefix}/{version}" for *_, version in objects}
        s3_home.wait_until(lambda: stored() == named, what="removal of what no object has", seconds=150)
    assert not [found for found in (s3_home.root / "storage").rglob("*") if found.is_file()]


def test_a_backup_moves_files_from_the_folder_to_s3(
    running: HomeUnderTest, s3_home: HomeUnderTest, tmp_path: Path
) -> None:
    with client_of(running.status()) as storage:
        storage.put("/datasets/moved.txt", content=b"moved").raise_for_status()
    path = tmp_path / "folder.backup"
    ended(running, "backup", str(path))
    s3_home.up()
    ended(s3_home, "restore", str(path), "--yes")
    with client_of(s3_home.status()) as storage:
        assert storage.get("/datasets/moved.txt").content == b"moved"


def test_a_stack_that_cannot_use_its_bucket_says_which_setting_is_wrong(
    s3_home: HomeUnderTest, server: S3Server
) -> None:
    for changes, told in (
        ({"OPENMANUS_RL_STORAGE": "s3://no-such-bucket"}, "bucket no-such-bucket"),
        ({"OPENMANUS_RL_STORAGE": "gs://records"}, "give s3://bucket"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, "AWS_SECRET_ACCESS_KEY is missing"),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, "check AWS_ENDPOINT_URL_S3"),
    ):
        said = refusal(s3_home, "up", "--detach", "--port", "0", **changes)
        assert told in " ".join(said.split()), changes
        assert server.settings["AWS_SECRET_ACCESS_KEY"] not in said
    s3_home.up()
    with client_of(s3_home.status()) as storage:
        storage.post("/datasets/one.txt", content=b"one").raise_for_status()
    assert s3_home.run("down").returncode == 0
    said = " ".join(refusal(s3_home, "up", "--detach", "--port", "0", OPENMANUS_RL_STORAGE="").split())
    assert f"set OPENMANUS_RL_STORAGE={s3_home.env['OPENMANUS_RL_STORAGE']}" in said


def test_an_upload_outlasts_an_s3_that_is_away_for_a_while(
    s3_home: HomeUnderTest, server: S3Server, tmp_path: Path
) -> None:
    relay = Relay(server.port)
    s3_home.env["AWS_ENDPOINT_URL_S3"] = f"http://127.0.0.1:{relay.port}"
    s3_home.up()
    (tmp_path / "log.txt").write_text("kept")
    program = (
        "import sys; from openmanus_rl.utils.supabase_storage import StorageManager;"
        "print(StorageManager.upload_file('logs', 'a/log.txt', sys.argv[1]))"
    )
    relay.close()
    log = s3_home.root / "logs" / "gateway.log"

    def reopen() -> None:
        s3_home.wait_until(lambda: "the object storage failed" in log.read_text(), what="a refused upload")
        relay.open()

    waiting = threading.Thread(target=reopen)
    waiting.start()
    done = s3_home.python(program, str(tmp_path / "log.txt"))
    waiting.join()
    assert done.returncode == 0, done.stderr
    with client_of(s3_home.status()) as storage:
        assert storage.get("/logs/a/log.txt").content == b"kept"
    relay.close()
    assert json.loads(s3_home.run("status", "--json").stdout)["healthy"], "only files wait for S3"
