"""The courier's process: `python -m openmanus_rl.recorder ROOT` delivers the spools below a root, then ends."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from openmanus_rl.recorder.courier import Courier
from openmanus_rl.recorder.destination import connect_for
from openmanus_rl.recorder.spool import lock_file

_IDLE_SECONDS = 5.0


def main() -> None:
    """Deliver until nothing is left and nobody writes; at once if another courier does so already."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    root = Path(sys.argv[1])
    try:
        lock_file(root / "courier.lock")
    except BlockingIOError:
        return
    Courier(root, connect=lambda: connect_for(root)).run(until_idle_seconds=_IDLE_SECONDS)


if __name__ == "__main__":
    main()
