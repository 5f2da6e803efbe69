"""Spools as those see them who deliver them or look on: how far they are, what was refused, what waits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.recorder.blobs import forget_blobs
from openmanus_rl.recorder.left_open import OpenBlocks
from openmanus_rl.recorder.spool import Position, lock_file, segment_path

__all__ = [
    "Batch",
    "Load",
    "Progress",
    "Spool",
    "find_spools",
    "hurry",
    "identity",
    "overview",
    "resend",
    "resend_refused",
    "was_hurried",
]

_RESEND_MARK = "resend"
_HURRY_MARK = "hurry"
_RESENT_AT_ONCE = 1000
_READ_BYTES = 1024 * 1024

Batch = dict[str, list[dict[str, Any]]]
Load = Callable[[Batch], list[dict[str, Any]]]


@dataclass(frozen=True)
class Progress:
    """How far a spool has been delivered."""

    segment: int = 1
    offset: int = 0
    taken: int = 0
    """The lines before this place that were whole: delivered or refused."""
    delivered: int = 0
    refused: int = 0
    damaged: int = 0
    error: str | None = None
    open: OpenBlocks = field(default_factory=dict)
    """What began before this place and has not ended."""

    @property
    def position(self) -> Position:
        return Position(self.segment, self.offset)


@dataclass(frozen=True)
class Spool:
    """A spool as its deliverers and onlookers see it."""

    folder: Path

    @property
    def progress(self) -> Progress:
        try:
            return Progress(**orjson.loads((self.folder / "progress.json").read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return Progress()

    def save(self, progress: Progress) -> None:
        aside = self.folder / f"progress.{os.getpid()}.new"
        aside.write_bytes(orjson.dumps(asdict(progress)))
        aside.replace(self.folder / "progress.json")

    def meta(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads((self.folder / "meta.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return found

    def refused(self) -> list[dict[str, Any]]:
        """Return what the database did not take: kind, record, reason, and when it was first refused."""
        try:
            lines = (self.folder / "refused.jsonl").read_bytes().splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            # One that broke off belongs to a batch that was not finished, and is refused again.
            with suppress(ValueError):
                found.append(orjson.loads(line))
        return found

    def add_refused(self, refused: list[dict[str, Any]]) -> None:
        """Write down further refusals; those before stay as they are, however many they are."""
        with (self.folder / "refused.jsonl").open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")
            file.write(b"".join(orjson.dumps(entry) + b"\n" for entry in refused))

    def save_refused(self, refused: list[dict[str, Any]]) -> None:
        aside = self.folder / f"refused.{os.getpid()}.new"
        aside.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in refused))
        aside.replace(self.folder / "refused.jsonl")

    def unread_bytes(self) -> int:
        """Return how much of the spool has not been delivered."""
        # The files first: what is delivered meanwhile then counts as unread, never the other way round.
        sizes = {int(path.stem): path.stat().st_size for path in self.folder.glob("*.jsonl") if path.stem.isdigit()}
        progress = self.progress
        return max(0, sum(size for number, size in sizes.items() if number >= progress.segment) - progress.offset)

    def unread_records(self) -> int:
        """Return how many records have not been delivered, by counting their lines."""
        progress = self.progress
        count, segment, offset = 0, progress.segment, progress.offset
        with suppress(FileNotFoundError):
            while True:
                with segment_path(self.folder, segment).open("rb") as file:
                    file.seek(offset)
                    while part := file.read(_READ_BYTES):
                        count += part.count(b"\n")
                segment, offset = segment + 1, 0
        return count

    def ask_to_resend(self) -> None:
        """Ask whoever delivers the spool to send what was refused again."""
        (self.folder / _RESEND_MARK).touch()

    def was_asked_to_resend(self) -> bool:
        """Say whether that was asked since the last time."""
        try:
            (self.folder / _RESEND_MARK).unlink()
        except FileNotFoundError:
            return False
        return True


def hurry(root: Path) -> None:
    """Ask whoever delivers the spools below a root not to wait for more."""
    with suppress(OSError):
        (root / _HURRY_MARK).touch()


def was_hurried(root: Path) -> bool:
    """Say whether that was asked since the last time."""
    try:
        (root / _HURRY_MARK).unlink()
    except OSError:
        return False
    return True


def find_spools(root: Path) -> Iterator[Spool]:
    """Yield the spools below a root, oldest first."""
    if root.exists():
        for folder in sorted(root.iterdir()):
            if (folder / "meta.json").exists():
                yield Spool(folder)


def overview(root: Path) -> dict[str, Any]:
    """Return what waits below a root, what was refused, and why delivery does not get on, where it does not."""
    spools = list(find_spools(root))
    progress = [spool.progress for spool in spools]
    return {
        "spools": len(spools),
        "queued": sum(spool.unread_records() for spool in spools),
        "queued_bytes": sum(spool.unread_bytes() for spool in spools),
        "refused": sum(one.refused for one in progress),
        "error": next((one.error for one in reversed(progress) if one.error is not None), None),
    }


def identity(entry: dict[str, Any]) -> bytes:
    """Return what makes a refusal the same one, whatever the reason."""
    said = orjson.dumps([entry["kind"], entry["record"]], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(said).digest()


def resend(spool: Spool, entries: list[dict[str, Any]], load: Load) -> int:
    """Send refused records again, and keep those that are refused again; return how many were taken."""
    sendable = [entry for entry in entries if entry["kind"] != "metrics"]
    return sum(
        _resend(spool, sendable[start : start + _RESENT_AT_ONCE], load)
        for start in range(0, len(sendable), _RESENT_AT_ONCE)
    )


def _resend(spool: Spool, entries: list[dict[str, Any]], load: Load) -> int:
    batch: Batch = {}
    sent: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in entries:
        records = batch.setdefault(entry["kind"], [])
        sent[entry["kind"], len(records)] = entry
        records.append(entry["record"])
    again = {(refusal["kind"], refusal["index"]): refusal for refusal in load(batch)}
    taken = {identity(entry) for place, entry in sent.items() if place not in again}
    reasons = {identity(sent[place]): refusal for place, refusal in again.items()}
    kept = [entry for entry in spool.refused() if identity(entry) not in taken]
    for entry in kept:
        if (refusal := reasons.get(identity(entry))) is not None:
            entry.update(code=refusal["code"], message=refusal["message"])
    spool.save_refused(kept)
    progress = spool.progress
    spool.save(replace(progress, refused=len(kept), delivered=progress.delivered + len(taken), error=None))
    forget_blobs(spool.folder, (entry["record"] for entry in entries), but=[entry["record"] for entry in kept])
    return len(taken)


def resend_refused(root: Path, load_from: Callable[[Spool], Load]) -> int:
    """Send everything again that was refused and return how many were taken; what another delivers, it is asked for."""
    taken = 0
    for spool in find_spools(root):
        entries = spool.refused()
        if not entries:
            continue
        try:
            lock = lock_file(spool.folder / "courier.lock")
        except BlockingIOError:
            spool.ask_to_resend()
            continue
        try:
            taken += resend(spool, entries, load_from(spool))
        finally:
            os.close(lock)
    return taken
