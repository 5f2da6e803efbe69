"""Runs orchestrators in forks of one process that has imported all they need, and kills, freezes or fails them.

Reads requests as lines of JSON, and answers each with a line: see `Orders`. An orchestrator is hurt at the n-th of its
steps: calls of the database and the backend that change something, or that tell something new.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmanus_rl.errors import ConnectionFailed
from openmanus_rl.jobs import follower
from openmanus_rl.jobs.backends import local
from openmanus_rl.jobs.backends.base import Attempt, Look
from openmanus_rl.jobs.backends.local import LocalBackend
from openmanus_rl.jobs.orchestrator import Event, Orchestrator
from openmanus_rl.managers.jobs import JobManager, OrchestratorManager
from openmanus_rl.settings import load_settings


@dataclass(frozen=True)
class Orders:
    """What to do with an orchestrator."""

    program: str
    kill_at: int | None = None
    freeze_at: str | None = None
    """The name of a step: the process stops itself before it, as SIGSTOP does."""
    fail: str | None = None
    """Every step fails once: `before` it is done, or `after`, as when an answer is lost."""
    stop_when_ready: bool = False
    until_job: str | None = None
    """End after this job, instead of when nothing is left to do."""
    max_jobs: int = 1
    linger_seconds: float = 300
    lease_seconds: float = 600


class Steps:
    """Counts the steps, and hurts at the chosen one."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._count = 0
        self._failed: set[int] = set()
        self._lock = threading.Lock()

    def begin(self, name: str) -> int:
        with self._lock:
            self._count += 1
            number = self._count
        if number == self._orders.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if name == self._orders.freeze_at:
            os.kill(os.getpid(), signal.SIGSTOP)
        return number

    def around(self, owner: Any, name: str) -> None:
        """Make calls of a method steps."""
        real = getattr(owner, name)
        # Each second call is let through: a step that fails is repeated.
        calls = 0

        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            self.begin(name)
            calls += 1
            fails = calls % 2 == 1
            if fails and self._orders.fail == "before":
                raise ConnectionFailed(f"{name}: on purpose")
            answer = real(*arguments, **options)
            if fails and self._orders.fail == "after":
                raise ConnectionFailed(f"the answer to {name} was lost on purpose")
            return answer

        setattr(owner, name, step)

    def after_news(self, owner: Any, name: str, is_news: Callable[[Any], bool]) -> None:
        """Make calls of a method steps if their answer is news, before it is used."""
        real = getattr(owner, name)

        def step(*arguments: Any, **options: Any) -> Any:
            answer = real(*arguments, **options)
            if is_news(answer):
                self.begin(name)
            return answer

        setattr(owner, name, step)


class WatchedBackend(LocalBackend):
    """Knows which looks are news, and may ask for a stop when a program has printed something."""

    asks_to_stop = False
    _last: Look | None = None
    is_news = False

    def look(self, attempt: Attempt) -> Look:
        look = super().look(attempt)
        self.is_news, self._last = look != self._last, look
        return look

    def read_log(self, attempt: Attempt, *, start: int, max_bytes: int) -> str:
        text = super().read_log(attempt, start=start, max_bytes=max_bytes)
        if text and self.asks_to_stop:
            self.asks_to_stop = False
            JobManager.stop_jobs([attempt.job_id])
        return text


def orchestrate(orders: Orders) -> None:
    settings = load_settings()
    follower._FIRST_PAUSE_SECONDS = 0.02
    backend = WatchedBackend(settings, command=[sys.executable, "-S", orders.program])
    backend.asks_to_stop = orders.stop_when_ready

    def watch(event: Event) -> None:
        if event.job_id == orders.until_job and event.text.startswith(("succeeded", "failed", "cancelled")):
            made.stop()

    made = Orchestrator(
        settings,
        {"local": backend},
        max_jobs=orders.max_jobs,
        until_idle=orders.until_job is None,
        poll_seconds=0.02,
        linger_seconds=orders.linger_seconds,
        lease_seconds=orders.lease_seconds,
        tell=watch,
    )
    make_steps(Steps(orders), backend, is_failing=orders.fail is not None)
    made.run()


def make_steps(steps: Steps, backend: WatchedBackend, *, is_failing: bool) -> None:
    for name in ("update_job", "restart_job", "append_log", "read_log_end"):
        steps.around(JobManager, name)
    steps.after_news(OrchestratorManager, "claim", bool)
    steps.around(OrchestratorManager, "retire")
    steps.after_news(backend, "look", lambda _look: backend.is_news)
    steps.after_news(backend, "read_log", bool)
    for name in ("launch", "stop", "remove"):
        steps.around(backend, name)
    if not is_failing:
        for name in ("_spawn", "_wait_for_start"):
            steps.around(backend, name)
        steps.around(Path, "rename")
        steps.around(local.shutil, "rmtree")
        steps.around(local, "make_private")


def main() -> None:
    for line in sys.stdin:
        orders = Orders(**json.loads(line))
        child = os.fork()
        if child == 0:
            os.setsid()
            try:
                orchestrate(orders)
            except BaseException:  # noqa: BLE001
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(json.dumps({"pid": child}), flush=True)
        # One that is frozen is left to whoever asked for it.
        if orders.freeze_at is None:
            print(json.dumps({"code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}), flush=True)


if __name__ == "__main__":
    main()
