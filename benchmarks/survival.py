"""What survives: memory while the database is away, and records after `kill -9`."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measuring import Measured
from benchmarks.stack import Stack, run_json, temporary_folder
from benchmarks.worker import TICKS_FILE

WORKER = str(Path(__file__).with_name("worker.py"))
# After a kill, helpers that are still alive (W&B has a second process) have this long to write what they hold.
_AFTERMATH_SECONDS = 2.0
_SAMPLE_SECONDS = 0.5
_BEGIN_TIMEOUT_SECONDS = 600.0


def measure_outage(stack: Stack, seconds: float, writer: str, _repeat: int) -> Measured:
    """Stop the database under a training loop for a while; return its memory, and how much was missing in the end."""
    before_seconds = min(10.0, seconds / 2)
    with temporary_folder() as folder:
        process = _start(writer, folder, stack, seconds=before_seconds + seconds + 5)
        before = statistics.median(_sample_memory(process, before_seconds))
        stack.stop()
        grown = max(_sample_memory(process, seconds)) - before
        spooled = sum(path.stat().st_size for path in stack.home.glob("spool/*/*/*.jsonl"))
        stack.start()
        process.wait()
        sizes = {"before_mb": before / 1e6, "grown_mb": grown / 1e6, "spooled_mb": spooled / 1e6}
        return {"seconds": seconds, **sizes, **_count(writer, folder, stack)}


def _sample_memory(process: subprocess.Popen[bytes], seconds: float) -> list[int]:
    watched = psutil.Process(process.pid)
    samples = []
    for _ in range(max(1, round(seconds / _SAMPLE_SECONDS))):
        samples.append(watched.memory_info().rss)
        time.sleep(_SAMPLE_SECONDS)
    return samples


def measure_kill(stack: Stack, how: str, writer: str, repeat: int) -> Measured:
    """Kill a training loop's process, or its group, at some moment; return how many of its records are missing."""
    with temporary_folder() as folder:
        process = _start(writer, folder, stack, seconds=60, mixed=True)
        time.sleep(0.5 + random.Random(f"{how}:{repeat}").random())
        (os.killpg if how == "group" else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        if writer == "ours":
            stack.sync()
        else:
            time.sleep(_AFTERMATH_SECONDS)
        return _count(writer, folder, stack)


def _start(writer: str, folder: Path, stack: Stack, *, seconds: float, mixed: bool = False) -> subprocess.Popen[bytes]:
    """Start a training loop in a process group of its own; return once its first rollout is recorded."""
    job = {"task": "pace", "writer": writer, "folder": str(folder), "seconds": seconds, "mixed": mixed}
    options: dict[str, Any] = {"env": stack.env(), "cwd": stack.home, "start_new_session": True}
    with (folder / "output.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, WORKER, json.dumps(job)], stdout=log, stderr=log, **options)
    ticks = folder / TICKS_FILE
    deadline = time.monotonic() + _BEGIN_TIMEOUT_SECONDS
    while not ticks.exists() or not ticks.stat().st_size:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{writer} did not begin:\n{(folder / 'output.log').read_text()}")
        time.sleep(0.05)
    return process


def _count(writer: str, folder: Path, stack: Stack) -> Measured:
    """Return how many calls returned, and how many of their records are missing."""
    ticks = (folder / TICKS_FILE).read_bytes()
    returned = {"metrics": ticks.count(b"m"), "rollouts": ticks.count(b"r")}
    job = {"task": "stored", "writer": writer, "folder": str(folder)}
    stored = run_json([WORKER, json.dumps(job)], env=stack.env())
    lost = sum(max(0, returned[kind] - stored[kind]) for kind in returned)
    return {"returned": sum(returned.values()), "lost": lost}
