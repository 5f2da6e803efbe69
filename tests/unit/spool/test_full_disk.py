"""On a full disk records wait in memory: that is told, counted and left word of; and delivery needs no room itself."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery.adopting import adopt
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.waiting import discard, find_refusals, survey
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import Settings
from openmanus_rl.spool import writer as spool_module
from openmanus_rl.spool.files import Unwritten, read_unwritten
from openmanus_rl.spool.spools import COPIED_MARK, Progress, Spool, damaged_records, find_spools, overview
from openmanus_rl.spool.writer import SpoolWriter

from .test_spool_damage import Taker

_KILLED_ON_A_FULL_DISK = """
import os, signal, sys
from pathlib import Path
from openmanus_rl.spool import writer as spool
def write(file, data):
    if b'"id":1' in data: return os_write(file, data)
    raise OSError(28, "No space left on device")
os_write, os.write = os.write, write
writer = spool.SpoolWriter(Path(sys.argv[1]), url="x", run_id="x")
for number in (1, 2, 3):
    writer.append("rollouts", {"id": number})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """A disk without room for segments, as long as this holds something."""
    is_full = [True]
    real_write = os.write

    def write(file: int, data: bytes) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(file, data)

    monkeypatch.setattr("openmanus_rl.spool.writer.os.write", write)
    return is_full


