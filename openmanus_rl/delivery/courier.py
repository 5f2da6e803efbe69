"""The courier: delivers spools in batches until they are empty, during training or long after it."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from openmanus_rl.delivery.batches import Batch, Load, has_leases, load_in_parts, load_under_leases
from openmanus_rl.delivery.ending import Ending
from openmanus_rl.delivery.route import Route
from openmanus_rl.delivery.uploads import Uploads, needs_storage
from openmanus_rl.errors import LocalFileError, OpenManusError, TransientError
from openmanus_rl.spool.files import is_alive
from openmanus_rl.spool.run_state import forget_old_runs
from openmanus_rl.spool.spools import Spool, find_spools, remove_done, was_hurried

if TYPE_CHECKING:
    from openmanus_rl.transport.storage import Storage

__all__ = ["Courier", "Sink", "describe_rest"]

_logger = logging.getLogger(__name__)

# Slightly more than a segment, so that a whole one, with a last line beyond its size limit, takes one transaction.
BATCH_BYTES = 9 * 1024 * 1024
_FIRST_BACKOFF_SECONDS = 0.25
_LAST_BACKOFF_SECONDS = 15.0
# For how long spools may fail, one after the other, before the rest of them waits as well.
_FAILING_SECONDS = 10.0
# After SIGTERM, the grace time leaves no room for long pauses.
_ENDING_BACKOFF_SECONDS = 0.5
# Pause between deliveries: each delivery of metrics rewrites the chunks that are still growing.
_REST_SECONDS = 0.5
# A server with many couriers asks each to rest for longer, but what it asks for has a limit.
_LONGEST_REST_SECONDS = 30.0
# Skip the pause if flush() waits or more than a batch is pending. Not for less: delivery competes with training for
# the processor, and costs less in large batches.
_ENOUGH_BYTES = 12 * 1024 * 1024
# How often it looks meanwhile whether to skip the pause. In a long one, less often: a server asks for that where there
# are many couriers, which together must not keep a machine busy with looking.
_LOOKS_IN_A_PAUSE = 100
_LONGEST_LOOK_SECONDS = 0.05
_ENDING_LOOK_SECONDS = 0.005
# A parent may arrive later, from another process's spool: until then its children are retried.
ORPHAN_PATIENCE_SECONDS = 600.0
_ORPHAN_PAUSE_SECONDS = 2.0
_LONGEST_ORPHAN_PAUSE_SECONDS = 60.0
_INTERRUPTED = "the process that recorded it ended before it did"


def describe_rest(root: Path) -> str:
    """Describe what is undelivered below a root, and how to deliver it."""
    spools = [spool for spool in find_spools(root) if spool.unread_bytes()]
    size_bytes = sum(spool.unread_bytes() for spool in spools)
    return f"{size_bytes:,} bytes in {len(spools)} spools wait in {root}; `openmanus-rl sync` delivers them"


class Sink(Protocol):
    """A destination: loads each batch in one transaction, returns its refusals, and stores files."""

    @property
    def storage(self) -> Storage: ...
    def load(self, batch: Batch, leases: Sequence[str] = ()) -> list[dict[str, Any]]: ...
    def interrupt(self, entries: dict[str, list[list[str]]], reason: str) -> None: ...


@runtime_checkable
class SendingAhead(Protocol):
    """A destination to which the next batch can be sent while it still writes the one before."""

    most_bytes: int
    """How many bytes of lines make a batch that it takes in one request."""
    rest_until: float
    """Until when, by the monotonic clock, it asked not to be sent more."""

    def prepare(self, batch: Batch) -> None: ...
    def close(self) -> None: ...


class Courier:
    """Delivers the spools of one destination. Several may run: each spool is locked by one at a time."""

    def __init__(
        self,
        root: Path,
        *,
        connect: Callable[[], Sink],
        batch_bytes: int = BATCH_BYTES,
        orphan_patience_seconds: float = ORPHAN_PATIENCE_SECONDS,
        ending: Ending | None = None,
    ) -> None:
        self._root = root
        self._ending = ending or Ending()
        self._connect = connect
        self._batch_bytes = batch_bytes
        self._orphan_patience_seconds = orphan_patience_seconds
        self._sink: Sink | None = None
        self._uploads = Uploads()
        self._routes: dict[Path, Route] = {}
        self._orphan_pauses: dict[Path, _Pause] = {}
        self._seen: set[Path] = set()

    def run(self, *, until_idle_seconds: float, patience_seconds: float = math.inf) -> None:
        """Deliver until there has been nothing to deliver and no writer for `until_idle_seconds`.

        If delivery keeps failing and no process writes, give up after `patience_seconds`; the next courier or
        `openmanus-rl sync` delivers the rest. After SIGTERM, return as soon as everything is delivered.
        """
        remove_done(self._root)
        with suppress(OSError, LocalFileError):
            forget_old_runs(self._root)
        backoff = _FIRST_BACKOFF_SECONDS
        quiet_since = failing_since = time.monotonic()
        while True:
            try:
                moved = self.deliver()
            except Exception as error:
                if not isinstance(error, OpenManusError | OSError):
                    # A defect. What is delivered is known, so that it may be tried again, from there.
                    _logger.exception("delivery fails in a way that it should not")
                    self.close()
                if self._has_writers():
                    failing_since = time.monotonic()
                elif time.monotonic() - failing_since >= patience_seconds:
                    _logger.error(
                        "delivery fails and no process writes any more: giving up. %s", describe_rest(self._root)
                    )
                    return
                self._pause(backoff, error)
                backoff = min(backoff * 2, _LAST_BACKOFF_SECONDS)
                continue
            backoff = _FIRST_BACKOFF_SECONDS
            failing_since = time.monotonic()
            if moved or self._has_writers():
                quiet_since = time.monotonic()
            elif self._ending.is_asked or time.monotonic() - quiet_since >= until_idle_seconds:
                return
            self._rest()

    def has_seen_all(self) -> bool:
        """Return whether no spool has come since the last delivery began."""
        return all(spool.folder in self._seen for spool in find_spools(self._root))

    def _has_writers(self) -> bool:
        return any(is_alive(spool.folder) for spool in find_spools(self._root))

    def _pause(self, backoff: float, error: Exception) -> None:
        asked_seconds = error.retry_after_seconds if isinstance(error, TransientError) else None
        pause = max(backoff * (0.5 + random.random() / 2), asked_seconds or 0.0)
        if self._ending.is_asked:
            pause = min(pause, _ENDING_BACKOFF_SECONDS)
        _logger.warning("delivery failed, trying again in %.1f s: %s", pause, error)
        self._ending.sleep(pause)

    def _rest(self) -> None:
        """Pause between deliveries, but not if flush() waits, much is pending, or the process is to end."""
        now = time.monotonic()
        asked = self._sink.rest_until if isinstance(self._sink, SendingAhead) else 0.0
        until = min(max(now + _REST_SECONDS, asked), now + _LONGEST_REST_SECONDS)
        look_seconds = min((until - now) / _LOOKS_IN_A_PAUSE, _LONGEST_LOOK_SECONDS)
        while time.monotonic() < until and not was_hurried(self._root) and not self._ending.is_asked:
            if any(route.has_waiting(_ENOUGH_BYTES) for route in self._routes.values()):
                return
            time.sleep(look_seconds)
        if self._ending.is_asked:
            time.sleep(_ENDING_LOOK_SECONDS)

    def deliver(self, *, on_progress: Callable[[Spool, int], None] | None = None) -> int:
        """Deliver everything that is pending now and return the number of lines."""
        moved = 0
        failure: OpenManusError | OSError | None = None
        failing_seconds = 0.0
        spools = list(find_spools(self._root))
        self._seen = {spool.folder for spool in spools}
        for spool in spools:
            began = time.monotonic()
            try:
                moved += self._deliver(spool, on_progress)
            except OpenManusError as error:
                self._disconnect()
                # All may share its cause.
                self._tell(str(error), find_spools(self._root) if failure is None else [spool])
                failure = failure or error
                failing_seconds += time.monotonic() - began
                # Perhaps of this spool alone, such as a file that cannot be stored: deliver the others. But if nothing
                # answers, each of them would take as long to find out.
                if failing_seconds > _FAILING_SECONDS:
                    break
            except OSError as error:
                # A local problem of this spool: deliver the others.
                _logger.warning("%s cannot be delivered: %s", spool.folder, error)
                failure = failure or error
        if failure is not None:
            raise failure
        return moved

    def _deliver(self, spool: Spool, on_progress: Callable[[Spool, int], None] | None) -> int:
        route = self._routes.get(spool.folder) or Route.open(spool, self._batch_bytes)
        if route is None:
            return 0
        self._routes[spool.folder] = route
        moved = 0
        # What is written meanwhile waits for the next pass, and so for the pause before it: otherwise a process that
        # logs all the time causes a request for each few records.
        until = route.written_until()
        forward = partial(route.forward, self.load_from(spool), until=until, prepare=self._prepare)
        while lines := forward(most_bytes=self._most_bytes()):
            moved += lines
            if on_progress is not None:
                on_progress(spool, lines)
            if route.has_reached(until):
                break
        self._retry_refused(spool, route)
        if route.is_finished():
            route.count_unwritten()
            if not spool.may_go_on_elsewhere() and (progress := spool.progress).open:
                self._connected().interrupt(progress.open_entries(), _INTERRUPTED)
                spool.save(replace(progress, open={}))
            route.close()
            del self._routes[spool.folder]
        return moved

    def close(self) -> None:
        """Release the locks on the spools, as the end of the process does."""
        for route in self._routes.values():
            route.let_go()
        self._routes.clear()
        self._disconnect()

    def _retry_refused(self, spool: Spool, route: Route) -> None:
        """Retry records whose parent was missing, with growing pauses: another process may have delivered it."""
        pause = self._orphan_pauses.setdefault(spool.folder, _Pause())
        if spool.was_asked_to_resend():
            route.resend(spool.refused(), self.load_from(spool))
        if time.monotonic() >= pause.until:
            taken = route.retry_orphans(self.load_from(spool), patience_seconds=self._orphan_patience_seconds)
            pause.renew(shortest=taken > 0)

    def _tell(self, error: str, spools: Iterable[Spool]) -> None:
        """Save the error in those spools that have undelivered records."""
        for spool in spools:
            # On a full disk, only the courier's log has the error.
            with suppress(OSError):
                if spool.folder in self._routes and (spool.unread_bytes() or spool.refused()):
                    spool.save(replace(spool.progress, error=error))
                elif spool.unread_bytes() and (route := Route.open(spool, self._batch_bytes)) is not None:
                    self._routes[spool.folder] = route
                    spool.save(replace(spool.progress, error=error))

    def load_from(self, spool: Spool) -> Load:
        """Return a function that loads this spool's records and uploads their files."""
        return partial(self._load_with_files, spool.folder)

    def _load_with_files(self, folder: Path, batch: Batch) -> list[dict[str, Any]]:
        if not needs_storage(batch):
            return self._load(batch)
        return self._uploads.load(batch, folder=folder, storage=self._connected().storage, load=self._load)

    def _connected(self) -> Sink:
        if self._sink is None:
            self._sink = self._connect()
        return self._sink

    def _disconnect(self) -> None:
        sink, self._sink = self._sink, None
        if isinstance(sink, SendingAhead):
            sink.close()

    def _prepare(self, batch: Batch) -> None:
        """Send a batch ahead, where that is possible; called while the one before is loaded."""
        sink = self._sink
        if isinstance(sink, SendingAhead) and not needs_storage(batch) and not has_leases(batch):
            sink.prepare(batch)

    def _most_bytes(self) -> int:
        sink = self._sink
        return sink.most_bytes if isinstance(sink, SendingAhead) else self._batch_bytes

    def _load(self, batch: Batch) -> list[dict[str, Any]]:
        return load_in_parts(batch, self._load_part)

    def _load_part(self, batch: Batch) -> list[dict[str, Any]]:
        sink = self._connected()
        return load_under_leases(batch, lambda part, leases: sink.load(part, leases) if leases else sink.load(part))


@dataclass
class _Pause:
    """A pause that doubles with each attempt that achieved nothing."""

    until: float = 0.0
    seconds: float = _ORPHAN_PAUSE_SECONDS

    def renew(self, *, shortest: bool) -> None:
        if shortest:
            self.seconds = _ORPHAN_PAUSE_SECONDS
        self.until = time.monotonic() + self.seconds
        self.seconds = min(self.seconds * 2, _LONGEST_ORPHAN_PAUSE_SECONDS)
