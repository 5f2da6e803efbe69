"""Jobs and sweeps in every state that their functions tell of."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from .queues import call
from .writing import Connection, ingest, new_id

TEMPLATE = {"name": "varied", "algorithm": "ppo", "environment": "CartPole-v1", "config": {"total_timesteps": 10}}
FUNCTIONS = {
    "add_trial", "append_job_log", "begin_attempt", "claim_jobs", "claim_sweeps", "preview_job", "preview_sweep",
    "prune_trial", "read_job_logs", "register_orchestrator", "renew_jobs", "request_job", "request_sweep",
    "restart_job", "retire_orchestrator", "retry_job", "save_preview", "stop_jobs", "stop_run", "stop_sweep",
    "sweep_overview", "update_job", "update_sweep",
}  # fmt: skip


def new_run(db: Connection, **fields: Any) -> UUID:
    run_id = new_id()
    ingest(db, {"training_runs": [{"id": run_id, "name": "a run", **fields}]})
    return UUID(run_id)


def new_frames(db: Connection, run_id: str | UUID, steps: list[Any], **fields: Any) -> list[str]:
    """Write a frame at each of these steps; return their ids in this order."""
    media = [
        {"id": new_id(), "kind": "frame", "path": f"{n}.png", "metadata": {"step": s}} for n, s in enumerate(steps)
    ]
    ingest(db, {"media": [{**each, "training_run_id": str(run_id), **fields} for each in media]})
    return [each["id"] for each in media]


def overviews(db: Connection) -> list[Any]:
    """Return what jobs_overview tells of nothing, of jobs that wait, and of orchestrators in every state."""
    for table in ("public.jobs", "public.orchestrators", "internal.orchestrator_leases"):
        db.execute(f"delete from {table}")
    found = [call(db, "jobs_overview")]
    for config in ({}, {"accelerator": "A10:1"}):
        call(db, "request_job", run_id=new_run(db), config=config)
    found.append(call(db, "jobs_overview"))
    described = {"host": "here", "name": "full", "pid": 1, "version": "1.0", "backends": ["local"], "max_jobs": 2}
    full, stopped, silent = (
        UUID(call(db, "register_orchestrator", orchestrator=each)["orchestrator_id"])
        for each in (described, {"host": "stopped"}, {"host": "silent", "backends": ["skypilot"]})
    )
    call(db, "claim_jobs", orchestrator_id=full, wanted=5)
    call(db, "retire_orchestrator", orchestrator_id=stopped)
    db.execute("update public.orchestrators set heartbeat_at = now() - interval '2 minutes' where id = %s", [silent])
    return [*found, call(db, "jobs_overview")]


class Trained:
    """A job and a sweep, made for one orchestrator, which answers keep the name of the function that gave them."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.answers: dict[str, list[Any]] = {}

    def ask(self, function: str, **arguments: Any) -> Any:
        answer = call(self.db, function, **arguments)
        self.answers.setdefault(function, []).append(answer)
        return answer

    def run_all(self) -> dict[str, list[Any]]:
        orchestrator = {"host": "here", "backends": ["local", "skypilot"]}
        self.orchestrator_id = UUID(self.ask("register_orchestrator", orchestrator=orchestrator)["orchestrator_id"])
        self._jobs()
        self._sweeps()
        self._previews()
        self.ask("retire_orchestrator", orchestrator_id=self.orchestrator_id)
        return self.answers

    def _jobs(self) -> None:
        run_id, deleted = new_run(self.db), new_run(self.db)
        self.ask("preview_job", run_id=run_id, config={"accelerator": "A10:1"})
        for each in (run_id, deleted):
            self.ask("request_job", run_id=each, config={"max_restarts": 1})
        claims = call(self.db, "claim_jobs", orchestrator_id=self.orchestrator_id, wanted=1000)["claims"]
        leases = {UUID(one["run"]["id"]): UUID(one["lease_id"]) for one in claims}
        # An orchestrator that comes later takes over what is left: also a job whose run is gone.
        self.db.execute("delete from public.training_runs where id = %s", [deleted])
        self.db.execute(
            "update internal.orchestrator_leases set expires_at = now() where lease_id = %s", [leases[deleted]]
        )
        self.db.execute(
            "update internal.orchestrator_leases set expires_at = now() where lease_id = %s", [leases[run_id]]
        )
        claims = self.ask("claim_jobs", orchestrator_id=self.orchestrator_id)["claims"]
        leased = {
            one["run"] and UUID(one["run"]["id"]): (UUID(one["lease_id"]), UUID(one["job"]["id"])) for one in claims
        }
        lease_id, job_id = leased[run_id]
        self.ask("renew_jobs", orchestrator_id=self.orchestrator_id, lease_ids=[lease_id])
        self.ask("begin_attempt", job_id=job_id, attempt=1, token="t")
        self.ask("append_job_log", lease_id=lease_id, attempt=1, start=0, text="begun\n")
        self.ask("read_job_logs", job_id=job_id)
        self.ask("update_job", lease_id=lease_id, changes={"status": "running", "external_id": "x", "cost_usd": 0.5})
        for status in ("running", "interrupted"):
            ingest(self.db, {"training_runs": [{"id": str(run_id), "status": status}]})
        self.ask("renew_jobs", orchestrator_id=self.orchestrator_id, lease_ids=[lease_id])
        self.ask("restart_job", lease_id=lease_id, attempt=1, reason="the machine was lost")
        ingest(self.db, {"training_runs": [{"id": str(run_id), "status": "running"}]})
        self.ask("stop_run", run_id=run_id)
        self.ask("stop_jobs", job_ids=[job_id])
        call(self.db, "update_job", lease_id=lease_id, changes={"status": "cancelled"})
        self.ask("retry_job", job_id=job_id)

    def _sweeps(self) -> None:
        asked = {"name": "s", "method": "grid", "template": TEMPLATE, "metric": "reward", "max_trials": 3}
        for method in ("grid", "random"):
            space = {"seed": {"values": [0, 1]}, **({"lr": {"min": 0, "max": 1}} if method == "random" else {})}
            self.ask("preview_sweep", sweep={**asked, "method": method, "space": space})
        sweep = self.ask(
            "request_sweep", sweep={**asked, "space": {"seed": {"values": [0, 1, 2]}}, "max_concurrent": 3}
        )
        claims = self.ask("claim_sweeps", orchestrator_id=self.orchestrator_id)["claims"]
        lease_id = next(UUID(one["lease_id"]) for one in claims if one["sweep"]["id"] == sweep["id"])
        runs = [
            self.ask("add_trial", lease_id=lease_id, trial=n, parameters={"seed": n})["training_run_id"]
            for n in range(3)
        ]
        for number in (0, 2):
            self.ask("prune_trial", lease_id=lease_id, trial=number)
        self.db.execute("delete from public.training_runs where id = %s", [runs[0]])
        self.ask("add_trial", lease_id=lease_id, trial=0, parameters={"seed": 0})
        run = {"id": runs[1], "current_step": 3, "progress": 0.3}
        for step, status in enumerate(("running", "completed")):
            ingest(self.db, {"training_runs": [{**run, "status": status}]})
            for place, value in ((1, 0.5), (2, "NaN")):
                chunk = {"training_run_id": runs[place], "name": "reward", "steps": [step], "values": [value]}
                ingest(self.db, {"metric_chunks": [{"id": new_id(), **chunk, "times": ["2026-01-01T00:00:00Z"]}]})
        self.ask("sweep_overview", sweep_id=UUID(sweep["id"]))
        self.ask("update_sweep", lease_id=lease_id, changes={"importances": {"seed": 1}})
        self.ask("stop_sweep", sweep_id=UUID(sweep["id"]))

    def _previews(self) -> None:
        environment_id = new_id()
        ingest(self.db, {"environments": [{"id": environment_id, "name": environment_id, "kind": "grid"}]})
        self.ask("save_preview", environment_id=UUID(environment_id), version=1, preview_error="it has no pictures")
