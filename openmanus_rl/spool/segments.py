"""The segments of a spool as its reader sees them: a few looks at files, in an order that matters."""

from __future__ import annotations

import os
from pathlib import Path

from openmanus_rl.spool.files import is_alive, segment_path

__all__ = ["Segments"]


class Segments:
    """The files of one spool; they may grow between any two looks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_written(self) -> bool:
        """Say whether a process may still write; if not, nothing changes any more."""
        return is_alive(self._folder)

    def exists(self, number: int) -> bool:
        """Say whether there is a segment of this number."""
        return segment_path(self._folder, number).exists()

    def size_bytes(self, number: int) -> int:
        """Return the size of a segment, 0 if there is none."""
        try:
            return segment_path(self._folder, number).stat().st_size
        except FileNotFoundError:
            return 0

    def successor(self, number: int) -> int | None:
        """Return the next segment that is there; not the next number, if something has removed that."""
        if self.exists(number + 1):
            return number + 1
        # A listing may miss a file that is made meanwhile. But those before the last it shows were made before that.
        last = max(self.numbers(), default=0)
        return next((later for later in range(number + 1, last + 1) if self.exists(later)), None)

    def numbers(self) -> list[int]:
        """Return the numbers of the segments that a listing of the folder shows."""
        stems = (name.removesuffix(".jsonl") for name in os.listdir(self._folder) if name.endswith(".jsonl"))
        return [int(stem) for stem in stems if stem.isdigit()]

    def read(self, number: int, start: int, size_bytes: int) -> bytes:
        """Return so much of a segment from a place on, and more up to the end of a line that is cut by it."""
        try:
            file = segment_path(self._folder, number).open("rb")
        except FileNotFoundError:
            return b""
        with file:
            file.seek(start)
            block = file.read(size_bytes)
            return block if not block or block.endswith(b"\n") else block + file.readline()
