"""Whatever is done to a queue, in any order: it is as a small model of it says, and a lease is where a worker is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from .queues import Queue, broken_rules, call
from .writing import Connection, new_id

ENDINGS = ["success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"]
PLACE = st.integers(0, 1000)
PLACES = st.lists(PLACE, min_size=1, max_size=3)
RETRIED = {"error", "cancelled", "timeout", "truncated", "interrupted"}


@dataclass
class Rollout:
    """What a rollout should be."""

    max_attempts: int
    evaluation: str | None
    status: str = "pending"
    attempt: int = 1
    # The lease under which records are taken, also after the end; whether a worker still holds it.
    lease: str | None = None
    worker: str | None = None
    cancelling: bool = False
    deleting: bool = False
    # Why the queue gave up.
    has_error: bool = False
    turns: int = 0
    asides: int = 0

    @property
    def is_held(self) -> bool:
        return self.status in ("provisioning", "running")

    @property
    def has_ended(self) -> bool:
        return self.status not in ("pending", "provisioning", "running")

    def wait(self, *, counts: bool) -> None:
        """Be pending again; what was recorded is set aside."""
        self.asides += self.turns > 0 or self.has_error
        self.turns, self.lease, self.worker, self.status, self.has_error = 0, None, None, "pending", False
        self.attempt += counts


@dataclass
class Model:
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    evaluations: dict[str, str] = field(default_factory=dict)
    # Every lease that there ever was, with its rollout.
    leases: dict[str, str] = field(default_factory=dict)

    def give_back(self, rollout_id: str, *, counts: bool) -> None:
        rollout = self.rollouts[rollout_id]
        if rollout.deleting:
            del self.rollouts[rollout_id]
        elif rollout.cancelling or (counts and rollout.attempt >= rollout.max_attempts):
            rollout.status, rollout.has_error = ("cancelled", False) if rollout.cancelling else ("error", True)
            rollout.lease, rollout.cancelling = None, False
        else:
            rollout.wait(counts=counts)

    def follow(self) -> None:
        """Let evaluations begin and end with their rollouts."""
        for evaluation, status in self.evaluations.items():
            mine = [each for each in self.rollouts.values() if each.evaluation == evaluation]
            if status not in ("pending", "running"):
                continue
            if all(each.has_ended for each in mine):
                is_cancelled = all(each.status == "cancelled" for each in mine)
                self.evaluations[evaluation] = "cancelled" if is_cancelled else "completed"
            elif any(each.status == "running" or (each.has_ended and each.status != "cancelled") for each in mine):
                self.evaluations[evaluation] = "running"


class Walk(RuleBasedStateMachine):
    def __init__(self, db: Connection) -> None:
        super().__init__()
        self.db, self.queue, self.model = db, Queue(db, tasks=2), Model()
        self.workers = [self.queue.worker, self.queue.register()]

    def pick(self, place: int, from_: Any) -> Any:
        """Choose by the place in the order in which all was made: ids are other ones whenever a walk is repeated."""
        known = list(from_)
        return known[place % len(known)]

    # Clients -----------------------------------------------------------------------------------------------------

    @rule(attempts=st.integers(1, 2), max_attempts=st.integers(1, 2), evaluate=st.booleans())
    def ask(self, attempts: int, max_attempts: int, evaluate: bool) -> None:
        asked = {"attempts": attempts, "max_attempts": max_attempts}
        evaluation, made = self.queue.evaluate(**asked) if evaluate else (None, self.queue.request(**asked))
        if evaluation:
            self.model.evaluations[evaluation] = "pending"
        self.model.rollouts |= {each: Rollout(max_attempts, evaluation) for each in made}
        # Rollouts of one request are of one age, and claimed in any order: let them be claimed in one.
        with self.db.transaction():
            self.db.execute("select set_config('openmanus_rl.leases', 'queue', true)")
            for number, each in enumerate(made):
                self.db.execute(
                    "update public.rollouts set created_at = created_at + %s * interval '1 microsecond' where id = %s",
                    [number, each],
                )

    @precondition(lambda self: self.model.rollouts)
    @rule(places=PLACES, function=st.sampled_from(["cancel_rollouts", "delete_rollouts"]))
    def stop(self, places: list[int], function: str) -> None:
        ids = {self.pick(place, self.model.rollouts) for place in places}
        call(self.db, function, rollout_ids=sorted(ids))
        for each in ids:
            rollout = self.model.rollouts[each]
            if rollout.is_held:
                rollout.cancelling, rollout.deleting = True, rollout.deleting or function == "delete_rollouts"
            elif function == "delete_rollouts":
                del self.model.rollouts[each]
            elif rollout.status == "pending":
                rollout.status = "cancelled"

    @precondition(lambda self: self.model.rollouts)
    @rule(place=PLACE)
    def retry(self, place: int) -> None:
        rollout_id = self.pick(place, self.model.rollouts)
        rollout = self.model.rollouts[rollout_id]
        if rollout.status in ("pending", "provisioning", "running") and not rollout.cancelling:
            # It was put back before.
            call(self.db, "retry_rollouts", rollout_ids=[rollout_id])
            return
        if rollout.status not in RETRIED:
            with pytest.raises(psycopg.Error) as refused:
                call(self.db, "retry_rollouts", rollout_ids=[rollout_id])
            assert refused.value.sqlstate == "OM409"
            return
        call(self.db, "retry_rollouts", rollout_ids=[rollout_id])
        rollout.max_attempts = max(rollout.max_attempts, rollout.attempt + 1)
        rollout.wait(counts=True)

    # Workers -----------------------------------------------------------------------------------------------------

    @rule(place=PLACE, wanted=st.integers(1, 3))
    def claim(self, place: int, wanted: int) -> None:
        worker = self.pick(place, self.workers)
        claims = self.queue.claim(wanted, worker=worker)
        waiting = [each for each in self.model.rollouts.values() if each.status == "pending"]
        assert len(claims) == min(wanted, len(waiting))
        for claim in claims:
            rollout = self.model.rollouts[claim["rollout"]["id"]]
            assert (rollout.status, rollout.attempt) == ("pending", claim["rollout"]["attempt"])
            assert claim["lease_id"] not in self.model.leases
            rollout.status, rollout.lease, rollout.worker = "provisioning", claim["lease_id"], worker
            self.model.leases[claim["lease_id"]] = claim["rollout"]["id"]

    @precondition(lambda self: self.model.leases)
    @rule(place=PLACE, has_lease=st.booleans())
    def record(self, place: int, has_lease: bool) -> None:
        """Deliver a turn under any lease that there ever was, or under none."""
        lease = self.pick(place, self.model.leases)
        rollout_id = self.model.leases[lease]
        rollout = self.model.rollouts.get(rollout_id)
        number = len(self.model.leases) * 1000 + (rollout.turns if rollout else 0)
        turn = {"id": new_id(), "rollout_id": rollout_id, "step_number": number}
        refused = self.queue.write(lease if has_lease else None, agent_states=[turn])
        may = rollout is not None and (rollout.lease == lease if has_lease else rollout.has_ended)
        assert (refused == []) == may
        if rollout and may:
            rollout.turns += 1

    @precondition(lambda self: self.model.leases)
    @rule(place=PLACE, status=st.sampled_from(["running", *ENDINGS]))
    def report(self, place: int, status: str) -> None:
        """Report a status under any lease that there ever was."""
        lease = self.pick(place, self.model.leases)
        rollout_id = self.model.leases[lease]
        rollout = self.model.rollouts.get(rollout_id)
        refused = self.queue.end(rollout_id, lease, status)
        if rollout is None or rollout.lease != lease:
            assert len(refused) == 1
        elif rollout.is_held:
            assert refused == []
            rollout.status = status
            if rollout.has_ended:
                rollout.cancelling = False
                if rollout.deleting:
                    self.model.follow()
                    del self.model.rollouts[rollout_id]
        else:
            # Ended: the verdict may still change, and nothing runs again.
            verdicts = {"success", "failed", "completed", "truncated", "timeout"}
            may = status == rollout.status or (status in verdicts and rollout.status in verdicts | {"interrupted"})
            may = may or (rollout.status == "interrupted" and status in ("error", "cancelled"))
            # A validator that failed may give its verdict later.
            may = may or (rollout.status == "error" and status in ("success", "failed", "completed"))
            assert (refused == []) == may, (rollout.status, status, refused)
            rollout.status = status if may else rollout.status

    @precondition(lambda self: self.model.leases)
    @rule(place=PLACE)
    def renew(self, place: int) -> None:
        worker = self.pick(place, self.workers)
        told = {each["lease_id"]: each["cancelled"] for each in self.queue.renew(*self.model.leases, worker=worker)}
        mine = [each for each in self.model.rollouts.values() if each.is_held and each.worker == worker]
        assert told == {each.lease: each.cancelling for each in mine}

    @precondition(lambda self: self.model.leases)
    @rule(place=PLACE, counts=st.booleans())
    def release(self, place: int, counts: bool) -> None:
        lease, worker = self.pick(place, self.model.leases), self.pick(place // 7, self.workers)
        rollout_id = self.model.leases[lease]
        rollout = self.model.rollouts.get(rollout_id)
        is_mine = rollout is not None and rollout.is_held and (rollout.lease, rollout.worker) == (lease, worker)
        assert self.queue.release(lease, worker=worker, counts=counts) == is_mine
        if is_mine:
            self.model.give_back(rollout_id, counts=counts)

    @rule(place=PLACE)
    def retire(self, place: int) -> None:
        worker = self.pick(place, self.workers)
        mine = [key for key, each in self.model.rollouts.items() if each.is_held and each.worker == worker]
        assert call(self.db, "retire_worker", worker_id=worker) == len(mine)
        for each in mine:
            self.model.give_back(each, counts=False)
        self.workers.remove(worker)
        self.workers.append(self.queue.register())

    @precondition(lambda self: any(each.is_held for each in self.model.rollouts.values()))
    @rule(places=PLACES)
    def die(self, places: list[int]) -> None:
        held = [key for key, each in self.model.rollouts.items() if each.is_held]
        dead = {self.pick(place, held) for place in places}
        self.queue.reclaim(*dead)
        for each in dead:
            self.model.give_back(each, counts=True)

    # What holds --------------------------------------------------------------------------------------------------

    @invariant()
    def is_as_the_model_says(self) -> None:
        self.model.follow()
        query = (
            "select r.id::text, r.status, r.attempt, r.lease_id::text as lease, r.cancel_requested_at is not null as"
            " cancelling, (select count(*) from public.agent_states a where a.rollout_id = r.id) as turns,"
            " (select count(*) from public.rollouts o where o.attempt_of = r.id) as asides, "
            " r.error is not null as has_error"
            " from public.rollouts r where r.environment = %s and r.request is not null"
        )
        found = {each.pop("id"): each for each in self.db.execute(query, [self.queue.environment])}
        assert found == {
            key: {
                "status": each.status, "attempt": each.attempt, "lease": each.lease, "cancelling": each.cancelling,
                "turns": each.turns, "asides": each.asides, "has_error": each.has_error,
            }
            for key, each in self.model.rollouts.items()
        }  # fmt: skip
        ids = list(self.model.evaluations)
        evaluations = self.db.execute(
            "select e.id::text, e.status from public.evaluations e where e.id = any(%s::uuid[])", [ids]
        )
        assert {each["id"]: each["status"] for each in evaluations} == self.model.evaluations

    @invariant()
    def a_lease_is_where_a_worker_is(self) -> None:
        assert broken_rules(self.db) == []

    @invariant()
    def evaluations_count_their_rollouts(self) -> None:
        wrong = self.db.execute(
            "select q.* from internal.queued_evaluations q cross join lateral (select count(*) as rollouts,"
            " count(*) filter (where internal.is_ended(r.status)) as ended from public.rollouts r"
            " join public.rollout_groups g on g.id = r.group_id where g.evaluation_id = q.evaluation_id) c"
            " where (q.rollouts, q.ended) <> (c.rollouts, c.ended)"
        ).fetchall()
        assert wrong == []


def test_a_queue_is_as_its_model_says_whatever_is_done_to_it(db: Connection) -> None:
    run_state_machine_as_test(
        lambda: Walk(db),
        settings=settings(
            max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
