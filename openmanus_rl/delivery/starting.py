"""Starts the courier, a process that outlives the one whose records it delivers."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openmanus_rl import _child
from openmanus_rl._private import append_private, make_private
from openmanus_rl.delivery.ending import SIGNALS
from openmanus_rl.settings import Settings, find_env_file
from openmanus_rl.spool.files import lock_file
from openmanus_rl.spool.roots import spool_root

__all__ = ["ensure_courier"]

_couriers: dict[Path, subprocess.Popen[bytes]] = {}


def ensure_courier(settings: Settings) -> None:
    """Start a courier for this destination unless one is running."""
    root = spool_root(settings)
    make_private(root)
    # One that this process started may not have come to its lock yet, on a busy machine.
    if root in _couriers and _couriers[root].poll() is None:
        return
    try:
        os.close(lock_file(root / "courier.lock"))
    except BlockingIOError:
        return
    with append_private(root / "courier.log") as log, _signals_blocked():
        _couriers[root] = subprocess.Popen(
            _child.command("openmanus_rl.delivery", str(root)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # It outlives this process, and a Ctrl-C or a killed process group: what was recorded still arrives.
            start_new_session=True,
            env=_child.environment(OPENMANUS_RL_HOME=str(settings.home)),
            cwd=_settings_folder(),
        )


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Start a courier that no signal ends before it is ready for them; this thread gets its own a little later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _settings_folder() -> Path:
    """Return where the settings are, or else a folder that nobody takes from under a process that outlives this one."""
    try:
        env_file = find_env_file(Path.cwd())
    except FileNotFoundError:
        env_file = None
    return Path("/") if env_file is None else env_file.parent
