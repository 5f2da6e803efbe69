"""Run the stack in this process, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable

from openmanus_rl.local.external.database import ExternalDatabase
from openmanus_rl.local.home import Home, start_error
from openmanus_rl.local.launch import require_same_port, wait_for_other
from openmanus_rl.local.logs import configure_logging
from openmanus_rl.local.progress import Progress
from openmanus_rl.local.serving import Serving
from openmanus_rl.local.stack_file import StackInfo, StackLock
from openmanus_rl.local.supervisor import Supervisor


def run_in_foreground(
    home: Home,
    *,
    port: int | None,
    version: str,
    progress: Progress,
    on_ready: Callable[[StackInfo], None],
    serving: Serving | None = None,
    database: ExternalDatabase | None = None,
) -> StackInfo | None:
    """Run the stack in this process until a stop signal; if one runs already, return it at once."""
    home.prepare()
    lock = StackLock(home.lock)
    while not lock.acquire():
        running = wait_for_other(home, progress=progress)
        if running is not None:
            return require_same_port(running, port)
    try:
        configure_logging(home)
        supervisor = Supervisor(home=home, port=port, version=version, database=database, serving=serving)
        supervisor.run(progress=progress, on_ready=on_ready)
    except OSError as error:
        raise start_error(home.root, error) from error
    finally:
        lock.release()
    return None
