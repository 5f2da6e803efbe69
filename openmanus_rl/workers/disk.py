"""Keeps a worker whose disk is full from claiming: it would end one rollout after the other as an error."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

__all__ = ["DiskWatch"]

_LEAST_BYTES = 64 * 1024 * 1024
_INTERVAL_SECONDS = 2.0


class DiskWatch:
    """Looks now and then how much room there is on the disk of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next_look = 0.0
        self.is_full = False
        """Whether less is free than rollouts need to be recorded."""

    def look(self) -> str | None:
        """Look again if it is time to; return what to tell if it has changed."""
        if time.monotonic() < self._next_look:
            return None
        self._next_look = time.monotonic() + _INTERVAL_SECONDS
        was_full, free = self.is_full, shutil.disk_usage(self._folder).free
        self.is_full = free < _LEAST_BYTES
        if self.is_full == was_full:
            return None
        if self.is_full:
            return f"no rollouts are claimed: {free // 1024**2} MiB are free in {self._folder}, 64 are needed"
        return "rollouts are claimed again: there is room on the disk"
