"""One process's way of recording: its spool, and a courier that is kept running beside it."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmanus_rl.recorder.blobs import BlobStore, media_record
from openmanus_rl.recorder.destination import address_of, spool_root
from openmanus_rl.recorder.media import Blob, Unkept, as_blob
from openmanus_rl.recorder.spool import SpoolWriter, lock_file
from openmanus_rl.recorder.spools import Progress, Spool, hurry
from openmanus_rl.settings import Settings, find_env_file

__all__ = ["Recording", "Stats"]

_logger = logging.getLogger(__name__)

_WATCH_SECONDS = 1.0
_POLL_SECONDS = 0.01
# A silent run is alive as long as its process is; the database calls it stalled after five minutes without a word.
HEARTBEAT_SECONDS = 60.0


@dataclass(frozen=True)
class Stats:
    """What became of what this process recorded."""

    queued: int
    delivered: int
    rejected: int
    lost: int
    error: str | None = None
    """Why delivery does not get on, where it does not."""


class Recording:
    """Appends to this process's spool; after a fork the child writes to one of its own."""

    def __init__(
        self,
        settings: Settings,
        *,
        run_id: str,
        rewinds: Sequence[int] = (),
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.at_exit: Callable[[], None] | None = None
        """Called when the interpreter ends and nobody has closed this before."""
        self.run_id = run_id
        self.rewinds = tuple(rewinds)
        self._heartbeat_seconds = heartbeat_seconds
        self._settings = settings
        self._root = spool_root(settings)
        self._start()
        # Before anything is recorded: a process that is killed at once leaves a courier behind.
        self._start_courier()
        _recordings.add(self)

    def _start(self) -> None:
        self._writer = SpoolWriter(self._root, url=address_of(self._settings), run_id=self.run_id, rewinds=self.rewinds)
        self.blobs = BlobStore(self._writer.folder)
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._keep_courier, name="openmanus-rl courier", daemon=True)
        self._watcher.start()

    def append(self, kind: str, record: dict[str, Any]) -> None:
        """Write a record down; nothing waits for the network."""
        self._writer.append(kind, record)

    def keep_media(self, data: Any, *, kind: str | None, **fields: Any) -> tuple[dict[str, Any] | None, str | None]:
        """Keep bytes in the spool; return the record that says so, to be appended, and their path in the bucket."""
        content = as_blob(data) if not isinstance(data, (Blob, Unkept)) else data
        return media_record(self.blobs, content, run_id=self.run_id, kind=kind or _kind_of(content), **fields)

    def append_media(self, record: dict[str, Any] | None) -> None:
        """Write down a record of bytes that were kept; of those for which there was no room, that they are lost."""
        if record is None:
            self._writer.count_lost("there was no room on the disk for its bytes")
        else:
            self.append("media", record)

    def spread(self, number: int) -> int:
        """Return a number that no other process of the job gives, for the nth thing of this one."""
        return number * self._settings.world_size + self._settings.rank

    @property
    def stats(self) -> Stats:
        """Return the counts as they are now."""
        progress = self._progress()
        return Stats(
            queued=max(0, self._writer.appended - self._writer.lost - progress.taken),
            delivered=progress.delivered,
            rejected=progress.refused,
            # What broke off on a full disk was written again behind it.
            lost=self._writer.lost + max(0, progress.damaged - self._writer.torn),
            error=progress.error,
        )

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was written so far is in the database; False if the time was not enough."""
        target = self._writer.position
        deadline = time.monotonic() + timeout_seconds
        while self._writer.waiting or self._progress().position < target:
            hurry(self._root)
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return self._progress().refused == 0 and self._writer.lost == 0

    def _progress(self) -> Progress:
        """Return how far the spool is delivered; one that is gone had nothing left to deliver, and nothing refused."""
        writer = self._writer
        progress = Spool(writer.folder).progress
        if writer.folder.exists():
            return progress
        place, count = writer.position, writer.appended - writer.lost
        return Progress(place.segment, place.offset, taken=count, delivered=count, damaged=writer.torn)

    def close(self) -> None:
        """Let go of the spool; the courier delivers what is left, also after this process has ended."""
        if not self._closed.is_set():
            self._closed.set()
            self._writer.close()
            hurry(self._root)
            _recordings.discard(self)

    def renew_after_fork(self) -> None:
        """Write to a spool of this process's own: the parent's belongs to the parent."""
        # The parent will end the run.
        self.at_exit = None
        self._writer.abandon()
        self._start()

    def _start_courier(self) -> None:
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
            if time.monotonic() >= next_beat:
                if self._writer.appended == heard:
                    self._writer.append("training_runs", {"id": self.run_id})
                heard = self._writer.appended
                next_beat = time.monotonic() + self._heartbeat_seconds


def _kind_of(content: Blob | Unkept) -> str:
    kind = content.content_type.partition("/")[0] if isinstance(content, Blob) else ""
    return kind if kind in ("image", "video", "audio") else "file"


def ensure_courier(settings: Settings) -> None:
    """Start a courier for this destination unless one is running."""
    root = spool_root(settings)
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    # One that this process started may not have come to its lock yet, on a busy machine.
    if root in _couriers and _couriers[root].poll() is None:
        return
    try:
        os.close(lock_file(root / "courier.lock"))
    except BlockingIOError:
        return
    with (root / "courier.log").open("ab") as log:
        _couriers[root] = subprocess.Popen(
            [sys.executable, "-m", "openmanus_rl.recorder", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # It outlives this process, and a Ctrl-C or a killed process group: what was recorded still arrives.
            start_new_session=True,
            env={**os.environ, "OPENMANUS_RL_HOME": str(settings.home)},
            cwd=_settings_folder(),
        )


def _settings_folder() -> Path:
    """Return where the settings are, or else a folder that nobody takes from under a process that outlives this one."""
    try:
        env_file = find_env_file(Path.cwd())
    except FileNotFoundError:
        env_file = None
    return Path("/") if env_file is None else env_file.parent


_couriers: dict[Path, subprocess.Popen[bytes]] = {}
_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()


def _renew_all() -> None:
    for recording in list(_recordings):
        recording.renew_after_fork()


def _close_all() -> None:
    for recording in list(_recordings):
        if recording.at_exit is not None:
            recording.at_exit()
        recording.close()


os.register_at_fork(after_in_child=_renew_all)
atexit.register(_close_all)
