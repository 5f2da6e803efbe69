"""What survives: memory while the database is away, and records after `kill -9`."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import Stack
from pacer import MEMORY_FILE
from running import run_worker
from writers import REGISTRY

CALLS_PER_SECOND = 200
_PACER = Path(__file__).with_name("pacer.py")
# After a kill, what others still hold of it (W&B has a second process) is given this long to get it down.
_AFTERMATH_SECONDS = 2.0
_OPEN_TIMEOUT_SECONDS = 600.0


@dataclass
class PacedProcess:
    """A training loop in a process group of its own, and the calls that returned in it."""

    process: subprocess.Popen[bytes]
    returned: dict[str, int] = field(default_factory=lambda: {"metrics": 0, "rollouts": 0})

    @classmethod
    def start(
        cls, writer: str, folder: Path, *, seconds: float, env: dict[str, str], mixed: bool = False
    ) -> PacedProcess:
        """Start one and return when its first calls have returned; mixed, its records have 100 B to 5 MB."""
        job = {"writer": writer, "folder": str(folder), "seconds": seconds, "calls_per_second": CALLS_PER_SECOND}
        job["mixed"] = mixed
        with (folder / "output.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(_PACER), json.dumps(job)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=env,
                cwd=env["OPENMANUS_RL_HOME"],
                start_new_session=True,
            )
        self = cls(process)
        self._counter = threading.Thread(target=self._count, daemon=True)
        self._counter.start()
        deadline = time.monotonic() + _OPEN_TIMEOUT_SECONDS
        while not self.returned["rollouts"]:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"{writer} did not begin:\n{(folder / 'output.log').read_text()}")
            time.sleep(0.05)
        return self

    def _count(self) -> None:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 65536):
            self.returned["metrics"] += data.count(b"m")
            self.returned["rollouts"] += data.count(b"r")

    def wait(self) -> None:
        """Wait for the end, whichever it is, and for the last of what was counted."""
        self.process.wait()
        self._counter.join(timeout=10)


def measure_outage(stack: Stack, folder: Path, *, seconds: float) -> dict[str, float]:
    """Stop the database under a training loop for a while; return its memory, and what was missing in the end."""
    before_seconds = min(10.0, seconds / 2)
    paced = PacedProcess.start("ours", folder, seconds=before_seconds + seconds + 2, env=stack.env())
    time.sleep(before_seconds)
    stopped_at = time.time()
    stack.stop()
    time.sleep(max(0.0, stopped_at + seconds - time.time()))
    spooled = sum(path.stat().st_size for path in stack.home.glob("spool/*/*/*.jsonl"))
    started_at = time.time()
    stack.start()
    paced.wait()
    samples = [json.loads(line) for line in (folder / MEMORY_FILE).read_text().splitlines()]
    before = [rss for when, rss in samples if when <= stopped_at]
    during = [rss for when, rss in samples if stopped_at < when <= started_at]
    half = len(during) // 2
    return {
        "seconds": seconds,
        "rss_before_mb": statistics.median(before) / 1e6,
        "rss_worst_mb": max(during) / 1e6,
        "grown_mb": (max(during) - statistics.median(before)) / 1e6,
        "grown_in_second_half_mb": (during[-1] - during[half]) / 1e6,
        "spooled_mb": spooled / 1e6,
        "lost": _lost("ours", folder, paced.returned, stack),
    }


def measure_kill(writer: str, folder: Path, *, how: str, stack: Stack, chance: random.Random) -> dict[str, Any]:
    """Kill a training loop at some moment and return how many of its calls' records are missing."""
    kill: Callable[[int, int], None] = os.killpg if how == "group" else os.kill
    paced = PacedProcess.start(writer, folder, seconds=60, env=stack.env(), mixed=True)
    time.sleep(0.5 + chance.random())
    kill(paced.process.pid, signal.SIGKILL)
    paced.wait()
    if writer == "ours":
        stack.sync()
    else:
        time.sleep(_AFTERMATH_SECONDS)
    returned = sum(paced.returned.values())
    return {"how": how, "returned": returned, "lost": _lost(writer, folder, paced.returned, stack)}


def _lost(writer: str, folder: Path, returned: dict[str, int], stack: Stack) -> int:
    stored = run_worker({"writer": writer, "workload": "stored", "folder": str(folder)}, env=stack.env())
    # Some have no metrics: what was not handed over can't be lost.
    kinds = REGISTRY[writer].workloads & returned.keys()
    return sum(max(0, returned[kind] - stored[kind]) for kind in kinds)
