"""Folders, files and ports, before anything is started."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from openmanus_rl.errors import StackError
from openmanus_rl.local import home as homes
from openmanus_rl.local import logs, ports
from openmanus_rl.local.home import Home, disk_bytes, read_json, write_private_json
from openmanus_rl.local.stack_file import StackLock, read_stack, supervisor_pid


def test_a_home_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    home.prepare()
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    home.root.chmod(0o755)
    home.prepare()
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700


def test_too_little_space_is_told_in_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "free_bytes", lambda _: 12 * 2**20)
    with pytest.raises(StackError, match=r"12 MB free.*needs 200 MB"):
        Home(tmp_path).require_free_space()


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_private_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_private_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("content", ["", "[1]", "{", json.dumps({"pid": 1})])
def test_a_stack_file_that_is_not_ours_is_no_stack(tmp_path: Path, content: str) -> None:
    (tmp_path / "stack.json").write_text(content)
    assert read_stack(Home(tmp_path)) is None


def test_disk_use_counts_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 2**20)
    assert disk_bytes(tmp_path) >= 2**20
    assert disk_bytes(tmp_path / "missing") == 0


def test_one_process_holds_the_lock_and_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert supervisor_pid(home) is None
    first, second = StackLock(home.lock), StackLock(home.lock)
    assert first.acquire()
    assert not second.acquire()
    assert supervisor_pid(home) == os.getpid()
    first.release()
    assert supervisor_pid(home) is None
    assert second.acquire()
    second.release()


def test_a_listening_port_is_not_free_and_its_holder_is_named() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not ports.is_free(port)
        assert str(os.getpid()) in (ports.holder(port) or "")
    assert ports.is_free(port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(StackError, match="does not exist"):
        ports.require_free(port)


def test_a_large_log_is_cut_while_it_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LIMIT_BYTES", 10)
    path = tmp_path / "x.log"
    with open(path, "ab") as writer:
        writer.write(b"0123456789abcdef")
        writer.flush()
        logs.rotate_if_large(path)
        writer.write(b"next")
    assert path.read_bytes() == b"next"
    assert (tmp_path / "x.log.1").read_bytes() == b"6789abcdef"


def test_a_log_that_cannot_be_moved_stays_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LIMIT_BYTES", 10)
    path = tmp_path / "x.log"
    path.write_bytes(b"0123456789abcdef")
    (tmp_path / "x.log.1").mkdir()  # Whatever keeps it from being written, as a full disk does.
    logs.rotate_if_large(path)
    assert path.read_bytes() == b"0123456789abcdef"


def test_a_home_with_data_may_be_used_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    home = Home(tmp_path)
    with pytest.raises(StackError, match=r"disk of .* is full"):
        home.prepare()
    home.postgres.mkdir()
    home.prepare()
