"""Calls that are tried for a while: a machine may start before its network is up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from openmanus_rl.errors import StackError, TransientError
from openmanus_rl.training.stopping import Stop

__all__ = ["patiently"]

_logger = logging.getLogger(__name__)
T = TypeVar("T")

_PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 2.0


def patiently(call: Callable[[], T], stop: Stop) -> T:
    """Make a call until it is answered, a stop is asked for, or two minutes have passed."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return call()
        except (TransientError, StackError) as error:
            if stop.is_set or time.monotonic() >= deadline:
                raise
            _logger.warning("trying again: %s", error)
            time.sleep(_PAUSE_SECONDS)
