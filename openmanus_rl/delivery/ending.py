"""SIGTERM to a courier: deliver what is there, urgently, within a grace time.

Batch systems send it to every process of a job, and SIGKILL some time later; what training wrote last is still to be
delivered then. A further SIGTERM changes nothing; SIGKILL is safe at any moment, for the spools stay as they are.
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

# The courier is started with these blocked, and lets them come when it is ready for them.
SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class Ending:
    """Whether somebody has asked for the end."""

    def __init__(self) -> None:
        self.is_asked = False
        self._woken_by: int | None = None

    def sleep(self, seconds: float) -> None:
        """Wait so long, but not beyond the moment at which the end is asked for."""
        if self._woken_by is None:
            time.sleep(seconds)
        elif select.select([self._woken_by], [], [], seconds)[0]:
            os.read(self._woken_by, 4096)

    def wake_by(self, descriptor: int) -> None:
        """Let a descriptor that can be read end a sleep: time.sleep itself goes on after a signal."""
        self._woken_by = descriptor


def end_on_sigterm(*, grace_seconds: float, describe_rest: Callable[[], str]) -> Ending:
    """Return an ending that SIGTERM asks for; when the grace time is over, the process ends wherever it is."""
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
        """Do nothing; not SIG_IGN, which processes that are started from here would inherit."""

    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, ask)
    for number in SIGNALS - {signal.SIGTERM}:
        signal.signal(number, ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return ending
