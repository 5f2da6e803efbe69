"""One spool on its way to the database, batch by batch."""

from __future__ import annotations

import logging
import os
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from openmanus_rl.errors import OpenManusError
from openmanus_rl.recorder.blobs import forget_blobs, sweep_blobs
from openmanus_rl.recorder.left_open import still_open
from openmanus_rl.recorder.reading import SpoolBatch, SpoolReader
from openmanus_rl.recorder.resuming import note_progress
from openmanus_rl.recorder.spool import is_alive, lock_file
from openmanus_rl.recorder.spools import Batch, Load, Progress, Spool, identity, resend

__all__ = ["Route"]

_logger = logging.getLogger(__name__)

_ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openmanus-rl reading ahead")

_LEAST_BATCH_BYTES = 64 * 1024
_WORTH_READING_AHEAD_BYTES = 512 * 1024
_BATCHES_BEFORE_LARGER = 16


class Route:
    """One spool on its way, locked for as long as this lasts."""

    def __init__(self, spool: Spool, lock: int, batch_bytes: int) -> None:
        self._spool = spool
        self._lock = lock
        self._most_bytes = self._batch_bytes = batch_bytes
        self._good_batches = 0
        self._reader: SpoolReader | None = None
        self._ahead: Future[SpoolBatch | None] | None = None
        self._kept: set[bytes] | None = None
        self._meta = spool.meta()

    @classmethod
    def open(cls, spool: Spool, batch_bytes: int) -> Route | None:
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
        batch = self._next_batch(progress)
        if batch is None:
            if not was_alive and self._spool.unread_bytes():
                self._skip_torn_end(progress)
            return 0
        # Where much waits already, it is read while this batch is written; where little does, more may come meanwhile.
        if self._reader is not None and self._reader.has_waiting(_WORTH_READING_AHEAD_BYTES):
            self._ahead = _ahead.submit(self._reader.read, self._batch_bytes)
        try:
            refusals = load(batch.records) if batch.records else []
        except (OpenManusError, OSError):
            # Whatever became of it, reading it again from the last known place gives the same records. Fewer of them:
            # where the server took too long, it may have been for their size.
            self._forget_ahead()
            self._batch_bytes = max(_LEAST_BATCH_BYTES, self._batch_bytes // 2)
            self._good_batches = 0
            raise
        self._good_batches += 1
        if self._good_batches % _BATCHES_BEFORE_LARGER == 0:
            self._batch_bytes = min(self._most_bytes, self._batch_bytes * 2)
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

    def has_waiting(self, size_bytes: int) -> bool:
        """Say whether so much has been written since the last batch."""
        return self._reader is not None and self._reader.has_waiting(size_bytes)

    def _next_batch(self, progress: Progress) -> SpoolBatch | None:
        ahead, self._ahead = self._ahead, None
        try:
            if ahead is not None and (batch := ahead.result()) is not None:
                return batch
            if self._reader is None:
                self._reader = SpoolReader(self._spool.folder, progress.position)
            return self._reader.read(self._batch_bytes)
        except OSError:
            self._reader = None
            raise

    def _forget_ahead(self) -> None:
        if self._ahead is not None:
            # Not to be read by two at once.
            wait([self._ahead])
        self._ahead = self._reader = None

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
