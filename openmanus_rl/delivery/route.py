"""Delivers one spool to the database, batch by batch."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any

from openmanus_rl.delivery.batches import Batch, Load
from openmanus_rl.delivery.ends import load_with_ends, without_refused
from openmanus_rl.delivery.reading import SpoolBatch, SpoolReader
from openmanus_rl.delivery.resending import resend
from openmanus_rl.errors import LocalFileError, OpenManusError
from openmanus_rl.media.blobs import forget_blobs, sweep_blobs
from openmanus_rl.spool.files import Position, is_alive, lock_file, read_unwritten, segment_path
from openmanus_rl.spool.refusals import count_places, identity, name_of
from openmanus_rl.spool.run_state import note_delivered
from openmanus_rl.spool.segments import Segments
from openmanus_rl.spool.spools import DONE_SUFFIX, Progress, Spool

__all__ = ["Prepare", "Route"]

Prepare = Callable[[Batch], None]

_logger = logging.getLogger(__name__)

_ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openmanus-rl reading ahead")

_LEAST_BATCH_BYTES = 64 * 1024
_WORTH_READING_AHEAD_BYTES = 512 * 1024
_BATCHES_BEFORE_LARGER = 16


class Route:
    """The delivery of one spool, which stays locked meanwhile."""

    def __init__(self, spool: Spool, lock: int, batch_bytes: int) -> None:
        self._spool = spool
        self._lock = lock
        self._most_bytes = self._batch_bytes = batch_bytes
        self._good_batches = 0
        self._reader: SpoolReader | None = None
        self._ahead: Future[SpoolBatch | None] | None = None
        self._kept: dict[bytes, list[int]] | None = None
        self._logged: set[str] = set()
        self._meta = spool.meta()

    @classmethod
    def open(cls, spool: Spool, batch_bytes: int) -> Route | None:
        """Lock a spool for delivery; return None if another process delivers it, or it has just been removed."""
        try:
            return cls(spool, lock_file(spool.folder / "courier.lock"), batch_bytes)
        except (BlockingIOError, FileNotFoundError):
            return None

    def written_until(self) -> Position:
        """Return the position behind what has been written so far."""
        return Segments(self._spool.folder).end()

    def has_reached(self, position: Position) -> bool:
        """Return whether a process writes to the spool, and what it wrote before a position has been delivered."""
        return self._spool.progress.position >= position and is_alive(self._spool.folder)

    def forward(
        self,
        load: Load,
        *,
        until: Position | None = None,
        prepare: Prepare | None = None,
        most_bytes: int | None = None,
    ) -> int:
        """Deliver the next batch and save the progress; return its number of lines, 0 at the end.

        The batch after it, if it begins before `until`, is read and passed to `prepare` meanwhile.
        """
        progress = self._spool.progress
        size_bytes = min(self._batch_bytes, most_bytes or self._batch_bytes)
        batch = self._next_batch(progress, size_bytes)
        if batch is None:
            return 0
        # If much is pending, read it while this batch is loaded; if little is, more may be written meanwhile.
        is_last = until is not None and batch.end >= until
        if not is_last and self._reader is not None and self._reader.has_waiting(_WORTH_READING_AHEAD_BYTES):
            self._ahead = _ahead.submit(_read_ahead, self._reader, size_bytes, prepare)
        try:
            refusals = load_with_ends(batch.records, load) if batch.records else []
        except (OpenManusError, OSError):
            # Whether or not it was stored, reading again from the saved position yields the same records. Read fewer:
            # the server may have timed out because of the size.
            self._forget_ahead()
            self._batch_bytes = max(_LEAST_BATCH_BYTES, self._batch_bytes // 2)
            self._good_batches = 0
            raise
        self._good_batches += 1
        if self._good_batches % _BATCHES_BEFORE_LARGER == 0:
            self._batch_bytes = min(self._most_bytes, self._batch_bytes * 2)
        found = [_entry(batch, refusal) for refusal in refusals]
        # Refused heartbeats are dropped: they carry no data, and their run was deleted.
        entries = batch.refused + [entry for entry in found if not _is_heartbeat(entry)]
        refused = self._keep_refused(entries) + progress.discarded if entries else progress.refused
        taken = progress.taken + batch.taken
        self._keep_damaged(batch)
        if self._meta is not None and self._meta["run_id"] is not None:
            # Continue without the note: on a full disk, delivery frees space.
            with suppress(OSError, LocalFileError):
                note_delivered(self._spool.folder.parent, self._meta, batch.records)
        self._spool.save(
            replace(
                progress,
                segment=batch.end.segment,
                offset=batch.end.offset,
                taken=taken,
                delivered=taken - refused,
                refused=refused,
                damaged=progress.damaged + batch.damaged,
                damage=progress.damage or next(iter(batch.damage.values()), None),
                error=None,
                open=progress.open_after(without_refused(batch.records, refusals)),
            )
        )
        # After saving the progress: if the records were read again, they would need their files.
        delivered = [record for records in batch.records.values() for record in records]
        forget_blobs(self._spool.folder, delivered, but=[entry["record"] for entry in entries])
        self._delete_segments(before=batch.end.segment)
        return batch.lines

    def has_waiting(self, size_bytes: int) -> bool:
        """Return whether this many bytes have been written since the last batch."""
        return self._reader is not None and self._reader.has_waiting(size_bytes)

    def _next_batch(self, progress: Progress, size_bytes: int) -> SpoolBatch | None:
        ahead, self._ahead = self._ahead, None
        try:
            if ahead is not None and (batch := ahead.result()) is not None:
                return batch
            if self._reader is None:
                self._reader = SpoolReader(self._spool.folder, progress.position)
            return self._reader.read(size_bytes)
        except OSError:
            self._reader = None
            raise

    def _forget_ahead(self) -> None:
        if self._ahead is not None:
            # The reader is not thread-safe.
            wait([self._ahead])
        self._ahead = self._reader = None

    def _keep_damaged(self, batch: SpoolBatch) -> None:
        """Keep damaged segments under other names, so that they are not deleted after delivery."""
        for number, reason in batch.damage.items():
            _logger.error("damaged: %s; what can be read is delivered, %s is kept", reason, self._spool.folder)
            segment = segment_path(self._spool.folder, number)
            kept = segment.with_suffix(".damaged")
            try:
                kept.hardlink_to(segment)
            except (FileExistsError, FileNotFoundError):
                continue
            except OSError:
                # Not every file system has hard links.
                shutil.copyfile(segment, kept)

    def count_unwritten(self) -> None:
        """Count the records that an ended process had only in memory, and those that it reported as lost."""
        progress, found = self._spool.progress, read_unwritten(self._spool.folder)
        if self._spool.may_go_on_elsewhere():
            # This is a copy: the original process may still write what it has in memory.
            found = replace(found, in_memory=0)
        count = found.in_memory + found.lost
        if count > progress.unwritten:
            damage = (
                f"{count} records of this process were never written to disk: "
                f"{found.in_memory} were in its memory when it ended, {found.lost} were lost before"
            )
            _logger.error("%s: %s", self._spool.folder, damage)
            more = count - progress.unwritten
            self._spool.save(
                replace(progress, damaged=progress.damaged + more, damage=progress.damage or damage, unwritten=count)
            )

    def retry_orphans(self, load: Load, *, patience_seconds: float) -> int:
        """Resend records that were recently refused for a missing parent; return how many were stored."""
        young = time.time() - patience_seconds
        orphans = [entry for entry in self._spool.refused() if entry["code"] == "OM404" and entry["refused_at"] > young]
        return self.resend(orphans, load) if orphans else 0

    def is_finished(self) -> bool:
        """Return whether the spool has no writer and everything in it is delivered or refused."""
        # In this order: without a writer, nothing is added.
        return not is_alive(self._spool.folder) and not self._spool.unread_bytes()

    def close(self) -> None:
        """Remove a finished spool and release its lock; refusals and damaged segments are kept."""
        folder, refused = self._spool.folder, self._spool.refused()
        is_damaged = self._spool.progress.damaged > 0 or any(folder.glob("*.damaged"))
        if refused or is_damaged:
            # Damaged lines may have referenced any of the files.
            if not is_damaged:
                sweep_blobs(folder, needed_by=[entry["record"] for entry in refused])
            self._delete_segments(before=None)
        else:
            # Renaming is atomic; if this process is killed now, the next courier deletes the folder.
            done = folder.with_name(f"{folder.name}{DONE_SUFFIX}")
            folder.rename(done)
            shutil.rmtree(done, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Release the lock, so that another process can continue the delivery."""
        self._forget_ahead()
        os.close(self._lock)

    def _delete_segments(self, *, before: int | None) -> None:
        for path in self._spool.folder.glob("*.jsonl"):
            if path.stem.isdigit() and (before is None or int(path.stem) < before):
                path.unlink()

    def _keep_refused(self, entries: list[dict[str, Any]]) -> int:
        """Save refusals with earlier ones, and return the number of refused records in all."""
        now = time.time()
        for entry in entries:
            entry["refused_at"] = now
        self._log_refused(entries)
        # A batch that is read again after a crash is refused again: save each refusal once.
        if self._kept is None:
            self._kept = {identity(entry): entry["places"] for entry in self._spool.refused()}
        fresh = [entry for entry in entries if self._kept.get(identity(entry)) != entry["places"]]
        self._spool.add_refused(fresh)
        self._kept |= {identity(entry): entry["places"] for entry in fresh}
        return count_places(self._kept.values())

    def _log_refused(self, entries: list[dict[str, Any]]) -> None:
        """Log each refused field of a spool once, without values: those are only in the spool."""
        # A missing parent is not an error yet: it may still arrive.
        names = {name_of(entry) for entry in entries if entry["code"] != "OM404"} - self._logged
        self._logged |= names
        for name in sorted(names):
            _logger.error("refused, kept in %s: %s", self._spool.folder / "refused.jsonl", name)

    def resend(self, entries: list[dict[str, Any]], load: Load) -> int:
        """Send refused records again and return how many were stored."""
        self._kept = None
        return resend(self._spool, entries, load)


def _read_ahead(reader: SpoolReader, size_bytes: int, prepare: Prepare | None) -> SpoolBatch | None:
    batch = reader.read(size_bytes)
    if batch is not None and batch.records and prepare is not None:
        prepare(batch.records)
    return batch


def _is_heartbeat(entry: dict[str, Any]) -> bool:
    return entry["kind"] == "training_runs" and set(entry["record"]) == {"id"}


def _entry(batch: SpoolBatch, refusal: dict[str, Any]) -> dict[str, Any]:
    kind, index = refusal["kind"], refusal["index"]
    return {
        "kind": kind,
        "record": refusal.get("record") or batch.records[kind][index],
        "code": refusal["code"],
        "field": refusal.get("field"),
        "message": refusal["message"],
        "places": batch.places[kind][index],
    }
