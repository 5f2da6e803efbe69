"""The queue from Python: asking for rollouts, working on them, cancelling, retrying and deleting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError
from openmanus_rl.records.rows import Task
from openmanus_rl.transport.client import Client
from openmanus_rl.utils.supabase_db import (
    EnvironmentManager,
    EvaluationManager,
    QueueManager,
    RolloutManager,
    TaskManager,
)
from tests.integration.managers.conftest import LossyTransport


@pytest.fixture
def queue(client: Client) -> type[QueueManager]:
    return QueueManager.using(client)


@pytest.fixture
def provider() -> str:
    """A kind of environment that only this test's workers can start: others share the database."""
    return f"kind-{uuid4()}"


@pytest.fixture
def environment(client: Client, provider: str) -> str:
    return EnvironmentManager.using(client).save_environment(f"environment {uuid4()}", kind=provider)["name"]


@pytest.fixture
def task(client: Client, environment: str) -> Task:
    return TaskManager.using(client).save_task("count the red balls", environment=environment, external_id="balls")


@pytest.fixture
def worker(queue: type[QueueManager], provider: str) -> Iterator[str]:
    made = queue.register_worker(name="tester", host="here", pid=1, version="1", max_rollouts=4, providers=[provider])
    yield made
    queue.retire(made)


def test_rollouts_that_were_asked_for_are_claimed_renewed_and_released(
    queue: type[QueueManager], task: Task, worker: str, provider: str
) -> None:
    asked = queue.request_rollouts(
        task["id"], attempts=3, agent="noop", model="m", seed=7, limits={"max_steps": 5}, priority=2
    )

    claims = queue.claim(worker, wanted=2, lease_seconds=60, providers=[provider])

    assert [rollout["seed"] for rollout in asked.rollouts] == [7, 8, 9]
    assert asked.reused == []
    assert claims.state == "active"
    assert len(claims.claims) == 2
    claim = claims.claims[0]
    assert claim["rollout"]["status"] == "provisioning"
    assert claim["rollout"]["request"]["limits"] == {"max_steps": 5}
    assert (claim["task"]["id"], claim["task"]["validators"]) == (task["id"], [])
    assert claim["environment"]["kind"] == provider
    leases = [one["lease_id"] for one in claims.claims]
    renewed = queue.renew(worker, [*leases, uuid4()], lease_seconds=60)
    assert renewed.held == {leases[0]: False, leases[1]: False}
    assert queue.release(worker, leases[:1], reason="no room") == 1
    assert queue.renew(worker, leases, lease_seconds=60).held == {leases[1]: False}
    assert queue.retire(worker) == 1
    assert queue.get_worker(worker)["state"] == "stopped"
    rows = RolloutManager.using(queue._client()).list_rollouts(task_id=task["id"]).rows
    assert {row["status"] for row in rows} == {"pending"}


def test_a_cancelled_rollout_is_told_to_its_worker(
    queue: type[QueueManager], task: Task, worker: str, provider: str
) -> None:
    rollouts = queue.request_rollouts([task["id"]], attempts=2).rollouts
    held = queue.claim(worker, wanted=1, lease_seconds=60, providers=[provider]).claims[0]
    waiting = next(row["id"] for row in rollouts if row["id"] != held["rollout"]["id"])

    cancelled = {row["id"]: row["status"] for row in queue.cancel_rollouts([row["id"] for row in rollouts])}

    assert cancelled == {waiting: "cancelled", held["rollout"]["id"]: "provisioning"}
    assert queue.renew(worker, [held["lease_id"]], lease_seconds=60).held == {held["lease_id"]: True}
    assert [row["status"] for row in queue.retry_rollouts([waiting])] == ["pending"]
    with pytest.raises(ConflictError, match="being cancelled"):
        queue.retry_rollouts([held["rollout"]["id"]])


def test_a_running_rollout_is_deleted_when_its_worker_lets_go(
    queue: type[QueueManager], task: Task, worker: str, provider: str
) -> None:
    first, second = queue.request_rollouts(task["id"], attempts=2).rollouts
    held = queue.claim(worker, wanted=1, lease_seconds=60, providers=[provider]).claims[0]
    held_id = held["rollout"]["id"]
    waiting_id = next(row["id"] for row in (first, second) if row["id"] != held_id)

    deletion = queue.delete_rollouts([first["id"], second["id"]])

    assert (deletion.deleted, deletion.stopping) == ([waiting_id], [held_id])
    assert queue.release(worker, [held["lease_id"]]) == 1
    with pytest.raises(NotFoundError):
        RolloutManager.using(queue._client()).get_rollout(held_id)


