"""Which workers of this machine are alive, and the removal of what dead ones left behind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from openmanus_rl._private import make_private
from openmanus_rl.sandboxes.providers import take_back_all
from openmanus_rl.spool.files import lock_file

__all__ = ["Owner", "take_back"]

_LOCK_NAME = "worker.lock"


class Owner:
    """A worker's folder, locked while the worker is alive."""

    def __init__(self, root: Path, worker_id: str) -> None:
        self.id = worker_id
        self.folder = root / worker_id
        make_private(self.folder)
        self._lock = lock_file(self.folder / _LOCK_NAME)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def take_back(root: Path) -> list[str]:
    """Remove the containers, processes and folders of workers that are no longer alive; return what was removed."""
    removed = take_back_all(lambda owner: _is_alive(root / owner))
    for folder in root.iterdir() if root.exists() else ():
        if (folder / _LOCK_NAME).exists() and not _is_alive(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return removed


def _is_alive(folder: Path) -> bool:
    try:
        os.close(lock_file(folder / _LOCK_NAME))
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
