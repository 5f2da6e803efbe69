"""The courier: delivers spools, in batches, until they are empty; it may run beside training, or long after it."""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from openmanus_rl.errors import InvalidInput, OpenManusError, TransientError, UnsupportedError
from openmanus_rl.gateway import Storage
from openmanus_rl.recorder.blobs import forget_blobs, sweep_blobs
from openmanus_rl.recorder.left_open import REASON, as_entries, still_open
from openmanus_rl.recorder.reading import SpoolReader
from openmanus_rl.recorder.resuming import note_progress
from openmanus_rl.recorder.spool import is_alive, lock_file
from openmanus_rl.recorder.spools import Batch, Load, Progress, Spool, find_spools, identity, resend
from openmanus_rl.recorder.uploads import Uploads, needs_storage

__all__ = ["Courier", "Sink"]

_logger = logging.getLogger(__name__)

BATCH_BYTES = 4 * 1024 * 1024
_FIRST_BACKOFF_SECONDS = 0.25
_LAST_BACKOFF_SECONDS = 15.0
_IDLE_SECONDS = 0.05
# A parent may come from another process's spool, later: so long its children are tried again.
ORPHAN_PATIENCE_SECONDS = 600.0
_ORPHAN_PAUSE_SECONDS = 2.0
_LONGEST_ORPHAN_PAUSE_SECONDS = 60.0


class Sink(Protocol):
    """Where batches go: one transaction each, what is refused comes back. Files go to its storage."""

    @property
    def storage(self) -> Storage: ...
    def load(self, batch: Batch) -> list[dict[str, Any]]: ...
    def interrupt(self, entries: dict[str, list[list[str]]], reason: str) -> None: ...


