"""One measurement in a process of its own: `python worker.py '{"writer": …, "workload": …, …}'` prints it as JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads import make_chats, make_metric_rows, make_rollouts
from writers import Stopwatch, Writer, load


@dataclass(frozen=True)
class Job:
    """What one process does."""

    writer: str
    workload: str
    folder: str
    count: int
    turns: int = 20
    observation_characters: int = 900
    prose: bool = False
    seed: int = 0


def measure(job: Job) -> dict[str, Any]:
    """Do a job and return what was measured."""
    watch = Stopwatch()
    writer = load(job.writer)(Path(job.folder), watch)
    log, items = _workload(job, writer)
    began = time.perf_counter()
    writer.open()
    opened = time.perf_counter()
    if job.workload == "rollouts":
        writer.prepare(items)
    # The first is not measured: what a library loads or makes on first use, it does once a run.
    log(0, items[0])
    writer.settle()
    watch.seconds = array("d")
    # The data is the training's: its size is not to make the collector's work, and so the calls, slower.
    gc.collect()
    gc.freeze()
    item_seconds = []
    started = time.perf_counter()
    for number, item in enumerate(items[1:], start=1):
        before = len(watch.seconds)
        log(number, item)
        item_seconds.append(sum(watch.seconds[before:]))
    logged = time.perf_counter()
    writer.finish()
    finished = time.perf_counter()
    writer.close()
    _check(job, writer)
    return {
        "count": job.count,
        "open_seconds": opened - began,
        "log_seconds": logged - started,
        "durable_seconds": finished - started,
        "call": summary(list(watch.seconds)),
        "item": summary(item_seconds),
        "disk_bytes_per_item": writer.disk_bytes() / len(items),
    }


def _workload(job: Job, writer: Writer) -> tuple[Any, list[Any]]:
    count = job.count + 1
    if job.workload == "metrics":
        return lambda number, row: writer.log_metrics(row, number), make_metric_rows(count, seed=job.seed)
    if job.workload == "chats":
        return writer.log_chat, make_chats(count, turns=job.turns, seed=job.seed)
    rollouts = make_rollouts(
        count, turns=job.turns, observation_characters=job.observation_characters, prose=job.prose, seed=job.seed
    )
    return writer.log_rollout, rollouts


def _check(job: Job, writer: Writer) -> None:
    """Make sure that what was timed did happen."""
    if job.workload == "chats":
        return
    found = writer.stored(Path(job.folder))[job.workload]
    if found != job.count + 1:
        raise RuntimeError(f"{job.writer} was given {job.count + 1} {job.workload} and has stored {found}")


def summary(seconds: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile, the worst and the sum."""
    ordered = sorted(seconds) or [0.0]
    return {
        "median": ordered[len(ordered) // 2],
        "p99": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "worst": ordered[-1],
        "sum": sum(ordered),
    }


def main() -> None:
    given = json.loads(sys.argv[1])
    if given["workload"] == "stored":
        answer: dict[str, Any] = load(given["writer"]).stored(Path(given["folder"]))
    else:
        answer = measure(Job(**given))
    # Last, on a line of its own: libraries print what they like before.
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
