"""`python -m openmanus_rl.training.train`: trains the run that RUN_ID names.

Exit codes: 0 when the run has completed or was stopped as its record asked, 143 or 130 after SIGTERM or SIGINT, 2 if
its configuration cannot be had or is wrong, 75 if another process trains the run or this attempt of its job, 1 for
other failures. Of a program of one's own, its own exit code.
"""

from __future__ import annotations

import logging
import sys

from openmanus_rl.errors import OpenManusError
from openmanus_rl.training.service import REFUSED, read_launch, serve
from openmanus_rl.training.stopping import Stop

__all__ = ["main"]


def main() -> int:
    """Train, and return the exit code."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    with Stop() as stop:
        try:
            return serve(read_launch(), stop)
        except OpenManusError as error:
            print(f"openmanus-rl: {error}", file=sys.stderr)
            return REFUSED


if __name__ == "__main__":
    sys.exit(main())
