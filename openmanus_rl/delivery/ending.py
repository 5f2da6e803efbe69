"""Handles SIGTERM in the courier: deliver what is pending within a grace time, then exit.

Batch systems send SIGTERM to every process of a job, and SIGKILL some time later, when the last records of training are
still undelivered. Further SIGTERMs are ignored. SIGKILL is safe at any time, since the spools stay on disk.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType

__all__ = ["SIGNALS", "Ending", "end_on_sigterm"]

_logger = logging.getLogger(__name__)

# The courier starts with these blocked, and unblocks them once its handlers are installed.
SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class Ending:
    """Whether the process has been asked to end."""

    def __init__(self) -> None:
        self.is_asked = False
        self._woken_by: int | None = None

    def sleep(self, seconds: float) -> None:
        """Sleep, but return early when the process is asked to end."""
        if self._woken_by is None:
            time.sleep(seconds)
        elif select.select([self._woken_by], [], [], seconds)[0]:
            os.read(self._woken_by, 4096)

    def wake_by(self, descriptor: int) -> None:
        """Use a descriptor that becomes readable on a signal to end sleeps: time.sleep resumes after one."""
        self._woken_by = descriptor


def end_on_sigterm(*, grace_seconds: float, describe_rest: Callable[[], str]) -> Ending:
    """Return an `Ending` that SIGTERM sets; the process exits when the grace time is over."""
    ending = Ending()
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    ending.wake_by(reading)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not ending.is_asked:
            ending.is_asked = True
            _logger.warning("SIGTERM: delivering what is left, for at most %g s", grace_seconds)
            signal.setitimer(signal.ITIMER_REAL, max(grace_seconds, 0.001))

    def give_up(_number: int, _frame: FrameType | None) -> None:
        try:
            _logger.error("the grace time after SIGTERM is over. %s", describe_rest())
        finally:
            os._exit(0)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """Do nothing; used instead of SIG_IGN, which child processes would inherit."""

    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, ask)
    for number in SIGNALS - {signal.SIGTERM}:
        signal.signal(number, ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return ending
