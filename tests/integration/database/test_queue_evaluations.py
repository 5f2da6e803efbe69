"""Evaluations of the queue begin and end with their rollouts, and their figures are those of their rollouts."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from .queues import Queue, call
from .writing import Connection, count, history, new_id, new_run, row, write


def leases(queue: Queue, wanted: int) -> dict[str, str]:
    return {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(wanted)}


def test_one_call_makes_the_evaluation_its_groups_and_its_rollouts(db: Connection) -> None:
    queue, run_id, checkpoint_id = Queue(db, tasks=3), new_run(db), new_id()
    checkpoint = {"id": checkpoint_id, "training_run_id": run_id, "checkpoint_number": 1, "step": 7}
    write(db, {"model_checkpoints": [{**checkpoint, "storage_path": "c.pt"}]})
    asked = {"checkpoint_id": checkpoint_id, "name": "dev", "model": "small", "environment": queue.environment}
    answer = call(db, "request_evaluation", request={**asked, "attempts": 2})
    evaluation, rollouts = answer["evaluation"], answer["rollouts"]
    assert (evaluation["training_run_id"], evaluation["checkpoint_id"], evaluation["step"]) == (
        run_id,
        checkpoint_id,
        7,
    )
    assert (evaluation["status"], evaluation["progress"], evaluation["is_queued"]) == ("pending", 0, True)
    assert sorted(each["task_id"] for each in rollouts) == sorted([*queue.tasks, *queue.tasks])
    assert {(each["source"], each["step"], each["training_run_id"]) for each in rollouts} == {("evaluation", 7, run_id)}
    groups = db.execute("select * from public.rollout_groups where evaluation_id = %s", [evaluation["id"]]).fetchall()
    assert sorted((each["number"], each["rollout_count"]) for each in groups) == [(0, 2), (1, 2), (2, 2)]
    with pytest.raises(psycopg.Error) as caught:
        call(db, "request_evaluation", request={**asked, "training_run_id": new_run(db)})
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", "training_run_id")


def test_tasks_of_a_split_are_those_of_the_environment(db: Connection) -> None:
    queue = Queue(db, tasks=3)
    write(db, {"tasks": [{"id": queue.tasks[1], "split": "test"}]})
    answer = call(db, "request_evaluation", request={"environment": queue.environment, "split": "test"})
    assert [each["task_id"] for each in answer["rollouts"]] == [queue.tasks[1]]


def test_it_is_running_when_the_first_begins_and_completed_when_the_last_has_ended(db: Connection) -> None:
    queue = Queue(db, tasks=2)
    evaluation_id, made = queue.evaluate(attempts=2)
    held = leases(queue, 4)
    assert row(db, "evaluations", evaluation_id)["status"] == "pending"
    queue.end(made[0], held[made[0]], "running")
    assert row(db, "evaluations", evaluation_id)["status"] == "running"
    ends = [("success", 1.0, 2), ("failed", 0.0, 4), ("error", None, 6), ("timeout", 0.5, None)]
    for number, (each, (status, reward, turns)) in enumerate(zip(made, ends, strict=True)):
        found = row(db, "evaluations", evaluation_id)
        assert (found["status"], found["progress"]) == ("running", number / 4)
        queue.end(each, held[each], status, total_reward=reward, step_count=turns)
    found = row(db, "evaluations", evaluation_id)
    assert (found["status"], found["progress"]) == ("completed", 1)
    assert (found["success_rate"], found["mean_reward"], found["mean_turns"]) == (0.25, 0.5, 4)
    assert [new for _, new, _ in history(db, evaluation_id)] == ["pending", "running", "completed"]


def test_an_attempt_that_is_lost_does_not_end_it(db: Connection) -> None:
    queue = Queue(db)
    evaluation_id, (rollout_id,) = queue.evaluate(max_attempts=2)
    _, lease_id = queue.lease()
    queue.write(lease_id, agent_states=[{"rollout_id": rollout_id, "step_number": 0}])
    queue.end(rollout_id, lease_id, "running")
    queue.reclaim(rollout_id)
    found = row(db, "evaluations", evaluation_id)
    assert (found["status"], found["progress"]) == ("running", 0)
    queue.reclaim(queue.lease()[0])
    found = row(db, "evaluations", evaluation_id)
    assert (found["status"], found["progress"], found["success_rate"]) == ("completed", 1, None)
    # The lost attempt is in no group, and counts in none.
    (group,) = db.execute("select * from public.rollout_groups where evaluation_id = %s", [evaluation_id]).fetchall()
    assert (group["rollout_count"], group["completed_count"]) == (1, 1)


@pytest.mark.parametrize("how", ["cancel", "delete", "delete rows", "delete groups"])
def test_what_is_cancelled_or_deleted_is_no_longer_waited_for(db: Connection, how: str) -> None:
    queue = Queue(db, tasks=2)
    evaluation_id, made = queue.evaluate()
    held = leases(queue, 1)
    (done,) = held
    (waiting,) = set(made) - held.keys()
    queue.end(done, held[done], "success")
    if how == "cancel":
        call(db, "cancel_rollouts", rollout_ids=[waiting])
    elif how == "delete":
        call(db, "delete_rollouts", rollout_ids=[waiting])
    elif how == "delete rows":
        db.execute("delete from public.rollouts where id = %s", [waiting])
    else:
        group = row(db, "rollouts", waiting)["group_id"]
        db.execute("delete from public.rollout_groups where id = %s", [group])
    found = row(db, "evaluations", evaluation_id)
    assert (found["status"], found["progress"], found["success_rate"]) == ("completed", 1, 1)


@pytest.mark.parametrize("function", ["cancel_rollouts", "delete_rollouts"])
def test_an_evaluation_of_which_all_was_cancelled_is_cancelled(db: Connection, function: str) -> None:
    queue = Queue(db, tasks=2)
    evaluation_id, made = queue.evaluate(attempts=2)
    call(db, function, rollout_ids=made[:2])
    assert row(db, "evaluations", evaluation_id)["status"] == "pending"
    call(db, function, rollout_ids=made[2:])
    assert row(db, "evaluations", evaluation_id)["status"] == "cancelled"


def test_a_deleted_rollout_that_ran_is_not_in_the_figures(db: Connection) -> None:
    queue = Queue(db)
    evaluation_id, made = queue.evaluate(attempts=2)
    held = leases(queue, 2)
    queue.end(made[0], held[made[0]], "success", total_reward=1)
    call(db, "delete_rollouts", rollout_ids=[made[1]])
    queue.end(made[1], held[made[1]], "failed", total_reward=0)
    found = row(db, "evaluations", evaluation_id)
    assert (found["status"], found["success_rate"], found["mean_reward"]) == ("completed", 1, 1)
    assert count(db, "rollouts", id=made[1]) == 0


def test_trying_again_after_the_end_changes_the_figures_and_not_the_status(db: Connection) -> None:
    queue = Queue(db)
    evaluation_id, made = queue.evaluate(attempts=2)
    held = leases(queue, 2)
    queue.end(made[0], held[made[0]], "failed", total_reward=0)
    queue.end(made[1], held[made[1]], "error")
    assert row(db, "evaluations", evaluation_id)["success_rate"] == 0
    call(db, "retry_rollouts", rollout_ids=[made[1]])
    rollout_id, lease_id = queue.lease()
    queue.end(rollout_id, lease_id, "success", total_reward=1)
    found = row(db, "evaluations", evaluation_id)
    assert (found["status"], found["success_rate"], found["progress"]) == ("completed", 0.5, 1)


def test_an_evaluation_that_was_ended_by_hand_stays_ended(db: Connection) -> None:
    queue = Queue(db)
    evaluation_id, made = queue.evaluate(attempts=2)
    call(db, "change_status", entity="evaluations", entity_id=evaluation_id, status="cancelled")
    held = leases(queue, 2)
    for each in made:
        queue.end(each, held[each])
    assert row(db, "evaluations", evaluation_id)["status"] == "cancelled"


def test_deleting_an_evaluation_takes_its_rollouts(db: Connection) -> None:
    queue = Queue(db, tasks=2)
    evaluation_id, made = queue.evaluate(attempts=2)
    held = leases(queue, 1)
    db.execute("delete from public.evaluations where id = %s", [evaluation_id])
    assert {queue.status(each) for each in made} == {None}
    assert (queue.renew(*held.values()), queue.claim(5)) == ([], [])


def test_rollouts_of_several_evaluations_end_in_one_batch(db: Connection) -> None:
    queue = Queue(db)
    asked: list[tuple[str, list[Any]]] = [queue.evaluate(attempts=3) for _ in range(3)]
    call(db, "cancel_rollouts", rollout_ids=[each for _, made in asked for each in made[1:]])
    held = leases(queue, 9)
    assert len(held) == 3
    assert queue.release(*held.values()) == 3
    call(db, "cancel_rollouts", rollout_ids=list(held))
    assert {row(db, "evaluations", each)["status"] for each, _ in asked} == {"cancelled"}
