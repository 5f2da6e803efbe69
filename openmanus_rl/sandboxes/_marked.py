"""Processes of this machine that carry a mark: a variable with a random value, which what they start inherits.

Unlike a process id, a mark is never given to another process.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil

from openmanus_rl.sandboxes._commands import GUARD
from openmanus_rl.sandboxes.base import SandboxError

__all__ = ["end_marked", "find_marks"]

_GUARD_SECONDS = 5.0
_END_SECONDS = 10.0
# One look that finds none is not enough: all that it listed may have ended by themselves, after they started others.
_LOOKS = 3


def end_marked(variable: str, value: str) -> None:
    """End the processes with this mark, and wait until they are gone."""
    start = time.monotonic()
    has_guard = False
    for process in _find(variable, value):
        with suppress(psutil.Error):
            if str(GUARD) in process.cmdline():
                # It also ends those below it that dropped the mark from their environment.
                process.terminate()
                has_guard = True
    looks = 0
    while looks < _LOOKS:
        found = list(_find(variable, value))
        looks = 0 if found else looks + 1
        elapsed = time.monotonic() - start
        if found and elapsed > _END_SECONDS:
            raise SandboxError(f"processes do not end: {[process.pid for process in found]}")
        if not has_guard or elapsed > _GUARD_SECONDS:
            # Stop them all first: else each could start another while the next is killed.
            _signal_all(found, signal.SIGSTOP)
            _signal_all(found, signal.SIGKILL)
        time.sleep(0.02)


def find_marks(variable: str) -> set[str]:
    """Return the values that processes of this machine have for a variable."""
    marks = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if (value := process.environ().get(variable)) is not None:
                marks.add(value)
    return marks


def _find(variable: str, value: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(variable) == value and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.Error):  # psutil signals no other process that has got the same id since.
            process.send_signal(number)
