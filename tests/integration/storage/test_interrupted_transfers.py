"""Transfers that break: nothing half is ever seen, and what can be tried again is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from openmanus_rl.errors import ChecksumMismatch, ConflictError, ConnectionFailed, LocalFileError
from openmanus_rl.local.embedded import find_stack
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.retry import RetryPolicy

Manager = type[StorageManager]
MakeFile = Callable[..., Path]
SIZE_BYTES = 8 * 1024 * 1024


@pytest.fixture
def impatient(stack: Any) -> Manager:
    """A manager whose first failure is the last: its pause before a retry is longer than any limit."""
    retry = RetryPolicy(random=lambda: 1e9)
    return StorageManager.using(Client.from_url_and_key(stack.url, stack.secret_key, retry=retry))


@pytest.fixture
def kill_gateway(stack: Any) -> Iterator[Callable[[], None]]:
    """Kill the stack's gateway process; by the end of the test its supervisor has started another."""
    if not (stack.home / "stack.json").exists():
        pytest.skip("only a stack of our own may be killed")
    supervisor = psutil.Process(json.loads((stack.home / "stack.json").read_text())["pid"])

    def kill() -> None:
        gateways = [child for child in supervisor.children() if child.cmdline()[-1:] == ["serve"]]
        assert gateways
        for process in gateways:
            process.kill()

    yield kill
    assert find_stack(stack.home) is not None


def _once_halfway(act: Callable[[], None]) -> Callable[[int, int], None]:
    left = [act]

    def on_progress(moved_bytes: int, total_bytes: int) -> None:
        if left and moved_bytes * 2 >= total_bytes:
            left.pop()()

    return on_progress


def test_a_server_that_dies_amid_an_upload_leaves_nothing_half(
    impatient: Manager, manager: Manager, kill_gateway: Callable[[], None], file: MakeFile, run_id: str, stack: Any
) -> None:
    kept = manager.upload_checkpoint(run_id, 1, file("a.pt", b"the old one"))
    new = file("b.pt", os.urandom(SIZE_BYTES))
    for number in (1, 2):
        with pytest.raises(ConnectionFailed):
            impatient.upload_checkpoint(run_id, number, new, on_progress=_once_halfway(kill_gateway))
        assert find_stack(stack.home) is not None
    assert [entry["path"] for entry in manager.list_files("model-checkpoints", run_id)] == [kept]
    assert manager.download_bytes("model-checkpoints", kept) == b"the old one"


def test_an_upload_outlives_the_death_of_the_server(
    stack: Any, kill_gateway: Callable[[], None], file: MakeFile, run_id: str
) -> None:
    patient = StorageManager.using(Client.from_url_and_key(stack.url, stack.secret_key))
    content = os.urandom(SIZE_BYTES)
    path = patient.upload_checkpoint(run_id, 1, file("a.pt", content), on_progress=_once_halfway(kill_gateway))
    assert patient.download_bytes("model-checkpoints", path) == content


def test_a_client_that_is_killed_amid_an_upload_leaves_nothing_half(
    stack: Any, manager: Manager, file: MakeFile, run_id: str
) -> None:
    source = file("a.pt", os.urandom(SIZE_BYTES))
    program = """
import os, signal, sys
from openmanus_rl.utils.supabase_storage import StorageManager
def die_halfway(sent, total):
    if sent * 2 >= total:
        os.kill(os.getpid(), signal.SIGKILL)
StorageManager.upload_checkpoint(sys.argv[1], 1, sys.argv[2], on_progress=die_halfway)
"""
    done = subprocess.run([sys.executable, "-c", program, run_id, str(source)], env=stack.env, cwd="/", check=False)
    assert done.returncode == -signal.SIGKILL
    assert manager.list_files("model-checkpoints", run_id).rows == []
    assert manager.upload_checkpoint(run_id, 1, source, overwrite=False)


def test_a_file_that_changes_amid_its_upload_is_not_stored(manager: Manager, file: MakeFile, run_id: str) -> None:
    kept = manager.upload_checkpoint(run_id, 1, file("old.pt", b"the old one"))
    source = file("a.pt", bytes(SIZE_BYTES))

    def change() -> None:
        with source.open("r+b") as opened:
            opened.write(b"changed")

    with pytest.raises(LocalFileError, match="changed while it was being uploaded"):
        manager.upload_checkpoint(run_id, 1, source, on_progress=_once_halfway(change))
    assert manager.download_bytes("model-checkpoints", kept) == b"the old one"


