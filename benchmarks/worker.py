"""A writer at work in a process of its own: `python worker.py '{"task": "measure", "writer": …, …}'`.

The tasks are the functions `measure`, `pace` and `stored`, and the other fields are their arguments.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from benchmarks.workloads import SCALARS, make_chats, make_metric_rows, make_mixed_rollouts, make_rollouts
from benchmarks.writers import WRITERS

WORKLOADS: dict[str, Any] = {
    "metrics": make_metric_rows,
    "points": make_metric_rows,
    "rollouts": make_rollouts,
    "chats": make_chats,
}
# In a paced loop every fifth call is a whole rollout, the others are rows of metrics.
CALLS_PER_ROLLOUT = 5
CALLS_PER_SECOND = 200
PACED_TURNS = 5
TICKS_FILE = "ticks"


def measure(writer: str, folder: str, workload: str, count: int, options: dict[str, Any]) -> dict[str, float]:
    """Log so many items and one more to warm up; return what an item and a call cost, the rate, and the bytes."""
    used = WRITERS[writer].load()(Path(folder))
    kind = "metrics" if workload in ("metrics", "points") else "rollouts"
    log = used.log_metrics if kind == "metrics" else used.log_rollout
    items = WORKLOADS[workload](count + 1, **options)
    used.open()
    if workload != "points":  # These are made as they are logged: millions do not fit into memory.
        items = list(items)
        used.prepare(items)
    items = iter(items)
    # Not measured: what a library loads or makes on first use, it does once a run.
    log(0, next(items))
    used.settle()
    used.call_seconds = array("d")
    # The data is the training's: it must not slow down the calls by adding to the garbage collector's work.
    gc.collect()
    gc.freeze()
    item_seconds = []
    started = time.perf_counter()
    for number, item in enumerate(items, start=1):
        before = len(used.call_seconds)
        log(number, item)
        item_seconds.append(sum(used.call_seconds[before:]))
    used.finish()
    seconds = time.perf_counter() - started
    found = used.stored(Path(folder))[kind]
    if found != count + 1:
        raise RuntimeError(f"{writer} was given {count + 1} {workload} and has stored {found}")
    # Of a rollout, or of a single metric.
    size = used.disk_bytes() / found / (SCALARS if kind == "metrics" else 1)
    return {"count": count, "rate": count / seconds, **_costs(used.call_seconds, sorted(item_seconds)), "bytes": size}


def _costs(call_seconds: array[float], item_seconds: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile of an item, all its calls together, and the longest call."""
    if not call_seconds:
        return {}
    median, p99 = (item_seconds[int(len(item_seconds) * part)] for part in (0.5, 0.99))
    return {"median_us": median * 1e6, "p99_us": p99 * 1e6, "longest_call_us": max(call_seconds) * 1e6}


def pace(writer: str, folder: str, seconds: float, mixed: bool) -> None:
    """Log at a steady pace until it is killed or the time is over; write a byte to a file for each call that returned.

    Mixed rollouts have one turn of 100 B to 5 MB, the others five of about 2 KB.
    """
    rows = itertools.cycle(list(make_metric_rows(200)))
    rollouts = itertools.cycle(list(make_mixed_rollouts(28) if mixed else make_rollouts(28, turns=PACED_TURNS)))
    used = WRITERS[writer].load()(Path(folder))
    used.open()
    used.log_rollout(0, next(rollouts))
    used.settle()
    with (Path(folder) / TICKS_FILE).open("ab", buffering=0) as ticks:
        ticks.write(b"r")
        began = time.monotonic()
        for call in itertools.count(1):
            if call % CALLS_PER_ROLLOUT == 0:
                used.log_rollout(call, next(rollouts))
                ticks.write(b"r")
            elif WRITERS[writer].has_metrics:
                used.log_metrics(call, next(rows))
                ticks.write(b"m")
            # The stopwatch's memory is not the writer's.
            del used.call_seconds[:]
            if time.monotonic() > began + seconds:
                break
            time.sleep(max(0.0, began + call / CALLS_PER_SECOND - time.monotonic()))
    used.finish()


def stored(writer: str, folder: str) -> dict[str, int]:
    """Return how many rows of metrics and how many rollouts a reader finds."""
    return WRITERS[writer].load().stored(Path(folder))


def main() -> None:
    given = json.loads(sys.argv[1])
    answer = {"measure": measure, "pace": pace, "stored": stored}[given.pop("task")](**given)
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
