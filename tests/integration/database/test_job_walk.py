"""Whatever is done to jobs, in any order and by two orchestrators whose leases expire: it is as a small model says."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from .queues import call
from .writing import Connection, new_id, write

PLACE = st.integers(0, 1000)
FINAL = ("succeeded", "failed", "cancelled")
HOST = "a host"


@dataclass
class Job:
    """What a job should be."""

    run: str
    max_restarts: int
    status: str = "pending"
    attempt: int = 1
    restarts: int = 0
    stops: bool = False
    run_status: str = "pending"
    lease: str | None = None
    holder: str | None = None
    is_expired: bool = False
    log: dict[int, int] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.status not in FINAL

    def end(self, status: str) -> None:
        self.status, self.lease, self.holder = status, None, None
        if not (status == "cancelled" and self.run_status == "pending") and self.run_status in ("pending", "running"):
            self.run_status = {"succeeded": "completed", "failed": "failed", "cancelled": "interrupted"}[status]


def request(db: Connection, max_restarts: int) -> tuple[str, str]:
    run_id = new_id()
    write(db, {"training_runs": [{"id": run_id, "name": "a run", "status": "pending"}]})
    return call(db, "request_job", run_id=run_id, config={"max_restarts": max_restarts})["job"]["id"], run_id


def register(db: Connection) -> str:
    orchestrator = {"host": HOST, "backends": ["local"], "max_jobs": 100}
    return str(call(db, "register_orchestrator", orchestrator=orchestrator)["orchestrator_id"])


def refuse(function: Callable[[], Any]) -> None:
    with pytest.raises(psycopg.Error) as refused:
        function()
    assert refused.value.sqlstate == "OM409"


class Walk(RuleBasedStateMachine):
    def __init__(self, db: Connection) -> None:
        super().__init__()
        self.db = db
        db.execute("update public.jobs set status = 'cancelled' where status = 'pending'")
        db.execute("delete from public.jobs")
        db.execute("delete from internal.orchestrator_leases")
        self.jobs: dict[str, Job] = {}
        # Every lease that there ever was, with its job.
        self.leases: dict[str, str] = {}
        self.orchestrators = [register(db), register(db)]

    def pick(self, place: int, from_: Any) -> Any:
        known = list(from_)
        return known[place % len(known)]

    # People ------------------------------------------------------------------------------------------------------

    @rule(max_restarts=st.integers(0, 1))
    def ask(self, max_restarts: int) -> None:
        job_id, run_id = request(self.db, max_restarts)
        self.jobs[job_id] = Job(run_id, max_restarts)

    @precondition(lambda self: self.jobs)
    @rule(place=PLACE)
    def stop(self, place: int) -> None:
        job_id = self.pick(place, self.jobs)
        call(self.db, "stop_jobs", job_ids=[job_id])
        job = self.jobs[job_id]
        if job.status == "pending":
            job.status = "cancelled"
        job.stops |= job.is_active

    @precondition(lambda self: self.jobs)
    @rule(place=PLACE)
    def retry(self, place: int) -> None:
        job_id = self.pick(place, self.jobs)
        job = self.jobs[job_id]
        if job.status not in ("failed", "cancelled") or job.run_status == "completed":
            refuse(lambda: call(self.db, "retry_job", job_id=job_id))
            return
        call(self.db, "retry_job", job_id=job_id)
        job.status, job.attempt, job.restarts, job.stops = "pending", job.attempt + 1, 0, False

    # Orchestrators -----------------------------------------------------------------------------------------------

    @rule(place=PLACE, wanted=st.integers(0, 2))
    def claim(self, place: int, wanted: int) -> None:
        mine = self.pick(place, self.orchestrators)
        claims = call(self.db, "claim_jobs", orchestrator_id=mine, wanted=wanted, lease_seconds=60)["claims"]
        free = [key for key, job in self.jobs.items() if job.is_active and (job.lease is None or job.is_expired)]
        left = [key for key in free if self.jobs[key].status != "pending"]
        waiting = [key for key in free if self.jobs[key].status == "pending"]
        given = [claim["job"]["id"] for claim in claims]
        assert len(set(given)) == len(given)
        assert set(left) <= set(given) <= set(free)
        assert len(set(given) - set(left)) == min(wanted, len(waiting))
        for claim in claims:
            job = self.jobs[claim["job"]["id"]]
            job.lease, job.holder, job.is_expired = claim["lease_id"], mine, False
            job.status = "launching" if job.status == "pending" else job.status
            self.leases[claim["lease_id"]] = claim["job"]["id"]
            assert claim["name"].endswith(f"-{job.attempt}")

    @precondition(lambda self: any(job.lease for job in self.jobs.values()))
    @rule(place=PLACE)
    def expire(self, place: int) -> None:
        job = self.pick(place, (job for job in self.jobs.values() if job.lease))
        job.is_expired = True
        self.db.execute(
            "update internal.orchestrator_leases set expires_at = now() - interval '1 s' where lease_id = %s",
            [job.lease],
        )

    @rule(place=PLACE)
    def renew(self, place: int) -> None:
        mine = self.pick(place, self.orchestrators)
        asked = list(self.leases)
        leases = call(self.db, "renew_jobs", orchestrator_id=mine, lease_ids=asked, lease_seconds=60)["leases"]
        held = {job.lease: job for job in self.jobs.values() if job.lease and job.holder == mine}
        assert {lease["lease_id"]: lease["stop_requested"] for lease in leases} == {
            key: job.stops for key, job in held.items()
        }
        for job in held.values():
            job.is_expired = False

    @rule(place=PLACE)
    def retire(self, place: int) -> None:
        mine = self.pick(place, self.orchestrators)
        held = [job for job in self.jobs.values() if job.holder == mine]
        assert call(self.db, "retire_orchestrator", orchestrator_id=mine) == len(held)
        for job in held:
            job.lease, job.holder = None, None
        self.orchestrators[self.orchestrators.index(mine)] = register(self.db)

    @precondition(lambda self: self.leases)
    @rule(place=PLACE, status=st.sampled_from(["queued", "running", *FINAL]))
    def update(self, place: int, status: str) -> None:
        lease = self.pick(place, self.leases)
        job = self.jobs[self.leases[lease]]
        if job.lease != lease:
            refuse(lambda: call(self.db, "update_job", lease_id=lease, changes={"status": status}))
            return
        call(self.db, "update_job", lease_id=lease, changes={"status": status})
        job.status = status
        if not job.is_active:
            job.end(status)

    @precondition(lambda self: self.leases)
    @rule(place=PLACE, late=st.booleans())
    def restart(self, place: int, late: bool) -> None:
        lease = self.pick(place, self.leases)
        job = self.jobs[self.leases[lease]]
        attempt = job.attempt - late
        if job.lease != lease:
            refuse(lambda: call(self.db, "restart_job", lease_id=lease, attempt=attempt, reason="lost"))
            return
        call(self.db, "restart_job", lease_id=lease, attempt=attempt, reason="lost")
        if late:
            return
        if job.stops or job.restarts >= job.max_restarts:
            job.end("cancelled" if job.stops else "failed")
        else:
            job.status, job.attempt, job.restarts = "launching", job.attempt + 1, job.restarts + 1

    @precondition(lambda self: self.leases)
    @rule(place=PLACE, behind=st.integers(0, 2))
    def log(self, place: int, behind: int) -> None:
        lease = self.pick(place, self.leases)
        job = self.jobs[self.leases[lease]]
        end = job.log.get(job.attempt, 0)
        arguments = {"lease_id": lease, "attempt": job.attempt, "start": max(end - behind, 0), "text": "é"}
        if job.lease != lease:
            refuse(lambda: call(self.db, "append_job_log", **arguments))
            return
        job.log[job.attempt] = end + 2 * (arguments["start"] == end)
        assert call(self.db, "append_job_log", **arguments) == job.log[job.attempt]

    # What holds --------------------------------------------------------------------------------------------------

    @invariant()
    def is_as_the_model_says(self) -> None:
        found = self.db.execute(
            "select j.id::text, j.status, j.attempt, j.restarts, j.stop_requested_at is not null as stops, r.status as"
            " run_status, l.lease_id::text as lease, l.orchestrator_id::text as holder,"
            " coalesce((select sum(g.bytes)::integer from public.job_logs g where g.job_id = j.id), 0) as log"
            " from public.jobs j join public.training_runs r on r.id = j.training_run_id"
            " left join internal.orchestrator_leases l on l.subject_id = j.id where j.id = any (%s::uuid[])",
            [list(self.jobs)],
        ).fetchall()
        assert {row.pop("id"): row for row in found} == {
            key: {
                "status": job.status, "attempt": job.attempt, "restarts": job.restarts, "stops": job.stops,
                "run_status": job.run_status, "lease": job.lease, "holder": job.holder, "log": sum(job.log.values()),
            }
            for key, job in self.jobs.items()
        }  # fmt: skip


def test_jobs_are_as_their_model_says_whatever_is_done_to_them(db: Connection) -> None:
    run_state_machine_as_test(
        lambda: Walk(db),
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_job_is_given_to_one_of_many_that_claim_at_once(db: Connection, connect: Callable[[], Connection]) -> None:
    db.execute("delete from public.jobs")
    jobs = {request(db, 0)[0] for _ in range(20)}
    sessions = [connect() for _ in range(4)]

    def claim(session: Connection) -> list[str]:
        mine = register(session)
        found: list[str] = []
        # One that looks while others hold the rows gets nothing, and asks again.
        while session.execute("select 1 from public.jobs where status = 'pending'").fetchone():
            claims = call(session, "claim_jobs", orchestrator_id=mine, wanted=1, lease_seconds=60)["claims"]
            found += [each["job"]["id"] for each in claims]
        return found

    with ThreadPoolExecutor(4) as pool:
        given = [job_id for found in pool.map(claim, sessions) for job_id in found]

    assert sorted(given) == sorted(jobs)


def test_stopping_and_ending_jobs_at_once_do_not_deadlock(db: Connection, connect: Callable[[], Connection]) -> None:
    db.execute("delete from public.jobs")
    jobs = [request(db, 0)[0] for _ in range(30)]
    mine = register(db)
    claims = call(db, "claim_jobs", orchestrator_id=mine, wanted=100, lease_seconds=60)["claims"]
    for claim in claims:
        call(db, "update_job", lease_id=claim["lease_id"], changes={"status": "running"})
    db.execute(
        "update public.training_runs set status = 'running'"
        " where id in (select training_run_id from public.jobs) and status = 'pending'"
    )
    ending, stopping, logging = connect(), connect(), connect()

    def end() -> None:
        for claim in claims:
            call(ending, "update_job", lease_id=claim["lease_id"], changes={"status": "failed"})

    def stop() -> None:
        for job_id in jobs:
            call(stopping, "stop_jobs", job_ids=[job_id])

    def log() -> None:
        for claim in claims:
            try:
                call(logging, "append_job_log", lease_id=claim["lease_id"], attempt=1, start=0, text="x")
            except psycopg.Error as error:
                assert error.sqlstate == "OM409"  # noqa: PT017

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(each) for each in (end, stop, log)]:
            done.result()

    assert {row["status"] for row in db.execute("select status from public.jobs")} == {"failed"}


def test_a_process_trains_in_an_attempt_once_and_not_when_it_is_over(db: Connection) -> None:
    db.execute("delete from public.jobs")
    job_id, _ = request(db, 1)
    (claim,) = call(db, "claim_jobs", orchestrator_id=register(db), wanted=1, lease_seconds=60)["claims"]

    for _ in range(2):
        call(db, "begin_attempt", job_id=job_id, attempt=1, token="first")
    refuse(lambda: call(db, "begin_attempt", job_id=job_id, attempt=1, token="second"))
    refuse(lambda: call(db, "begin_attempt", job_id=job_id, attempt=2, token="second"))
    call(db, "restart_job", lease_id=claim["lease_id"], attempt=1, reason="lost")
    refuse(lambda: call(db, "begin_attempt", job_id=job_id, attempt=1, token="first"))
    call(db, "stop_jobs", job_ids=[job_id])
    refuse(lambda: call(db, "begin_attempt", job_id=job_id, attempt=2, token="first"))


def test_variables_of_a_job_do_not_choose_another_run_and_costs_add_up(db: Connection) -> None:
    db.execute("delete from public.jobs")
    run_id = new_id()
    write(db, {"training_runs": [{"id": run_id, "name": "a run", "status": "pending"}]})
    task = call(db, "preview_job", run_id=run_id, config={"env": {"RUN_ID": "other", "MINE": "1"}})["task"]
    assert (task["envs"]["RUN_ID"], task["envs"]["MINE"]) == (run_id, "1")

    call(db, "request_job", run_id=run_id, config={})
    (claim,) = call(db, "claim_jobs", orchestrator_id=register(db), wanted=1, lease_seconds=60)["claims"]
    call(db, "update_job", lease_id=claim["lease_id"], changes={"status": "running", "cost_usd": 2})
    call(db, "restart_job", lease_id=claim["lease_id"], attempt=1, reason="lost")
    job = call(db, "update_job", lease_id=claim["lease_id"], changes={"status": "running", "cost_usd": 0.5})
    assert job["cost_usd"] == 2.5
