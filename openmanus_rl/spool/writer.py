"""Appends records to a spool; the format and its guarantees are documented in `files`."""

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
# How much is kept in memory while the disk is full. Beyond that, records are lost and counted.
MEMORY_BYTES = 64 * 1024 * 1024
_NO_FILE = -1
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


_Place = tuple[int, int, int, int]
"""Where the writer is: descriptor, number and size of the last segment, and the number of the last complete record.

The descriptor is _NO_FILE if the next segment is not created yet. All in one value, so that an exception raised by a
signal handler never leaves half a change; a plain tuple, because each log call makes one.
"""


class SpoolWriter:
    """Appends records to a spool of its own. Threads share a lock; delivery never holds it."""

    def __init__(
        self,
        root: Path,
        *,
        url: str,
        run_id: str | None,
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
        # Numbered records that are not completely written. Between calls, it is empty unless the disk is full.
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        self._is_in_doubt = False
        self._is_writing = False
        self._is_short = False
        self._is_closing = False
        self._closed = False
        self._news: deque[tuple[int, str]] = deque()
        # Reentrant: a signal handler may log while its own thread is in `append`.
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
                # Last, because it makes the folder a spool: before, a courier would find no writer and remove it.
                _write_new(self.folder / "meta.json", orjson.dumps(asdict(self.meta)))
            except OSError:
                self.abandon()
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
        except OSError as error:
            raise LocalFileError(f"the spool {self.folder} cannot be made: {error.strerror}") from error

    @property
    def waiting(self) -> int:
        """Return how many records wait in memory for space on the disk."""
        return len(self._waiting)

    @property
    def last(self) -> int:
        """Return the number of the last accepted record."""
        return self._accepted

    @property
    def is_closed(self) -> bool:
        """Return whether the spool was closed."""
        return self._closed

    def append(self, kind: str, record: Any) -> None:
        """Write a record to the spool; once this returns, it survives the death of the process. Nothing is raised.

        While the disk is full, records wait in memory, which is logged once and counted in `waiting`. Values that JSON
        or Postgres cannot hold are replaced as documented at `lines.dump_line`.
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
        """Count a record that could not be written."""
        with self._lock:
            self._lose(reason)
            self.appended += 1
        self._tell()

    def drain(self) -> None:
        """Write what waits in memory, if the disk has space again."""
        with self._lock:
            if self._waiting and not self._closed:
                self._write_waiting()
        self._tell()

    def place_behind(self, number: int) -> Position | None:
        """Return a position behind this record; None while it is only in memory."""
        self.drain()
        with self._lock:
            _, segment, offset, written = self._place
            if written < number and not self._closed:
                return None
            return Position(segment, offset)

    def close(self) -> None:
        """Close the spool; its records stay until they are delivered."""
        with self._lock:
            # If a signal handler calls this while its thread writes, `_write_waiting` closes when it is done.
            self._is_closing = self._is_writing
            if not self._is_writing:
                self._close()
        self._tell()

    def abandon(self) -> None:
        """Close the files without locking: in a forked child, the lock may be held by a thread that does not exist."""
        # Before closing: another file may get the same descriptor at once.
        self._closed = True
        # The parent writes what waits.
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
        """Write what waits, in order; return whether nothing is left."""
        if self._is_writing:
            return False  # In a signal handler of the thread that writes, which continues with this record.
        self._is_writing = True
        waiting = self._waiting
        try:
            while waiting:
                number, line = waiting[0]
                # Else it is written, but an exception came before it was removed from the queue.
                if number > self._place[3]:
                    self._write(number, line)
                waiting.popleft()
                self._waiting_bytes -= len(line)
        except OSError as error:
            # Usually a full disk. Training continues in any case.
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
            # Something else has changed the file: leave it, and continue in a new one.
            file, segment, offset, _ = self._begin_segment()
            begun = 0
        self._is_in_doubt = True
        while begun < len(line):
            # A write may be partial without an error.
            count = os.write(file, line[begun:])
            if not count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            begun += count
        self._place = (file, segment, offset + len(line), number)
        self._is_in_doubt = False

    def _begin_segment(self) -> _Place:
        file, segment, offset, written = self._place
        if file != _NO_FILE:
            # Forget the descriptor first: closing it twice could close another file. Close before the successor is
            # created: on NFS, other machines are sure to see the content only after the close.
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
        """Save how many records are only in memory or lost, for the courier in case this process is killed."""
        with suppress(OSError):
            file = os.open(self.folder / "unwritten.json", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(file, dump_unwritten(Unwritten(len(self._waiting), self.lost)), 0)
            finally:
                os.close(file)

    def _tell(self) -> None:
        """Log pending messages. Not under the lock: a logging handler may itself record something."""
        with suppress(IndexError):
            while self._news:
                level, text = self._news.popleft()
                _logger.log(level, "%s", text)


def _write_new(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
