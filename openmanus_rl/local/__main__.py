"""The detached supervisor's process: `python -m openmanus_rl.local`, started by `openmanus-rl up --detach`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from openmanus_rl import __version__
from openmanus_rl.errors import OpenManusError
from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.home import Home, start_error
from openmanus_rl.local.logs import configure_logging
from openmanus_rl.local.progress import PipeProgress
from openmanus_rl.local.stack_file import StackLock
from openmanus_rl.local.supervisor import Supervisor
from openmanus_rl.settings import load_settings

_logger = logging.getLogger("openmanus_rl.local")  # `__name__` is `__main__` here.


def main() -> int:
    """Run a stack until it receives a stop signal."""
    parser = argparse.ArgumentParser(prog="python -m openmanus_rl.local")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int)
    parser.add_argument("--external", action="store_true", help="serve the database in DATABASE_URL")
    parser.add_argument("--migrate", action="store_true")
    parser.add_argument("--progress-fd", type=int, required=True)
    options = parser.parse_args()

    os.umask(0o077)  # Logs may contain request data: only their owner may read them.
    home, progress = Home(options.home), PipeProgress(options.progress_fd)
    os.set_inheritable(
        options.progress_fd, False
    )  # Otherwise Postgres would inherit the pipe and its reader would never see the end.
    configure_logging(home)
    # Not an argument, which every user of the machine could read.
    url = load_settings().require_database_url() if options.external else None
    database = ExternalDatabase(url, migrate=options.migrate) if url is not None else None
    os.chdir(home.root)  # The current folder may be removed while the stack runs.
    lock = StackLock(home.lock)
    try:
        if not lock.acquire():
            progress.busy()
            return 0
        supervisor = Supervisor(home=home, port=options.port, version=__version__, database=database)
        supervisor.run(progress=progress, on_ready=lambda _: progress.ready())
    except (OpenManusError, OSError) as error:
        _logger.error("%s", error)
        progress.failed(str(start_error(home.root, error) if isinstance(error, OSError) else error))
        return 1
    finally:
        lock.release()
        progress.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
