"""Find, wait for and end processes that are not children of this one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_POLL_SECONDS = 0.02
_END_SECONDS = 3.0


def wait_for_end(process: psutil.Process, *, timeout_seconds: float) -> bool:
    """Wait until a process has ended; return False if it still runs after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not has_ended(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended; a zombie counts as ended."""
    try:
        # The init process of a container may be slow to reap zombies.
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_in(folder: Path, *, name: str) -> Iterator[psutil.Process]:
    """Yield the processes of a program whose working directory is a folder, as far as the system shows them."""
    real_folder = os.path.realpath(folder)
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error, OSError):
            if process.info["name"] == name and process.cwd() == real_folder and not has_ended(process):
                yield process


def end_at_once(process: psutil.Process, *, how: signal.Signals = signal.SIGTERM) -> None:
    """Signal a process that may hang, and kill it if it does not end soon."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # A suspended process handles signals only after SIGCONT.
        if not wait_for_end(process, timeout_seconds=_END_SECONDS):
            process.kill()
            wait_for_end(process, timeout_seconds=_END_SECONDS)
