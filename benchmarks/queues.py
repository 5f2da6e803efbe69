"""The queues that are compared: ours and procrastinate's, on the same Postgres, with workers as users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from benchmarks.measuring import Measured
from benchmarks.stack import Stack

_LOOK_SECONDS = 0.02
_LONGEST_SECONDS = 600.0
_STOP_SECONDS = 60.0
_LARGEST_REQUEST = 1000


class Queue(Protocol):
    """What is measured: put jobs that do nothing into a queue, and see when all of them have ended."""

    command: list[str]
    """Starts a worker; the number of jobs that it works on at once is the last argument."""

    @property
    def database_url(self) -> str: ...
    def put(self, connection: psycopg.Connection[Any], count: int) -> None: ...

    unfinished: LiteralString
    """A statement that counts the jobs that have not ended."""
    first_claim: LiteralString
    """A statement that returns when the first job was claimed after a time."""
    ended: LiteralString
    """A statement that counts the jobs that ended well after a time, and have done so once."""


class Ours:
    """Rollouts of an agent that does nothing, without an environment, by `openmanus-rl worker`."""

    unfinished = "select count(*) from public.rollouts where status in ('pending', 'provisioning', 'running')"
    first_claim = (
        "select min(changed_at) from public.status_history where new_status = 'provisioning' and changed_at > %s"
    )
    ended = """
        select count(*) from (
          select entity_id from public.status_history
          where changed_at > %s and new_status not in ('pending', 'provisioning', 'running')
          group by entity_id having array_agg(new_status) = array['completed'])"""

    def __init__(self, stack: Stack) -> None:
        self.command = [sys.executable, "-m", "openmanus_rl", "worker", "--max-workers"]
        self.database_url: str = stack.settings["DATABASE_URL"]

    def put(self, connection: psycopg.Connection[Any], count: int) -> None:
        """Ask for rollouts."""
        [task_id] = connection.execute(
            "insert into public.tasks (description, external_id) values ('do nothing', gen_random_uuid()) returning id"
        ).fetchone() or [None]
        for first in range(0, count, _LARGEST_REQUEST):
            request = {"task_id": str(task_id), "agent": "noop", "attempts": min(_LARGEST_REQUEST, count - first)}
            connection.execute("select public.request_rollouts(%s, gen_random_uuid())", [Jsonb(request)])


class Procrastinate:
    """Jobs of a task that does nothing, by procrastinate's worker, in a database of its own on the same server."""

    unfinished = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
    first_claim = "select min(at) from procrastinate_events where type = 'started' and at > %s"
    ended = """
        select count(*) from (
          select job_id from procrastinate_events where at > %s and type not in ('deferred', 'started')
          group by job_id having array_agg(type) = array['succeeded']::procrastinate_job_event_type[])"""

    def __init__(self, stack: Stack) -> None:
        self._stack_url = stack.settings["DATABASE_URL"]
        self.command = [sys.executable, str(Path(__file__).with_name("procrastinate_worker.py")), self.database_url]

    @cached_property
    def database_url(self) -> str:
        """Make its database at the first use."""
        from benchmarks.procrastinate_worker import make_schema

        with psycopg.connect(self._stack_url, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier("procrastinate")))
        url = make_conninfo(self._stack_url, dbname="procrastinate")
        make_schema(url)
        return url

    def put(self, connection: psycopg.Connection[Any], count: int) -> None:
        """Defer jobs."""
        job = "('default', 'noop', 0, null, null, '{}', null)::procrastinate_job_to_defer_v1"
        connection.execute(
            sql.SQL("select count(*) from procrastinate_defer_jobs_v1(array_fill({}, array[%s]))").format(sql.SQL(job)),
            [count],
        )


def measure(queue: Queue, stack: Stack, *, count: int, at_once: int, processes: int = 1) -> Measured:
    """Return how many jobs per second are claimed and ended, from the first claim to the last end that is committed.

    The workers have worked before: starting them is not part of it.
    """
    with (
        psycopg.connect(queue.database_url, autocommit=True) as connection,
        _workers(queue, stack, at_once=at_once, processes=processes) as workers,
    ):
        _put(queue, connection, 2 * at_once * processes)
        _await(queue, connection, workers)
        os.sync()
        since = _put(queue, connection, count)
        until = _await(queue, connection, workers)
        [first] = connection.execute(queue.first_claim, [since]).fetchone() or [None]
        [ended] = connection.execute(queue.ended, [since]).fetchone() or [0]
        if ended != count:
            raise RuntimeError(f"{ended} of {count} jobs have ended once and well")
        return {"rate": count / (until - first).total_seconds(), "count": count}


def _put(queue: Queue, connection: psycopg.Connection[Any], count: int) -> datetime:
    """Put jobs into the queue in one transaction, and return the time before."""
    [now] = connection.execute("select clock_timestamp()").fetchone() or [None]
    with connection.transaction():
        queue.put(connection, count)
    assert isinstance(now, datetime)
    return now


def _await(queue: Queue, connection: psycopg.Connection[Any], workers: list[subprocess.Popen[bytes]]) -> datetime:
    """Wait until all jobs have ended, and return the database's time then."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while True:
        rest, now = connection.execute(f"select ({queue.unfinished}), clock_timestamp()").fetchone() or (0, None)
        if not rest:
            assert isinstance(now, datetime)
            return now
        if time.monotonic() > deadline or any(worker.poll() is not None for worker in workers):
            raise RuntimeError(f"{rest} jobs have not ended")
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _workers(queue: Queue, stack: Stack, *, at_once: int, processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [*queue.command, str(at_once)]
    options: dict[str, Any] = {"env": stack.env(), "cwd": stack.home, "start_new_session": True}
    with (stack.home / "workers.log").open("ab") as log:
        workers = [subprocess.Popen(command, stdout=log, stderr=log, **options) for _ in range(processes)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_STOP_SECONDS)
            worker.kill()
