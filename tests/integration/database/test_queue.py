"""Rollouts of the queue: what is asked for, who gets it, and how it ends."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from .queues import Queue, broken_rules, call
from .writing import Connection, change_status, count, history, ingest, new_id, new_run, row, write

ENDINGS = ["success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"]


def refusal(db: Connection, function: str, **arguments: Any) -> tuple[str | None, str | None]:
    """Return the code and the field of the error that a call raises."""
    with pytest.raises(psycopg.Error) as caught:
        call(db, function, **arguments)
    return caught.value.sqlstate, caught.value.diag.column_name


# Asking --------------------------------------------------------------------------------------------------------------


def test_a_request_makes_waiting_rollouts_with_all_that_a_worker_needs(db: Connection) -> None:
    queue = Queue(db, tasks=2, spec={"image": "x"})
    write(db, {"validators": [{"task_id": queue.tasks[0], "external_id": "exact", "kind": "exact"}]})
    asked = {"agent": "chat", "model": "small", "seed": 7, "limits": {"max_steps": 3}, "agent_options": {"a": 1}}
    made = queue.ask(attempts=2, priority=5, metadata={"why": "test"}, max_attempts=2, **asked)["rollouts"]

    assert [(each["task_id"], each["seed"]) for each in made] == [(task, 7 + n) for task in queue.tasks for n in (0, 1)]
    assert {(each["status"], each["source"], each["priority"], each["attempt"]) for each in made} == {
        ("pending", "manual", 5, 1)
    }
    claims = queue.claim(4)
    assert {claim["rollout"]["id"] for claim in claims} == {each["id"] for each in made}
    first = next(claim for claim in claims if claim["rollout"]["id"] == made[0]["id"])
    assert first["rollout"]["request"]["limits"] == {"max_steps": 3}
    assert first["rollout"]["request"]["agent_options"] == {"a": 1}
    assert [each["external_id"] for each in first["task"]["validators"]] == ["exact"]
    assert (first["environment"]["kind"], first["environment"]["spec"]) == (queue.provider, {"image": "x"})
    assert {queue.status(each["id"]) for each in made} == {"provisioning"}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ([], "request"),
        ("text", "request"),
        ({"colour": "red"}, "colour"),
        ({"lease_id": "x"}, "lease_id"),
        ({}, "task_id"),
        ({"task_id": None}, "task_id"),
        ({"task_id": 7}, "task_id"),
        ({"task_id": {"a": 1}}, "task_id"),
        ({"task_ids": []}, "task_ids"),
        ({"task_ids": "one"}, "task_ids"),
        ({"task_ids": [1]}, "task_ids"),
        ({"task_ids": [None]}, "task_ids"),
        ({"task_id": "a", "task_ids": ["b"]}, "task_ids"),
        ({"task_ids": ["a"] * 10_001}, "task_ids"),
        ({"task_ids": ["a"] * 1001, "attempts": 10}, "attempts"),
        *(({"task_id": "a", "attempts": value}, "attempts") for value in (0, -1, 1.5, 1001, 10**30, "3", [], True)),
        *(({"task_id": "@", "priority": value}, "priority") for value in (1001, -1001, 0.5, "high", 10**400)),
        *(({"task_id": "@", "max_attempts": value}, "max_attempts") for value in (0, 101, "NaN")),
        *(({"task_id": "@", "seed": value}, "seed") for value in (2**63, 0.5, "NaN")),
        *(({"task_id": "a", "agent": value}, "agent") for value in ("", 1, {}, ["x"])),
        *(({"task_id": "a", "model": value}, "model") for value in ("", 1)),
        *(({"task_id": "a", "environment": value}, "environment") for value in ("", 1)),
        *(
            ({"task_id": "a", name: value}, name)
            for name in ("limits", "agent_options", "metadata")
            for value in ([], 1)
        ),
        ({"task_id": "a", "reuse": "yes"}, "reuse"),
        ({"task_id": "a", "limits": {"max_stairs": 1}}, "limits.max_stairs"),
        *(
            ({"task_id": "a", "limits": {name: value}}, f"limits.{name}")
            for name in ("max_steps", "max_seconds", "max_tokens", "max_cost_usd")
            for value in (0, -1, "NaN", "many", [], True, 10**13)
        ),
        ({"task_id": "a", "limits": {"max_steps": 1.5}}, "limits.max_steps"),
        ({"task_id": "a", "training_run_id": "../../x"}, "training_run_id"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_field_of_a_request_is_named(db: Connection, request_: Any, field: str) -> None:
    queue = Queue(db)
    if isinstance(request_, dict) and request_.get("task_id") == "@":
        request_ = request_ | {"task_id": queue.tasks[0]}
    before = count(db, "rollouts")
    for function in ("request_rollouts", "request_evaluation"):
        if function == "request_evaluation" and (field in ("reuse", "task_id") or request_ == {}):
            continue  # An evaluation reuses nothing, and needs no task.
        assert refusal(db, function, request=Jsonb(request_)) == ("OM400", field), function
    assert count(db, "rollouts") == before


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"kind": "exam"}, "kind"),
        ({"kind": 1}, "kind"),
        ({"name": {}}, "name"),
        ({"split": 1}, "split"),
        ({"step": -1}, "step"),
        ({"step": 1.5}, "step"),
        ({"checkpoint_id": "x"}, "checkpoint_id"),
        ({"reuse": True}, "reuse"),
    ],
    ids=str,
)
def test_a_bad_field_of_an_evaluation_is_named(db: Connection, request_: Any, field: str) -> None:
    queue = Queue(db)
    asked = {"task_ids": queue.tasks, **request_}
    assert refusal(db, "request_evaluation", request=asked) == ("OM400", field)


def test_a_whole_number_may_have_a_point(db: Connection) -> None:
    queue = Queue(db)
    answer = call(db, "request_evaluation", request=Jsonb({"task_ids": queue.tasks, "step": 5.0, "attempts": 2.0}))
    assert (answer["evaluation"]["step"], len(answer["rollouts"])) == (5, 2)


@pytest.mark.parametrize(
    "reference",
    ["../../x", "", "'; drop table tasks; --", "%", f"{0:032x}", "x" * 100_000],
    ids=lambda value: value[:20],
)
def test_an_unknown_task_is_named_and_nothing_is_made(db: Connection, reference: str) -> None:
    queue = Queue(db)
    before = count(db, "rollouts")
    for asked in ({"task_id": reference}, {"task_ids": [queue.tasks[0], reference]}):
        assert refusal(db, "request_rollouts", request=asked) == ("OM404", "task_id")
    assert count(db, "rollouts") == before


def test_a_task_is_found_by_its_own_name_where_only_one_has_it(db: Connection) -> None:
    first, second, name = Queue(db), Queue(db), f"../../{new_id()}"
    write(db, {"tasks": [{"id": first.tasks[0], "external_id": name}]})
    assert [row(db, "rollouts", each)["task_id"] for each in first.request(task_id=name)] == first.tasks
    write(db, {"tasks": [{"id": second.tasks[0], "external_id": name}]})
    assert refusal(db, "request_rollouts", request={"task_id": name}) == ("OM409", "task_id")
    (found,) = first.request(task_id=name, environment=second.environment)
    assert row(db, "rollouts", found)["task_id"] == second.tasks[0]
    third = Queue(db)
    assert refusal(db, "request_rollouts", request={"task_id": name, "environment": third.environment}) == (
        "OM404",
        "task_id",
    )


def test_a_task_whose_name_is_the_id_of_another_is_not_taken_for_it(db: Connection) -> None:
    queue = Queue(db, tasks=2)
    write(db, {"tasks": [{"id": queue.tasks[0], "external_id": queue.tasks[1]}]})
    (found,) = queue.request(task_id=queue.tasks[1])
    assert row(db, "rollouts", found)["task_id"] == queue.tasks[1]


def test_an_unknown_environment_or_run_is_refused(db: Connection) -> None:
    queue = Queue(db)
    task = {"task_id": queue.tasks[0]}
    assert refusal(db, "request_rollouts", request=task | {"environment": "nowhere"}) == ("OM404", "environment")
    assert refusal(db, "request_rollouts", request=task | {"training_run_id": new_id()})[0] == "OM404"
    assert refusal(db, "request_evaluation", request={"environment": new_id()}) == ("OM404", "environment")
    assert refusal(db, "request_evaluation", request={"checkpoint_id": new_id(), "task_ids": queue.tasks}) == (
        "OM404",
        "checkpoint_id",
    )


def test_the_same_request_again_changes_nothing(db: Connection) -> None:
    queue, request_id = Queue(db, tasks=2), new_id()
    first = queue.request(request_id=request_id, attempts=2)
    lease = queue.lease()[1]
    assert queue.request(request_id=request_id, attempts=2) == first
    assert len(set(first)) == 4
    assert queue.renew(lease) != []


def test_a_task_that_is_named_twice_is_rolled_out_twice(db: Connection) -> None:
    queue = Queue(db)
    for request_id in (None, new_id()):
        made = queue.request(task_ids=queue.tasks * 3, request_id=request_id)
        assert len(set(made)) == 3


def test_ten_thousand_are_made_at_once(db: Connection) -> None:
    queue = Queue(db, tasks=10)
    assert len(set(queue.request(attempts=1000))) == 10_000
    assert call(db, "queue_overview", listed=3)["waiting"] >= 10_000
    db.execute("delete from public.rollouts where environment = %s", [queue.environment])


# Answering from earlier results --------------------------------------------------------------------------------------


def ended(queue: Queue, status: str = "success", **request: Any) -> str:
    (made,) = queue.request(**request)
    rollout_id, lease_id = queue.lease()
    assert (rollout_id, queue.end(rollout_id, lease_id, status)) == (made, [])
    return made


@pytest.mark.parametrize("status", ENDINGS)
def test_what_was_verified_or_completed_answers_an_equal_request_when_asked_to(db: Connection, status: str) -> None:
    queue = Queue(db)
    old = ended(queue, status, model="m", seed=1)
    answer = queue.ask(model="m", seed=1, reuse=True)
    assert (answer["reused"] == [old]) == (status in ("success", "failed", "completed"))
    assert len(answer["rollouts"]) == 1
    assert queue.ask(model="m", seed=1)["reused"] == []


def test_what_waits_or_runs_answers_nothing(db: Connection) -> None:
    queue = Queue(db)
    queue.request(attempts=2)
    queue.lease()
    assert queue.ask(reuse=True)["reused"] == []


@pytest.mark.parametrize(
    "other",
    [{"model": "n"}, {"agent": "b"}, {"seed": 2}, {"limits": {"max_steps": 1}}, {"agent_options": {"a": 1}}],
    ids=str,
)
def test_another_request_is_not_answered(db: Connection, other: dict[str, Any]) -> None:
    queue = Queue(db)
    same = {"model": "m", "agent": "a", "seed": 1}
    old = ended(queue, **same)
    assert queue.ask(reuse=True, **same | other)["reused"] == []
    assert queue.ask(reuse=True, **same)["reused"] == [old]


def test_a_retired_validator_is_not_run(db: Connection) -> None:
    queue = Queue(db)
    kept, retired = new_id(), new_id()
    of_task = [
        {"id": each, "task_id": queue.tasks[0], "external_id": each, "kind": "exact"} for each in (kept, retired)
    ]
    write(db, {"validators": of_task})
    assert call(db, "keep_validators", task_ids=queue.tasks, validator_ids=[kept]) == 1
    assert call(db, "keep_validators", task_ids=queue.tasks, validator_ids=[kept]) == 0
    queue.request()
    (claim,) = queue.claim()
    assert [each["id"] for each in claim["task"]["validators"]] == [kept]


def test_a_new_version_of_the_task_its_environment_or_its_validators_is_tried_anew(db: Connection) -> None:
    queue, validator = Queue(db), new_id()
    changes: list[dict[str, list[dict[str, Any]]]] = [
        {"tasks": [{"id": queue.tasks[0], "description": "do something else"}]},
        {"tasks": [{"id": queue.tasks[0], "expected_answer": "7"}]},
        {"validators": [{"id": validator, "task_id": queue.tasks[0], "kind": "exact"}]},
        {"validators": [{"id": validator, "kind": "json"}]},
    ]
    for change in changes:
        old = ended(queue)
        assert queue.ask(reuse=True)["reused"] == [old]
        write(db, change)
        assert queue.ask(reuse=True)["reused"] == [], change
        queue.claim(10)
    old = ended(queue)
    db.execute('update public.environments set spec = \'{"image": "y"}\' where name = %s', [queue.environment])
    assert queue.ask(reuse=True)["reused"] == []
    # What says nothing of the task itself leaves the version.
    version = row(db, "tasks", queue.tasks[0])["version"]
    write(db, {"tasks": [{"id": queue.tasks[0], "name": "another name", "split": "dev"}]})
    assert row(db, "tasks", queue.tasks[0])["version"] == version


def test_each_earlier_rollout_answers_once(db: Connection) -> None:
    queue = Queue(db)
    old = {ended(queue), ended(queue)}
    answer = queue.ask(reuse=True, attempts=3)
    assert set(answer["reused"]) == old
    assert len({rollout["id"] for rollout in answer["rollouts"]}) == 3


def test_the_same_request_again_gets_its_own_rollouts_also_when_some_have_ended(db: Connection) -> None:
    queue, request_id = Queue(db), new_id()
    made = queue.request(request_id=request_id, attempts=3, reuse=True)
    for claim in queue.claim(3):
        if claim["rollout"]["id"] in made[1:]:
            queue.end(claim["rollout"]["id"], claim["lease_id"])
    assert queue.request(request_id=request_id, attempts=3, reuse=True) == made


# Getting -------------------------------------------------------------------------------------------------------------


def test_the_most_urgent_and_then_the_oldest_are_claimed_first(db: Connection) -> None:
    queue = Queue(db)
    asked = [(queue.request(priority=priority)[0], priority) for priority in (0, 5, -5, 5, 0)]
    order = [claim["rollout"]["id"] for claim in (*queue.claim(2), *queue.claim(10))]
    assert order == [asked[n][0] for n in (1, 3, 0, 4, 2)]


def test_several_kinds_of_environments_are_claimed_in_one_order(db: Connection) -> None:
    queues = [Queue(db) for _ in range(3)]
    asked = [queues[n].request(priority=priority)[0] for n, priority in ((0, 1), (1, 3), (2, 2), (0, 3), (1, 0))]
    kinds = [queue.provider for queue in (*queues, queues[0])]
    order = [claim["rollout"]["id"] for _ in range(3) for claim in queues[0].claim(2, providers=kinds)]
    assert order == [asked[n] for n in (1, 3, 2, 0, 4)]


def test_a_worker_gets_only_what_it_can_start(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    for providers in ([], [new_id()], None, [None]):
        assert queue.claim(5, providers=providers) == []
    assert len(queue.claim(5)) == 1


@pytest.mark.parametrize("seconds", [0, -1, 0.99, 86_401, "NaN", "Infinity", None])
def test_a_lease_has_a_length(db: Connection, seconds: Any) -> None:
    queue = Queue(db)
    for function, more in (("claim_rollouts", {}), ("renew_rollouts", {"lease_ids": []})):
        arguments = {"worker_id": queue.worker, "lease_seconds": seconds, **more}
        assert refusal(db, function, **arguments) == ("OM400", "lease_seconds")


def test_an_unknown_worker_gets_nothing(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    assert refusal(db, "claim_rollouts", worker_id=new_id(), providers=[queue.provider]) == ("OM404", "worker_id")
    assert refusal(db, "renew_rollouts", worker_id=new_id(), lease_ids=[]) == ("OM404", "worker_id")
    assert refusal(db, "retire_worker", worker_id=new_id()) == ("OM404", "worker_id")
    assert len(queue.claim(5)) == 1


@pytest.mark.parametrize("worker", [[], "text", 1, None, {"name": "x" * 501}], ids=lambda value: str(value)[:20])
def test_what_is_no_worker_is_not_registered(db: Connection, worker: Any) -> None:
    assert refusal(db, "register_worker", worker=Jsonb(worker)) == ("OM400", "worker")


def test_a_worker_that_is_asked_to_stop_finishes_what_it_has_and_gets_no_more(db: Connection) -> None:
    queue = Queue(db)
    queue.request(attempts=2)
    rollout_id, lease_id = queue.lease()
    assert call(db, "stop_workers", worker_ids=[queue.worker]) == 1
    assert call(db, "stop_workers", worker_ids=[queue.worker]) == 0
    assert call(db, "claim_rollouts", worker_id=queue.worker, providers=[queue.provider])["state"] == "draining"
    assert [lease["lease_id"] for lease in queue.renew(lease_id)] == [lease_id]
    assert queue.end(rollout_id, lease_id) == []
    assert call(db, "retire_worker", worker_id=queue.worker) == 0
    stopped = row(db, "workers", queue.worker)["stopped_at"]
    # A late heartbeat neither wakes it nor forgets when it stopped.
    queue.renew(lease_id)
    assert (row(db, "workers", queue.worker)["state"], row(db, "workers", queue.worker)["stopped_at"]) == (
        "stopped",
        stopped,
    )
    assert queue.claim() == []


# Ending --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("status", ENDINGS)
def test_a_worker_ends_its_rollout_and_its_lease_with_it(db: Connection, status: str, begun: bool) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    if begun:
        assert queue.end(rollout_id, lease_id, "running") == []
    assert queue.end(rollout_id, lease_id, status, total_reward=1) == []
    assert (queue.status(rollout_id), queue.lease_of(rollout_id)) == (status, None)
    assert queue.renew(lease_id) == []
    assert broken_rules(db) == []
    assert [new for _, new, _ in history(db, rollout_id)] == [
        "pending", "provisioning", *(["running"] if begun else []), status,
    ]  # fmt: skip


@pytest.mark.parametrize("status", ENDINGS)
def test_only_the_queue_begins_a_rollout_again(db: Connection, status: str) -> None:
    """Whether under its old lease or under none."""
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    queue.end(rollout_id, lease_id, status)
    for lease in (lease_id, None):
        for again in ("pending", "provisioning", "running"):
            (refused,) = queue.write(lease, rollouts=[{"id": rollout_id, "status": again}])
            assert (refused["code"], refused["field"]) == ("OM409", "status")
    assert queue.status(rollout_id) == status
    assert broken_rules(db) == []


def test_a_rollout_that_waits_or_runs_is_changed_by_its_worker_alone(db: Connection) -> None:
    queue = Queue(db)
    (waiting, running) = queue.request(attempts=2)
    rollout_id, lease_id = queue.lease()
    waiting = next(each for each in (waiting, running) if each != rollout_id)
    changes = {"status": "success", "total_reward": 9, "result": {"a": 1}, "error": "x", "agent": "b", "model": "n",
               "video_path": "v", "logs_path": "l", "cost_usd": 1, "seed": 3, "step_count": 3}  # fmt: skip
    for each in (rollout_id, waiting):
        before = row(db, "rollouts", each)
        for field, value in changes.items():
            (refused,) = queue.write(None, rollouts=[{"id": each, field: value}])
            assert (refused["code"], refused["field"]) == ("OM409", field)
            typed = Jsonb(value) if isinstance(value, dict) else value
            with pytest.raises(psycopg.Error) as caught:
                db.execute(f"update public.rollouts set {field} = %s where id = %s", [typed, each])
            assert caught.value.sqlstate == "OM409"
        with pytest.raises(psycopg.Error):
            change_status(db, "rollouts", each, "cancelled")
        assert row(db, "rollouts", each) == before
    # Notes are anybody's who may write.
    assert queue.write(None, rollouts=[{"id": waiting, "metadata": {"note": 1}}]) == []
    # What is under no lease waits for one.
    for lease in (lease_id, new_id()):
        (refused,) = queue.write(lease, rollouts=[{"id": waiting, "status": "success"}])
        assert (refused["code"], refused["field"]) == ("OM409", "lease_id")


def test_an_ended_rollout_is_judged_again_as_any_other(db: Connection) -> None:
    queue = Queue(db)
    rollout_id = ended(queue)
    change_status(db, "rollouts", rollout_id, "failed", fields={"total_reward": 0})
    assert queue.write(None, validations=[{"rollout_id": rollout_id, "verdict": "fail", "validator_version": 2}]) == []
    assert queue.status(rollout_id) == "failed"


def test_deleting_a_task_or_user_leaves_the_queue_as_it_is(db: Connection) -> None:
    queue = Queue(db)
    waiting, _ = queue.request(attempts=2)
    queue.lease()
    db.execute("delete from public.tasks where id = %s", [queue.tasks[0]])
    assert row(db, "rollouts", waiting)["task_id"] is None
    assert [claim["task"] for claim in queue.claim()] == [None]


# Cancelling, deleting, trying again ----------------------------------------------------------------------------------


def test_cancelling_ends_what_waits_asks_who_runs_and_leaves_what_ended(db: Connection) -> None:
    queue = Queue(db)
    done = ended(queue)
    made = queue.request(attempts=2)
    running, lease_id = queue.lease()
    (waiting,) = set(made) - {running}
    rows = {each["id"]: each for each in call(db, "cancel_rollouts", rollout_ids=[done, running, waiting])}
    assert [rows[each]["status"] for each in (done, running, waiting)] == ["success", "provisioning", "cancelled"]
    assert rows[running]["cancel_requested_at"] is not None
    assert rows[done]["cancel_requested_at"] is None
    assert queue.renew(lease_id)[0]["cancelled"] is True
    assert queue.claim(5) == []
    assert queue.end(running, lease_id, "cancelled") == []
    assert row(db, "rollouts", running)["cancel_requested_at"] is None


def test_a_worker_may_end_a_rollout_before_it_hears_of_the_cancellation(db: Connection) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    call(db, "cancel_rollouts", rollout_ids=[rollout_id])
    assert queue.end(rollout_id, lease_id) == []
    assert queue.status(rollout_id) == "success"


@pytest.mark.parametrize("how", ["expiry", "release", "retire"])
def test_a_cancelled_rollout_whose_worker_goes_is_cancelled(db: Connection, how: str) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    call(db, "cancel_rollouts", rollout_ids=[rollout_id])
    give_up(queue, rollout_id, lease_id, how)
    assert (queue.status(rollout_id), queue.asides(rollout_id)) == ("cancelled", [])
    assert broken_rules(db) == []


def give_up(queue: Queue, rollout_id: str, lease_id: str, how: str) -> None:
    """Let a worker lose a rollout."""
    if how == "expiry":
        queue.reclaim(rollout_id)
    elif how == "release":
        assert queue.release(lease_id) == 1
    else:
        assert call(queue.db, "retire_worker", worker_id=queue.worker) == 1


@pytest.mark.parametrize("how", ["end", "expiry", "release", "retire"])
def test_a_running_rollout_is_deleted_when_its_worker_is_done_with_it(db: Connection, how: str) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    queue.write(lease_id, agent_states=[{"rollout_id": rollout_id, "step_number": 0}])
    assert call(db, "delete_rollouts", rollout_ids=[rollout_id]) == {"deleted": [], "stopping": [rollout_id]}
    assert queue.renew(lease_id)[0]["cancelled"] is True
    if how == "end":
        # The last batch brings more than the end: nothing of it is refused, and nothing of it is left.
        batch: dict[str, Any] = {
            "rollouts": [{"id": rollout_id, "status": "cancelled"}, {"id": rollout_id, "error": "stopped"}],
            "agent_states": [{"rollout_id": rollout_id, "step_number": 1}],
        }
        assert queue.write(lease_id, **batch) == []
    else:
        give_up(queue, rollout_id, lease_id, how)
    assert queue.status(rollout_id) is None
    assert count(db, "agent_states", rollout_id=rollout_id) == 0
    assert history(db, rollout_id) == []
    assert queue.lease_of(rollout_id) is None
    # A late batch does not make it anew, whatever it says.
    late = {"id": rollout_id, "environment": "e", "training_run_id": new_run(db), "status": "running"}
    assert [each["code"] for each in queue.write(lease_id, rollouts=[late])] == ["OM404"]
    assert queue.status(rollout_id) is None


def test_deleting_takes_what_waits_and_what_ended_with_its_lost_attempts(db: Connection) -> None:
    queue = Queue(db)
    queue.request(max_attempts=2)
    rollout_id, lease_id = queue.lease()
    queue.write(lease_id, agent_states=[{"rollout_id": rollout_id, "step_number": 0}])
    queue.reclaim(rollout_id)
    (aside,) = queue.asides(rollout_id)
    assert call(db, "delete_rollouts", rollout_ids=[rollout_id]) == {"deleted": [rollout_id], "stopping": []}
    assert count(db, "rollouts", id=aside["id"]) == count(db, "agent_states", rollout_id=aside["id"]) == 0


@pytest.mark.parametrize("status", ENDINGS)
def test_what_ended_without_a_verdict_can_be_tried_again(db: Connection, status: str) -> None:
    queue = Queue(db)
    queue.request()
    rollout_id, lease_id = queue.lease()
    turn = {"id": new_id(), "rollout_id": rollout_id, "step_number": 0}
    assert queue.write(lease_id, agent_states=[turn]) == []
    spent = {"error": "no luck", "cost_usd": 0.5, "input_tokens": 7, "result": {"a": 1}, "logs_path": "l.txt"}
    queue.end(rollout_id, lease_id, status, **spent)
    if status in ("success", "failed", "completed"):
        assert refusal(db, "retry_rollouts", rollout_ids=[rollout_id]) == ("OM409", "status")
        return
    (again,) = call(db, "retry_rollouts", rollout_ids=[rollout_id])
    assert (again["status"], again["attempt"], again["error"], again["cost_usd"]) == ("pending", 2, None, None)
    (aside,) = queue.asides(rollout_id)
    # What the attempt cost and why it ended is kept with its turns.
    assert {name: aside[name] for name in spent} == spent
    assert row(db, "agent_states", turn["id"])["rollout_id"] == aside["id"]
    # The old lease opens nothing.
    assert [each["code"] for each in queue.end(rollout_id, lease_id)] == ["OM409"]
    assert queue.lease()[0] == rollout_id


def test_a_retry_at_the_limit_gets_one_more_attempt(db: Connection) -> None:
    queue = Queue(db)
    (rollout_id,) = queue.request(max_attempts=1)
    queue.reclaim(queue.lease()[0])
    assert queue.status(rollout_id) == "error"
    call(db, "retry_rollouts", rollout_ids=[rollout_id])
    queue.reclaim(queue.lease()[0])
    assert (queue.status(rollout_id), row(db, "rollouts", rollout_id)["attempt"]) == ("error", 2)


def test_a_retry_that_is_repeated_changes_nothing(db: Connection) -> None:
    """As by a client whose answer was lost: also after a worker has taken the rollout, and twice in one request."""
    queue = Queue(db)
    made = queue.request(attempts=2)
    failed, lease_id = queue.lease()
    (waiting,) = set(made) - {failed}
    queue.end(failed, lease_id, "error")
    retried = call(db, "retry_rollouts", rollout_ids=[failed, waiting, failed])
    assert {each["id"]: (each["status"], each["attempt"]) for each in retried} == {
        failed: ("pending", 2), waiting: ("pending", 1),
    }  # fmt: skip
    assert call(db, "retry_rollouts", rollout_ids=[failed, waiting]) == retried
    leases = {claim["rollout"]["id"]: claim["lease_id"] for claim in queue.claim(2)}
    held = call(db, "retry_rollouts", rollout_ids=[failed, waiting])
    assert {each["id"]: each["lease_id"] for each in held} == leases
    assert queue.end(failed, leases[failed]) == []
    assert refusal(db, "retry_rollouts", rollout_ids=[failed]) == ("OM409", "status")


def test_what_is_being_cancelled_is_not_tried_again_before_it_has_ended(db: Connection) -> None:
    queue = Queue(db)
    (rollout_id,) = queue.request()
    _, lease_id = queue.lease()
    call(db, "cancel_rollouts", rollout_ids=[rollout_id])
    assert refusal(db, "retry_rollouts", rollout_ids=[rollout_id]) == ("OM409", "status")
    queue.release(lease_id)
    assert call(db, "retry_rollouts", rollout_ids=[rollout_id])[0]["status"] == "pending"


def test_what_was_only_recorded_is_not_tried_again_or_cancelled(db: Connection) -> None:
    queue = Queue(db)
    (rollout_id,) = queue.request()
    queue.lease()
    recorded = new_id()
    write(db, {"rollouts": [{"id": recorded, "environment": "e", "status": "error"}]})
    assert refusal(db, "retry_rollouts", rollout_ids=[recorded]) == ("OM409", "status")
    assert refusal(db, "cancel_rollouts", rollout_ids=[recorded]) == ("OM409", "rollout_id")
    for function in ("retry_rollouts", "cancel_rollouts", "delete_rollouts"):
        assert refusal(db, function, rollout_ids=[rollout_id, new_id()]) == ("OM404", "rollout_id")
    assert queue.status(rollout_id) == "provisioning"


# Runs ----------------------------------------------------------------------------------------------------------------


def test_resuming_a_run_leaves_its_rollouts_of_the_queue_alone(db: Connection) -> None:
    queue, run_id = Queue(db), new_run(db)
    queue.request(attempts=2, training_run_id=run_id)
    rollout_id, lease_id = queue.lease()
    queue.end(rollout_id, lease_id, "running")
    evaluation_id, _ = queue.evaluate(training_run_id=run_id)
    db.execute("update public.evaluations set status = 'running' where id = %s", [evaluation_id])
    call(db, "resume_run", run_id=run_id, change_id=new_id())
    changes = [
        [str(each), str(row(db, table, each)["status_change_id"])]
        for table, each in (("rollouts", rollout_id), ("evaluations", evaluation_id))
    ]
    entries = {"rollouts": [changes[0]], "evaluations": [changes[1]]}
    assert call(db, "interrupt", entries=entries, reason="it ended") == 0
    assert (queue.status(rollout_id), row(db, "evaluations", evaluation_id)["status"]) == ("running", "running")
    assert queue.end(rollout_id, lease_id) == []


def test_a_rewind_hides_what_a_worker_has_and_the_worker_goes_on(db: Connection) -> None:
    queue, run_id = Queue(db), new_run(db)
    evaluation_id, (rollout_id,) = queue.evaluate(training_run_id=run_id, step=5)
    _, lease_id = queue.lease()
    call(db, "resume_run", run_id=run_id, change_id=new_id(), rewind_to_step=3)
    assert row(db, "rollouts", rollout_id)["rewound_at"] is not None
    assert queue.end(rollout_id, lease_id) == []
    assert row(db, "evaluations", evaluation_id)["status"] == "completed"


REWOUND = "a rewind of its run hid it"


@pytest.mark.parametrize("way", ["the worker", "the worker's return", "an expired lease"])
def test_rollouts_that_a_rewind_hid_are_cancelled_and_say_so(db: Connection, way: str) -> None:
    queue, run_id = Queue(db), new_run(db)
    evaluation_id, hidden = queue.evaluate(training_run_id=run_id, step=5, attempts=2)
    _, (kept,) = queue.evaluate(training_run_id=run_id, step=2, priority=-1)
    held, lease_id = queue.lease()
    (waiting,) = set(hidden) - {held}
    call(db, "resume_run", run_id=run_id, change_id=new_id(), rewind_to_step=3)
    assert (queue.status(waiting), row(db, "rollouts", waiting)["status_message"]) == ("cancelled", REWOUND)
    assert [each["cancelled"] for each in queue.renew(lease_id)] == [True]
    if way == "the worker":
        assert queue.end(held, lease_id, "cancelled") == []
    elif way == "the worker's return":
        assert queue.release(lease_id) == 1
    else:
        queue.reclaim(held)
    assert (queue.status(held), row(db, "rollouts", held)["status_message"]) == ("cancelled", REWOUND)
    assert history(db, held)[-1][1:] == ("cancelled", REWOUND)
    assert row(db, "evaluations", evaluation_id)["status"] == "cancelled"
    # Nobody would see another attempt either.
    assert refusal(db, "retry_rollouts", rollout_ids=[held]) == ("OM409", "status")
    assert [claim["rollout"]["id"] for claim in queue.claim(5)] == [kept]
    assert broken_rules(db) == []


def test_a_worker_is_no_sign_of_life_of_the_run(db: Connection) -> None:
    """Else a training process that died would never be noticed while its checkpoints are evaluated."""
    queue, run_id = Queue(db), new_run(db)
    queue.request(training_run_id=run_id)
    rollout_id, lease_id = queue.lease()
    db.execute("update public.training_runs set heartbeat_at = '2020-01-01' where id = %s", [run_id])
    queue.write(lease_id, rollouts=[{"id": rollout_id, "status": "running"}],
                agent_states=[{"rollout_id": rollout_id, "step_number": 0}])  # fmt: skip
    assert row(db, "training_runs", run_id)["heartbeat_at"].startswith("2020")


def test_deleting_a_run_takes_its_rollouts_from_their_workers(db: Connection) -> None:
    queue, run_id = Queue(db), new_run(db)
    queue.request(attempts=2, training_run_id=run_id)
    rollout_id, lease_id = queue.lease()
    db.execute("delete from public.training_runs where id = %s", [run_id])
    assert (queue.renew(lease_id), queue.claim(5)) == ([], [])
    answer = ingest(db, {"rollouts": [{"id": rollout_id, "training_run_id": run_id, "status": "success"}]})
    assert len(answer["refused"]) == 1
    assert broken_rules(db) == []