class Courier:
    """Delivers the spools of one destination; others may do so too, each spool is delivered by one at a time."""

    def __init__(
        self,
        root: Path,
        *,
        connect: Callable[[], Sink],
        batch_bytes: int = BATCH_BYTES,
        orphan_patience_seconds: float = ORPHAN_PATIENCE_SECONDS,
    ) -> None:
        self._root = root
        self._connect = connect
        self._batch_bytes = batch_bytes
        self._orphan_patience_seconds = orphan_patience_seconds
        self._sink: Sink | None = None
        self._uploads = Uploads()
        self._routes: dict[Path, _Route] = {}
        self._orphan_pauses: dict[Path, _Pause] = {}

    def run(self, *, until_idle_seconds: float) -> None:
        """Deliver until nothing has been written, and nobody has been there to write, for this long."""
        backoff = _FIRST_BACKOFF_SECONDS
        quiet_since = time.monotonic()
        while True:
            try:
                moved = self.deliver()
                backoff = _FIRST_BACKOFF_SECONDS
            except (OpenManusError, OSError) as error:
                asked_seconds = error.retry_after_seconds if isinstance(error, TransientError) else None
                pause = max(backoff * (0.5 + random.random() / 2), asked_seconds or 0.0)
                _logger.warning("delivery failed, trying again in %.1f s: %s", pause, error)
                time.sleep(pause)
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
                while lines := route.forward(self.load_from(spool)):
                    moved += lines
                    if on_progress is not None:
                        on_progress(spool, lines)
                self._retry_refused(spool, route)
                is_finished = route.is_finished()
                if is_finished and (cut_short := spool.progress.open):
                    self._connected().interrupt(as_entries(cut_short), REASON)
            except OpenManusError as error:
                self._sink = None
                self._tell(str(error))
                raise
            if is_finished:
                route.close()
                del self._routes[spool.folder]
        return moved

    def _retry_refused(self, spool: Spool, route: _Route) -> None:
        """Try what hung on something unknown again, ever more rarely: another process may have sent it meanwhile."""
        pause = self._orphan_pauses.setdefault(spool.folder, _Pause())
        if spool.was_asked_to_resend():
            route.resend(spool.refused(), self.load_from(spool))
        if time.monotonic() >= pause.until:
            taken = route.retry_orphans(self.load_from(spool), patience_seconds=self._orphan_patience_seconds)
            pause.renew(shortest=taken > 0)

    def _tell(self, error: str) -> None:
        """Let everyone whose records wait know why: the destination is the same for all."""
        for spool in find_spools(self._root):
            if spool.folder in self._routes and (spool.unread_bytes() or spool.refused()):
                spool.save(replace(spool.progress, error=error))
            elif spool.unread_bytes() and (route := _Route.open(spool, self._batch_bytes)) is not None:
                self._routes[spool.folder] = route
                spool.save(replace(spool.progress, error=error))

    def load_from(self, spool: Spool) -> Load:
        """Return the way of this spool's records, and of the files that lie beside them."""
        return partial(self._load_with_files, spool.folder)

    def _load_with_files(self, folder: Path, batch: Batch) -> list[dict[str, Any]]:
        if not needs_storage(batch):
            return self._load(batch)
        return self._uploads.load(batch, folder=folder, storage=self._connected().storage, load=self._load)

    def _connected(self) -> Sink:
        if self._sink is None:
            self._sink = self._connect()
        return self._sink

    def _load(self, batch: Batch) -> list[dict[str, Any]]:
        try:
            return self._connected().load(batch)
        except UnsupportedError:
            raise
        except InvalidInput as error:
            # The batch as a whole is not taken, for its size or for something in it: find out what.
            return self._load_in_halves(batch, error)

    def _load_in_halves(self, batch: Batch, error: InvalidInput) -> list[dict[str, Any]]:
        places = [(kind, index) for kind, records in batch.items() for index in range(len(records))]
        if len(places) == 1:
            kind, index = places[0]
            return [{"kind": kind, "index": index, "code": error.code, "message": f"{kind}: {error.message}"}]
        refused = []
        for half in (places[: len(places) // 2], places[len(places) // 2 :]):
            part: Batch = {}
            for kind, index in half:
                part.setdefault(kind, []).append(batch[kind][index])
            first = {kind: min(index for of, index in half if of == kind) for kind in part}
            refused += [{**entry, "index": entry["index"] + first[entry["kind"]]} for entry in self._load(part)]
        return refused


@dataclass
class _Pause:
    """Until when to leave something alone; longer each time that it was of no use."""

    until: float = 0.0
    seconds: float = _ORPHAN_PAUSE_SECONDS

    def renew(self, *, shortest: bool) -> None:
        if shortest:
            self.seconds = _ORPHAN_PAUSE_SECONDS
        self.until = time.monotonic() + self.seconds
        self.seconds = min(self.seconds * 2, _LONGEST_ORPHAN_PAUSE_SECONDS)


class _Route:
    """One spool on its way, locked for as long as this lasts."""

    def __init__(self, spool: Spool, lock: int, batch_bytes: int) -> None:
        self._spool = spool
        self._lock = lock
        self._batch_bytes = batch_bytes
        self._reader: SpoolReader | None = None
        self._kept: set[bytes] | None = None
        self._meta = spool.meta()

    @classmethod
    def open(cls, spool: Spool, batch_bytes: int) -> _Route | None:
        """Take a spool on; None if another delivers it, or it has just been finished."""
        try:
            return cls(spool, lock_file(spool.folder / "courier.lock"), batch_bytes)
        except (BlockingIOError, FileNotFoundError):
            return None

    def forward(self, load: Load) -> int:
        """Deliver the next batch and write down that it was; return its lines, 0 at the end."""
        progress = self._spool.progress
        # Asked before reading: if it was dead then, what is read now is all there will ever be.
        was_alive = is_alive(self._spool.folder)
        if self._reader is None:
            self._reader = SpoolReader(self._spool.folder, progress.position)
        batch = self._reader.read(self._batch_bytes)
        if batch is None:
            if not was_alive and self._spool.unread_bytes():
                self._skip_torn_end(progress)
            return 0
        try:
            refusals = load(batch.records) if batch.records else []
        except (OpenManusError, OSError):
            # Whatever became of it, reading it again from the last known place gives the same records.
            self._reader = None
            raise
        found = [_entry(batch.records, refusal) for refusal in refusals]
        # A heartbeat says nothing that could be lost: of a run that is gone, there is no news.
        entries = batch.refused + [entry for entry in found if not _is_heartbeat(entry)]
        refused = self._keep_refused(entries) if entries else progress.refused
        self._spool.save(
            Progress(
                segment=batch.end.segment,
                offset=batch.end.offset,
                taken=progress.taken + batch.taken,
                delivered=progress.delivered + max(0, batch.taken - len(entries)),
                refused=refused,
                damaged=progress.damaged + batch.damaged,
                open=still_open(progress.open, batch.records),
            )
        )
        if self._meta is not None:
            note_progress(self._spool.folder.parent, self._meta, batch.records)
        # After that was written down: read again, the records would need their files again.
        delivered = [record for records in batch.records.values() for record in records]
        forget_blobs(self._spool.folder, delivered, but=[entry["record"] for entry in entries])
        for path in self._spool.folder.glob("*.jsonl"):
            if path.stem.isdigit() and int(path.stem) < batch.end.segment:
                path.unlink()
        return batch.lines

    def _skip_torn_end(self, progress: Progress) -> None:
        """Pass over a last line that its writer, now dead, did not get to the end of: its call never returned."""
        end = self._spool.unread_bytes() + progress.offset
        _logger.warning("%s ends in the middle of a line, which is left out", self._spool.folder)
        self._spool.save(replace(progress, offset=end, damaged=progress.damaged + 1))

    def retry_orphans(self, load: Load, *, patience_seconds: float) -> int:
        """Send again what hung on something unknown not long ago; return how many of them were taken."""
        young = time.time() - patience_seconds
        orphans = [entry for entry in self._spool.refused() if entry["code"] == "OM404" and entry["refused_at"] > young]
        return self.resend(orphans, load) if orphans else 0

    def is_finished(self) -> bool:
        """Say whether nobody writes here any more and all of it is delivered or refused."""
        return not is_alive(self._spool.folder) and not self._spool.unread_bytes()

    def close(self) -> None:
        """Remove a spool that has nothing left to tell, and let go of it; of others, keep what was refused."""
        refused = self._spool.refused()
        if not refused:
            shutil.rmtree(self._spool.folder, ignore_errors=True)
        sweep_blobs(self._spool.folder, needed_by=[entry["record"] for entry in refused])
        for path in self._spool.folder.glob("*.jsonl"):
            if path.stem.isdigit():
                path.unlink()
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
        if self._kept is None:
            self._kept = {identity(entry) for entry in self._spool.refused()}
        fresh = {key: entry for entry in entries if (key := identity(entry)) not in self._kept}
        self._spool.add_refused(list(fresh.values()))
        self._kept |= fresh.keys()
        return len(self._kept)

    def resend(self, entries: list[dict[str, Any]], load: Load) -> int:
        """Send refused records again and return how many were taken."""
        self._kept = None
        return resend(self._spool, entries, load)


def _is_heartbeat(entry: dict[str, Any]) -> bool:
    return entry["kind"] == "training_runs" and set(entry["record"]) == {"id"}


def _entry(records: Batch, refusal: dict[str, Any]) -> dict[str, Any]:
    record = records[refusal["kind"]][refusal["index"]]
    return {"kind": refusal["kind"], "record": record, "code": refusal["code"], "message": refusal["message"]}
