"""Who may ask, claim, cancel and see what: by role, and by whose rollouts and workers they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from .queues import Queue, call
from .writing import Connection, acting_as, count, new_id, new_member, row, write

ROLES = {"owner": "editor", "other": "editor", "admin": "admin", "viewer": "viewer", "stranger": None}


class Workspace:
    """Somebody for each role, and a queue with rollouts of the owner's: waiting, held by the owner's worker, ended."""

    def __init__(self, db: Connection) -> None:
        self.db, self.queue = db, Queue(db)
        self.users = {name: new_member(db, role) for name, role in ROLES.items()}
        self.run = new_id()
        write(db, {"training_runs": [{"id": self.run, "name": "the owner's", "owner_id": self.users["owner"]}]})
        task = {"task_id": self.queue.tasks[0]}
        self.worker = self.call("owner", "register_worker", worker={"name": "w"})["worker_id"]
        made = self.call("owner", "request_rollouts", request=task | {"attempts": 3})["rollouts"]
        self.leases = {each["rollout"]["id"]: each["lease_id"] for each in self.claim("owner", 2)["claims"]}
        self.held, self.failed = self.leases
        (self.waiting,) = {each["id"] for each in made} - self.leases.keys()
        batch = {"rollouts": [{"id": self.failed, "status": "error"}]}
        assert self.call("owner", "ingest", batch=batch, leases=[self.leases[self.failed]])["refused"] == []

    def call(self, actor: str, function: str, **arguments: Any) -> Any:
        with self.acting(actor):
            return call(self.db, function, **arguments)

    def acting(self, actor: str) -> Any:
        if actor in ("anon", "service_role"):
            return acting_as(self.db, role=actor)
        return acting_as(self.db, user_id=self.users[actor])

    def claim(self, actor: str, wanted: int = 5, worker: str | None = None) -> Any:
        arguments = {"worker_id": worker or self.worker, "wanted": wanted, "providers": [self.queue.provider]}
        return self.call(actor, "claim_rollouts", **arguments)

    def code(self, actor: str, function: str, **arguments: Any) -> str | None:
        """Return "ok", or the code of the error."""
        try:
            self.call(actor, function, **arguments)
        except psycopg.Error as error:
            return error.sqlstate
        return "ok"


@pytest.fixture
def workspace(db: Connection) -> Workspace:
    return Workspace(db)


FORBIDDEN = {"anon": "42501", "stranger": "OM403", "viewer": "OM403"}

# Who is not the owner, an admin or the secret key does not even learn whose worker it is.
CALLS: dict[str, tuple[Callable[[Workspace], dict[str, Any]], str]] = {
    "request_rollouts": (lambda w: {"request": {"task_id": w.queue.tasks[0]}}, "ok"),
    "request_rollouts of a run": (
        lambda w: {"request": {"task_id": w.queue.tasks[0], "training_run_id": w.run}},
        "OM403",
    ),
    "request_evaluation": (lambda w: {"request": {"task_ids": w.queue.tasks}}, "ok"),
    "request_evaluation of a run": (
        lambda w: {"request": {"task_ids": w.queue.tasks, "training_run_id": w.run}},
        "OM403",
    ),
    "cancel_rollouts": (lambda w: {"rollout_ids": [w.waiting]}, "OM403"),
    "retry_rollouts": (lambda w: {"rollout_ids": [w.failed]}, "OM403"),
    "delete_rollouts": (lambda w: {"rollout_ids": [w.waiting, w.held]}, "OM403"),
    "register_worker": (lambda _: {"worker": {"name": "another"}}, "ok"),
    "claim_rollouts": (lambda w: {"worker_id": w.worker}, "OM404"),
    "renew_rollouts": (lambda w: {"worker_id": w.worker, "lease_ids": [w.leases[w.held]]}, "OM404"),
    "release_rollouts": (lambda w: {"worker_id": w.worker, "lease_ids": [w.leases[w.held]]}, "OM404"),
    "retire_worker": (lambda w: {"worker_id": w.worker}, "OM404"),
    "stop_workers": (lambda w: {"worker_ids": [w.worker]}, "ok"),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_everybody_can_call_what_they_may_and_no_more(workspace: Workspace, name: str) -> None:
    function, (arguments, for_others) = name.split(" ")[0], CALLS[name]
    given = arguments(workspace)
    before = row(workspace.db, "rollouts", workspace.held)
    for actor, expected in FORBIDDEN.items():
        assert workspace.code(actor, function, **given) == expected, actor
    assert workspace.code("other", function, **given) == for_others
    # Nothing happened to what is the owner's.
    assert row(workspace.db, "rollouts", workspace.held) == before
    assert row(workspace.db, "workers", workspace.worker)["state"] == "active"
    assert [workspace.queue.status(each) for each in (workspace.waiting, workspace.failed)] == ["pending", "error"]
    assert workspace.code("owner", function, **given) == "ok"


@pytest.mark.parametrize("actor", ["admin", "service_role"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_admins_and_the_secret_key_may_do_all(workspace: Workspace, name: str, actor: str) -> None:
    assert workspace.code(actor, name.split(" ")[0], **CALLS[name][0](workspace)) == "ok"


@pytest.mark.parametrize(
    ("actor", "gets"), [("other", False), ("admin", True), ("service_role", True), ("owner", True)]
)
def test_an_editors_worker_gets_the_editors_rollouts_alone(workspace: Workspace, actor: str, gets: bool) -> None:
    worker = workspace.call(actor, "register_worker", worker={"name": "mine"})["worker_id"]
    claims = workspace.claim(actor, worker=worker)["claims"]
    assert [each["rollout"]["id"] for each in claims] == ([workspace.waiting] if gets else [])
    # Its own, and those of its own run.
    if actor == "other":
        made = workspace.call(actor, "request_rollouts", request={"task_id": workspace.queue.tasks[0]})["rollouts"]
        claims = workspace.claim(actor, worker=worker)["claims"]
        assert [each["rollout"]["id"] for each in claims] == [made[0]["id"]]


def test_a_rollout_of_a_run_is_its_owners_whoever_asked_for_it(workspace: Workspace) -> None:
    asked = {"task_id": workspace.queue.tasks[0], "training_run_id": workspace.run}
    (made,) = workspace.call("admin", "request_rollouts", request=asked)["rollouts"]
    assert workspace.code("other", "cancel_rollouts", rollout_ids=[made["id"]]) == "OM403"
    claims = workspace.claim("owner")["claims"]
    assert {each["rollout"]["id"] for each in claims} == {workspace.waiting, made["id"]}


def test_a_lease_does_not_open_what_is_anothers(workspace: Workspace) -> None:
    """The lease is in the row, which members may read: row security still says whose the rollout is."""
    turn = {"rollout_id": workspace.held, "step_number": 0}
    batch = {"rollouts": [{"id": workspace.held, "status": "success"}], "agent_states": [turn]}
    lease = row(workspace.db, "rollouts", workspace.held)["lease_id"]
    for actor in ("other", "viewer", "stranger"):
        refused = workspace.call(actor, "ingest", batch=batch, leases=[lease])["refused"]
        assert len(refused) == 2, actor
    assert workspace.queue.status(workspace.held) == "provisioning"
    assert count(workspace.db, "agent_states", rollout_id=workspace.held) == 0
    assert workspace.call("owner", "ingest", batch=batch, leases=[lease])["refused"] == []


def test_nobody_registers_as_the_worker_of_another(workspace: Workspace) -> None:
    for actor in ("other", "admin", "service_role"):
        assert workspace.code(actor, "register_worker", worker={"id": workspace.worker, "name": "me"}) == "OM403"
    again = workspace.call("owner", "register_worker", worker={"id": workspace.worker, "max_rollouts": 9})
    assert again == {"worker_id": workspace.worker}
    assert row(workspace.db, "workers", workspace.worker)["max_rollouts"] == 9


def test_nobody_adds_to_the_evaluation_of_another_by_its_id(workspace: Workspace) -> None:
    """Neither to one that was recorded nor to one of the queue."""
    recorded = new_id()
    write(workspace.db, {"evaluations": [{"id": recorded, "owner_id": workspace.users["owner"]}]})
    asked = {"task_ids": workspace.queue.tasks}
    queued = workspace.call("owner", "request_evaluation", request=asked)["evaluation"]["id"]
    for evaluation in (recorded, queued):
        groups = count(workspace.db, "rollout_groups", evaluation_id=evaluation)
        for actor in ("other", "admin", "service_role"):
            assert workspace.code(actor, "request_evaluation", request=asked, request_id=evaluation) == "OM409"
        assert count(workspace.db, "rollout_groups", evaluation_id=evaluation) == groups
    # Who asked gets it again.
    again = workspace.call("owner", "request_evaluation", request=asked, request_id=queued)
    assert (again["evaluation"]["id"], len(again["rollouts"])) == (queued, 1)


def test_leases_are_nobodys_to_read_or_write(workspace: Workspace) -> None:
    statements = [
        "select * from internal.leases",
        "update internal.leases set expires_at = 'infinity'",
        "delete from internal.leases",
        "insert into internal.leases (rollout_id, lease_id, worker_id, expires_at)"
        f" values ('{workspace.waiting}', '{new_id()}', '{workspace.worker}', 'infinity')",
        "select * from internal.queued_evaluations",
    ]
    for actor in ("anon", "viewer", "owner", "admin", "service_role"):
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), workspace.acting(actor):
                workspace.db.execute(statement)


def test_members_see_the_queue_and_others_see_nothing_of_it(workspace: Workspace) -> None:
    workspace.queue.clear_others()
    for actor in ("viewer", "other", "owner", "admin", "service_role"):
        found = workspace.call(actor, "queue_overview", listed=1000)
        assert workspace.held in {each["id"] for each in found["held"]}, actor
        assert workspace.waiting in {each["id"] for each in found["next"]}, actor
        assert workspace.worker in {each["id"] for each in found["workers"]}, actor
    health = dict.fromkeys(("active", "draining", "silent", "stopped", "places"), 0)
    empty = {"waiting": 0, "oldest_waiting_at": None, "held_count": 0, "health": health, "unserved": []}
    empty |= {"next": [], "held": [], "workers": []}
    assert workspace.call("stranger", "queue_overview") == empty
    assert workspace.code("anon", "queue_overview") == "42501"
    assert workspace.code("anon", "task_results", task_id=workspace.queue.tasks[0]) == "42501"
    assert workspace.call("stranger", "task_results", task_id=workspace.queue.tasks[0]) == []


def test_the_columns_of_the_queue_are_written_by_its_functions_alone(workspace: Workspace) -> None:
    reserved = ("request", "priority", "worker_id", "lease_id", "attempt", "max_attempts", "attempt_of", "cache_key",
                "cancel_requested_at", "delete_requested")  # fmt: skip
    for actor in ("owner", "admin", "service_role"):
        for column in reserved:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), workspace.acting(actor):
                workspace.db.execute(
                    f"update public.rollouts set {column} = {column} where id = %s", [workspace.waiting]
                )
        with pytest.raises(psycopg.errors.InsufficientPrivilege), workspace.acting(actor):
            workspace.db.execute("update public.tasks set version = 9")
