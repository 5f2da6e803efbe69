"""How training ended; apart from the trainer, whose libraries are slow to import."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Result", "TrainingFailed"]


@dataclass(frozen=True)
class Result:
    """How training ended."""

    status: str
    step: int
    mean_reward: float | None
    """Of the last evaluation in this process."""
    checkpoint_id: str | None
    is_delivered: bool
    """Whether all that was recorded is in the database."""


class TrainingFailed(Exception):
    """Training raised an error, which the run has recorded."""
