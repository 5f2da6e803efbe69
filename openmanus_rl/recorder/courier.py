"""The courier: delivers spools, in batches, until they are empty; it may run beside training, or long after it."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from openmanus_rl.errors import InvalidInput, OpenManusError, TransientError, UnsupportedError
from openmanus_rl.gateway import Storage
from openmanus_rl.recorder.left_open import REASON, as_entries
from openmanus_rl.recorder.route import Route
from openmanus_rl.recorder.spool import is_alive
from openmanus_rl.recorder.spools import Batch, Load, Spool, find_spools, was_hurried
from openmanus_rl.recorder.uploads import Uploads, needs_storage

__all__ = ["Courier", "Sink"]

_logger = logging.getLogger(__name__)

# As much as a segment: what a transaction costs besides its rows then hardly matters.
BATCH_BYTES = 8 * 1024 * 1024
_FIRST_BACKOFF_SECONDS = 0.25
_LAST_BACKOFF_SECONDS = 15.0
# So long it gathers what comes: every delivery of metrics rewrites the chunks that are still growing.
_REST_SECONDS = 0.5
# Unless somebody waits for it, or so much has come that it pays.
_ENOUGH_BYTES = 2 * 1024 * 1024
_LOOK_SECONDS = 0.005
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
        self._routes: dict[Path, Route] = {}
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
            self._rest()

    def _rest(self) -> None:
        """Wait a while, less if somebody wants to be told when all is delivered, or much has come."""
        until = time.monotonic() + _REST_SECONDS
        while time.monotonic() < until and not was_hurried(self._root):
            if any(route.has_waiting(_ENOUGH_BYTES) for route in self._routes.values()):
                return
            time.sleep(_LOOK_SECONDS)

    def deliver(self, *, on_progress: Callable[[Spool, int], None] | None = None) -> int:
        """Deliver everything that is there now and return how many lines that was."""
        moved = 0
        for spool in find_spools(self._root):
            route = self._routes.get(spool.folder) or Route.open(spool, self._batch_bytes)
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

    def _retry_refused(self, spool: Spool, route: Route) -> None:
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
            elif spool.unread_bytes() and (route := Route.open(spool, self._batch_bytes)) is not None:
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
