"""Waiting for processes that are not our children."""

from __future__ import annotations

import time

import psutil

_POLL_SECONDS = 0.02


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
