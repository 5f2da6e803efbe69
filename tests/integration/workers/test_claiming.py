"""Workers claim ahead if rollouts are short, but never keep what others could begin."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LONG = {"metadata": {"script": [{"sleep": 600}]}}


def test_rollouts_that_wait_behind_a_long_one_go_back_to_the_queue(queue: Any, ask: Callable[..., list[str]]) -> None:
    short = ask(agent="noop", attempts=100, priority=2)
    [long] = ask(agent="scripted", task=LONG, priority=1)
    short += ask(agent="noop", attempts=100)
    queue.work("--max-workers", "1")
    queue.await_status(long, "running")
    _await_leases(queue, lambda count: count > 1)
    _await_leases(queue, lambda count: count == 1)

    queue.work("--max-workers", "1")
    ended = [queue.ended(rollout_id) for rollout_id in short]
    assert {(row["status"], row["attempt"]) for row in ended} == {("completed", 1)}
    assert queue.status_of(long) == "running"


def _await_leases(queue: Any, fits: Callable[[int], bool]) -> None:
    deadline = time.monotonic() + 60
    while not fits(count := queue.rows("select count(*) from internal.leases")[0]["count"]):
        assert time.monotonic() < deadline, f"{count} rollouts are leased"
        time.sleep(0.05)
