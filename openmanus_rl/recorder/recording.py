"""Records to this process's spool, and keeps a courier running that delivers it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from openmanus_rl._launchers import Launch
from openmanus_rl.delivery.starting import ensure_courier
from openmanus_rl.errors import LocalFileError
from openmanus_rl.media.blobs import BlobStore, media_record
from openmanus_rl.media.content import Blob, Unkept, as_blob
from openmanus_rl.recorder.fields import check_word
from openmanus_rl.recorder.membership import Mode
from openmanus_rl.recorder.telling import Teller
from openmanus_rl.settings import Settings
from openmanus_rl.spool.roots import address_of, spool_root
from openmanus_rl.spool.spools import Progress, Spool, hurry
from openmanus_rl.spool.writer import SpoolWriter

__all__ = ["Recording", "Stats"]

_logger = logging.getLogger(__name__)

_WATCH_SECONDS = 1.0
_POLL_SECONDS = 0.01
# Sent while nothing is recorded: the database calls a run stalled after five minutes of silence.
HEARTBEAT_SECONDS = 60.0
_ALONE = Launch()


@dataclass(frozen=True)
class Stats:
    """What became of the records of this process; each is counted once.

    A record is what one call writes: the values of a `run.log`, a turn with its tool calls and rewards, the start or
    the end of a rollout.
    """

    queued: int
    """In the spool, not delivered yet."""
    delivered: int
    """Completely in the database."""
    rejected: int
    """Refused in whole or in part, such as one value of a `run.log` or one tool call of a turn."""
    lost: int
    """Not written to the spool, usually because the disk was full, or damaged since."""
    error: str | None = None
    """The last error of delivery, if it is failing."""
    in_memory: int = 0
    """How many of the queued wait in memory for space on the disk; they would not survive the process."""
    lost_reason: str | None = None
    """Why the first lost record was lost."""


class Recording:
    """Appends to this process's spool. After a fork, the child writes to a spool of its own."""

    def __init__(
        self,
        settings: Settings,
        *,
        run_id: str | None,
        rewinds: Sequence[int] = (),
        mode: Mode = "online",
        launch: Launch = _ALONE,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.at_exit: Callable[[], None] | None = None
        """Called when the interpreter ends, unless this was closed before."""
        self.gatherers: set[Callable[[], None]] = set()
        """Called before a flush and the end, to write what they buffer."""
        self.run_id = run_id
        """None for a worker, whose rollouts may be of any run."""
        self.rewinds = tuple(rewinds)
        self._heartbeat_seconds = heartbeat_seconds
        self._settings = settings
        self._rank, self._processes = launch.rank, launch.world_size
        self.mode: Mode = mode
        self.is_forked = False
        """Whether this process is a forked child of the one that started this recording."""
        self._root = spool_root(settings)
        self._start()
        # Before the first record, so that it is delivered even if this process is killed right after.
        self._start_courier()
        _recordings.add(self)

    def _start(self) -> None:
        self._writer = SpoolWriter(self._root, url=address_of(self._settings), run_id=self.run_id, rewinds=self.rewinds)
        self.blobs = BlobStore(self._writer.folder)
        self._teller = Teller(self._writer.folder)
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._keep_courier, name="openmanus-rl courier", daemon=True)
        self._watcher.start()

    def append(self, kind: str, record: dict[str, Any]) -> None:
        """Write a record to the spool; never waits for the network."""
        self._writer.append(kind, record)

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Write a record of metrics to the spool, and report refused values."""
        self._writer.append("metrics", record)
        if "refused" in record:
            self._teller.tell_metrics(record["refused"])

    @property
    def media_folder(self) -> str:
        """Return the folder of the bucket `media` for this run."""
        assert self.run_id is not None, "a worker has a folder for each rollout"
        return self.run_id

    def keep_media(
        self, data: Any, *, kind: str | None, folder: str | None = None, run_id: str | None = None, **fields: Any
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Store media in the spool; return the record to append, and the path in the bucket."""
        if kind is not None:
            check_word("media", "kind", kind)
        content = as_blob(data) if not isinstance(data, (Blob, Unkept)) else data
        return media_record(
            self.blobs,
            content,
            run_id=run_id or self.run_id,
            folder=folder,
            kind=kind or _kind_of(content),
            **fields,
        )

    def append_media(self, record: dict[str, Any] | None) -> None:
        """Write a record of stored media; None counts media as lost for which there was no space."""
        if record is None:
            self._writer.count_lost("there was no room on the disk for its bytes")
        else:
            self.append("media", record)

    @property
    def processes(self) -> int:
        """Return the number of processes in the job."""
        return self._processes

    @property
    def is_closed(self) -> bool:
        """Return whether this was closed."""
        return self._closed.is_set()

    def spread(self, number: int) -> int:
        """Return the nth number of this process, which no other process of the job uses."""
        return number * self._processes + self._rank

    @property
    def stats(self) -> Stats:
        """Return the current counts."""
        writer, progress = self._writer, self._progress()
        # Records that the writer lost are in both counts once the courier has seen them.
        damaged = progress.damaged - progress.unwritten
        return Stats(
            queued=max(0, writer.appended - writer.lost - progress.taken - damaged),
            delivered=progress.delivered,
            rejected=progress.refused,
            lost=writer.lost + damaged,
            error=progress.error,
            in_memory=writer.waiting,
            lost_reason=writer.lost_reason or progress.damage,
        )

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything recorded so far is in the database; False if it is not, whatever the reason."""
        self.write_gathered()
        writer = self._writer
        # In this order, so that records of other threads are never counted without being waited for.
        count, last = writer.appended - writer.lost, writer.last
        deadline = time.monotonic() + timeout_seconds
        while (target := writer.place_behind(last)) is None or self._progress().position < target:
            hurry(self._root)
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        progress = self._progress()
        # Compare counts as well: if the position is reached but a record is missing, it was removed or damaged.
        return progress.taken >= count and not (progress.refused or progress.damaged or writer.lost)

    def _progress(self) -> Progress:
        """Return how far the spool is delivered.

        The courier removes a closed spool when everything is delivered. If an open spool is missing, something else
        removed it, with what was still in it.
        """
        writer = self._writer
        # Read before the folder is looked at: it could be closed and removed in between.
        is_closed = writer.is_closed
        progress = Spool(writer.folder).progress
        if writer.folder.exists():
            return progress
        if not is_closed:
            return Progress(error=f"the spool {writer.folder} was removed; what had not been delivered is lost")
        place, count = writer.place_behind(writer.last), writer.appended - writer.lost
        assert place is not None, "a closed writer has nothing in memory"
        return Progress(place.segment, place.offset, taken=count, delivered=count)

    def write_gathered(self) -> None:
        """Let the gatherers write what they buffer."""
        for write in list(self.gatherers):
            write()

    def close(self) -> None:
        """Close the spool. The courier delivers the rest, also after this process has ended."""
        if not self._closed.is_set():
            self.write_gathered()
            self._closed.set()
            stats = self.stats
            self._teller.sum_up(rejected=stats.rejected, recorded=self._writer.appended)
            self._writer.close()
            hurry(self._root)
            _recordings.discard(self)

    def renew_after_fork(self) -> None:
        """Start a spool for this forked child; the old one belongs to the parent."""
        self.is_forked = True
        # The parent ends the run, and writes what its gatherers buffer.
        self.at_exit = None
        self.gatherers.clear()
        self._writer.abandon()
        try:
            self._start()
        except LocalFileError as error:
            # Nothing may be raised in a fork handler. The child's records are counted as lost.
            self._writer.closed_reason = f"after a fork, {error}"

    def _start_courier(self) -> None:
        if self.mode == "offline":
            return
        try:
            ensure_courier(self._settings)
        except OSError as error:
            _logger.warning("the courier could not be started, records stay in the spool: %s", error)

    def _keep_courier(self) -> None:
        heard = self._writer.appended
        next_beat = time.monotonic() + self._heartbeat_seconds
        while True:
            if self._closed.wait(min(_WATCH_SECONDS, self._heartbeat_seconds)):
                return
            self._start_courier()
            self._writer.drain()
            self._teller.look()
            if time.monotonic() >= next_beat:
                if self._writer.appended == heard and self.run_id is not None:
                    self._writer.append("training_runs", {"id": self.run_id})
                heard = self._writer.appended
                next_beat = time.monotonic() + self._heartbeat_seconds


def _kind_of(content: Blob | Unkept) -> str:
    kind = content.content_type.partition("/")[0] if isinstance(content, Blob) else ""
    return kind if kind in ("image", "video", "audio") else "file"


_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()


def _renew_all() -> None:
    for recording in list(_recordings):
        recording.renew_after_fork()


def _close_all() -> None:
    for recording in list(_recordings):
        recording.write_gathered()
        if recording.at_exit is not None:
            recording.at_exit()
        recording.close()


os.register_at_fork(after_in_child=_renew_all)
atexit.register(_close_all)
