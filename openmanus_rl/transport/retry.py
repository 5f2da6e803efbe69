"""Retries transient errors with backoff and full jitter, within a total time limit."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from openmanus_rl.errors import OpenManusError, TransientError

__all__ = ["RetryPolicy"]

T = TypeVar("T")

_logger = logging.getLogger(__name__)
# Most failures are over within this time; after it, retries are logged.
_QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class RetryPolicy:
    """How often and for how long a call is retried; clock, sleep and random may be replaced in tests."""

    limit_seconds: float = 30.0
    first_delay_seconds: float = 0.2
    max_delay_seconds: float = 8.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def run(self, call: Callable[[float], T], *, retryable: bool = True) -> T:
        """Return the call's result; raise its last error if it is not transient or the time limit is reached.

        The call is passed the remaining seconds, so that one attempt can't exceed the limit; without retries there is
        no limit.
        """
        started = self.clock()
        attempts = 0
        warned = False
        while True:
            attempts += 1
            try:
                return call(self.limit_seconds - (self.clock() - started) if self.limit_seconds else math.inf)
            except OpenManusError as error:
                elapsed = self.clock() - started
                error.note_attempts(attempts, elapsed_seconds=elapsed)
                if not (retryable and isinstance(error, TransientError)):
                    raise
                delay = self._delay_seconds(attempts, error.retry_after_seconds)
                if elapsed + delay >= self.limit_seconds:
                    raise
                if elapsed >= _QUIET_SECONDS and not warned:
                    warned = True
                    _logger.warning("%s; trying again for up to %.0f s", error.message, self.limit_seconds - elapsed)
            self.sleep(delay)

    def _delay_seconds(self, attempts: int, retry_after_seconds: float | None) -> float:
        # Full jitter, so that clients that failed together do not retry together.
        # The exponent is bounded because 2.0 ** 1024 overflows.
        ceiling = min(self.max_delay_seconds, self.first_delay_seconds * 2.0 ** min(attempts - 1, 30))
        return max(self.random() * ceiling, retry_after_seconds or 0.0)
