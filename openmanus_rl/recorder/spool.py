"""The spool: what a call returned from lies here, in files that outlive the process, until it is delivered.

A spool is a folder that one process writes and anyone may deliver:

    meta.json       what it is of: the destination's address, the run, the process
    000001.jsonl    segments: a record a line, [kind, time, record], appended with one write each
    progress.json   how far it has been delivered, written by the courier
    refused.jsonl   what the database did not take, with the reason
    blobs/          the bytes of records, such as images, until they are in storage
    writer.lock     locked by the writing process for as long as it lives
    courier.lock    locked by whoever delivers it
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.errors import LocalFileError
from openmanus_rl.recorder.plain import dump_line
from openmanus_rl.records.ids import new_id

__all__ = ["Position", "SpoolMeta", "SpoolWriter", "is_alive", "lock_file", "segment_path"]

_logger = logging.getLogger(__name__)

SEGMENT_BYTES = 8 * 1024 * 1024
# What does not fit on a full disk waits here; beyond it, records are lost and counted.
MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, order=True)
class Position:
    """A place in a spool: a segment, and how many of its bytes lie before it."""

    segment: int
    offset: int


@dataclass(frozen=True)
class SpoolMeta:
    """What a spool is of; no secrets, so that a copied spool gives nothing away."""

    spool_id: str
    url: str
    run_id: str
    pid: int
    created_at: float
    rewinds: tuple[int, ...] = ()
    """The steps to which the run had been rewound before; their number is the timeline of what is written here."""


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
        self.torn = 0
        self._closed = False
        self._segment_bytes = segment_bytes
        self._file: int
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._torn = False
        self._lock = threading.Lock()
        try:
            self.folder.mkdir(parents=True, mode=0o700)
            self._writer_lock = lock_file(self.folder / "writer.lock")
            self._segment = 0
            self._open_next_segment()
            # Last: with it the folder is a spool, and a courier that found nobody writing would clear it away.
            (self.folder / "meta.json").write_bytes(orjson.dumps(asdict(self.meta)))
        except OSError as error:
            raise LocalFileError(f"the spool {self.folder} cannot be made: {error.strerror}") from error

    @property
    def position(self) -> Position:
        """Return the place behind the last record."""
        with self._lock:
            return Position(self._segment, self._offset)

    @property
    def waiting(self) -> int:
        """Return how many records wait in memory for room on the disk."""
        return len(self._waiting)

    def append(self, kind: str, record: Any) -> None:
        """Write a record down; once this returns, it survives the death of the process. Nothing is raised.

        What JSON or Postgres cannot hold is replaced where it can be seen: `plain.dump_line` says by what.
        """
        line = dump_line(kind, record)
        with self._lock:
            self.appended += 1
            if self._closed:
                self._lose("it came after the end of the recording")
            elif self._waiting or not self._write(line):
                self._keep(line)

    def count_lost(self, reason: str) -> None:
        """Count something that could not even be written down."""
        with self._lock:
            self.appended += 1
            self._lose(reason)

    def drain(self) -> None:
        """Write down what waits in memory, if there is room on the disk again."""
        with self._lock:
            if not self._closed:
                self._drain()

    def close(self) -> None:
        """Let go of the spool; its records stay until they are delivered."""
        with self._lock:
            if not self._closed:
                self._drain()
                for _ in self._waiting:
                    self._lose("the disk was full until the end")
                self.abandon()

    def abandon(self) -> None:
        """Close the files only; for a forked child, in which the lock may be held by a thread that is not there."""
        # First: a descriptor that is closed may be another file's at once.
        self._closed = True
        os.close(self._file)
        os.close(self._writer_lock)

    def _write(self, line: bytes) -> bool:
        if self._offset >= self._segment_bytes:
            try:
                self._open_next_segment()
            except OSError:
                return False
        # A line that broke off on a full disk is ended first, so that it spoils no other.
        data = b"\n" + line if self._torn else line
        try:
            written = os.write(self._file, data)
        except OSError:
            # Mostly a full disk; whatever it is, training goes on.
            return False
        self._offset += written
        self._torn = written < len(data)
        self.torn += self._torn
        return not self._torn

    def _lose(self, reason: str) -> None:
        if not self.lost:
            _logger.error("a record is lost: %s; run.stats.lost counts them", reason)
        self.lost += 1

    def _keep(self, line: bytes) -> None:
        if self._waiting_bytes + len(line) > MEMORY_BYTES:
            self._lose("the disk is full, and so is the memory kept for this")
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self._drain()

    def _drain(self) -> None:
        while self._waiting and self._write(self._waiting[0]):
            self._waiting_bytes -= len(self._waiting.popleft())

    def _open_next_segment(self) -> None:
        path = segment_path(self.folder, self._segment + 1)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self._segment:
            os.close(self._file)
        self._file = file
        self._segment += 1
        self._offset = 0
        self._torn = False


def segment_path(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:06d}.jsonl"


def lock_file(path: Path) -> int:
    """Lock a file until the returned descriptor is closed or the process ends; BlockingIOError if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_alive(folder: Path) -> bool:
    """Say whether the process that writes a spool still lives."""
    try:
        os.close(lock_file(folder / "writer.lock"))
    except BlockingIOError:
        return True
    return False
