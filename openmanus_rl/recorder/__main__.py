"""The courier's process: `python -m openmanus_rl.recorder ROOT` delivers the spools below a root, then ends."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from openmanus_rl.recorder.courier import Courier
from openmanus_rl.recorder.destination import connect
from openmanus_rl.recorder.spool import lock_file
from openmanus_rl.settings import load_settings

_IDLE_SECONDS = 5.0


def main() -> None:
    """Deliver until nothing is left and nobody writes; at once if another courier does so already."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    root = Path(sys.argv[1])
    settings = load_settings()
    try:
        lock_file(root / "courier.lock")
    except BlockingIOError:
        return
    Courier(root, connect=lambda: connect(settings)).run(until_idle_seconds=_IDLE_SECONDS)


if __name__ == "__main__":
    main()
