"""The courier: delivers spools, in batches, until they are empty; it may run beside training, or long after it."""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from openmanus_rl.errors import OpenManusError
from openmanus_rl.recorder.reading import SpoolReader
from openmanus_rl.recorder.spool import Position, is_alive, lock_file

__all__ = ["Courier", "Progress", "Sink", "Spool", "find_spools"]

_logger = logging.getLogger(__name__)

BATCH_BYTES = 4 * 1024 * 1024
_FIRST_BACKOFF_SECONDS = 0.25
_LAST_BACKOFF_SECONDS = 15.0
_IDLE_SECONDS = 0.05
# A parent may come from another process's spool, later: so long its children are tried again.
_ORPHAN_PATIENCE_SECONDS = 600.0
_ORPHAN_PAUSE_SECONDS = 2.0

Batch = dict[str, list[dict[str, Any]]]


class Sink(Protocol):
    """Where batches go: one transaction each, what is refused comes back."""

    def load(self, batch: Batch) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Progress:
    """How far a spool has been delivered."""

    segment: int = 1
    offset: int = 0
    delivered: int = 0
    refused: int = 0
    damaged: int = 0
    error: str | None = None

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
        return [orjson.loads(line) for line in lines]

    def save_refused(self, refused: list[dict[str, Any]]) -> None:
        aside = self.folder / f"refused.{os.getpid()}.new"
        aside.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in refused))
        aside.replace(self.folder / "refused.jsonl")

    def unread_bytes(self) -> int:
        """Return how much of the spool has not been delivered."""
        progress = self.progress
        sizes = {int(path.stem): path.stat().st_size for path in self.folder.glob("*.jsonl") if path.stem.isdigit()}
        return sum(size for number, size in sizes.items() if number >= progress.segment) - progress.offset


def find_spools(root: Path) -> Iterator[Spool]:
    """Yield the spools below a root, oldest first."""
    if root.exists():
        for folder in sorted(root.iterdir()):
            if (folder / "meta.json").exists():
                yield Spool(folder)


class Courier:
    """Delivers the spools of one destination; others may do so too, each spool is delivered by one at a time."""

    def __init__(self, root: Path, *, connect: Callable[[], Sink], batch_bytes: int = BATCH_BYTES) -> None:
        self._root = root
        self._connect = connect
        self._batch_bytes = batch_bytes
        self._sink: Sink | None = None
        self._routes: dict[Path, _Route] = {}

    def run(self, *, until_idle_seconds: float) -> None:
        """Deliver until nothing has been written, and nobody has been there to write, for this long."""
        backoff = _FIRST_BACKOFF_SECONDS
        quiet_since = time.monotonic()
        while True:
            try:
                moved = self.deliver()
                backoff = _FIRST_BACKOFF_SECONDS
            except OpenManusError as error:
                self._sink = None
                _logger.warning("delivery failed, trying again in %.1f s: %s", backoff, error)
                time.sleep(backoff * (0.5 + random.random() / 2))
                backoff = min(backoff * 2, _LAST_BACKOFF_SECONDS)
                continue
            if moved or any(is_alive(spool.folder) for spool in find_spools(self._root)):
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= until_idle_seconds:
                return
            if not moved:
                time.sleep(_IDLE_SECONDS)

    def deliver(self, *, on_progress: Callable[[Spool, int], None] | None = None) -> int:
        """Deliver everything that is there now and return how many lines that was."""
        moved = 0
        for spool in find_spools(self._root):
            route = self._routes.get(spool.folder) or _Route.open(spool, self._batch_bytes)
            if route is None:
                continue
            self._routes[spool.folder] = route
            try:
                while lines := route.forward(self._load):
                    moved += lines
                    if on_progress is not None:
                        on_progress(spool, lines)
                route.retry_orphans(self._load)
            except OpenManusError as error:
                spool.save(replace(spool.progress, error=str(error)))
                raise
            if route.is_finished():
                route.close()
                del self._routes[spool.folder]
        return moved

    def _load(self, batch: Batch) -> list[dict[str, Any]]:
        if self._sink is None:
            self._sink = self._connect()
        return self._sink.load(batch)


