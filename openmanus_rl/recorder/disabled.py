"""A recording that records nothing: no files, no threads, no processes; every call works and costs next to nothing."""

from __future__ import annotations

from typing import Any

from openmanus_rl.recorder.recording import Recording, Stats

__all__ = ["NoRecording"]


class NoRecording(Recording):
    """Takes everything and keeps nothing."""

    def __init__(self, run_id: str) -> None:
        self.at_exit = None
        self.gatherers = set()
        self.run_id = run_id
        self.rewinds = ()
        self.mode = "disabled"
        self.is_forked = False

    @property
    def processes(self) -> int:
        """Return one: nobody else's numbers matter."""
        return 1

    @property
    def is_closed(self) -> bool:
        """Say no: it never was open."""
        return False

    def append(self, kind: str, record: dict[str, Any]) -> None:
        """Forget a record."""

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Forget a record of metrics."""

    def keep_media(self, data: Any, *, kind: str | None, **fields: Any) -> tuple[None, None]:  # noqa: ARG002
        """Forget bytes, without a look at them."""
        return None, None

    def append_media(self, record: dict[str, Any] | None) -> None:
        """Forget a record of bytes."""

    def spread(self, number: int) -> int:
        """Return the number itself."""
        return number

    @property
    def stats(self) -> Stats:
        """Return zeros: nothing was recorded, so nothing waits and nothing was lost."""
        return Stats(queued=0, delivered=0, rejected=0, lost=0)

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002
        """Return True: nothing waits."""
        return True

    def write_gathered(self) -> None:
        """Forget what was gathered."""

    def close(self) -> None:
        """Let go of nothing."""
