"""A queue of rollouts in the shared database that no other test takes from, and the calls of those who use it."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from .writing import Connection, Record, new_id, write


class Queue:
    """Tasks in an environment of a kind that only the workers of this queue can start."""

    def __init__(self, db: Connection, *, tasks: int = 1, **environment: Any) -> None:
        self.db = db
        self.provider, self.environment = f"kind {new_id()}", f"environment {new_id()}"
        self.tasks = [new_id() for _ in range(tasks)]
        write(db, {
            "environments": [{"id": new_id(), "name": self.environment, "kind": self.provider, **environment}],
            "tasks": [
                {"id": each, "environment": self.environment, "external_id": f"task {n}", "description": f"do {n}"}
                for n, each in enumerate(self.tasks)
            ],
        })  # fmt: skip
        self.worker = self.register()

    def on(self, db: Connection) -> Queue:
        """The same queue, used by another session."""
        other = Queue.__new__(Queue)
        other.__dict__ |= self.__dict__ | {"db": db}
        return other

    def clear_others(self) -> None:
        """Delete what other tests left in the queue, which lists only so many."""
        self.db.execute(
            "delete from public.rollouts where request is not null and environment <> %s", [self.environment]
        )

    # Asking ------------------------------------------------------------------------------------------------------

    def request(self, *, request_id: str | None = None, **request: Any) -> list[str]:
        """Ask for rollouts, of all tasks if none is named; return their ids."""
        return [rollout["id"] for rollout in self.ask(request_id=request_id, **request)["rollouts"]]

    def ask(self, *, request_id: str | None = None, **request: Any) -> Record:
        if not request.keys() & {"task_id", "task_ids"}:
            request["task_ids"] = self.tasks
        return dict(call(self.db, "request_rollouts", request=request, request_id=request_id))

    def evaluate(self, *, request_id: str | None = None, **request: Any) -> tuple[str, list[str]]:
        """Ask for an evaluation on all tasks; return its id and those of its rollouts."""
        asked = {"task_ids": self.tasks} | request
        answer = call(self.db, "request_evaluation", request=asked, request_id=request_id)
        return answer["evaluation"]["id"], [rollout["id"] for rollout in answer["rollouts"]]

    # Working -----------------------------------------------------------------------------------------------------

    def register(self, **worker: Any) -> str:
        return str(call(self.db, "register_worker", worker={"name": "a worker", **worker})["worker_id"])

    def claim(self, wanted: int = 1, *, worker: str | None = None, **more: Any) -> list[Record]:
        arguments = {"worker_id": worker or self.worker, "wanted": wanted, "providers": [self.provider], **more}
        return list(call(self.db, "claim_rollouts", **arguments)["claims"])

    def lease(self, **more: Any) -> tuple[str, str]:
        """Claim one rollout; return its id and the lease."""
        (claim,) = self.claim(**more)
        return claim["rollout"]["id"], claim["lease_id"]

    def renew(self, *lease_ids: str, worker: str | None = None) -> list[Record]:
        arguments = {"worker_id": worker or self.worker, "lease_ids": list(lease_ids)}
        return list(call(self.db, "renew_rollouts", **arguments)["leases"])

    def release(self, *lease_ids: str, worker: str | None = None, **more: Any) -> int:
        return int(
            call(self.db, "release_rollouts", worker_id=worker or self.worker, lease_ids=list(lease_ids), **more)
        )

    def expire(self, *rollout_ids: str) -> None:
        """Let leases run out: as if the worker had died long ago."""
        self.db.execute(
            "update internal.leases set expires_at = clock_timestamp() - interval '1 second'"
            " where rollout_id = any(%s::uuid[])",
            [list(rollout_ids)],
        )

    def reclaim(self, *rollout_ids: str) -> None:
        """Let leases run out and take the rollouts back, as any claim does."""
        self.expire(*rollout_ids)
        self.db.execute("select internal.reclaim_expired()")

    def write(self, lease_id: str | None, **batch: list[Record]) -> list[Record]:
        """Write a batch under a lease, or under none; return what was refused."""
        return list(call(self.db, "ingest", batch=batch, leases=lease_id and [lease_id])["refused"])

    def end(self, rollout_id: str, lease_id: str, status: str = "success", **fields: Any) -> list[Record]:
        return self.write(lease_id, rollouts=[{"id": rollout_id, "status": status, **fields}])

    # Looking -----------------------------------------------------------------------------------------------------

    def status(self, rollout_id: str) -> str | None:
        """The status of a rollout; None if there is no such rollout."""
        found = self.db.execute("select status from public.rollouts where id = %s", [rollout_id]).fetchone()
        return found["status"] if found else None

    def lease_of(self, rollout_id: str) -> str | None:
        """The lease that a worker holds now."""
        found = self.db.execute(
            "select lease_id::text as lease from internal.leases where rollout_id = %s", [rollout_id]
        ).fetchone()
        return found["lease"] if found else None

    def asides(self, rollout_id: str) -> list[Record]:
        """The attempts of a rollout that were set aside."""
        found = self.db.execute(
            "select to_jsonb(r) as row from public.rollouts r where attempt_of = %s order by attempt, id", [rollout_id]
        )
        return [each["row"] for each in found]


def call(db: Connection, function: str, **arguments: Any) -> Any:
    """Call a function of the queue by the names of its arguments."""
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()}
    found = db.execute(f"select public.{function}({named}) as answer", values).fetchone()
    assert found is not None
    return found["answer"]


def broken_rules(db: Connection) -> list[Record]:
    """Return the rollouts of which it does not hold that a lease is there exactly while a worker has the rollout."""
    return db.execute(
        "select r.id, r.status, l.lease_id as held, r.lease_id from public.rollouts r"
        " full join internal.leases l on l.rollout_id = r.id"
        " where (l.lease_id is not null) <> (r.request is not null and r.status in ('provisioning', 'running'))"
        " or (l.lease_id is not null and l.lease_id <> r.lease_id)"
    ).fetchall()