class _Route:
    """One spool on its way, locked for as long as this lasts."""

    def __init__(self, spool: Spool, lock: int, batch_bytes: int) -> None:
        self._spool = spool
        self._lock = lock
        self._batch_bytes = batch_bytes
        self._reader: SpoolReader | None = None
        self._next_orphan_time = 0.0

    @classmethod
    def open(cls, spool: Spool, batch_bytes: int) -> _Route | None:
        """Take a spool on; None if another delivers it, or it has just been finished."""
        try:
            return cls(spool, lock_file(spool.folder / "courier.lock"), batch_bytes)
        except (BlockingIOError, FileNotFoundError):
            return None

    def forward(self, load: Callable[[Batch], list[dict[str, Any]]]) -> int:
        """Deliver the next batch and write down that it was; return its lines, 0 at the end."""
        progress = self._spool.progress
        if self._reader is None:
            self._reader = SpoolReader(self._spool.folder, progress.position)
        batch = self._reader.read(self._batch_bytes)
        if batch is None:
            return 0
        try:
            refusals = load(batch.records) if batch.records else []
        except OpenManusError:
            # Whatever became of it, reading it again from the last known place gives the same records.
            self._reader = None
            raise
        entries = batch.refused + [_entry(batch.records, refusal) for refusal in refusals]
        refused = self._keep_refused(entries) if entries else progress.refused
        self._spool.save(
            Progress(
                segment=batch.end.segment,
                offset=batch.end.offset,
                delivered=progress.delivered + max(0, batch.lines - batch.damaged - len(entries)),
                refused=refused,
                damaged=progress.damaged + batch.damaged,
            )
        )
        for path in self._spool.folder.glob("*.jsonl"):
            if path.stem.isdigit() and int(path.stem) < batch.end.segment:
                path.unlink()
        return batch.lines

    def retry_orphans(self, load: Callable[[Batch], list[dict[str, Any]]]) -> None:
        """Try what hung on something unknown again: it may have come from another process meanwhile."""
        if time.monotonic() < self._next_orphan_time:
            return
        self._next_orphan_time = time.monotonic() + _ORPHAN_PAUSE_SECONDS
        entries = self._spool.refused()
        young = time.time() - _ORPHAN_PATIENCE_SECONDS
        orphans = [entry for entry in entries if entry["code"] == "OM404" and entry["refused_at"] > young]
        if orphans:
            resend(self._spool, orphans, load)

    def is_finished(self) -> bool:
        """Say whether nobody writes here any more and all of it is delivered or refused."""
        return not is_alive(self._spool.folder) and not self._spool.unread_bytes() > 0

    def close(self) -> None:
        """Remove a spool that has nothing left to tell, and let go of it."""
        if not self._spool.refused():
            shutil.rmtree(self._spool.folder, ignore_errors=True)
        os.close(self._lock)

    def _keep_refused(self, entries: list[dict[str, Any]]) -> int:
        """Write refusals down with those before, and return how many there are."""
        now = time.time()
        for entry in entries:
            entry["refused_at"] = now
            # What waits for its parent is no fault yet.
            if entry["code"] != "OM404":
                _logger.error("refused, kept in %s: %s", self._spool.folder / "refused.jsonl", entry["message"])
        # Read again after a crash, a batch is refused again: once is enough.
        kept = {_identity(entry): entry for entry in [*self._spool.refused(), *entries]}
        self._spool.save_refused(list(kept.values()))
        return len(kept)


def _entry(records: Batch, refusal: dict[str, Any]) -> dict[str, Any]:
    record = records[refusal["kind"]][refusal["index"]]
    return {"kind": refusal["kind"], "record": record, "code": refusal["code"], "message": refusal["message"]}


def _identity(entry: dict[str, Any]) -> bytes:
    return orjson.dumps([entry["kind"], entry["record"]], option=orjson.OPT_SORT_KEYS)


def resend(spool: Spool, entries: list[dict[str, Any]], load: Callable[[Batch], list[dict[str, Any]]]) -> int:
    """Send refused records again, and keep those that are refused again; return how many were taken."""
    sendable = [entry for entry in entries if entry["kind"] != "metrics"]
    batch: Batch = {}
    sent: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in sendable:
        records = batch.setdefault(entry["kind"], [])
        sent[entry["kind"], len(records)] = entry
        records.append(entry["record"])
    if not sent:
        return 0
    again = {(refusal["kind"], refusal["index"]): refusal for refusal in load(batch)}
    taken = {_identity(entry) for place, entry in sent.items() if place not in again}
    reasons = {_identity(sent[place]): refusal for place, refusal in again.items()}
    kept = [entry for entry in spool.refused() if _identity(entry) not in taken]
    for entry in kept:
        if (refusal := reasons.get(_identity(entry))) is not None:
            entry.update(code=refusal["code"], message=refusal["message"])
    spool.save_refused(kept)
    progress = spool.progress
    spool.save(replace(progress, refused=len(kept), delivered=progress.delivered + len(taken)))
    return len(taken)
