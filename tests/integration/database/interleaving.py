"""Sessions driven step by step, in every order that their steps can take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import psycopg

from .writing import Connection, Database

Step: TypeAlias = Callable[[Connection], object]
_GIVEN_UP_AFTER_SECONDS = 20.0


def orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every order of the steps of several sessions, each as the session whose turn it is."""
    if not any(lengths):
        yield ()
    for session, left in enumerate(lengths):
        if left:
            rest = [count - (index == session) for index, count in enumerate(lengths)]
            for order in orders(rest):
                yield (session, *order)


class Stage:
    """Sessions on one database, each a thread, whose steps are begun one after the other."""

    def __init__(self, database: Database, count: int) -> None:
        self._watcher = database.connect()
        self._sessions = [database.connect() for _ in range(count)]
        self._threads = [ThreadPoolExecutor(1) for _ in range(count)]

    def play(self, scripts: Sequence[Sequence[Step]], order: Sequence[int]) -> list[BaseException]:
        """Play the scripts, each in a transaction of its own that it ends itself; return what they raised.

        A step begins when all that began before it have ended or wait for a lock. The steps of a session that waits
        follow when it goes on. After an error the rest of a script is skipped and its transaction rolled back.
        """
        pending: list[list[Future[object]]] = [[] for _ in scripts]
        broken: set[int] = set()
        errors: list[BaseException] = []

        def run(session: int, step: Step) -> None:
            connection = self._sessions[session]
            if session in broken:
                return
            try:
                step(connection)
            except psycopg.Error as error:
                broken.add(session)
                errors.append(error)
                connection.execute("rollback")

        steps = [iter(script) for script in scripts]
        for session in order:
            pending[session].append(self._threads[session].submit(run, session, next(steps[session])))
            self._settle(pending)
        for futures in pending:
            for future in futures:
                future.result(_GIVEN_UP_AFTER_SECONDS)
        return errors

    def _settle(self, pending: list[list[Future[object]]]) -> None:
        """Wait until every session has ended its steps or waits for a lock."""
        deadline = time.monotonic() + _GIVEN_UP_AFTER_SECONDS
        while True:
            busy = [index for index, futures in enumerate(pending) if not all(each.done() for each in futures)]
            if all(self._waits(self._sessions[index].info.backend_pid) for index in busy):
                return
            assert time.monotonic() < deadline, "a session neither ends nor waits"
            time.sleep(0.001)

    def _waits(self, pid: int) -> bool:
        found = self._watcher.execute("select cardinality(pg_blocking_pids(%s)) > 0 as waits", [pid]).fetchone()
        return bool(found and found["waits"])

    def close(self) -> None:
        for thread in self._threads:
            thread.shutdown()
        for session in (*self._sessions, self._watcher):
            session.close()


def sql(statement: str, *values: object) -> Step:
    """A step that is one statement."""
    return lambda connection: connection.execute(statement, list(values) or None)


BEGIN, COMMIT, ROLLBACK = sql("begin"), sql("commit"), sql("rollback")


def begun(step: Step) -> Step:
    """A step that begins a transaction with another one."""

    def begin_and_step(connection: Connection) -> None:
        BEGIN(connection)
        step(connection)

    return begin_and_step
