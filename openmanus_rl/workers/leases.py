"""The leases of a worker, renewed in the background, also while the worker waits for something else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.queue import QueueManager

__all__ = ["News", "Renewer"]

_logger = logging.getLogger(__name__)


@dataclass
class News:
    """What a renewal found out."""

    gone: set[str] = field(default_factory=set)
    """Leases that are no longer held: the rollout has ended, or another worker may have it."""
    cancelled: set[str] = field(default_factory=set)
    is_draining: bool = False


class Renewer:
    """Renews the leases that `leases` returns, every few seconds."""

    def __init__(
        self, worker_id: str, leases: Callable[[], list[str]], *, lease_seconds: float, interval_seconds: float
    ) -> None:
        self._worker_id = worker_id
        self._leases = leases
        self._lease_seconds = lease_seconds
        self._interval_seconds = interval_seconds
        self._news = News()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closed = False
        self._failing_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="openmanus-rl leases", daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """Renew now: somebody waits for leases to end."""
        self._wake.set()

    def take_news(self) -> News:
        """Return what was found out since the last call."""
        with self._lock:
            news, self._news = self._news, News(is_draining=self._news.is_draining)
        return news

    def close(self) -> None:
        """Stop renewing."""
        self._is_closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._renew()
                self._failing_since = None
            except OpenManusError as error:
                if self._failing_since is None:
                    self._failing_since = time.monotonic()
                    _logger.warning("leases cannot be renewed, trying again: %s", error)
            self._wake.wait(self._interval_seconds)
            self._wake.clear()

    def _renew(self) -> None:
        leases = self._leases()
        renewal = QueueManager.renew(self._worker_id, leases, lease_seconds=self._lease_seconds)
        with self._lock:
            self._news.gone |= set(leases) - set(renewal.held)
            self._news.cancelled |= {lease for lease, is_cancelled in renewal.held.items() if is_cancelled}
            self._news.is_draining = renewal.state != "active"