def test_a_request_whose_answer_was_lost_is_made_once(
    queue: type[QueueManager], task: Task, transport: LossyTransport
) -> None:
    transport.answers_to_lose = 2

    asked = queue.request_rollouts(task["id"], attempts=3)

    assert len(asked.rollouts) == 3
    page = RolloutManager.using(queue._client()).list_rollouts(task_id=task["id"], count=True)
    assert page.total == 3


@pytest.mark.usefixtures("task")
def test_an_evaluation_over_an_environment_has_a_rollout_for_each_task_and_attempt(
    queue: type[QueueManager], client: Client, environment: str
) -> None:
    TaskManager.using(client).save_task("count the blue balls", environment=environment, external_id="blue")

    asked = queue.request_evaluation(environment=environment, attempts=2, agent="noop", model="m", name="nightly")

    assert EvaluationManager.using(client).get_evaluation(asked.evaluation["id"])["name"] == "nightly"
    assert len(asked.rollouts) == 4
    assert {row["source"] for row in asked.rollouts} == {"evaluation"}


def test_an_equal_rollout_answers_a_request_that_may_reuse_it(
    queue: type[QueueManager], client: Client, task: Task
) -> None:
    first = queue.request_rollouts(task["id"], agent="noop", seed=1).rollouts[0]
    queue.cancel_rollouts([first["id"]])
    assert queue.request_rollouts(task["id"], agent="noop", seed=1, reuse=True).reused == []

    other = queue.request_rollouts(task["id"], agent="noop", seed=2).rollouts[0]
    worker = queue.register_worker(name="solver")
    claim = queue.claim(worker, wanted=9, lease_seconds=60, providers=[other["request"]["provider"]]).claims
    held = next(one for one in claim if one["rollout"]["id"] == other["id"])
    ended = {"id": other["id"], "status": "success"}
    client.rpc("ingest", {"batch": {"rollouts": [ended]}, "all_or_nothing": True, "leases": [held["lease_id"]]})

    again = queue.request_rollouts(task["id"], agent="noop", seed=2, reuse=True)
    assert (again.reused, [row["id"] for row in again.rollouts]) == ([other["id"]], [other["id"]])
    queue.retire(worker)


def test_the_overview_shows_what_waits_and_who_works(
    queue: type[QueueManager], task: Task, worker: str, provider: str
) -> None:
    queue.request_rollouts(task["id"], attempts=2, priority=1000)
    held = queue.claim(worker, wanted=1, lease_seconds=60, providers=[provider]).claims[0]

    overview = queue.queue_overview(listed=1000)

    assert overview["waiting"] >= 1
    assert [row["task_id"] for row in overview["next"]].count(task["id"]) == 1
    assert [row["worker_id"] for row in overview["held"] if row["id"] == held["rollout"]["id"]] == [worker]
    assert [row["held"] for row in overview["workers"] if row["id"] == worker] == [1]
    assert worker in [row["id"] for row in queue.list_workers(state="active")]
    assert queue.stop_workers([worker]) == 1
    assert queue.renew(worker, [held["lease_id"]], lease_seconds=60).state == "draining"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"attempts": 0}, "attempts"),
        ({"limits": {"max_steps": -1}}, "limits.max_steps"),
        ({"limits": {"steps": 1}}, "limits.steps"),
        ({"priority": 5000}, "priority"),
        ({"training_run_id": "x"}, "training_run_id"),
    ],
)
def test_a_request_that_makes_no_sense_names_the_field(
    queue: type[QueueManager], task: Task, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(field)}\\b") as caught:
        queue.request_rollouts(task["id"], **options)
    assert caught.value.field == field


NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("reference", ["../../x", "%2e%2e", "x" * 100_000, "", "' or 1=1 --", NOBODY])
def test_an_unknown_task_is_not_found(queue: type[QueueManager], reference: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        queue.request_rollouts(reference)
    assert caught.value.field == "task_id"
