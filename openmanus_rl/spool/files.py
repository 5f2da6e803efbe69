"""The spool: what a call returned from lies here, in files that outlive the process, until it is delivered.

A spool is a folder that one process writes and anyone may deliver:

    meta.json       what it is of: the destination's address, the run, the process
    000001.jsonl    segments: a record a line, [kind, time, record]
    unwritten.json  how many records never came into a segment: in the writer's memory only, or lost
    progress.json   how far it has been delivered, written by the courier
    refused.jsonl   what the database did not take, with the reason
    000001.damaged  a segment with lines that could not be read, kept for a look
    blobs/          the bytes of records, such as images, until they are in storage
    writer.lock     locked by the writing process for as long as it may write
    courier.lock    locked by whoever delivers it

What the reader may rely on:

1. Segments only grow, at the end of the last one, by the process that holds writer.lock; what stands there never
   changes. A line that broke off, on a full disk for one, is continued before anything else is written.
2. A segment is made only when the one before it is complete and closed: a segment that has a successor is final.
   When writer.lock is free, all of them are.
3. So half a line at the end is being written, unless it was known *before it was read* that the segment was final. If
   the segment had a successor, the file was damaged by something else; if the lock was free, the writer died within a
   call, which never returned. Looked for after the read, neither tells anything: the writer may have gone on meanwhile.
4. progress.json is replaced after the database has committed, and segments before it are deleted after that. Whoever
   delivers may be killed between any two steps: what is delivered again has the same ids, and changes nothing.

Lines have no checksum: what happens to files in practice (cut off, filled with zeros after a power failure, partly
overwritten) leaves lines that are no JSON and are counted as damaged. A flipped bit within a text would not show, there
as little as in the database a moment later.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

__all__ = [
    "Position",
    "SpoolMeta",
    "Unwritten",
    "dump_unwritten",
    "is_alive",
    "lock_file",
    "read_unwritten",
    "segment_path",
]

# Room that is taken when there is some: changed in place, these files need no more on a full disk.
_UNWRITTEN_BYTES = 64


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


@dataclass(frozen=True)
class Unwritten:
    """How many of a writer's records are in no segment."""

    in_memory: int = 0
    """They wait for room on the disk, and are lost if the process is killed."""
    lost: int = 0


def segment_path(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:06d}.jsonl"


def read_unwritten(folder: Path) -> Unwritten:
    """Return how many of a spool's records are in no segment; final once nobody writes any more."""
    try:
        return Unwritten(**orjson.loads((folder / "unwritten.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return Unwritten()


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
    """Say whether the process that writes a spool still lives; of one that has been cleared away it does not."""
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
