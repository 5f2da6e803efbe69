"""Identifies the job of this process, so that all of its processes derive the same run id and launch id.

A job is identified by the first of these that its launcher provides:

1. a unique name: torchrun's own UUID, a step of a Slurm job, a job of Open MPI on several machines;
2. on one machine, the launcher's process: host, boot id, process id and start time;
3. torchrun's key-value store, also on several machines;
4. the store of torch.distributed, once its process group is initialized.

Nothing is stored but in this process: how far a run has come is the concern of the database and of `spool.run_state`.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid5

from openmanus_rl._launchers import Launch
from openmanus_rl.errors import OpenManusError
from openmanus_rl.recorder.asking import within
from openmanus_rl.records.ids import NAMESPACE

__all__ = ["Job", "identify_job"]

_STORE_KEY = "openmanus_rl/launch"
# Remembered because the job's store may be gone when a second run is started.
_agreed: dict[Launch, str] = {}
_begun: Counter[str] = Counter()


class Job:
    """The job of this process."""

    def __init__(self, name: str, *, restarts: int) -> None:
        # With the script's name: a launcher may start several, one after the other.
        self._name = f"{name}:{Path(sys.argv[0] if sys.argv else '').name}"
        self._restarts = restarts

    def next_run_id(self) -> str:
        """Return the id of the next run without a name: the same in all processes, also after a restart."""
        return _derive(f"run:{self._name}:{self._count('')}")

    def next_launch_id(self, run_name: str) -> str:
        """Return an id of this start of a run: the same in all processes, another one after a restart."""
        return _derive(f"launch:{self._name}:{self._restarts}:{run_name}:{self._count(run_name)}")

    def _count(self, run_name: str) -> int:
        place = f"{self._name}:{run_name}"
        _begun[place] += 1
        return _begun[place] - 1


def identify_job(launch: Launch, *, timeout_seconds: float) -> Job | None:
    """Return the job of this process; None without a launcher, or if the job cannot be identified."""
    if launch.rank_variable is None:
        return None
    name = _agreed.get(launch) or _identify(launch, timeout_seconds)
    if name is None:
        return None
    _agreed[launch] = name
    return Job(name, restarts=launch.restarts)


def _identify(launch: Launch, timeout_seconds: float) -> str | None:
    if launch.name is not None:
        return launch.name
    if launch.is_on_one_machine:
        return _launcher_of(launch)
    for find_store in (_launchers_store, _process_groups_store):
        with suppress(OpenManusError, ImportError, RuntimeError, ValueError, OSError):
            open_store = find_store(launch, timeout_seconds)
            if open_store is not None:
                agree = partial(_agree, open_store)
                return within(timeout_seconds, agree, attempt="agree on a run with the job's other processes")
    return None


def _launcher_of(launch: Launch) -> str:
    """Return a name for the process that started all ranks: the nearest ancestor without a rank."""
    import psutil

    process = psutil.Process().parent()
    while process is not None:
        try:
            is_launcher = launch.rank_variable not in process.environ()
        except psutil.Error:
            # Another user's process: not a wrapper of this script.
            is_launcher = True
        if is_launcher:
            return f"{socket.gethostname()}:{_boot()}:{process.pid}:{_started(process)}"
        process = process.parent()
    return f"{socket.gethostname()}:{_boot()}:{os.getppid()}"


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _started(process: Any) -> str:
    with suppress(OSError, IndexError):
        # In ticks since boot, which do not change when the clock is set.
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    return str(process.create_time())


def _launchers_store(launch: Launch, timeout_seconds: float) -> Callable[[], Any] | None:
    if launch.store is None:
        return None
    # Imported outside of the time limit, which the import alone may exceed.
    from torch.distributed import TCPStore

    host, port = launch.store
    timeout = timedelta(seconds=timeout_seconds)
    return partial(TCPStore, host, port, is_master=False, timeout=timeout, wait_for_workers=False)


def _process_groups_store(_launch: Launch, _timeout_seconds: float) -> Callable[[], Any] | None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    find: Callable[[], Any] = distributed.distributed_c10d._get_default_store
    return find


def _agree(open_store: Callable[[], Any]) -> str:
    """Return a random name that the first process of the job stored."""
    store = open_store()
    return str(store.compare_set(_STORE_KEY, "", secrets.token_hex(16)).decode())


def _derive(text: str) -> str:
    return str(uuid5(NAMESPACE, f"job:{text}"))
