"""Processes that are not our children: finding them, waiting for them, ending them."""

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
    """Wait until a process has ended; False if it still runs after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not has_ended(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def has_ended(process: psutil.Process) -> bool:
    """Say whether a process is over, collected by its parent or not."""
    try:
        # A container's first process may take its time to collect the dead, which do nothing any more.
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_in(folder: Path, *, name: str) -> Iterator[psutil.Process]:
    """Yield the processes of one program that work in a folder, where the system lets us look."""
    real_folder = os.path.realpath(folder)
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error, OSError):
            if process.info["name"] == name and process.cwd() == real_folder and not has_ended(process):
                yield process


def end_at_once(process: psutil.Process, *, how: signal.Signals = signal.SIGTERM) -> None:
    """End a process that may hang: ask, and do not wait long."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # One that was stopped hears nothing else.
        if not wait_for_end(process, timeout_seconds=_END_SECONDS):
            process.kill()
            wait_for_end(process, timeout_seconds=_END_SECONDS)
