"""One process's way of recording: its spool, and a courier that is kept running beside it."""

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
# A silent run is alive as long as its process is; the database calls it stalled after five minutes without a word.
HEARTBEAT_SECONDS = 60.0
_ALONE = Launch()


@dataclass(frozen=True)
class Stats:
    """What became of what this process recorded; each record is counted once.

    A record is what one call wrote: the values of a `run.log`, a turn with its tool calls and rewards, the beginning or
    the end of a rollout.
    """

    queued: int
    """In the spool, on its way."""
    delivered: int
    """In the database, whole."""
    rejected: int
    """Refused, or some of it, such as one value of a `run.log` or one tool call of a turn; the rest of it arrived."""
    lost: int
    """Not even written down, for want of room, or damaged since."""
    error: str | None = None
    """Why delivery does not get on, where it does not."""
    in_memory: int = 0
    """Of the queued: how many wait in memory for room on the disk, and would not survive the process."""
    lost_reason: str | None = None
    """Why the first of the lost ones was lost."""


class Recording:
    """Appends to this process's spool; after a fork the child writes to one of its own."""

    def __init__(
        self,
        settings: Settings,
        *,
        run_id: str,
        rewinds: Sequence[int] = (),
        mode: Mode = "online",
        launch: Launch = _ALONE,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.at_exit: Callable[[], None] | None = None
        """Called when the interpreter ends and nobody has closed this before."""
        self.gatherers: set[Callable[[], None]] = set()
        """Called before a flush and the end: they write what they have gathered."""
        self.run_id = run_id
        self.rewinds = tuple(rewinds)
        self._heartbeat_seconds = heartbeat_seconds
        self._settings = settings
        self._rank, self._processes = launch.rank, launch.world_size
        self.mode: Mode = mode
        self.is_forked = False
        """Whether the process that began this recording is another one, of which this is a child."""
        self._root = spool_root(settings)
        self._start()
        # Before anything is recorded: a process that is killed at once leaves a courier behind.
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
        """Write a record down; nothing waits for the network."""
        self._writer.append(kind, record)

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Write a record of metrics down, and tell what of it is refused."""
        self._writer.append("metrics", record)
        if "refused" in record:
            self._teller.tell_metrics(record["refused"])

    def keep_media(self, data: Any, *, kind: str | None, **fields: Any) -> tuple[dict[str, Any] | None, str | None]:
        """Keep bytes in the spool; return the record that says so, to be appended, and their path in the bucket."""
        if kind is not None:
            check_word("media", "kind", kind)
        content = as_blob(data) if not isinstance(data, (Blob, Unkept)) else data
        return media_record(self.blobs, content, run_id=self.run_id, kind=kind or _kind_of(content), **fields)

    def append_media(self, record: dict[str, Any] | None) -> None:
        """Write down a record of bytes that were kept; of those for which there was no room, that they are lost."""
        if record is None:
            self._writer.count_lost("there was no room on the disk for its bytes")
        else:
            self.append("media", record)

    @property
    def processes(self) -> int:
        """Return how many processes the job has that number their things apart."""
        return self._processes

    @property
    def is_closed(self) -> bool:
        """Say whether nothing more is taken."""
        return self._closed.is_set()

    def spread(self, number: int) -> int:
        """Return a number that no other process of the job gives, for the nth thing of this one."""
        return number * self._processes + self._rank

    @property
    def stats(self) -> Stats:
        """Return the counts as they are now."""
        writer, progress = self._writer, self._progress()
        # What the writer itself lost is counted by the courier too, once the writer is gone.
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
        """Wait until all that was recorded so far is in the database; False if it is not, whatever the reason."""
        self.write_gathered()
        writer = self._writer
        # In this order: of what other threads record meanwhile, nothing is counted that is not waited for.
        count, last = writer.appended - writer.lost, writer.last
        deadline = time.monotonic() + timeout_seconds
        while (target := writer.place_behind(last)) is None or self._progress().position < target:
            hurry(self._root)
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        progress = self._progress()
        # Counted as well: where the place is reached and a record is missing, something took it away.
        return progress.taken >= count and not (progress.refused or progress.damaged or writer.lost)

    def _progress(self) -> Progress:
        """Return how far the spool is delivered.

        The courier removes one in which nobody writes any more, once nothing is left to deliver or to look at. While it
        is being written, only somebody else can have removed it, with what was still in it.
        """
        writer = self._writer
        # Before the look at the folder: else it could be closed and cleared away in between.
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
        """Let those who gather records write them."""
        for write in list(self.gatherers):
            write()

    def close(self) -> None:
        """Let go of the spool; the courier delivers what is left, also after this process has ended."""
        if not self._closed.is_set():
            self.write_gathered()
            self._closed.set()
            stats = self.stats
            self._teller.sum_up(rejected=stats.rejected, recorded=self._writer.appended)
            self._writer.close()
            hurry(self._root)
            _recordings.discard(self)

    def renew_after_fork(self) -> None:
        """Write to a spool of this process's own: the parent's belongs to the parent."""
        self.is_forked = True
        # The parent will end the run, and write what it has gathered.
        self.at_exit = None
        self.gatherers.clear()
        self._writer.abandon()
        try:
            self._start()
        except LocalFileError as error:
            # Nothing may be raised here; what it records is counted as lost.
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
                if self._writer.appended == heard:
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
