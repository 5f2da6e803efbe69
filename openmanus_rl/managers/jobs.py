"""Training jobs: launches of runs that are asked for, and the orchestrators that launch and follow them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, known, matching, of_ids
from openmanus_rl.records.ids import Id, as_id, new_id
from openmanus_rl.records.rows import Job, Orchestrator
from openmanus_rl.transport.filters import Filter, Order, Page

__all__ = [
    "ACTIVE",
    "JobClaim",
    "JobLease",
    "JobLogText",
    "JobManager",
    "JobPreview",
    "OrchestratorManager",
    "RequestedJob",
]

ACTIVE = ("pending", "launching", "queued", "running")
"""The statuses of jobs that have not ended."""


@dataclass(frozen=True)
class RequestedJob:
    """A job that was asked for, and the SkyPilot task that it stands for, without secrets."""

    job: Job
    yaml: str


class JobPreview(TypedDict):
    """What a job would be: its configuration with the backend, and the task for SkyPilot as JSON and as YAML."""

    config: Mapping[str, Any]
    task: Mapping[str, Any]
    yaml: str


class JobLogText(TypedDict):
    """A part of the log of an attempt; `next` is where the next part begins, `end` where the log ends now."""

    attempt: int
    attempts: int
    status: str
    text: str
    next: int
    end: int


@dataclass(frozen=True)
class JobClaim:
    """An attempt of a job: `name` is its own at the backend, `task` what SkyPilot is given."""

    job: Job
    name: str
    task: Mapping[str, Any]
    lease_id: str


@dataclass(frozen=True)
class JobLease:
    """A lease that an orchestrator still holds, of a job or a sweep."""

    stop_requested: bool
    run_ended_seconds: float | None
    """How long ago the run of the job ended, if it did since this attempt began."""


class JobManager(Manager[Job]):
    """Asks for jobs, stops and retries them, and serves orchestrators and training processes."""

    table = "jobs"
    noun = "job"

    @classmethod
    def request_job(
        cls, run_id: Id, config: Mapping[str, Any] | None = None, *, job_id: Id | None = None
    ) -> RequestedJob:
        """Ask for a job that trains a run; an orchestrator launches it. The same `job_id` again changes nothing."""
        # An id even if none was given: the client repeats a request whose answer was lost.
        made_id = new_id() if job_id is None else as_id(job_id, field="job_id")
        params = {"run_id": as_id(run_id, field="run_id"), "config": dict(config or {}), "job_id": made_id}
        answer = cls._client().rpc("request_job", params)
        return RequestedJob(cls._checked(answer["job"]), answer["yaml"])

    @classmethod
    def preview_job(cls, run_id: Id, config: Mapping[str, Any] | None = None) -> JobPreview:
        """Return what a job of this configuration would be; nothing is launched."""
        params = {"run_id": as_id(run_id, field="run_id"), "config": dict(config or {})}
        preview: JobPreview = cls._client().rpc("preview_job", params)
        return preview

    @classmethod
    def get_job(cls, job_id: Id) -> Job:
        """Return a job; an unknown id raises `NotFoundError`."""
        return cls._get(job_id, field="job_id")

    @classmethod
    def list_jobs(
        cls,
        *,
        training_run_id: Id | Sequence[Id] | None = None,
        status: OneOrMany | None = None,
        backend: OneOrMany | None = None,
        host: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Job]:
        """Return a page of jobs, the newest first."""
        conditions = [*of_ids(training_run_id=training_run_id), *matching(status=status, backend=backend, host=host)]
        return cls._page(*conditions, **paging)

    @classmethod
    def find_by_digits(cls, first: str, last: str) -> Job | None:
        """Return the job whose id begins and ends with these 8 hex digits each, as names at backends do."""
        lowest, highest = f"{first}-0000-0000-0000-000000000000", f"{first}-ffff-ffff-ffff-ffffffffffff"
        page = cls._page(Filter.gte("id", lowest), Filter.lte("id", highest), limit=1000)
        return next((job for job in page.rows if job["id"].endswith(last)), None)

    @classmethod
    def stop_jobs(cls, jobs: Iterable[Id]) -> list[Job]:
        """Stop jobs and return them: one that waits is cancelled, one that trains ends after its current step."""
        rows = cls._client().rpc("stop_jobs", {"job_ids": [as_id(job, field="job_id") for job in jobs]})
        return [cls._checked(row) for row in rows]

    @classmethod
    def retry_job(cls, job_id: Id) -> Job:
        """Put a failed or cancelled job back into the queue; its run goes on from its last checkpoint."""
        return cls._checked(cls._client().rpc("retry_job", {"job_id": as_id(job_id, field="job_id")}))

    @classmethod
    def read_logs(
        cls, job_id: Id, *, attempt: int | None = None, after: int = 0, max_bytes: int = 262_144
    ) -> JobLogText:
        """Return a part of the log of an attempt, by default the last, from a place that an answer named as `next`."""
        params = {"job_id": as_id(job_id, field="job_id"), "attempt": attempt, "after": after, "max_bytes": max_bytes}
        part: JobLogText = cls._client().rpc("read_job_logs", params)
        return part

    @classmethod
    def read_log_end(cls, job_id: Id, *, attempt: int, max_lines: int = 20, max_characters: int = 4000) -> str:
        """Return the last lines of the log of an attempt."""
        page = cls._client().select(
            "job_logs",
            filters=[*of_ids(job_id=job_id), *matching(attempt=attempt)],
            order=[Order("start", descending=True)],
            limit=10,
        )
        text = "".join(piece["text"] for piece in reversed(page.rows))
        return "\n".join(text.rstrip().splitlines()[-max_lines:])[-max_characters:]

    # For training processes

    @classmethod
    def begin_attempt(cls, job_id: Id, attempt: int, *, token: str) -> None:
        """Begin an attempt; `ConflictError` if another process has, or if the attempt is over or asked to stop."""
        params = {"job_id": as_id(job_id, field="job_id"), "attempt": attempt, "token": token}
        cls._client().rpc("begin_attempt", params)

    # For orchestrators, under the job's lease

    @classmethod
    def update_job(cls, lease_id: Id, **changes: Any) -> Job:
        """Tell how a job goes: `status`, `message`, `external_id`, `yaml`, `exit_code`, `cost_usd` of this attempt.

        With a final status the lease ends. `ConflictError` with the field `lease_id`: the lease was lost.
        """
        return cls._checked(cls._leased("update_job", lease_id, changes=known(**changes)))

    @classmethod
    def restart_job(cls, lease_id: Id, *, attempt: int, reason: str) -> JobClaim:
        """Begin the next attempt in place of one that was lost, or end the job; repeated, it changes nothing."""
        answer = cls._leased("restart_job", lease_id, attempt=attempt, reason=reason)
        return JobClaim(cls._checked(answer["job"]), answer["name"], answer["task"], as_id(lease_id, field="lease_id"))

    @classmethod
    def append_log(cls, lease_id: Id, *, attempt: int, start: int, text: str) -> int:
        """Add to the log of an attempt; return where the next text begins, in bytes. What is there stays."""
        return int(cls._leased("append_job_log", lease_id, attempt=attempt, start=start, text=text))

    @classmethod
    def _leased(cls, function: str, lease_id: Id, **params: Any) -> Any:
        return cls._client().rpc(function, {"lease_id": as_id(lease_id, field="lease_id"), **params})


class OrchestratorManager(Manager[Orchestrator]):
    """Serves orchestrators: the processes that launch and follow jobs and sweeps."""

    table = "orchestrators"
    noun = "orchestrator"
    order_by = "-heartbeat_at"

    @classmethod
    def list_orchestrators(cls, *, state: OneOrMany | None = None, **paging: Unpack[Paging]) -> Page[Orchestrator]:
        """Return a page of orchestrators, the last seen first."""
        return cls._page(*matching(state=state), **paging)

    @classmethod
    def register(cls, **fields: Any) -> str:
        """Register an orchestrator and return its id.

        Fields: `id`, `name`, `host`, `pid`, `version`, `backends`, `max_jobs`.
        """
        orchestrator = {"id": new_id(), **known(**fields)}
        return str(cls._client().rpc("register_orchestrator", {"orchestrator": orchestrator})["orchestrator_id"])

    @classmethod
    def claim(cls, orchestrator_id: Id, *, wanted: int, lease_seconds: float) -> list[JobClaim]:
        """Lease jobs to an orchestrator: those that another one left, and up to `wanted` that wait."""
        answer = cls._serve("claim_jobs", orchestrator_id, wanted=wanted, lease_seconds=lease_seconds)
        return [
            JobClaim(JobManager._checked(claim["job"]), claim["name"], claim["task"], claim["lease_id"])
            for claim in answer["claims"]
        ]

    @classmethod
    def renew(cls, orchestrator_id: Id, lease_ids: Iterable[Id], *, lease_seconds: float) -> dict[str, JobLease]:
        """Renew leases, which is the orchestrator's heartbeat; a lease that is not returned was lost or has ended."""
        ids = [as_id(lease, field="lease_id") for lease in lease_ids]
        answer = cls._serve("renew_jobs", orchestrator_id, lease_ids=ids, lease_seconds=lease_seconds)
        return {
            lease["lease_id"]: JobLease(lease["stop_requested"], lease["run_ended_seconds"])
            for lease in answer["leases"]
        }

    @classmethod
    def retire(cls, orchestrator_id: Id) -> int:
        """End an orchestrator: its jobs go on, and the next one follows them. Return how many those are."""
        return int(cls._serve("retire_orchestrator", orchestrator_id))

    @classmethod
    def _serve(cls, function: str, orchestrator_id: Id, **params: Any) -> Any:
        return cls._client().rpc(
            function, {"orchestrator_id": as_id(orchestrator_id, field="orchestrator_id"), **params}
        )
