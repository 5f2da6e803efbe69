"""How training is asked to stop: by a signal, by its run's `stop_requested_at`, or by another process that trains."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Self

from openmanus_rl.connections import get_client
from openmanus_rl.errors import OpenManusError
from openmanus_rl.transport.filters import Filter

__all__ = ["Stop"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 2.0


class Stop:
    """Set once training is to end after the current step; a second signal ends the process at once.

    Used as a block: signals are handled inside it. `watch` starts to look at the run's record.
    """

    def __init__(self, *, poll_seconds: float = _POLL_SECONDS) -> None:
        self.is_set = False
        """Read at every step: a plain attribute, which is the fastest to read."""
        self.message: str | None = None
        """Who asked."""
        self.signal: signal.Signals | None = None
        """The signal that asked, unless the record did so first."""
        self.on_set: Callable[[], None] | None = None
        """Called once, in whichever thread noticed."""
        self.is_replaced = False
        """Whether another process has begun to train the run: it is no longer this one's to record or to end."""
        self._poll_seconds = poll_seconds
        self._look: Callable[[], None] = lambda: None
        self._has_signal = False
        self._ended = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """Return 0 if the record asked, and else what shells return for the signal: 143 or 130."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def watch(self, run_id: str, *, known: str | None = None, timeline: int | None = None) -> None:
        """Look from now on whether the run's record asks for a stop, other than a `known` one of an earlier launch.

        With a `timeline`, also whether another process has rewound the run since, to train it itself.
        """
        self._look = partial(self._look_at, run_id, known, timeline)
        threading.Thread(target=self._watch, name="openmanus-rl stop", daemon=True).start()

    def look_now(self) -> None:
        """Look at the record now, if it is watched."""
        # Training goes on while the database is away; it is asked again.
        with suppress(OpenManusError):
            self._look()

    def _watch(self) -> None:
        while not (self.is_set or self._ended.wait(self._poll_seconds)):
            self.look_now()

    def _look_at(self, run_id: str, known: str | None, timeline: int | None) -> None:
        row = get_client().select_one(
            "training_runs", columns="stop_requested_at,timeline", filters=[Filter.eq("id", run_id)]
        )
        if row is None:
            self._set("the run was deleted")
        elif timeline is not None and row["timeline"] > timeline:
            # Also if it was asked to stop: the run is not its own any more.
            self.is_replaced = True
            self._set("another process trains this run now")
        elif row["stop_requested_at"] not in (None, known):
            self._set(f"stopped as requested in the record at {row['stop_requested_at']}")

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._has_signal:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._has_signal = True
        if not self.is_set:
            self.signal = signal.Signals(number)
            self._set(f"stopped by {self.signal.name}")

    def _set(self, message: str) -> None:
        if not self.is_set:
            self.message, self.is_set = message, True
            if self.on_set is not None:
                self.on_set()
