"""Claims rollouts in the background, so that slots are given work while the queue is asked for more."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.queue import Claims, QueueManager

__all__ = ["Claimer"]

_POLL_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 15.0
_RECEIVED_BYTES = 1024


class Claimer:
    """Claims for a worker, one request at a time. `socket` can be read when there is an answer."""

    def __init__(self, worker_id: str, *, lease_seconds: float, providers: Sequence[str]) -> None:
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._providers = list(providers)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openmanus-rl claims")
        self._request: Future[Claims] | None = None
        self._wanted = 0
        self._next = 0.0
        self._pause_seconds = _POLL_SECONDS
        self.socket, self._waker = socket.socketpair()
        self.socket.setblocking(False)

    @property
    def is_asking(self) -> bool:
        """Return whether there is a request whose answer was not taken."""
        return self._request is not None

    @property
    def found_nothing(self) -> bool:
        """Return whether less was found than was wanted, a moment ago."""
        return not self.is_asking and time.monotonic() < self._next

    def ask(self, wanted: int) -> None:
        """Begin to claim, unless it is being done, or nothing was found a moment ago."""
        if wanted <= 0 or self.is_asking or time.monotonic() < self._next:
            return
        self._wanted = wanted
        self._request = self._thread.submit(self._claim, wanted)
        self._request.add_done_callback(self._wake)

    def take(self) -> Claims | None:
        """Return what was claimed since the last call; raise the error if the queue could not be read."""
        with suppress(BlockingIOError):
            self.socket.recv(_RECEIVED_BYTES)
        request = self._request
        if request is None or not request.done():
            return None
        self._request = None
        try:
            found = request.result()
        except OpenManusError:
            self._pause_seconds = min(self._pause_seconds * 2, _LONGEST_PAUSE_SECONDS)
            self._next = time.monotonic() + self._pause_seconds
            raise
        self._pause_seconds = _POLL_SECONDS
        if len(found.claims) < self._wanted:
            self._next = time.monotonic() + _POLL_SECONDS
        return found

    def close(self) -> None:
        """Wait until no request is under way. What one claimed that was not taken is still leased to the worker."""
        self._thread.shutdown()
        self.socket.close()
        self._waker.close()

    def _claim(self, wanted: int) -> Claims:
        return QueueManager.claim(
            self._worker_id, wanted=wanted, lease_seconds=self._lease_seconds, providers=self._providers
        )

    def _wake(self, _request: Future[Claims]) -> None:
        self._waker.send(b".")
