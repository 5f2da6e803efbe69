"""Which workers of this machine are alive, and the removal of what dead ones left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from openmanus_rl import _child
from openmanus_rl._private import make_private
from openmanus_rl.sandboxes._marked import end_marked, find_marks
from openmanus_rl.sandboxes.providers import take_back_all
from openmanus_rl.spool.files import lock_file

__all__ = ["Owner", "take_back"]

_LOCK_NAME = "worker.lock"
_TEMPORARY_NAME = "temporary"
_PREFIX = "openmanus-rl-worker-"


class Owner:
    """A worker's folder, locked while the worker is alive."""

    def __init__(self, root: Path, worker_id: str) -> None:
        self.id = worker_id
        self.folder = root / worker_id
        make_private(self.folder)
        self._lock = lock_file(self.folder / _LOCK_NAME)
        # For temporary files of agents and browsers. Not in the folder: sockets need a short path.
        self.temporary = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.folder / _TEMPORARY_NAME).write_text(str(self.temporary))

    def close(self) -> None:
        """Remove the folders."""
        _remove(self.folder)
        os.close(self._lock)


def take_back(root: Path) -> list[str]:
    """Remove the containers, processes and folders of workers that are no longer alive; return what was removed."""
    removed = take_back_all(lambda owner: _is_alive(root / owner))
    dead = [
        folder
        for folder in (root.iterdir() if root.exists() else ())
        if (folder / _LOCK_NAME).exists() and not _is_alive(folder)
    ]
    for mark in find_marks(_child.MARK) if dead else ():
        # The slots of a worker end by themselves, but not what an agent has put into a session of its own.
        if any(mark.startswith(folder.name) for folder in dead):
            end_marked(_child.MARK, mark)
            removed.append("processes of an agent")
    for folder in dead:
        _remove(folder)
    return removed


def _remove(folder: Path) -> None:
    with suppress(OSError):
        temporary = Path((folder / _TEMPORARY_NAME).read_text())
        if temporary.name.startswith(_PREFIX) and temporary.stat().st_uid == os.geteuid():
            shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _is_alive(folder: Path) -> bool:
    try:
        os.close(lock_file(folder / _LOCK_NAME))
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
