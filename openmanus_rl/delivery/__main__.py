"""The courier's process: `python -m openmanus_rl.delivery ROOT` delivers the spools below a root, then ends."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from pathlib import Path

from openmanus_rl.delivery.courier import Courier, describe_rest
from openmanus_rl.delivery.destination import connect_for
from openmanus_rl.delivery.ending import end_on_sigterm
from openmanus_rl.errors import SettingsError
from openmanus_rl.settings import Settings, load_settings
from openmanus_rl.spool.files import lock_file

_logger = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
_NICENESS = 10
# A batch is tens of thousands of dicts without cycles. With the default threshold, looking for cycles takes a third of
# the time of reading a spool.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
_LOCK_ATTEMPTS = 5
_LOCK_PAUSE_SECONDS = 0.1


def main() -> None:
    """Deliver until nothing is left and nobody writes; at once if another courier does so already."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    os.umask(0o077)  # What is recorded is for its owner to read.
    # Training comes first: what waits here is safe.
    os.nice(_NICENESS)
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    root = Path(sys.argv[1])
    limits = _read_limits()
    ending = end_on_sigterm(grace_seconds=limits.grace_seconds, describe_rest=lambda: describe_rest(root))
    if _take_over(root):
        courier = Courier(root, connect=lambda: connect_for(root), ending=ending)
        courier.run(until_idle_seconds=_IDLE_SECONDS, patience_seconds=limits.courier_patience_seconds)


def _read_limits() -> Settings:
    try:
        return load_settings()
    except SettingsError as error:
        # Each delivery reads them again, and says so too: somebody may mend them meanwhile.
        _logger.warning("the settings cannot be read: %s", error)
        return Settings()


def _take_over(root: Path) -> bool:
    """Become the courier of these spools, for as long as this process lives; False if another one is."""
    # Whoever looks whether there is a courier holds the lock for a moment: that is no courier.
    for _ in range(_LOCK_ATTEMPTS):
        try:
            lock_file(root / "courier.lock")
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return True
    return False


if __name__ == "__main__":
    main()
