"""What a home holds that is not in a database: undelivered records by destination, and refusals."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from openmanus_rl.spool.files import is_alive, lock_file, segment_path
from openmanus_rl.spool.refusals import count_places, identity, printable, reason_of
from openmanus_rl.spool.spools import NEVER_WRITTEN, Spool, damaged_records, find_spools

__all__ = ["Refusals", "Waiting", "discard", "find_refusals", "survey"]


@dataclass(frozen=True)
class Waiting:
    """The undelivered records of one destination."""

    address: str
    is_current: bool
    """Whether the settings name this destination now."""
    spools: int
    writing: int
    """How many of the spools have a process that writes to them."""
    queued: int
    queued_bytes: int
    since: float | None
    """When the oldest undelivered record was written."""
    refused: int
    damaged: int
    error: str | None

    @property
    def holds_something(self) -> bool:
        """Whether anything is not in the database, or may still be written."""
        return bool(self.queued_bytes or self.refused or self.damaged or self.writing)


@dataclass(frozen=True)
class Refusals:
    """Refusals of the same field for the same reason."""

    kind: str
    field: str | None
    reason: str
    count: int


def survey(home: Path, *, current: Path) -> list[Waiting]:
    """Return what a home holds by destination, that of the root `current` first; empty ones are left out."""
    roots = [current, *(root for root in _roots(home) if root != current)]
    found = [(root, list(find_spools(root))) for root in roots]
    return [_waiting(spools, is_current=root == current) for root, spools in found if spools]


def _roots(home: Path) -> list[Path]:
    folder = home / "spool"
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _waiting(spools: list[Spool], *, is_current: bool) -> Waiting:
    progress = [spool.progress for spool in spools]
    times = [when for spool in spools if (when := _first_unread(spool)) is not None]
    return Waiting(
        address=next(
            (printable(str(meta["url"])) for meta in map(Spool.meta, spools) if meta and "url" in meta), "unknown"
        ),
        is_current=is_current,
        spools=len(spools),
        writing=sum(_is_alive(spool.folder) for spool in spools),
        queued=sum(spool.unread_records() for spool in spools),
        queued_bytes=sum(spool.unread_bytes() for spool in spools),
        since=min(times, default=None),
        refused=sum(count_places(entry["places"] for entry in spool.refused()) for spool in spools),
        damaged=sum(map(damaged_records, spools)),
        error=next((one.error for one in reversed(progress) if one.error is not None), None),
    )


def _is_alive(folder: Path) -> bool:
    # The lock file can't be opened in a read-only home, and the spool may have been removed.
    with suppress(OSError):
        return is_alive(folder)
    return False


def _first_unread(spool: Spool) -> float | None:
    progress = spool.progress
    with suppress(OSError, ValueError, TypeError, KeyError):
        segment, offset = progress.segment, progress.offset
        if segment_path(spool.folder, segment).stat().st_size <= offset:
            segment, offset = segment + 1, 0
        with segment_path(spool.folder, segment).open("rb") as file:
            file.seek(offset)
            _, when, _ = orjson.loads(file.readline())
            return float(when)
    return None


def find_refusals(home: Path) -> tuple[list[Refusals], dict[Path, set[bytes]]]:
    """Return the refusals, most frequent first, and their identities by spool, to pass to `discard`."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    seen: dict[Path, set[bytes]] = {}
    for spool in (spool for root in _roots(home) for spool in find_spools(root)):
        entries, damaged = spool.refused(), damaged_records(spool)
        if entries or damaged:
            seen[spool.folder] = {identity(entry) for entry in entries}
        for entry in entries:
            counts[entry["kind"], entry.get("field"), reason_of(entry)] += len(entry["places"])
        if damaged:
            counts["records", None, printable(f"lost: {spool.progress.damage or NEVER_WRITTEN}")] += damaged
    return [Refusals(*key, count) for key, count in counts.most_common()], seen


def discard(seen: dict[Path, set[bytes]]) -> tuple[int, int]:
    """Delete these refusals, and spools that are then empty; return how many were deleted, and how many were not.

    Refusals of a spool that is being delivered are kept: its courier would write them again.
    """
    dropped = kept = 0
    for folder, identities in seen.items():
        try:
            lock = lock_file(folder / "courier.lock")
        except BlockingIOError:
            kept += max(len(identities), 1)
            continue
        except FileNotFoundError:
            continue
        try:
            dropped += _discard(Spool(folder), identities)
        finally:
            os.close(lock)
    return dropped, kept


def _discard(spool: Spool, identities: Iterable[bytes]) -> int:
    seen = set(identities)
    entries = spool.refused()
    rest = [entry for entry in entries if identity(entry) not in seen]
    gone = count_places(entry["places"] for entry in entries if identity(entry) in seen)
    if not rest and not is_alive(spool.folder) and not spool.unread_bytes():
        gone += damaged_records(spool)
        shutil.rmtree(spool.folder, ignore_errors=True)
        return gone
    progress = spool.progress
    discarded = progress.refused - count_places(entry["places"] for entry in rest)
    spool.save_refused(rest)
    spool.save(replace(progress, discarded=discarded))
    return gone
