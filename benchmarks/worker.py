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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.workloads import SCALARS, make_chats, make_metric_rows, make_mixed_rollouts, make_rollouts
from benchmarks.writers import WRITERS, Writer, load

WORKLOADS: dict[str, Callable[..., Any]] = {
    "metrics": make_metric_rows,
    "points": make_metric_rows,
    "rollouts": make_rollouts,
    "chats": make_chats,
}
# In a paced loop every fifth call is a whole rollout, the others are rows of metrics.
CALLS_PER_ROLLOUT = 5
PACED_TURNS = 5
TICKS_FILE = "ticks"


def measure(writer: str, folder: str, workload: str, count: int, options: dict[str, Any]) -> dict[str, float]:
    """Log so many items and one more to warm up; return what an item and a call cost, the rate, and the bytes."""
    used = load(writer)(Path(folder))
    kind = "rollouts" if workload in ("rollouts", "chats") else "metrics"
    log: Callable[[int, Any], None] = used.log_rollout if kind == "rollouts" else used.log_metrics
    made = WORKLOADS[workload](count + 1, **options)
    first = next(made)
    # Points are made as they are logged: millions do not fit into memory.
    items = made if workload == "points" else list(made)
    used.open()
    if isinstance(items, list):
        used.prepare(first, items)
    # Not measured: what a library loads or makes on first use, it does once a run.
    log(0, first)
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
    used.close()
    found = used.stored(Path(folder))[kind]
    if found != count + 1:
        raise RuntimeError(f"{writer} was given {count + 1} {workload} and has stored {found}")
    return {
        "count": count,
        "rate": count / seconds,
        **_costs(used.call_seconds, item_seconds),
        **_sizes(used, found, kind),
    }


def _costs(call_seconds: array[float], item_seconds: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile of an item, all its calls together, and the longest call."""
    if not call_seconds:
        return {}
    ordered = sorted(item_seconds)
    costs = {
        "median": ordered[len(ordered) // 2],
        "p99": ordered[int(len(ordered) * 0.99)],
        "longest_call": max(call_seconds),
    }
    return {f"{name}_us": seconds * 1e6 for name, seconds in costs.items()}


def _sizes(used: Writer, count: int, kind: str) -> dict[str, float]:
    size = used.disk_bytes()
    if size is None:
        return {}
    return {"bytes": size / count} if kind == "rollouts" else {"bytes_per_point": size / count / SCALARS}


def pace(writer: str, folder: str, seconds: float, calls_per_second: float, mixed: bool) -> None:
    """Log at a steady pace until somebody ends it, and append a byte to a file for each call that returned.

    Mixed rollouts have one turn of 100 B to 5 MB, the others five of about 2 KB.
    """
    rows = itertools.cycle(list(make_metric_rows(200)))
    rollouts = itertools.cycle(list(make_mixed_rollouts(28) if mixed else make_rollouts(28, turns=PACED_TURNS)))
    used = load(writer)(Path(folder))
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
            time.sleep(max(0.0, began + call / calls_per_second - time.monotonic()))
    used.finish()
    used.close()


def stored(writer: str, folder: str) -> dict[str, int]:
    """Return how many rows of metrics and how many rollouts a reader finds."""
    return load(writer).stored(Path(folder))


def main() -> None:
    given = json.loads(sys.argv[1])
    answer = {"measure": measure, "pace": pace, "stored": stored}[given.pop("task")](**given)
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
