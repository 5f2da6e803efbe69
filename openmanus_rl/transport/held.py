"""Request bodies that are sent early, except for their last byte."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

__all__ = ["HeldBody"]

# Longer than any request may take that this one waits for.
_LONGEST_WAIT_SECONDS = 600.0


class HeldBody:
    """A request body whose last byte is sent only when it is released: the server has the rest by then.

    A server begins with a request only when it has the whole body, so nothing happens if the body is dropped.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._decided = Event()
        self._is_released = False

    def __len__(self) -> int:
        return len(self._content)

    def __iter__(self) -> Iterator[bytes]:
        view = memoryview(self._content)
        yield bytes(view[:-1])
        self._decided.wait(_LONGEST_WAIT_SECONDS)
        if not self._is_released:
            raise RuntimeError("the request was not wanted any more")
        yield bytes(view[-1:])

    def release(self) -> None:
        """Let the request be completed."""
        self._is_released = True
        self._decided.set()

    def drop(self) -> None:
        """Let the request be broken off."""
        self._decided.set()
