"""A bounded memory of what was made of large values that come again and again."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Memo"]

T = TypeVar("T")

# What is smaller costs less to look at again than to remember.
_SMALLEST_BYTES = 1024
_MOST_ENTRIES = 256
_MOST_BYTES = 128 * 1024 * 1024


class Memo(Generic[T]):
    """Remembers by identity, for text and bytes, or by a digest; the oldest is forgotten first.

    There is no lock, which would not survive a fork: threads may at worst forget for each other.
    """

    def __init__(self, *, max_bytes: int = _MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[object, tuple[object, int, T]] = {}

    def of(self, value: str | bytes, way: str) -> T | None:
        """Return what was made of this very object in this way."""
        entry = self._entries.get((id(value), way))
        return entry[2] if entry is not None and entry[0] is value else None

    def note(self, value: str | bytes, way: str, made: T) -> None:
        """Remember what was made of an object; while it is held here, no other has its id."""
        self._add((id(value), way), value, len(value), made)

    def of_digest(self, digest: bytes) -> T | None:
        """Return what was made of content with this digest."""
        entry = self._entries.get(digest)
        return entry[2] if entry is not None else None

    def note_digest(self, digest: bytes, made: T, *, size_bytes: int) -> None:
        """Remember what was made of content, and that it takes so much memory."""
        self._add(digest, None, size_bytes, made)

    @property
    def held_bytes(self) -> int:
        """Return how much memory is held at most."""
        return sum(size for _, size, _ in list(self._entries.values()))

    def _add(self, key: object, value: object, size_bytes: int, made: T) -> None:
        if not _SMALLEST_BYTES <= size_bytes <= self._max_bytes:
            return
        self._entries[key] = (value, size_bytes, made)
        excess = self.held_bytes - self._max_bytes
        for oldest in list(self._entries):
            if excess <= 0 and len(self._entries) <= _MOST_ENTRIES:
                break
            if (forgotten := self._entries.pop(oldest, None)) is not None:
                excess -= forgotten[1]
