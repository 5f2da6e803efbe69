"""What the processes of a job agree on without asking each other: which run is theirs, and which launch this is.

A launch is told from every other one by what its launcher gives to all of its processes alike, in this order:

1. a name that never comes again: torchrun's own UUID, a step of a Slurm job, a job of Open MPI on several machines;
2. on one machine, the launcher's process: the host, its boot, the process number and when it was started;
3. torchrun's key-value store, which it keeps for the job, also on several machines;
4. the store of torch.distributed, once its process group is there.
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
# The same job asked twice gives the same answer, also while its store is gone.
_agreed: dict[Launch, str] = {}
_begun: Counter[str] = Counter()


class Job:
    """A launch of several processes, as one of them knows it."""

    def __init__(self, name: str, *, restarts: int) -> None:
        # One launcher may start several scripts, one after the other.
        self._name = f"{name}:{Path(sys.argv[0] if sys.argv else '').name}"
        self._restarts = restarts

    def next_run_id(self) -> str:
        """Return the id of the run that this process begins next: the same in all processes, and after a restart."""
        return _derive(f"run:{self._name}:{self._count('')}")

    def next_launch_id(self, run_name: str) -> str:
        """Return what tells this beginning of a run from those of other launches and restarts."""
        return _derive(f"launch:{self._name}:{self._restarts}:{run_name}:{self._count(run_name)}")

    def _count(self, run_name: str) -> int:
        place = f"{self._name}:{run_name}"
        _begun[place] += 1
        return _begun[place] - 1


def identify_job(launch: Launch, *, timeout_seconds: float) -> Job | None:
    """Return the job of this process; None if no launcher started it, or it can't be told from others."""
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
    """Name the process that started all ranks: the nearest ancestor that has no rank itself."""
    import psutil

    process = psutil.Process().parent()
    while process is not None:
        try:
            is_launcher = launch.rank_variable not in process.environ()
        except psutil.Error:
            # Somebody else's: no wrapper of this script.
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
        # In ticks since the boot: a time of day would move when the clock is set.
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    return str(process.create_time())


def _launchers_store(launch: Launch, timeout_seconds: float) -> Callable[[], Any] | None:
    if launch.store is None:
        return None
    # torchrun comes with torch. Imported before the time is taken: that may last longer than the answer.
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
    """Return what the first process of the job that came here made up."""
    store = open_store()
    return str(store.compare_set(_STORE_KEY, "", secrets.token_hex(16)).decode())


def _derive(text: str) -> str:
    return str(uuid5(NAMESPACE, f"job:{text}"))
