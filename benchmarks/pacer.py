"""A training loop at a steady pace, to be cut off: it writes a byte for each call that returned.

python pacer.py '{"writer": …, "folder": …, "seconds": …, "calls_per_second": …, "mixed": …}'

Where it is mixed, rollouts have one turn of 100 B to 5 MB, else five of about 2 KB.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psutil
from workloads import make_metric_rows, make_mixed_rollouts, make_rollouts
from writers import REGISTRY, Stopwatch, load

# Every so manieth call is a whole rollout, the others a row of metrics.
CALLS_A_ROLLOUT = 5
TURNS = 5
MEMORY_FILE = "memory.jsonl"
_STORED_ROWS = 200
_STORED_ROLLOUTS = 28


def main() -> None:
    given = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    # Libraries print what they like: the count goes to a descriptor of its own.
    ticks = os.dup(1)
    os.dup2(2, 1)
    writer = load(given["writer"])(folder, Stopwatch())
    rows = make_metric_rows(_STORED_ROWS)
    mixed = given["mixed"]
    rollouts = make_mixed_rollouts(_STORED_ROLLOUTS) if mixed else make_rollouts(_STORED_ROLLOUTS, turns=TURNS)
    has_metrics = "metrics" in REGISTRY[given["writer"]].workloads
    writer.open()
    if has_metrics:
        writer.log_metrics(rows[0], 0)
    writer.log_rollout(0, rollouts[0])
    writer.settle()
    os.write(ticks, b"mr")
    process = psutil.Process()
    began = last_look = time.monotonic()
    with (folder / MEMORY_FILE).open("a") as memory:
        call = 0
        while time.monotonic() < began + given["seconds"]:
            call += 1
            if call % CALLS_A_ROLLOUT == 0:
                writer.log_rollout(call, rollouts[call % _STORED_ROLLOUTS])
                os.write(ticks, b"r")
            elif has_metrics:
                writer.log_metrics(rows[call % _STORED_ROWS], call)
                os.write(ticks, b"m")
            # What is kept of the measurement itself is not the writer's memory.
            del writer.watch.seconds[:]
            if time.monotonic() - last_look >= 1:
                last_look = time.monotonic()
                memory.write(json.dumps([time.time(), process.memory_info().rss]) + "\n")
                memory.flush()
            time.sleep(max(0.0, began + call / given["calls_per_second"] - time.monotonic()))
    writer.finish()
    writer.close()


if __name__ == "__main__":
    main()
