"""The orchestrator: claims jobs, launches and follows them, and moves sweeps on."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from openmanus_rl.errors import ConflictError, NotFoundError, OpenManusError
from openmanus_rl.jobs.backends.base import Backend
from openmanus_rl.jobs.backends.local import this_host
from openmanus_rl.jobs.follower import LINGER_SECONDS, Follower
from openmanus_rl.jobs.leftovers import remove_leftovers
from openmanus_rl.jobs.previews import draw_missing_previews
from openmanus_rl.managers.jobs import ACTIVE, JobManager, OrchestratorManager
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import Settings

__all__ = ["LEASE_SECONDS", "Event", "Orchestrator"]

LEASE_SECONDS = 60.0
"""How long after the death of an orchestrator another one takes over its jobs."""

_logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_PREVIEWS_SECONDS = 10.0
_LEFTOVERS_SECONDS = 60.0
_TICK_SECONDS = 0.05


@dataclass(frozen=True)
class Event:
    """Something to tell the user, about a job or the orchestrator."""

    kind: Literal["job", "note"]
    text: str
    job_id: str | None = None


class Sweeps(Protocol):
    """What moves sweeps on; see `jobs.sweeps`."""

    def advance(self) -> int: ...
    def lease_ids(self) -> list[str]: ...
    def forget(self, lease_ids: set[str]) -> None: ...


@dataclass
class Chore:
    """Something that is done again and again in the background, one at a time."""

    run: Callable[[], Any]
    interval_seconds: float
    due_at: float = 0.0
    future: Future[Any] | None = field(default=None)


class Orchestrator:
    """Launches and follows jobs until it is stopped, or until nothing is left to do.

    Everything that may wait for the network happens in threads: a job that is slow to launch delays no other one, and
    no renewal of leases.
    """

    def __init__(
        self,
        settings: Settings,
        backends: Mapping[str, Backend],
        *,
        max_jobs: int = 4,
        until_idle: bool = False,
        name: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        poll_seconds: float = _POLL_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
        tell: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.id = new_id()
        self._backends = backends
        self._max_jobs = max_jobs
        self._until_idle = until_idle
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._host = this_host(settings)
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._linger_seconds = linger_seconds
        self._tell = tell
        # By lease. Changed by the main thread alone.
        self._followers: dict[str, Follower] = {}
        self._steps: dict[str, Chore] = {}
        self._claimed: list[Follower] = []
        self._lost: set[str] = set()
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._has_found_nothing = False
        self._active_sweeps = 0
        self._problems: dict[str, str] = {}
        self._sweeps: Sweeps | None = None

    def stop(self) -> None:
        """End after the steps that are under way; the jobs go on. May be called by a signal handler."""
        self._is_stopping.set()

    def run(self) -> None:
        """Launch and follow jobs until there is nothing left to do."""
        self._register()
        self._sweeps = _load_sweeps(self.id, self._lease_seconds)
        chores = {
            "renew leases": Chore(self._renew, min(self._lease_seconds / 4, self._poll_seconds)),
            "claim jobs": Chore(self._claim, self._poll_seconds),
            "advance sweeps": Chore(self._advance_sweeps, self._poll_seconds),
            "draw previews": Chore(draw_missing_previews, _PREVIEWS_SECONDS),
            "remove what is left over": Chore(self._remove_leftovers, _LEFTOVERS_SECONDS),
        }
        with (
            ThreadPoolExecutor(len(chores), thread_name_prefix="openmanus-rl chore") as for_chores,
            ThreadPoolExecutor(max(self._max_jobs, 16), thread_name_prefix="openmanus-rl job") as for_jobs,
        ):
            while not self._is_stopping.is_set() and not self._is_finished(chores):
                self._take_news()
                for name, chore in chores.items():
                    self._do(name, chore, for_chores)
                for lease_id, step in list(self._steps.items()):
                    self._do(lease_id, step, for_jobs)
                self._is_stopping.wait(_TICK_SECONDS)
        try:
            OrchestratorManager.retire(self.id)
        except OpenManusError as error:
            _logger.warning("the database could not be told that this orchestrator ends: %s", error)

    def _register(self) -> None:
        from openmanus_rl import __version__

        OrchestratorManager.register(
            id=self.id,
            name=self._name,
            host=self._host,
            pid=os.getpid(),
            version=__version__,
            backends=list(self._backends),
            max_jobs=self._max_jobs,
        )

    def _do(self, name: str, chore: Chore, pool: ThreadPoolExecutor) -> None:
        """Begin a chore that is due, and note the end of one that was begun."""
        if chore.future is not None and chore.future.done():
            goes_on = self._result(name, chore.future)
            chore.future = None
            chore.due_at = time.monotonic() + (0 if goes_on is True else chore.interval_seconds)
        if chore.future is None and time.monotonic() >= chore.due_at:
            chore.future = pool.submit(chore.run)

    def _result(self, name: str, future: Future[Any]) -> Any:
        try:
            result = future.result()
        except OpenManusError as error:
            if self._problems.get(name) != error.message:
                about = self._followers[name].job["id"] if name in self._followers else None
                self._tell(Event("note", f"{'job ' + about if about else 'could not ' + name}, trying again: {error}"))
            self._problems[name] = error.message
            return False
        self._problems.pop(name, None)
        return result

    # Jobs ----------------------------------------------------------------------------------------------------------

    def _take_news(self) -> None:
        with self._lock:
            claimed, self._claimed = self._claimed, []
            lost, self._lost = self._lost, set()
        for follower in claimed:
            self._followers[follower.lease_id] = follower
            self._steps[follower.lease_id] = Chore(partial(self._advance, follower), self._poll_seconds)
        for lease_id in list(self._followers):
            step = self._steps[lease_id]
            is_over = self._followers[lease_id].is_done or lease_id in lost
            if is_over and (step.future is None or step.future.done()):
                del self._followers[lease_id], self._steps[lease_id]
            elif lease_id in lost:
                with self._lock:
                    self._lost.add(lease_id)

    def _advance(self, follower: Follower) -> bool:
        if follower.is_done:
            return False
        try:
            return follower.advance()
        except ConflictError as error:
            if error.field != "lease_id":
                raise
            # Another orchestrator has it; or it ended, and the answer to that was lost.
            self._tell(Event("job", "its lease was lost", follower.job["id"]))
            with self._lock:
                self._lost.add(follower.lease_id)
            return False

    def _claim(self) -> bool:
        wanted = max(self._max_jobs - len(self._followers) - len(self._claimed), 0)
        claims = OrchestratorManager.claim(self.id, wanted=wanted, lease_seconds=self._lease_seconds)
        found = [
            Follower(
                claim,
                self._backends[claim.job["backend"]],
                tell=lambda job_id, text: self._tell(Event("job", text, job_id)),
                linger_seconds=self._linger_seconds,
            )
            for claim in claims
        ]
        for follower in found:
            self._tell(Event("job", f"claimed, {follower.job['status']}", follower.job["id"]))
        with self._lock:
            self._claimed += found
        self._has_found_nothing = not found
        return bool(found)

    def _renew(self) -> None:
        sweeps = self._sweeps.lease_ids() if self._sweeps is not None else []
        followers = dict(self._followers)
        with self._lock:
            followers |= {follower.lease_id: follower for follower in self._claimed}
        try:
            held = OrchestratorManager.renew(self.id, [*followers, *sweeps], lease_seconds=self._lease_seconds)
        except NotFoundError:
            # The database was emptied or restored from a backup meanwhile.
            self._register()
            return
        for lease_id, follower in followers.items():
            if lease_id in held:
                follower.lease = held[lease_id]
        with self._lock:
            self._lost |= followers.keys() - held.keys()
        if self._sweeps is not None:
            self._sweeps.forget(set(sweeps) - held.keys())

    # Sweeps and leftovers ------------------------------------------------------------------------------------------

    def _advance_sweeps(self) -> None:
        if self._sweeps is not None:
            self._active_sweeps = self._sweeps.advance()

    def _remove_leftovers(self) -> None:
        for backend in self._backends.values():
            for name in remove_leftovers(backend):
                self._tell(Event("note", f"removed {name}, which was left over at {backend.kind}"))

    # Ending --------------------------------------------------------------------------------------------------------

    def _is_finished(self, chores: Mapping[str, Chore]) -> bool:
        """Return whether nothing is left to do for an orchestrator that runs until it is idle."""
        if not self._until_idle or self._followers or self._claimed or not self._has_found_nothing:
            return False
        if self._active_sweeps or any(chores[name].due_at == 0.0 for name in ("claim jobs", "advance sweeps")):
            return False
        try:
            return self._count_active() == 0
        except OpenManusError:
            return False

    def _count_active(self) -> int:
        """Return how many jobs have not ended, but for local ones of other machines."""
        mine = JobManager.list_jobs(status=ACTIVE, backend=list(self._backends), limit=1000)
        return sum(
            job["backend"] != "local" or job["status"] == "pending" or job["host"] == self._host for job in mine.rows
        )


def _load_sweeps(orchestrator_id: str, lease_seconds: float) -> Sweeps | None:
    if importlib.util.find_spec("openmanus_rl.jobs.sweeps") is None:
        return None
    driver: Sweeps = importlib.import_module("openmanus_rl.jobs.sweeps.driver").SweepDriver(
        orchestrator_id, lease_seconds
    )
    return driver
