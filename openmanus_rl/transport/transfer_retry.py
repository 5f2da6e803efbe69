"""Retries transfers: with the usual time limit, and again if bytes were still moving when it was reached."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from openmanus_rl.errors import OpenManusError, TransientError
from openmanus_rl.transport.retry import RetryPolicy

__all__ = ["Moved", "TransferRetry"]

T = TypeVar("T")

Moved = Callable[[], None]
"""Called whenever bytes have moved."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TransferRetry:
    """Retries a transfer by its policy, and restarts it if bytes were still moving at the policy's time limit.

    A server that can't be reached receives no bytes, and one that never responds only what fits into buffers: such a
    transfer ends with the policy's limit, like any call. A limit of 0 means one attempt.
    """

    policy: RetryPolicy
    max_restarts: int = 3

    def run(self, transfer: Callable[[Moved], T]) -> T:
        """Return the transfer's result; raise its last error once it may not be retried."""
        clock = self.policy.clock
        started = clock()
        attempts = restarts = 0
        while True:
            movement = _Movement(clock)
            try:
                return self._round(transfer, movement)
            except OpenManusError as error:
                attempts += error.attempts
                error.note_attempts(attempts, elapsed_seconds=clock() - started)
                delay = self._delay_seconds(error, movement)
                if delay is None or restarts == self.max_restarts:
                    raise
                restarts += 1
                _logger.warning("%s; starting over (%d of at most %d)", error.message, restarts, self.max_restarts)
            self.policy.sleep(delay)

    def _round(self, transfer: Callable[[Moved], T], movement: _Movement) -> T:
        # The remaining time is not passed on: a large file may take longer than the limit.
        return self.policy.run(lambda _remaining_seconds: transfer(movement.note))

    def _delay_seconds(self, error: OpenManusError, movement: _Movement) -> float | None:
        """Return the pause before a restart, or None to give up."""
        limit_seconds = self.policy.limit_seconds
        if limit_seconds <= 0 or not isinstance(error, TransientError) or movement.lasted_seconds <= limit_seconds:
            return None
        # Full jitter, so that transfers that one outage interrupted do not restart together.
        delay = max(self.policy.random() * self.policy.max_delay_seconds, error.retry_after_seconds or 0.0)
        return delay if delay < limit_seconds else None


class _Movement:
    """How long bytes have moved since this was made."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self.lasted_seconds = 0.0

    def note(self) -> None:
        """Note that bytes have just moved."""
        self.lasted_seconds = self._clock() - self._started
