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
    left = _still_there(ids)
    # One that is silent has no more to say.
    while any(not row["is_silent"] for row in left) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = _still_there(ids)
    fleet.end(machines)
    for row in left:
        QueueManager.retire(row["id"])
    return len(left)


def _still_there(ids: set[str]) -> list[Mapping[str, Any]]:
    workers = QueueManager.queue_overview(listed=1000)["workers"] if ids else []
    return [row for row in workers if row["id"] in ids and row["state"] != "stopped"]
