"""The format of a spool: files that hold records until they are delivered, also after the process has died.

A spool is a folder. One process writes it, any process may deliver it:

    meta.json       the destination's address, the run, the writing process
    000001.jsonl    segments: one record per line, [kind, time, record]
    unwritten.json  how many records are in no segment: only in the writer's memory, or lost
    progress.json   how far it has been delivered, written by the courier
    refused.jsonl   records that the database refused, with the reason
    000001.damaged  a segment with unreadable lines, kept for inspection
    blobs/          files that belong to records, such as images, until they are in storage
    writer.lock     locked by the writing process until it ends
    courier.lock    locked by the process that delivers the spool

Guarantees for readers:

1. Only the process that holds writer.lock writes, and only by appending to the last segment. Written bytes never
   change. If a write stops in the middle of a line, such as on a full disk, that line is completed first.
2. A segment is created only after the one before it is complete and closed. So a segment that has a successor is
   final, and when writer.lock is free, all of them are.
3. An incomplete last line is still being written, unless the reader knew *before reading* that the segment was final.
   If it had a successor, something else damaged the file. If the lock was free, the writer died within a log call,
   which never returned. Checked after the read, neither proves anything: the writer may have continued meanwhile.
4. progress.json is replaced after the database has committed, and delivered segments are deleted after that. The
   courier may be killed between any two steps: records that are delivered again have the same ids and change nothing.

Lines have no checksum. The usual damage (truncation, zeros after a power failure, overwritten parts) leaves lines that
are not valid JSON, and these are counted as damaged. A flipped bit within a text is not detected.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

__all__ = [
    "LEASE_FIELD",
    "Position",
    "SpoolMeta",
    "Unwritten",
    "dump_unwritten",
    "is_alive",
    "lock_file",
    "read_unwritten",
    "segment_path",
]

LEASE_FIELD = "_lease"
"""A field of a worker's records that is not stored: the lease under which the rollout was claimed."""

# The file always has this size: it is changed in place, which needs no space on a full disk.
_UNWRITTEN_BYTES = 64


@dataclass(frozen=True, order=True)
class Position:
    """A position in a spool: a segment, and an offset in bytes."""

    segment: int
    offset: int


@dataclass(frozen=True)
class SpoolMeta:
    """The content of meta.json. It holds no secrets: spools may be copied to other machines."""

    spool_id: str
    url: str
    run_id: str | None
    """None for a worker, whose rollouts may be of any run."""
    pid: int
    created_at: float
    rewinds: tuple[int, ...] = ()
    """The steps to which the run was rewound; their number is the timeline of the records in this spool."""


@dataclass(frozen=True)
class Unwritten:
    """The content of unwritten.json: how many of a writer's records are in no segment."""

    in_memory: int = 0
    """Waiting for space on the disk; lost if the process is killed."""
    lost: int = 0


def segment_path(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:06d}.jsonl"


def read_unwritten(folder: Path) -> Unwritten:
    """Return how many of a spool's records are in no segment; final once the writing process has ended."""
    try:
        return Unwritten(**orjson.loads((folder / "unwritten.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return Unwritten()


def lock_file(path: Path) -> int:
    """Lock a file until the returned descriptor is closed or the process ends; BlockingIOError if it is locked."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_alive(folder: Path) -> bool:
    """Return whether the process that writes a spool is still running; False for a spool that was removed."""
    try:
        os.close(lock_file(folder / "writer.lock"))
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def dump_unwritten(unwritten: Unwritten) -> bytes:
    """Return the content of unwritten.json, always of the same size."""
    return orjson.dumps(asdict(unwritten)).ljust(_UNWRITTEN_BYTES - 1) + b"\n"
