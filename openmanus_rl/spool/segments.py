"""Reads the segment files of a spool."""

from __future__ import annotations

import os
from pathlib import Path

from openmanus_rl.spool.files import Position, is_alive, segment_path

__all__ = ["Segments"]


class Segments:
    """The segment files of one spool; they may grow between any two calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_written(self) -> bool:
        """Return whether a process may still write; if not, the segments are final."""
        return is_alive(self._folder)

    def exists(self, number: int) -> bool:
        """Return whether the segment exists."""
        return segment_path(self._folder, number).exists()

    def size_bytes(self, number: int) -> int:
        """Return the size of a segment, 0 if it does not exist."""
        try:
            return segment_path(self._folder, number).stat().st_size
        except FileNotFoundError:
            return 0

    def successor(self, number: int) -> int | None:
        """Return the next existing segment; its number is higher than number + 1 if files were removed."""
        if self.exists(number + 1):
            return number + 1
        # A listing may miss a file that is created meanwhile, but segments are created in order: look up to its last.
        last = max(self.numbers(), default=0)
        return next((later for later in range(number + 1, last + 1) if self.exists(later)), None)

    def end(self) -> Position:
        """Return the position behind what has been written so far."""
        last = max(self.numbers(), default=0)
        return Position(last, self.size_bytes(last))

    def numbers(self) -> list[int]:
        """Return the numbers of all segments in the folder."""
        stems = (name.removesuffix(".jsonl") for name in os.listdir(self._folder) if name.endswith(".jsonl"))
        return [int(stem) for stem in stems if stem.isdigit()]

    def read(self, number: int, start: int, size_bytes: int) -> bytes:
        """Return about this many bytes from an offset on, extended to the end of the last line."""
        try:
            file = segment_path(self._folder, number).open("rb")
        except FileNotFoundError:
            return b""
        with file:
            file.seek(start)
            block = file.read(size_bytes)
            return block if not block or block.endswith(b"\n") else block + file.readline()
