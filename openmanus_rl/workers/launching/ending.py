"""The end of launched workers: they finish, their machines go, and nothing stays leased to them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.workers.launching.fleet import Fleet, Machine, machine_of

__all__ = ["end_machines"]

_POLL_SECONDS = 1.0


def end_machines(
    fleet: Fleet, machines: Sequence[Machine], *, workers: Sequence[Mapping[str, Any]], wait_seconds: float
) -> int:
    """End machines whose workers were asked to stop, and return how many workers did not finish in time.

    Their rollouts go back to the queue at once, for others to begin again.
    """
    names = {machine.name for machine in machines}
    ids = {row["id"] for row in workers if (machine := machine_of(row)) is not None and machine.name in names}
    deadline = time.monotonic() + wait_seconds
    while (late := _still_working(ids)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    fleet.end(machines)
    for worker_id in late:
        QueueManager.retire(worker_id)
    return len(late)


def _still_working(ids: set[str]) -> list[str]:
    if not ids:
        return []
    return [
        row["id"] for row in QueueManager.list_workers(state=["active", "draining"], limit=1000) if row["id"] in ids
    ]
