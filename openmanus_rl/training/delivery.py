"""Waits for what an ended process of this machine recorded."""

from __future__ import annotations

import time
from contextlib import suppress

from openmanus_rl.delivery.starting import ensure_courier
from openmanus_rl.settings import Settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.run_state import local_state
from openmanus_rl.spool.spools import hurry

__all__ = ["wait_for_delivery"]

_DELIVERY_SECONDS = 30.0


def wait_for_delivery(settings: Settings, run_id: str) -> None:
    """Wait a while until nothing is left of the run in this machine's spools, such as its last checkpoint."""
    root = spool_root(settings)
    deadline = time.monotonic() + _DELIVERY_SECONDS
    while local_state(root, run_id, undelivered_only=True).is_left and time.monotonic() < deadline:
        with suppress(OSError):
            ensure_courier(settings)
        hurry(root)
        time.sleep(0.1)
