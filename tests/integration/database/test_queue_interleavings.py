"""Workers, clients and the clock at the same time, in every order that their steps can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from .interleaving import COMMIT, Stage, Step, begun, orders, sql
from .queues import Queue, broken_rules, call
from .test_queue_leases import WAYS
from .writing import Batch, Connection, Database, count, history, new_id, new_run, row, write


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    stage = Stage(database, 3)
    yield stage
    stage.close()


class Told:
    """A step that keeps what the database answered."""

    def __init__(self, step: Callable[[Connection], Any]) -> None:
        self.step, self.answer = step, None

    def __call__(self, connection: Connection) -> None:
        self.answer = self.step(connection)


def of(queue: Queue, method: str, *values: Any, **named: Any) -> Told:
    """A step that calls a method of the queue."""
    return Told(lambda connection: getattr(queue.on(connection), method)(*values, **named))


def calling(function: str, **arguments: Any) -> Told:
    return Told(lambda connection: call(connection, function, **arguments))


def writing(lease_id: str | None, batch: Batch, way: str = "ingest") -> Told:
    return Told(lambda connection: WAYS[way](connection, lease_id, batch))


RECLAIM: Step = sql("select internal.reclaim_expired()")


def alone(step: Step) -> list[Step]:
    return [begun(step), COMMIT]


# Claiming ------------------------------------------------------------------------------------------------------------


def test_no_rollout_is_claimed_twice(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        queue.request(attempts=5)
        claims = [of(queue, "claim", 2, worker=queue.register()) for _ in range(3)]
        assert stage.play([alone(claim) for claim in claims], order) == [], order
        taken = [each["rollout"]["id"] for claim in claims for each in claim.answer]
        # None waits for another, and what one has taken the others skip.
        assert len(taken) == len(set(taken)) == 5, order
        assert broken_rules(db) == []


def test_no_rollout_is_claimed_twice_by_workers_of_several_kinds(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        first, second = Queue(db), Queue(db)
        both = [first.provider, second.provider]
        first.request(attempts=2)
        second.request(attempts=2)
        claims = [of(first, "claim", 1, worker=first.register(), providers=both) for _ in range(2)]
        claims.append(of(second, "claim", 2, worker=second.register()))
        assert stage.play([alone(claim) for claim in claims], order) == [], order
        taken = [each["rollout"]["id"] for claim in claims for each in claim.answer]
        assert len(taken) == len(set(taken)), order
        taken += [each["rollout"]["id"] for each in first.claim(9, providers=both)]
        assert len(taken) == len(set(taken)) == 4, order
        assert broken_rules(db) == []


def test_a_rollout_that_is_claimed_while_it_is_cancelled_or_deleted_ends_in_one_way(
    db: Connection, stage: Stage
) -> None:
    for function in ("cancel_rollouts", "delete_rollouts"):
        for order in orders([2, 2]):
            queue = Queue(db)
            (rollout_id,) = queue.request()
            claim, stop = of(queue, "claim"), calling(function, rollout_ids=[rollout_id])
            assert stage.play([alone(claim), alone(stop)], order) == [], order
            status = queue.status(rollout_id)
            if claim.answer:
                assert status == "provisioning", order
                assert queue.renew(claim.answer[0]["lease_id"])[0]["cancelled"] is True, order
                queue.release(claim.answer[0]["lease_id"])
            assert queue.status(rollout_id) == ("cancelled" if function == "cancel_rollouts" else None), order
            assert broken_rules(db) == []


def test_cancelling_and_deleting_and_claiming_at_once_end_without_an_error(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        made = queue.request(attempts=3)
        steps = [of(queue, "claim", 2), calling("cancel_rollouts", rollout_ids=made[:2])]
        steps.append(calling("delete_rollouts", rollout_ids=made[:0:-1]))
        errors = stage.play([alone(step) for step in steps], order)
        # What is deleted meanwhile is unknown to who cancels it.
        assert all(isinstance(each, psycopg.Error) and each.sqlstate == "OM404" for each in errors), (order, errors)
        assert broken_rules(db) == []
        for claim in steps[0].answer or []:
            queue.release(claim["lease_id"])
        assert {queue.status(each) for each in made[1:]} <= {None, "cancelled", "pending"}


def test_a_worker_that_ends_claims_nothing_that_it_does_not_return(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        queue = Queue(db)
        (rollout_id,) = queue.request()
        steps = [of(queue, "claim"), calling("retire_worker", worker_id=queue.worker)]
        assert stage.play([alone(step) for step in steps], order) == [], order
        assert (queue.status(rollout_id), queue.lease_of(rollout_id)) == ("pending", None), order


def test_the_same_request_twice_at_once_is_one(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        queue, request_id = Queue(db, tasks=2), new_id()
        steps = [of(queue, "request", request_id=request_id, attempts=2) for _ in range(2)]
        assert stage.play([alone(step) for step in steps], order) == [], order
        assert sorted(steps[0].answer) == sorted(steps[1].answer)
        asked = [of(queue, "evaluate", request_id=request_id) for _ in range(2)]
        assert stage.play([alone(step) for step in asked], order) == [], order
        assert asked[0].answer == asked[1].answer
        assert count(db, "rollout_groups", evaluation_id=request_id) == 2


# A lease that runs out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_batch_is_written_under_its_lease_or_not_at_all(db: Connection, stage: Stage, way: str) -> None:
    """The lease runs out before, while and after the batch is looked at and written."""
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        (rollout_id,) = queue.request()
        _, lease_id = queue.lease()
        known, new = new_id(), new_id()
        queue.write(lease_id, agent_states=[{"id": known, "rollout_id": rollout_id, "step_number": 0}])
        queue.expire(rollout_id)
        batch: Batch = {
            "rollouts": [{"id": rollout_id, "status": "running"}],
            "agent_states": [{"id": new, "rollout_id": rollout_id, "step_number": 1}],
            "tool_calls": [
                {"id": new_id(), "agent_state_id": turn, "tool_name": "a", "position": 0} for turn in (known, new)
            ],
            "rewards": [{"id": new_id(), "rollout_id": rollout_id, "step_number": 1, "reward": 1}],
            "validations": [{"id": new_id(), "rollout_id": rollout_id, "verdict": "pass"}],
            "media": [{"id": new_id(), "rollout_id": rollout_id, "kind": "video", "path": "v"}],
        }
        late, again = writing(lease_id, batch, way), of(queue, "claim", worker=queue.register())
        errors = stage.play([alone(late), alone(RECLAIM), alone(again)], order)
        assert errors == [], (order, errors)
        refused, total = len(late.answer), sum(map(len, batch.values()))
        assert refused in (0, total), (order, late.answer)
        assert count(db, "agent_states", id=new) == (0 if refused else 1), order
        assert count(db, "tool_calls", agent_state_id=known) == (0 if refused else 1), order
        # Whoever has the rollout now finds nothing of an earlier attempt in it.
        if queue.lease_of(rollout_id) != lease_id:
            assert count(db, "agent_states", rollout_id=rollout_id) == 0, order
            assert count(db, "media", rollout_id=rollout_id) == 0, order
            assert count(db, "rewards", rollout_id=rollout_id) == 0, order
        assert broken_rules(db) == []


def test_a_part_of_a_known_turn_and_the_end_of_its_lease_do_not_wait_in_a_circle(db: Connection, stage: Stage) -> None:
    for lease in ("mine", None):
        for order in orders([2, 2, 2]):
            queue = Queue(db)
            (rollout_id,) = queue.request()
            _, lease_id = queue.lease()
            turn = new_id()
            queue.write(lease_id, agent_states=[{"id": turn, "rollout_id": rollout_id, "step_number": 0}])
            queue.expire(rollout_id)
            parts: Batch = {"tool_calls": [{"id": new_id(), "agent_state_id": turn, "tool_name": "a", "position": 0}]}
            steps = [writing(lease_id if lease else None, parts), writing(lease_id if lease else None, parts, "COPY")]
            errors = stage.play([alone(steps[0]), alone(steps[1]), alone(RECLAIM)], order)
            assert errors == [], (order, errors)
            # Without a lease it may come after the attempt was set aside: that has ended.
            written = any(step.answer == [] for step in steps)
            assert count(db, "tool_calls", agent_state_id=turn) == written, order


def test_a_lease_is_renewed_or_lost_and_its_worker_is_told_which(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        made = queue.request(attempts=3)
        leases = {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(3)}
        queue.expire(*made)
        renew = of(queue, "renew", *leases.values())
        other = of(queue, "claim", 3, worker=queue.register())
        assert stage.play([alone(renew), alone(RECLAIM), alone(other)], order) == [], order
        kept = {each["rollout_id"] for each in renew.answer}
        for each in made:
            assert (queue.lease_of(each) == leases[each]) == (each in kept), order
        assert broken_rules(db) == []


def test_a_worker_that_ends_a_rollout_in_time_has_ended_it(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        (rollout_id,) = queue.request(max_attempts=1)
        _, lease_id = queue.lease()
        queue.expire(rollout_id)
        end = of(queue, "end", rollout_id, lease_id, "success", total_reward=1)
        renew = of(queue, "renew", lease_id)
        assert stage.play([alone(end), alone(RECLAIM), alone(renew)], order) == [], order
        found = row(db, "rollouts", rollout_id)
        # Reclaimed first, it was the last attempt: an error, which the late end does not change.
        if end.answer:
            assert (found["status"], found["total_reward"]) == ("error", None), order
        else:
            assert (found["status"], found["total_reward"]) == ("success", 1), order
        assert [new for _, new, _ in history(db, rollout_id)].count("success") == (not end.answer)
        assert broken_rules(db) == []


def test_the_end_a_cancellation_and_a_deletion_at_once_leave_one_outcome(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        (rollout_id,) = queue.request()
        _, lease_id = queue.lease()
        turn = {"id": new_id(), "rollout_id": rollout_id, "step_number": 0}
        end = writing(lease_id, {"rollouts": [{"id": rollout_id, "status": "success"}], "agent_states": [turn]})
        cancel = calling("cancel_rollouts", rollout_ids=[rollout_id])
        delete = calling("delete_rollouts", rollout_ids=[rollout_id])
        errors = stage.play([alone(end), alone(cancel), alone(delete)], order)
        assert all(isinstance(each, psycopg.Error) and each.sqlstate == "OM404" for each in errors), (order, errors)
        assert queue.status(rollout_id) is None, order
        assert history(db, rollout_id) == []
        assert count(db, "agent_states", id=turn["id"]) == 0
        assert broken_rules(db) == []


def test_a_rollout_is_tried_again_once_whoever_asks(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db)
        (rollout_id,) = queue.request()
        _, lease_id = queue.lease()
        queue.end(rollout_id, lease_id, "error")
        late = writing(lease_id, {"agent_states": [{"id": new_id(), "rollout_id": rollout_id, "step_number": 0}]})
        retries = [calling("retry_rollouts", rollout_ids=[rollout_id]) for _ in range(2)]
        assert stage.play([alone(retries[0]), alone(retries[1]), alone(late)], order) == [], order
        assert (queue.status(rollout_id), row(db, "rollouts", rollout_id)["attempt"]) == ("pending", 2), order
        assert count(db, "agent_states", rollout_id=rollout_id) == 0, order
        assert broken_rules(db) == []


def test_a_rewind_leaves_nothing_waiting_that_it_hid(db: Connection, stage: Stage) -> None:
    """Whoever asks for rollouts of the run, claims or cancels them at the same time."""
    for order in orders([2, 2, 2]):
        queue, run_id = Queue(db), new_run(db)
        _, made = queue.evaluate(training_run_id=run_id, step=5, attempts=3)
        rewind = calling("resume_run", run_id=run_id, change_id=new_id(), rewind_to_step=3)
        for others in (
            [of(queue, "claim", 2), calling("cancel_rollouts", rollout_ids=made[:1])],
            [of(queue, "evaluate", training_run_id=run_id, step=5), of(queue, "claim", 2)],
        ):
            assert stage.play([alone(rewind), *map(alone, others)], order) == [], order
            waiting = "status = 'pending' and rewound_at is not null and cancel_requested_at is null"
            assert db.execute(f"select id from public.rollouts where {waiting}").fetchall() == [], order
            assert broken_rules(db) == []
            rewind = calling("resume_run", run_id=run_id, change_id=new_id(), rewind_to_step=3)


def test_judging_an_ended_rollout_and_trying_it_again_do_not_mix(db: Connection, stage: Stage) -> None:
    """Without a lease, as a new validator is run over past rollouts."""
    for way in sorted(WAYS):
        for order in orders([2, 2]):
            queue = Queue(db)
            (rollout_id,) = queue.request()
            _, lease_id = queue.lease()
            queue.end(rollout_id, lease_id, "error")
            batch: Batch = {
                "validations": [{"id": new_id(), "rollout_id": rollout_id, "verdict": "fail"}],
                "media": [{"id": new_id(), "rollout_id": rollout_id, "kind": "file", "path": "f"}],
            }
            judge, retry = writing(None, batch, way), calling("retry_rollouts", rollout_ids=[rollout_id])
            assert stage.play([alone(judge), alone(retry)], order) == [], order
            assert count(db, "validations", rollout_id=rollout_id) == 0, order
            assert count(db, "media", rollout_id=rollout_id) == 0, order


def test_leases_of_several_groups_and_evaluations_are_taken_back_without_a_circle(db: Connection, stage: Stage) -> None:
    """Two sessions take back and return, and a third ends others of the same evaluations."""
    for order in orders([2, 2, 2]):
        queue, other = Queue(db, tasks=2), None
        asked = [queue.evaluate(attempts=2, max_attempts=1) for _ in range(2)]
        held = {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(8)}
        first, second = (rollouts for _, rollouts in asked)
        queue.expire(first[0], second[0], first[2], second[2])
        other = [held[each] for each in (second[3], first[3], second[1])]
        steps = [
            Told(lambda connection: connection.execute("select internal.reclaim_expired()")),
            of(queue, "release", *other, counts=True),
            of(queue, "end", first[1], held[first[1]]),
        ]
        errors = stage.play([alone(step) for step in steps], order)
        assert errors == [], (order, errors)
        assert [row(db, "evaluations", each)["status"] for each, _ in asked] == ["completed", "completed"], order
        assert broken_rules(db) == []


# Evaluations ---------------------------------------------------------------------------------------------------------


def test_an_evaluation_is_complete_when_the_last_of_several_ends_at_once(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db, tasks=2)
        evaluation_id, made = queue.evaluate(attempts=2)
        held = {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(4)}
        queue.end(made[0], held[made[0]], "failed", total_reward=0, step_count=1)
        assert row(db, "evaluations", evaluation_id)["status"] == "running"
        steps = [
            of(queue, "end", made[1], held[made[1]], "success", total_reward=1, step_count=3),
            of(queue, "end", made[2], held[made[2]], "success", total_reward=1, step_count=5),
            calling("cancel_rollouts", rollout_ids=[made[3]]),
        ]
        queue.release(held[made[3]])
        errors = stage.play([alone(step) for step in steps], order)
        assert errors == [], (order, errors)
        found = row(db, "evaluations", evaluation_id)
        assert (found["status"], found["progress"]) == ("completed", 1), order
        assert (found["success_rate"], found["mean_reward"], found["mean_turns"]) == (
            pytest.approx(2 / 3), pytest.approx(2 / 3), 3,
        )  # fmt: skip
        assert [new for _, new, _ in history(db, evaluation_id)] == ["pending", "running", "completed"]


def test_an_evaluation_is_complete_when_what_was_left_is_deleted_at_once(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        queue = Queue(db, tasks=2)
        evaluation_id, made = queue.evaluate(attempts=2)
        held = {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(3)}
        waiting = next(each for each in made if each not in held)
        first, second, third = held
        queue.end(first, held[first], "failed")
        queue.expire(third)
        call(db, "delete_rollouts", rollout_ids=[third])
        steps = [
            of(queue, "end", second, held[second]),
            calling("delete_rollouts", rollout_ids=[waiting]),
            Told(lambda connection: connection.execute("select internal.reclaim_expired()")),
        ]
        errors = stage.play([alone(step) for step in steps], order)
        assert errors == [], (order, errors)
        found = row(db, "evaluations", evaluation_id)
        assert (found["status"], found["progress"], found["success_rate"]) == ("completed", 1, 0.5), order


def test_ending_and_judging_rollouts_of_a_completed_evaluation_do_not_wait_in_a_circle(
    db: Connection, stage: Stage
) -> None:
    for order in orders([2, 2]):
        queue = Queue(db)
        evaluation_id, made = queue.evaluate(attempts=2)
        held = {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(2)}
        queue.end(made[0], held[made[0]], "success")
        queue.end(made[1], held[made[1]], "error")
        call(db, "retry_rollouts", rollout_ids=[made[1]])
        _, lease_id = queue.lease()
        judge: Batch = {"rollouts": [{"id": made[0], "status": "failed", "total_reward": 0.5}]}
        steps = [of(queue, "end", made[1], lease_id, "success"), writing(None, judge)]
        assert stage.play([alone(step) for step in steps], order) == [], order
        found = row(db, "evaluations", evaluation_id)
        assert (found["status"], found["success_rate"]) == ("completed", 0.5), order


def test_rollouts_that_are_claimed_cancelled_and_resumed_with_their_run_stay_the_queues(
    db: Connection, stage: Stage
) -> None:
    for order in orders([2, 2, 2]):
        queue, run_id = Queue(db), new_id()
        write(db, {"training_runs": [{"id": run_id, "name": "a run", "status": "running"}]})
        made = queue.request(attempts=2, training_run_id=run_id)
        rollout_id, lease_id = queue.lease()
        steps = [
            of(queue, "end", rollout_id, lease_id, "running"),
            calling("resume_run", run_id=run_id, change_id=new_id()),
            of(queue, "claim", worker=queue.register()),
        ]
        assert stage.play([alone(step) for step in steps], order) == [], order
        assert {queue.status(each) for each in made} == {"running", "provisioning"}, order
        assert broken_rules(db) == []
