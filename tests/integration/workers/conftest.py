"""A stack whose queue belongs to these tests, and workers as a user starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.rows import dict_row

from openmanus_rl.connections import forget_clients
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.tasks import TaskManager
from openmanus_rl.records.ids import new_id
from tests.conftest import clean_env, run_cli

Row = dict[str, Any]
ENDED = ("success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted")


@dataclass
class Queue:
    """A stack, and what the tests do with its queue."""

    home: Path
    database_url: str
    env: dict[str, str]
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def rows(self, statement: str, *values: Any) -> list[Row]:
        with psycopg.connect(self.database_url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(statement, values).fetchall()

    def status_of(self, rollout_id: str) -> str | None:
        found = self.rows("select status from public.rollouts where id = %s", rollout_id)
        return found[0]["status"] if found else None

    def work(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a worker in a process group of its own."""
        worker = subprocess.Popen(
            [sys.executable, "-m", "openmanus_rl", "worker", *arguments],
            env=self.env,
            cwd=self.home,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.workers.append(worker)
        return worker

    def work_off(self, *arguments: str, timeout_seconds: float = 120) -> str:
        """Let a worker do all there is, and return what it printed."""
        worker = self.work("--until-idle", *arguments)
        out, _ = worker.communicate(timeout=timeout_seconds)
        assert worker.returncode == 0, out
        return out

    def await_status(self, rollout_id: str, *statuses: str, timeout_seconds: float = 60) -> str:
        deadline = time.monotonic() + timeout_seconds
        while (status := self.status_of(rollout_id)) not in statuses:
            assert time.monotonic() < deadline, f"it is {status}, not {statuses}"
            time.sleep(0.05)
        assert status is not None
        return status

    def ended(self, rollout_id: str, timeout_seconds: float = 120) -> Row:
        """Wait until a rollout has ended, and return its row."""
        self.await_status(rollout_id, *ENDED, timeout_seconds=timeout_seconds)
        return self.rows("select * from public.rollouts where id = %s", rollout_id)[0]

    def leftovers(self) -> list[str]:
        """Return what is left of rollouts on this machine: processes in the workers' folders, and the folders."""
        root = self.home / "workers"
        folders = [str(path) for path in root.glob("*/*") if path.is_dir() and path.parent.name != "task-files"]
        return folders + _processes_in(root)

    def end_workers(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGTERM)
                try:
                    worker.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(worker.pid, signal.SIGKILL)
        self.workers.clear()


def _processes_in(root: Path) -> list[str]:
    """Return the processes whose command or folder is below root/WORKER/ROLLOUT."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join([*process.cmdline(), process.cwd()])
            if process.status() != psutil.STATUS_ZOMBIE and re.search(rf"{root}/[0-9a-f-]{{36}}/[0-9a-f-]{{36}}", line):
                found.append(f"{process.pid}: {line}")
    return found


@pytest.fixture(scope="module")
def _queue_stack(
    homes: Path, one_at_a_time: Callable[[], AbstractContextManager[None]], _nobodys_environment: None, request: Any
) -> Iterator[Queue]:
    home = homes / f"queue-{request.module.__name__.rpartition('.')[2]}"
    home.mkdir()
    env = clean_env(OPENMANUS_RL_HOME=str(home))
    with one_at_a_time():
        started = run_cli("up", "--detach", "--port", "0", "--json", env=env)
    assert started.returncode == 0, started.stdout + started.stderr
    try:
        yield Queue(home, json.loads(started.stdout)["DATABASE_URL"], env)
    finally:
        run_cli("down", env=env)


@pytest.fixture
def queue(_queue_stack: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """The stack's queue, empty; the managers of this process use it too."""
    for name in ("SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(_queue_stack.home))
    monkeypatch.chdir(_queue_stack.home)
    forget_clients()
    yield _queue_stack
    _queue_stack.end_workers()
    _queue_stack.rows("delete from public.rollouts returning id")
    forget_clients()


@pytest.fixture
def _stack_settings(queue: Queue) -> Queue:
    """Let the fixture `command` use this stack."""
    return queue


@pytest.fixture
def ask(queue: Queue) -> Callable[..., list[str]]:
    """Save a task, ask for rollouts of it, and return their ids."""
    assert queue.rows("select 1") != []

    def run(*, task: Row | None = None, **request: Any) -> list[str]:
        given = {"description": "do it", "external_id": new_id(), **(task or {})}
        environment = given.get("environment")
        TaskManager.import_tasks([given])
        row = TaskManager.get_by_external_id(given["external_id"], environment=environment)
        return [rollout["id"] for rollout in QueueManager.request_rollouts(row["id"], **request).rollouts]

    return run
