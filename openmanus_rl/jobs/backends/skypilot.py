"""The backend `skypilot`: a managed job per attempt, or, on Slurm, a cluster per attempt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from openmanus_rl.errors import LaunchError
from openmanus_rl.jobs.backends.base import Attempt, Look, State, parse_name
from openmanus_rl.jobs.backends.skypilot_answers import Answers
from openmanus_rl.jobs.backends.skypilot_log import LogCopier
from openmanus_rl.jobs.backends.skypilot_notes import Notes
from openmanus_rl.jobs.backends.skypilot_task import finish_task, kind_of_attempt
from openmanus_rl.settings import Settings
from openmanus_rl.skypilot.sdk import Request, Seen, SkyPilot
from openmanus_rl.skypilot.task import Kind, as_yaml

__all__ = ["SkyPilotBackend"]

_KEEP_SECONDS = 5.0
_COST_SECONDS = 60.0
_END_SECONDS = 60.0

_WAITING = frozenset({"INIT", "PENDING", "SUBMITTED", "STARTING", "SETTING_UP"})
_RUNNING = frozenset({"RUNNING", "WINDING_DOWN", "CANCELLING"})
_FAILED = frozenset({"FAILED", "FAILED_SETUP", "FAILED_PRECHECKS"})
# RECOVERING: SkyPilot begins it anew by itself, in the same attempt, which `begin_attempt` refuses.
_LOST = frozenset({"RECOVERING", "FAILED_CONTROLLER", "FAILED_NO_RESOURCE", "FAILED_DRIVER"})


class Traces(NamedTuple):
    """What there is of an attempt at SkyPilot."""

    jobs: list[Seen]
    cluster: str | None
    """The status of its cluster, if it has one."""


class SkyPilotBackend:
    """Runs attempts through SkyPilot, which knows them by their names.

    A launch goes on at SkyPilot's API server for minutes. Its request is noted in a folder below
    `<home>/skypilot-jobs` as soon as it is accepted, so that it is not repeated while SkyPilot does not list it yet.
    An orchestrator of another machine, or one that was killed before it was noted, may ask for a managed job twice:
    then `begin_attempt` lets only one of the two train, and `remove` ends both. A cluster's request is found by its
    name from everywhere.
    """

    kind = "skypilot"

    def __init__(self, settings: Settings, *, connect: Callable[[], SkyPilot] = SkyPilot) -> None:
        self._settings = settings
        self._root = settings.home / "skypilot-jobs"
        self._connect = connect
        self._connected: SkyPilot | None = None
        self._lock = threading.Lock()
        self._answers = Answers()
        self._logs = LogCopier(self._sky, self._notes, self._answers)
        self._ended_launches: dict[str, Request] = {}

    # Launching -----------------------------------------------------------------------------------------------------

    def final_yaml(self, attempt: Attempt) -> str:
        """Return the task that `launch` gives to SkyPilot, without the values of secrets."""
        return as_yaml(finish_task(attempt, self._settings).task)

    def launch(self, attempt: Attempt) -> None:
        """Ask SkyPilot for the job or cluster, unless it is there already; SkyPilot goes on by itself."""
        final = finish_task(attempt, self._settings)
        self._forget(attempt.name)
        if self.look(attempt).state is not State.GONE:
            return
        request = self._sky().begin(kind_of_attempt(attempt.config), attempt.name, final.task, final.secrets)
        self._notes(attempt.name).write("launch", request=request)
        self._forget(attempt.name)

    # Looking -------------------------------------------------------------------------------------------------------

    def look(self, attempt: Attempt) -> Look:
        """Tell how an attempt goes; cancel it if it was asked to stop and its time to end by itself is over."""
        look = self._look(attempt)
        stop = self._notes(attempt.name).read("stop")
        if stop is None:
            return look
        if look.state in (State.WAITING, State.RUNNING):
            self._cancel_if_due(attempt, look, stop)
        # It was asked to end: it is not to be launched again.
        return replace(look, was_stopped=True)

    def _look(self, attempt: Attempt) -> Look:
        kind, name = kind_of_attempt(attempt.config), attempt.name
        request, traces = self._find(kind, name)
        if traces.jobs:
            job = _telling(traces.jobs)
            # SkyPilot knows no price of Slurm, which is where there are clusters.
            return replace(self._look_at(kind, job), cost_usd=self._cost(job.cluster) if kind == "job" else None)
        if traces.cluster == "STOPPED":
            return Look(State.LOST, reason="its cluster was stopped")
        if request is not None:
            return self._look_at_request(request, name)
        return Look(State.GONE) if traces.cluster is None else Look(State.LOST, reason="its cluster has no job")

    def _look_at(self, kind: Kind, job: Seen) -> Look:
        if job.status == "SUCCEEDED":
            return Look(State.ENDED, exit_code=0)
        if job.status in _LOST or (job.recoveries and job.status != "CANCELLED"):
            return Look(State.LOST, reason=_reason(job))
        if job.status in _WAITING:
            return Look(State.WAITING, reason=_reason(job))
        if job.status in _RUNNING:
            return Look(State.RUNNING)
        if job.status == "CANCELLED":
            return Look(State.ENDED, reason="it was cancelled at SkyPilot")
        if job.status in _FAILED:
            self._logs.complete(kind, job)
            noted = self._notes(job.name).read("exit")
            return Look(State.ENDED, exit_code=noted["code"] if noted else 1, reason=_reason(job))
        raise LaunchError(f"{job.name}: SkyPilot says {job.status}, which is not known here")

    def _look_at_request(self, request: Request, name: str) -> Look:
        if request.is_under_way:
            return Look(State.WAITING, reason=f"SkyPilot's request is {request.status}")
        if request.status == "SUCCEEDED":
            return Look(State.LOST, reason="it is gone from SkyPilot")
        if self._notes(name).read("stop") is not None:
            return Look(State.ENDED, reason="it was stopped before it began")
        if request.status == "CANCELLED":
            return Look(State.LOST, reason="its launch was cancelled at SkyPilot")
        why = self._answers.keep(f"error {name}", 600, lambda: self._sky().request_error(request))
        return Look(State.LOST, reason=why)

    def _find(self, kind: Kind, name: str) -> tuple[Request | None, Traces]:
        """Return the request that launched an attempt, and what it has made; nothing while it is under way.

        SkyPilot's server tells of a request at once. To look at a cluster it starts a process, which waits for the
        launch to end.
        """
        request = self._request(kind, name)
        if request is not None and request.is_under_way:
            return request, Traces([], None)
        return request, self._traces(kind, name)

    def _request(self, kind: Kind, name: str) -> Request | None:
        if name in self._ended_launches:
            return self._ended_launches[name]
        return self._answers.keep(f"request {name}", _KEEP_SECONDS, lambda: self._find_request(kind, name))

    def _find_request(self, kind: Kind, name: str) -> Request | None:
        noted = self._notes(name).read("launch")
        request = self._sky().find_request(kind, name, noted["request"] if noted else None)
        if request is not None and not request.is_under_way:
            self._ended_launches[name] = request
            # What was listed may be older than the end of the launch.
            self._answers.forget("jobs", f"cluster {name}")
        return request

    def _traces(self, kind: Kind, name: str) -> Traces:
        if kind == "job":
            listed = self._answers.keep("jobs", _KEEP_SECONDS, self._sky().list_jobs)
            return Traces([job for job in listed if job.name == name], None)
        return self._answers.keep(f"cluster {name}", _KEEP_SECONDS, lambda: Traces(*self._sky().look_at_cluster(name)))

    def _cost(self, cluster: str | None) -> float | None:
        if cluster is None:
            return None
        try:
            costs: dict[str, float] = self._answers.keep("costs", _COST_SECONDS, self._sky().read_costs)
        except LaunchError:
            # Not worth to lose sight of the job.
            return None
        return costs.get(cluster)

    # Stopping ------------------------------------------------------------------------------------------------------

    def stop(self, attempt: Attempt, *, grace_seconds: float) -> None:
        """Give an attempt its time to end by itself, as its record tells it to; `look` cancels it afterwards.

        SkyPilot calls a job cancelled as soon as it has sent SIGTERM, when the program may still write a checkpoint.
        """
        self._notes(attempt.name).write("stop", at=time.time(), grace_seconds=grace_seconds)
        self.look(attempt)

    def _cancel_if_due(self, attempt: Attempt, look: Look, stop: dict[str, Any]) -> None:
        notes, kind = self._notes(attempt.name), kind_of_attempt(attempt.config)
        # What has not begun has nothing to save.
        is_due = look.state is State.WAITING or time.time() >= stop["at"] + stop["grace_seconds"]
        if not is_due or notes.read("cancel") is not None:
            return
        request, traces = self._find(kind, attempt.name)
        self._sky().cancel(kind, traces.jobs)
        if request is not None and request.is_under_way:
            self._sky().abandon(request)
        notes.write("cancel", at=time.time())
        self._forget(attempt.name)

    def remove(self, attempt: Attempt) -> None:
        """Cancel the job or remove the cluster, and wait for it. SkyPilot keeps a list of the jobs that have ended."""
        kind, name = kind_of_attempt(attempt.config), attempt.name
        self._forget(name)
        request = self._request(kind, name)
        if request is not None and request.is_under_way:
            self._sky().abandon(request)
        deadline = time.monotonic() + _END_SECONDS
        self._sky().end(kind, [name])
        while self._sky().find(kind, [name]):
            if time.monotonic() > deadline:
                raise LaunchError(f"{name}: SkyPilot has not ended it yet")
            time.sleep(1)
        self._notes(name).remove()
        self._forget(name)

    def names(self) -> list[str]:
        """Return the attempts that have not ended at SkyPilot, or of which something is noted here."""
        # Where no job ever was SkyPilot's, its API server is not started to be asked.
        if not self._root.exists():
            return []
        noted = [folder.name for folder in self._root.iterdir()]
        return sorted(name for name in {*noted, *self._sky().list_names()} if parse_name(name) is not None)

    # The log -------------------------------------------------------------------------------------------------------

    def read_log(self, attempt: Attempt, *, start: int, max_bytes: int) -> str:
        """Return what was printed from byte `start` on, of the copy of the log that is kept here."""
        kind = kind_of_attempt(attempt.config)
        jobs = self._find(kind, attempt.name)[1].jobs
        job = _telling(jobs) if jobs else None
        if job is not None and job.status not in _WAITING | _RUNNING | {"RECOVERING"}:
            self._logs.complete(kind, job)
        elif job is not None and job.status in _RUNNING:
            self._logs.copy(kind, job)
        return self._notes(attempt.name).read_log(start, max_bytes)

    # Memory --------------------------------------------------------------------------------------------------------

    def _forget(self, name: str) -> None:
        self._answers.forget("jobs", f"cluster {name}", f"request {name}", f"error {name}")
        self._ended_launches.pop(name, None)
        self._logs.forget(name)

    def _notes(self, name: str) -> Notes:
        return Notes(self._root / name)

    def _sky(self) -> SkyPilot:
        with self._lock:
            if self._connected is None:
                self._root.mkdir(parents=True, exist_ok=True)
                self._connected = self._connect()
            return self._connected


def _telling(jobs: Sequence[Seen]) -> Seen:
    """Return the job that tells how the attempt goes, of several that a launch made which was repeated."""
    order = [_RUNNING, _WAITING, {"SUCCEEDED"}, {"RECOVERING"}]
    for statuses in order:
        for job in jobs:
            if job.status in statuses:
                return job
    return min(jobs, key=lambda job: job.job_id)


def _reason(job: Seen) -> str:
    return f"SkyPilot: {job.status}" + (f", {job.reason}" if job.reason else "")
