"""The recording of mode="disabled": no files, no threads, no processes; every call returns at once."""

from __future__ import annotations

from typing import Any

from openmanus_rl.recorder.recording import Recording, Stats

__all__ = ["NoRecording"]


class NoRecording(Recording):
    """Accepts every record and discards it."""

    def __init__(self, run_id: str) -> None:
        self.at_exit = None
        self.gatherers = set()
        self.run_id = run_id
        self.rewinds = ()
        self.mode = "disabled"
        self.is_forked = False

    @property
    def processes(self) -> int:
        """Return 1: numbers need not differ from those of other processes."""
        return 1

    @property
    def is_closed(self) -> bool:
        """Return False."""
        return False

    def append(self, kind: str, record: dict[str, Any]) -> None:
        """Discard a record."""

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Discard a record of metrics."""

    def keep_media(self, data: Any, *, kind: str | None, **fields: Any) -> tuple[None, None]:  # noqa: ARG002
        """Discard media without reading it."""
        return None, None

    def append_media(self, record: dict[str, Any] | None) -> None:
        """Discard a record of media."""

    def spread(self, number: int) -> int:
        """Return the number itself."""
        return number

    @property
    def stats(self) -> Stats:
        """Return zeros: nothing is recorded."""
        return Stats(queued=0, delivered=0, rejected=0, lost=0)

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002
        """Return True: nothing is queued."""
        return True

    def write_gathered(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
