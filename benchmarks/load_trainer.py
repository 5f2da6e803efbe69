"""One trainer of `benchmarks/load.py`: records an hour's worth at an even pace, and prints what it logged.

Reads its task as JSON from its argument. It says its run when that is in the database, and then begins at the time that
it is told, so that all begin together.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import openmanus_rl
from benchmarks.workloads import make_metric_rows, make_rollouts

FLUSH_TIMEOUT_SECONDS = 1800.0


class Timed:
    """Calls a function, and keeps how long each call took: on the clock, and of this thread's processor time."""

    def __init__(self) -> None:
        self.wall_us: list[float] = []
        self.cpu_us: list[float] = []

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
        answer = function(*arguments, **options)
        self.wall_us.append((time.perf_counter_ns() - began) / 1000)
        self.cpu_us.append((time.thread_time_ns() - began_cpu) / 1000)
        return answer


def record(run: openmanus_rl.Run, task: dict[str, Any]) -> Timed:
    """Log a row of metrics each step, and a rollout every few; all of it made before, so that only calls are timed."""
    timed = Timed()
    rows = list(make_metric_rows(task["steps"], seed=task["seed"]))
    rollouts = list(make_rollouts(16, seed=task["seed"]))
    every = task["steps"] / task["rollouts"]
    logged = 0
    if not run.flush(timeout_seconds=FLUSH_TIMEOUT_SECONDS):
        raise RuntimeError("the run could not be delivered")
    print(run.id, flush=True)
    begin = float(sys.stdin.readline())
    for step, row in enumerate(rows):
        time.sleep(max(0.0, begin + task["seconds"] * step / len(rows) - time.time()))
        timed.call(run.log, row, step=step)
        while logged < task["rollouts"] and logged * every <= step:
            rollout = rollouts[logged % len(rollouts)]
            recorded = run.rollout(episode_number=logged, task_description=rollout["task_description"])
            for turn in rollout["turns"]:
                recorded.log_turn(**turn)
            recorded.complete("success")
            logged += 1
    return timed


def main() -> None:
    task = json.loads(sys.argv[1])
    run = openmanus_rl.init(task["name"], algorithm="none", environment="load")
    timed = record(run, task)
    logged_at = time.time()
    delivered = run.flush(timeout_seconds=FLUSH_TIMEOUT_SECONDS)
    stats = run.stats
    run.finish()
    said = {"run": run.id, "delivered": delivered, "rejected": stats.rejected, "lost": stats.lost}
    times = {"logged_at": logged_at, "durable_at": time.time(), "cpu_seconds": sum(os.times()[:2])}
    print(json.dumps(said | times | {"wall_us": timed.wall_us, "cpu_us": timed.cpu_us}))


if __name__ == "__main__":
    main()
