"""What an agent may change of the process in which it runs, and must not leave to the next rollout there."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from openmanus_rl import _child

__all__ = ["Surroundings"]

_SET_CHILD_SUBREAPER = 36
_STANDARD = (0, 1, 2)
_HANDLED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


class Surroundings:
    """The folder, environment, signal handlers and standard files of this process, and the processes below it."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            # Processes whose parent has ended become children of this one, where they are found.
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
        self._folder = Path.cwd()
        self._variables = dict(os.environ)
        self._handlers = {number: signal.getsignal(number) for number in _HANDLED}
        self._files = [_identity(descriptor) for descriptor in _STANDARD]

    def restore(self) -> bool:
        """Make them as they were before an attempt; return False if another process is needed for the next."""
        try:
            os.chdir(self._folder)
            # Variables that were added stay: libraries set some of them once, when they are imported.
            os.environ.update(self._variables)
            for number, handler in self._handlers.items():
                if signal.getsignal(number) != handler:
                    signal.signal(number, handler)
        except (OSError, TypeError):
            return False
        has_files = self._files == [_identity(descriptor) for descriptor in _STANDARD]
        return has_files and not sys.stdout.closed and not sys.stderr.closed and not any(_left_processes())


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _left_processes() -> Iterator[int]:
    """Yield the running children that are an agent's: those that the package starts itself have no mark."""
    mark = f"{_child.MARK}=".encode()
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in place.read_text().split():
                # One that has ended has no environment any more.
                with suppress(OSError):
                    variables = Path("/proc", pid, "environ").read_bytes().split(b"\0")
                    if any(variable.startswith(mark) for variable in variables):
                        yield int(pid)
