"""The courier's process: `python -m openmanus_rl.delivery ROOT` delivers the spools below a root, then ends."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from openmanus_rl.delivery.courier import Courier, describe_rest
from openmanus_rl.delivery.destination import connect_for
from openmanus_rl.delivery.ending import end_on_sigterm
from openmanus_rl.errors import SettingsError
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.spool.files import lock_file
from openmanus_rl.transport.client import Client

_logger = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
_NICENESS = 10
# A batch is tens of thousands of dicts without cycles. With the default threshold, looking for cycles takes a third of
# the time of reading a spool.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
# One thread parses the next batch while the other sends this one in many small writes. With the default of 5 ms, each
# write could wait that long for the interpreter's lock.
_THREAD_SWITCH_SECONDS = 0.0005
_LOCK_ATTEMPTS = 5
_LOCK_PAUSE_SECONDS = 0.1


def main() -> None:
    """Deliver until the spools are empty and have no writer; exit at once if another courier is running."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    os.umask(0o077)  # Only the owner may read recorded data.
    # Training has priority: pending records are safe on disk.
    os.nice(_NICENESS)
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(_THREAD_SWITCH_SECONDS)
    Client.program = "openmanus-rl-courier"
    root = Path(sys.argv[1])
    limits = _read_limits()
    ending = end_on_sigterm(grace_seconds=limits.grace_seconds, describe_rest=lambda: describe_rest(root))
    courier = Courier(root, connect=lambda: connect_for(root), ending=ending)
    run_alone(
        root,
        lambda: courier.run(until_idle_seconds=_IDLE_SECONDS, patience_seconds=limits.courier_patience_seconds),
        has_seen_all=courier.has_seen_all,
    )


def run_alone(root: Path, run: Callable[[], object], *, has_seen_all: Callable[[], bool]) -> None:
    """Run a courier unless another one runs, and again if something came while it ended.

    Whoever starts to record makes a spool and then starts a courier, unless the lock says that one is running. So when
    it is released, there may be a spool for which nobody has started one.
    """
    while (lock := _take_over(root)) is not None:
        try:
            run()
        finally:
            os.close(lock)
        if has_seen_all():
            return


def _read_limits() -> Settings:
    try:
        return load_settings()
    except SettingsError as error:
        # Not fatal: each delivery reads the settings again, and they may have been corrected by then.
        _logger.warning("the settings cannot be read: %s", error)
        return Settings()


def _take_over(root: Path) -> int | None:
    """Lock these spools until the returned descriptor is closed; return None if another courier has them."""
    # Checking for a courier takes the lock for a moment, so one failure does not mean that one is running.
    for _ in range(_LOCK_ATTEMPTS):
        try:
            return lock_file(root / "courier.lock")
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
    return None


if __name__ == "__main__":
    main()