def test_records_only_in_memory_are_told_of_once_and_when_they_are_safe_again(
    tmp_path: Path, full: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    for number in range(3):
        writer.append("rollouts", {"id": number})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "are lost if this process is killed" in caplog.text
    assert (writer.waiting, read_unwritten(writer.folder)) == (3, Unwritten(in_memory=3))
    assert writer.place_behind(writer.last) is None
    full.clear()
    writer.drain()
    assert "no record is only in memory any more" in caplog.text
    assert (writer.waiting, read_unwritten(writer.folder)) == (0, Unwritten())
    assert writer.place_behind(writer.last) is not None
    writer.close()


def test_what_was_only_in_memory_when_its_process_was_killed_is_reported_and_the_spool_kept(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED_ON_A_FULL_DISK, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    sink = Taker()
    for _ in range(2):
        Courier(tmp_path, connect=lambda: sink).deliver()
    assert sink.ids == [1]
    (spool,) = find_spools(tmp_path)
    assert (spool.progress.damaged, spool.progress.unwritten) == (2, 2)
    assert "2 were in its memory when it ended" in (spool.progress.damage or "")


def test_what_was_only_in_memory_is_counted_before_a_courier_came_in_a_copy_and_when_it_is_dropped(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    root = home / "spool" / "here"
    subprocess.run([sys.executable, "-c", _KILLED_ON_A_FULL_DISK, str(root)], check=False)
    other = home / "spool" / "other"
    (other_destination,) = [one for one in survey(home, current=other) if not one.is_current]
    assert other_destination.damaged == overview(root)["damaged"] == 2

    (spool,) = find_spools(root)
    assert adopt(spool, other)
    (copy,) = find_spools(other)
    # Copied at once, its process may live and write it yet; long after, nobody will.
    assert damaged_records(copy) == 0
    (copy.folder / COPIED_MARK).unlink()
    assert damaged_records(copy) == 2

    sink = Taker()
    Courier(root, connect=lambda: sink).deliver()
    refusals, seen = find_refusals(home)
    assert any("2 were in its memory when it ended" in one.reason and one.count == 2 for one in refusals)
    assert discard({folder: which for folder, which in seen.items() if folder == spool.folder}) == (2, 0)
    assert not list(find_spools(root))


@pytest.mark.usefixtures("full")
def test_what_the_memory_has_no_room_for_either_is_lost_counted_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool_module, "MEMORY_BYTES", 200)
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    for number in range(10):
        writer.append("rollouts", {"id": number})
    assert writer.waiting + writer.lost == writer.appended == 10
    assert writer.lost > 0
    assert read_unwritten(writer.folder) == Unwritten(writer.waiting, writer.lost)
    writer.close()
    assert (writer.waiting, writer.lost) == (0, 10)
    assert caplog.text.count("a record is lost") == 1
    Courier(tmp_path, connect=Taker).deliver()
    (spool,) = find_spools(tmp_path)
    assert spool.progress.damaged == 10


def test_progress_is_saved_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x", segment_bytes=1)
    for number in range(3):
        writer.append("rollouts", {"id": number})

    def no_room(path: Path, _data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = Taker()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", no_room)
        courier = Courier(tmp_path, connect=lambda: sink)
        courier.deliver()
        progress = Spool(writer.folder).progress
        assert (progress.segment, progress.taken) == (3, 3)
        # That is what makes room.
        assert [path.name for path in writer.folder.glob("*.jsonl")] == ["000003.jsonl"]
        # A shorter one leaves nothing of the longer one behind.
        Spool(writer.folder).save(Progress(damage="x" * 300))
        Spool(writer.folder).save(Progress(taken=7))
        assert Spool(writer.folder).progress == Progress(taken=7)
        with pytest.raises(OSError, match="No space"):
            Spool(writer.folder).save(Progress(damage="x" * 10_000_000))
        assert Spool(writer.folder).progress == Progress(taken=7)
    writer.close()


def test_a_spool_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool_module, "_write_new", fail)
    with pytest.raises(Exception, match="cannot be made: No space left"):
        SpoolWriter(tmp_path, url="x", run_id="x")
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_that_gets_no_spool_counts_what_it_loses_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("openmanus_rl.recorder.recording.ensure_courier", lambda _settings: None)
    settings = Settings(home=tmp_path)
    recording = Recording(settings, run_id=new_id())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", lambda *_args, **_options: os.write(-1, b""))
        recording.renew_after_fork()
    recording.append("rollouts", {"id": 1})
    assert (recording.stats.lost, recording.stats.in_memory) == (1, 0)
    assert "after a fork, the spool" in caplog.text
    assert not recording.flush(timeout_seconds=0)
    recording.close()


class Interrupted(BaseException):
    """What a signal handler raises."""


@pytest.mark.parametrize("at", ["before", "after", "in the middle"])
def test_an_exception_out_of_a_signal_handler_tears_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x", segment_bytes=100)
    real_write = os.write

    def write(file: int, data: bytes) -> int:
        part = {"before": data[:0], "after": data, "in the middle": data[:20]}[at]
        if part:
            real_write(file, part)
        raise Interrupted

    for number in range(6):
        if number % 2:
            with monkeypatch.context() as patch:
                patch.setattr("openmanus_rl.spool.writer.os.write", write)
                with pytest.raises(Interrupted):
                    writer.append("rollouts", {"id": number})
        else:
            writer.append("rollouts", {"id": number})
    target = writer.place_behind(writer.last)
    sink = Taker()
    Courier(tmp_path, connect=lambda: sink).deliver()
    assert sink.ids == list(range(6))
    progress = Spool(writer.folder).progress
    assert (progress.damaged, progress.position) == (0, target)
    writer.close()


@pytest.mark.parametrize("does", ["append", "close", "close and raise"])
def test_a_signal_handler_may_record_while_its_own_thread_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x", segment_bytes=1)
    real_write = os.write
    handled: list[Any] = []

    def write(file: int, data: bytes) -> int:
        count = real_write(file, data[:20])
        if not handled:
            handled.append(does)
            writer.append("rollouts", {"id": "of the handler"})
            if does != "append":
                writer.close()
            if does == "close and raise":
                raise Interrupted
        return count

    with monkeypatch.context() as patch:
        patch.setattr("openmanus_rl.spool.writer.os.write", write)
        if does == "close and raise":
            with pytest.raises(Interrupted):
                writer.append("rollouts", {"id": "of the loop"})
        else:
            writer.append("rollouts", {"id": "of the loop"})
    assert writer.is_closed == (does != "append")
    writer.close()
    sink = Taker()
    Courier(tmp_path, connect=lambda: sink).deliver()
    assert sink.ids == ["of the loop", "of the handler"]
    assert not writer.folder.exists()
