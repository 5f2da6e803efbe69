"""A bounded cache of the results for large values that occur repeatedly."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Memo"]

T = TypeVar("T")

# Smaller values are faster to process again than to cache.
_SMALLEST_BYTES = 1024
_MOST_ENTRIES = 256
_MOST_BYTES = 128 * 1024 * 1024


class Memo(Generic[T]):
    """Caches by identity, for text and bytes, or by a digest; the oldest entry is evicted first.

    Without a lock, which would not survive a fork: at worst, threads evict each other's entries.
    """

    def __init__(self, *, max_bytes: int = _MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[object, tuple[object, int, T]] = {}

    def of(self, value: str | bytes, way: str) -> T | None:
        """Return the cached result for this object."""
        entry = self._entries.get((id(value), way))
        return entry[2] if entry is not None and entry[0] is value else None

    def note(self, value: str | bytes, way: str, made: T) -> None:
        """Cache the result for an object; the cache holds the object, so that its id stays unique."""
        self._add((id(value), way), value, len(value), made)

    def of_digest(self, digest: bytes) -> T | None:
        """Return the cached result for content with this digest."""
        entry = self._entries.get(digest)
        return entry[2] if entry is not None else None

    def note_digest(self, digest: bytes, made: T, *, size_bytes: int) -> None:
        """Cache the result for content, with its size in memory."""
        self._add(digest, None, size_bytes, made)

    @property
    def held_bytes(self) -> int:
        """Return the upper bound of the memory in use."""
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
