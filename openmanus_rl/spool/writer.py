"""Writes a spool: appends records to its segments; `files` says what its readers may rely on."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl._private import make_private
from openmanus_rl.errors import LocalFileError
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.files import Position, SpoolMeta, Unwritten, dump_unwritten, lock_file, segment_path
from openmanus_rl.spool.lines import dump_line

__all__ = ["SpoolWriter"]

_logger = logging.getLogger(__name__)

SEGMENT_BYTES = 8 * 1024 * 1024
# What does not fit on a full disk waits here; beyond it, records are lost and counted.
MEMORY_BYTES = 64 * 1024 * 1024
_NO_FILE = -1
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


_Place = tuple[int, int, int, int]
"""How far a writer has come, in one value: an exception out of a signal handler finds all of a step or none.

The descriptor of the last segment (_NO_FILE if the next one is still to be made), its number, its size, and the number
of the last record that is whole in the segments. A plain tuple: every call makes one.
"""


class SpoolWriter:
    """Appends records to a spool of its own; the only lock is shared with other writers, never with delivery."""

    def __init__(
        self,
        root: Path,
        *,
        url: str,
        run_id: str,
        rewinds: tuple[int, ...] = (),
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.meta = SpoolMeta(new_id(), url, run_id, os.getpid(), time.time(), rewinds)
        self.folder = root / self.meta.spool_id
        self.appended = 0
        self.lost = 0
        self.lost_reason: str | None = None
        self.closed_reason = "it came after the end of the recording"
        self._segment_bytes = segment_bytes
        self._place: _Place = (_NO_FILE, 0, 0, 0)
        self._accepted = 0
        # Records that are not whole in a segment, with their numbers; between calls there are some only on a full disk.
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        self._is_in_doubt = False
        self._is_writing = False
        self._is_short = False
        self._is_closing = False
        self._closed = False
        self._news: deque[tuple[int, str]] = deque()
        # A signal handler may record something while its own thread is in here.
        self._lock = threading.RLock()
        self._make()

    def _make(self) -> None:
        try:
            make_private(self.folder.parent)
            self.folder.mkdir(mode=0o700)
            self._writer_lock = lock_file(self.folder / "writer.lock")
            try:
                self._begin_segment()
                _write_new(self.folder / "unwritten.json", dump_unwritten(Unwritten()))
                _write_new(self.folder / "progress.json", b"{}\n")
                # Last: with it the folder is a spool, and a courier that found nobody writing would clear it away.
                _write_new(self.folder / "meta.json", orjson.dumps(asdict(self.meta)))
            except OSError:
                self.abandon()
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
        except OSError as error:
            raise LocalFileError(f"the spool {self.folder} cannot be made: {error.strerror}") from error

    @property
    def waiting(self) -> int:
        """Return how many records wait in memory for room on the disk."""
        return len(self._waiting)

    @property
    def last(self) -> int:
        """Return the number of the last record that was accepted."""
        return self._accepted

    @property
    def is_closed(self) -> bool:
        """Say whether nothing more is written."""
        return self._closed

    def append(self, kind: str, record: Any) -> None:
        """Write a record to the spool; once this returns, it survives the death of the process. Nothing is raised.

        While the disk is full it waits in memory, which is logged once, and counted in `waiting`. What JSON or Postgres
        cannot hold is replaced: `lines.dump_line` says by what.
        """
        line = dump_line(kind, record)
        with self._lock:
            if self._closed or self._is_closing:
                self._lose(self.closed_reason)
            elif self._waiting and not self._write_waiting() and self._waiting_bytes + len(line) > MEMORY_BYTES:
                self._lose("the disk is full, and so is the memory kept for this")
            else:
                self._accepted += 1
                self._waiting.append((self._accepted, line))
                self._waiting_bytes += len(line)
                self._write_waiting()
            self.appended += 1
        if self._news:
            self._tell()

    def count_lost(self, reason: str) -> None:
        """Count something that could not even be written down."""
        with self._lock:
            self._lose(reason)
            self.appended += 1
        self._tell()

    def drain(self) -> None:
        """Write down what waits in memory, if there is room on the disk again."""
        with self._lock:
            if self._waiting and not self._closed:
                self._write_waiting()
        self._tell()

    def place_behind(self, number: int) -> Position | None:
        """Return a place behind the record of this number; None as long as it is only in memory."""
        self.drain()
        with self._lock:
            _, segment, offset, written = self._place
            if written < number and not self._closed:
                return None
            return Position(segment, offset)

    def close(self) -> None:
        """Let go of the spool; its records stay until they are delivered."""
        with self._lock:
            # Called by a signal handler while this thread writes, it is done when that is.
            self._is_closing = self._is_writing
            if not self._is_writing:
                self._close()
        self._tell()

    def abandon(self) -> None:
        """Close the files only; for a forked child, in which the lock may be held by a thread that is not there."""
        # First: a descriptor that is closed may be another file's at once.
        self._closed = True
        # What waits there is the parent's to write.
        self._waiting = deque()
        file = self._place[0]
        if file != _NO_FILE:
            os.close(file)
        os.close(self._writer_lock)

    def _close(self) -> None:
        if self._closed:
            return
        self._write_waiting()
        if self._waiting:
            for _ in self._waiting:
                self._count_lost("the disk was full until the end")
            self._waiting.clear()
            self._note_unwritten()
        self.abandon()

    def _write_waiting(self) -> bool:
        """Write down what waits, in its order, and say whether nothing is left."""
        if self._is_writing:
            return False  # A signal handler of the thread that writes: it will find this when it goes on.
        self._is_writing = True
        waiting = self._waiting
        try:
            while waiting:
                number, line = waiting[0]
                # Else it is written, and an exception came before it was taken off.
                if number > self._place[3]:
                    self._write(number, line)
                waiting.popleft()
                self._waiting_bytes -= len(line)
        except OSError as error:
            # Mostly a full disk; whatever it is, training goes on.
            self._note_shortage(error)
            return False
        finally:
            self._is_writing = False
            if self._is_closing:
                self._is_closing = False
                self._close()
        if self._is_short:
            self._note_room()
        return True

    def _write(self, number: int, line: bytes) -> None:
        file, segment, offset, _ = self._place
        if file == _NO_FILE or offset >= self._segment_bytes:
            file, segment, offset, _ = self._begin_segment()
        begun = os.lseek(file, 0, os.SEEK_END) - offset if self._is_in_doubt else 0
        if not 0 <= begun <= len(line):
            # Something else has changed the file: nothing more is to come behind that.
            file, segment, offset, _ = self._begin_segment()
            begun = 0
        self._is_in_doubt = True
        while begun < len(line):
            # Also without a fault it may be less than was asked for.
            count = os.write(file, line[begun:])
            if not count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            begun += count
        self._place = (file, segment, offset + len(line), number)
        self._is_in_doubt = False

    def _begin_segment(self) -> _Place:
        file, segment, offset, written = self._place
        if file != _NO_FILE:
            # Let go of first: closed twice, it may be another file by then. Closed before there is a successor: on NFS,
            # other machines are sure to see what was written only then.
            self._place = (_NO_FILE, segment, offset, written)
            try:
                os.close(file)
            except OSError as error:
                self._lose(f"{segment_path(self.folder, segment)} could not be closed: {error.strerror}")
        file = os.open(segment_path(self.folder, segment + 1), _APPENDING, 0o600)
        self._place = (file, segment + 1, 0, written)
        return self._place

    def _lose(self, reason: str) -> None:
        self._count_lost(reason)
        if not self._closed:
            self._note_unwritten()

    def _count_lost(self, reason: str) -> None:
        if not self.lost:
            self.lost_reason = reason
            self._news.append((logging.ERROR, f"a record is lost: {reason}; run.stats.lost counts them"))
        self.lost += 1

    def _note_shortage(self, error: OSError) -> None:
        if not self._is_short:
            self._is_short = True
            text = (
                f"{self.folder} cannot be written ({error.strerror}): records wait in memory, at most "
                f"{MEMORY_BYTES >> 20} MB of them, and are lost if this process is killed; make room on the disk"
            )
            self._news.append((logging.WARNING, text))
        self._note_unwritten()

    def _note_room(self) -> None:
        self._is_short = False
        self._news.append(
            (logging.WARNING, f"{self.folder} can be written again: no record is only in memory any more")
        )
        self._note_unwritten()

    def _note_unwritten(self) -> None:
        """Leave word of what is only in memory, or lost, for whoever finds the spool of a killed process."""
        with suppress(OSError):
            file = os.open(self.folder / "unwritten.json", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(file, dump_unwritten(Unwritten(len(self._waiting), self.lost)), 0)
            finally:
                os.close(file)

    def _tell(self) -> None:
        """Log what happened, now that the lock is free: a handler of the log may record something itself."""
        with suppress(IndexError):
            while self._news:
                level, text = self._news.popleft()
                _logger.log(level, "%s", text)


def _write_new(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