def _break_halfway(request: httpx.Request, _real: httpx.BaseTransport) -> httpx.Response:
    chunks = iter(request.stream)  # type: ignore[arg-type]
    next(chunks)
    raise httpx.WriteError("the connection broke", request=request)


def _lose_the_answer(request: httpx.Request, real: httpx.BaseTransport) -> httpx.Response:
    response = real.handle_request(request)
    response.read()
    response.close()
    raise httpx.ReadError("the connection broke", request=request)


def _busy(request: httpx.Request, _real: httpx.BaseTransport) -> httpx.Response:
    return httpx.Response(503, json={"message": "busy"}, request=request)


def _page_of_a_proxy(request: httpx.Request, _real: httpx.BaseTransport) -> httpx.Response:
    return httpx.Response(200, html="<h1>Welcome to the hotel</h1>", request=request)


@pytest.mark.parametrize("failure", [_break_halfway, _lose_the_answer, _busy, _page_of_a_proxy])
@pytest.mark.parametrize("overwrite", [True, False])
def test_an_upload_that_failed_on_the_way_is_sent_again_from_the_start(
    manager: Manager, transport: Any, file: MakeFile, run_id: str, failure: Any, overwrite: bool
) -> None:
    content = os.urandom(3 * 1024 * 1024)
    transport.failures = [failure, failure]
    path = manager.upload_checkpoint(run_id, 1, file("a.pt", content), overwrite=overwrite)
    assert transport.requests.count(f"POST /storage/v1/object/model-checkpoints/{path}") == 3
    assert manager.download_bytes("model-checkpoints", path) == content


def test_a_lost_answer_does_not_hide_that_another_file_was_there(
    manager: Manager, transport: Any, file: MakeFile, run_id: str
) -> None:
    path = manager.upload_log(run_id, "training", file("a.log", b"another"))
    transport.failures = [_lose_the_answer]
    with pytest.raises(ConflictError):
        manager.upload_log(run_id, "training", file("b.log", b"mine"), overwrite=False)
    assert manager.download_bytes("logs", path) == b"another"


def _torn(request: httpx.Request, _real: httpx.BaseTransport) -> httpx.Response:
    return httpx.Response(200, content=b"only a part", request=request)


def test_a_torn_download_is_fetched_again(manager: Manager, transport: Any, run_id: str, tmp_path: Path) -> None:
    path = manager.upload_bytes("logs", f"{run_id}/a.log", b"the whole of it")
    assert manager.file_exists("logs", path)
    transport.failures = [lambda request, real: real.handle_request(request), _torn]
    assert manager.download_file("logs", path, tmp_path / "a.log").read_bytes() == b"the whole of it"
    assert [name.name for name in tmp_path.iterdir()] == ["a.log"]


def test_content_that_is_not_what_was_uploaded_is_refused_for_good_and_what_was_there_stays(
    manager: Manager, transport: Any, stack: Any, run_id: str, tmp_path: Path
) -> None:
    if not (stack.home / "storage").is_dir():
        pytest.skip("only the files of a stack of our own may be spoilt")
    path = manager.upload_bytes("logs", f"{run_id}/a.log", run_id.encode())
    stored = next(
        found
        for found in (stack.home / "storage").rglob("*")
        if found.is_file() and found.stat().st_size == len(run_id) and found.read_bytes() == run_id.encode()
    )
    stored.write_bytes(run_id.upper().encode().replace(b"-", b"_"))
    target = tmp_path / "a.log"
    target.write_bytes(b"what was there")
    with pytest.raises(ChecksumMismatch, match=rf"download logs/{path}: SHA-256 .*upload the file again, or delete it"):
        manager.download_file("logs", path, target)
    with pytest.raises(ChecksumMismatch):
        manager.download_bytes("logs", path)
    assert transport.requests.count(f"GET /storage/v1/object/logs/{path}") == 4
    assert target.read_bytes() == b"what was there"
    assert [name.name for name in tmp_path.iterdir()] == ["a.log"]
