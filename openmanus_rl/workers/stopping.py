"""Stops an attempt from outside: it was cancelled, its time is up, or its worker ends.

The worker says which attempt it means, and a thread sends a signal to the main one: it reaches that even while it
waits for a model or a browser. It raises `Stopped` there, but only while work that may be cut short is going on: never
while an environment is removed or a result is recorded.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Literal

__all__ = ["Reason", "Stopped", "Stopper"]

Reason = Literal["cancelled", "timeout", "returned"]

SIGNALS: dict[Reason, signal.Signals] = {
    "cancelled": signal.SIGUSR1,
    "returned": signal.SIGUSR2,
    "timeout": signal.SIGALRM,
}


class Stopped(BaseException):
    """The attempt is to end. Not an `Exception`, which agents may catch."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Stopper:
    """Turns signals into `Stopped` in the main thread."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._is_interruptible = False
        self._lease_id: str | None = None
        self._asked: dict[str, Reason] = {}
        self._lock = threading.Lock()
        for reason, number in SIGNALS.items():
            signal.signal(number, partial(self._stop, reason))
        # The worker decides what happens on Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def begin(self, lease_id: str) -> None:
        """Forget what stopped the last attempt; this one may have been stopped before it began."""
        with self._lock:
            self._lease_id = lease_id
            self.reason = self._asked.get(lease_id)
            self._asked.clear()

    def stop(self, lease_id: str, reason: Reason) -> None:
        """Stop an attempt, from another thread than the main one; nothing happens if it has ended."""
        with self._lock:
            if lease_id == self._lease_id:
                signal.pthread_kill(threading.main_thread().ident or 0, SIGNALS[reason])
            else:
                self._asked[lease_id] = reason

    @contextmanager
    def interruptible(self, *, seconds: float | None = None) -> Iterator[None]:
        """Let signals cut this block short; after `seconds` it times out."""
        if self.reason is not None:
            raise Stopped(self.reason)
        try:
            self._is_interruptible = True
            if seconds is not None:
                signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
            yield
        finally:
            self._is_interruptible = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        # A signal that came just before the end of the block.
        if self.reason is not None and self.reason != "timeout":
            raise Stopped(self.reason)

    def _stop(self, reason: Reason, _number: int, _frame: FrameType | None) -> None:
        # A timeout concerns the block only; the others the attempt.
        if reason != "timeout":
            self.reason = self.reason or reason
        if self._is_interruptible:
            # Once: the unwinding must not be cut short itself.
            self._is_interruptible = False
            raise Stopped(reason)
