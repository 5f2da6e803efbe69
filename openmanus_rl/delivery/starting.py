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
    # On a busy machine, a courier that this process started may not have its lock yet.
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
            # It outlives this process, Ctrl-C and a killed process group, so that all records are delivered.
            start_new_session=True,
            env=_child.environment(OPENMANUS_RL_HOME=str(settings.home)),
            cwd=_settings_folder(),
        )


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals while a courier starts, so that none ends it before its handlers are installed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _settings_folder() -> Path:
    """Return the folder of the settings file, or else `/`, which cannot be deleted while the courier runs."""
    try:
        env_file = find_env_file(Path.cwd())
    except FileNotFoundError:
        env_file = None
    return Path("/") if env_file is None else env_file.parent
