"""Progress reports of a start, within a process or through a pipe."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol


class Progress(Protocol):
    """Receives the progress of a start."""

    def phase(self, text: str) -> None:
        """A new phase began."""

    def note(self, text: str) -> None:
        """Something that the user should know, but not an error."""


class SilentProgress:
    """Ignores all reports."""

    def phase(self, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class PipeProgress:
    """Writes each event to a pipe as a line of JSON; the reader may be gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def phase(self, text: str) -> None:
        self._send({"event": "phase", "text": text})

    def note(self, text: str) -> None:
        self._send({"event": "note", "text": text})

    def ready(self) -> None:
        """The stack is ready; the last event."""
        self._send({"event": "ready"})
        self.close()

    def busy(self) -> None:
        """Another process holds the lock; the last event."""
        self._send({"event": "busy"})
        self.close()

    def failed(self, message: str) -> None:
        """The start failed; the last event."""
        self._send({"event": "failed", "text": message})
        self.close()

    def close(self) -> None:
        """Close the pipe, so that its reader sees the end."""
        with suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1

    def _send(self, event: dict[str, Any]) -> None:
        # The reader may have been interrupted; the start continues without it.
        with suppress(OSError):
            os.write(self._descriptor, (json.dumps(event) + "\n").encode())


def read_events(descriptor: int, *, silence_seconds: float | None = None) -> Iterator[dict[str, str]]:
    """Yield the events of a `PipeProgress` until it is closed; TimeoutError if none arrives for `silence_seconds`."""
    unread = b""
    try:
        while True:
            readable, _, _ = select.select([descriptor], [], [], silence_seconds)
            if not readable:
                raise TimeoutError(f"no event for {silence_seconds} s")
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)
    finally:
        os.close(descriptor)
