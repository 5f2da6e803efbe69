"""The function rollouts: asking for rollouts, looking at them, cancelling, retrying and deleting them."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from .api import UNKNOWN_ID, Database, Functions, ok, refused

Callers = dict[str, Functions]


@pytest.fixture
def kind() -> str:
    """A kind of environment that only this test's workers can start: others share the database."""
    return f"kind-{uuid.uuid4()}"


@pytest.fixture
def environment(sql: Database, kind: str) -> str:
    name = f"environment {uuid.uuid4()}"
    sql.one("insert into public.environments (name, kind) values (%s, %s) returning id", name, kind)
    return name


@pytest.fixture
def tasks(sql: Database, environment: str) -> list[str]:
    """Two tasks, `<environment> 0` and `<environment> 1` by their own ids."""
    query = (
        "insert into public.tasks (external_id, environment, description) values (%s, %s, 'count') returning id::text"
    )
    return [sql.one(query, f"{environment} {number}", environment) for number in range(2)]


@pytest.fixture
def claim(secret: Functions, kind: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Claim a rollout as a worker; return what it was given, and the worker's id."""
    worker_id = secret.rpc("register_worker", worker={"name": "tester", "providers": [kind]})["worker_id"]

    def claim_one() -> dict[str, Any]:
        answer = secret.rpc("claim_rollouts", worker_id=worker_id, wanted=1, providers=[kind])
        return {"worker_id": worker_id, **answer["claims"][0]}

    yield claim_one
    secret.rpc("retire_worker", worker_id=worker_id)


# Asking


def test_rollouts_are_asked_for_as_the_contract_says(secret: Functions, sql: Database, tasks: list[str]) -> None:
    body = {
        "task_ids": tasks,
        "attempts": 2,
        "model": "m",
        "agent": "noop",
        "priority": 5,
        "seed": 7,
        "limits": {"max_steps": 3, "max_seconds": 1.5, "max_tokens": None},
        "agent_options": {"a": {"b": [1]}},
        "metadata": {"why": "test"},
    }

    answer = ok(secret.post("rollouts", body))

    assert (answer["message"], answer["reused"], answer["evaluation"]) == ("4 rollouts are in the queue", [], None)
    rows = answer["rollouts"]
    assert [(row["task_id"], row["seed"]) for row in rows] == [(t, seed) for t in tasks for seed in (7, 8)]
    assert {(row["status"], row["agent"], row["model"], row["priority"]) for row in rows} == {
        ("pending", "noop", "m", 5)
    }
    request, metadata = sql.rows("select request, metadata from public.rollouts where id = %s", rows[0]["id"])[0]
    assert request["limits"] == {"max_steps": 3, "max_seconds": 1.5}
    assert request["agent_options"] == {"a": {"b": [1]}}
    assert metadata == {"why": "test"}


def test_a_task_may_be_named_by_its_own_id(secret: Functions, tasks: list[str], environment: str) -> None:
    answer = ok(secret.post("rollouts", {"task_id": f"{environment} 1"}))
    assert [row["task_id"] for row in answer["rollouts"]] == [tasks[1]]
    assert answer["message"] == "1 rollout is in the queue"


@pytest.mark.parametrize("form", ["id", "header"])
def test_a_request_that_is_repeated_changes_nothing_and_answers_the_same(
    secret: Functions, sql: Database, tasks: list[str], form: str
) -> None:
    body: dict[str, object] = {"task_ids": tasks, "attempts": 3}
    headers = dict(secret.headers)
    if form == "id":
        body["id"] = str(uuid.uuid4())
    else:
        headers["Idempotency-Key"] = f"key {uuid.uuid4()}"

    first = ok(secret.post("rollouts", body, headers=headers))
    before = sql.fingerprint()
    second = ok(secret.post("rollouts", body, headers=headers))

    assert first == second
    assert sql.fingerprint() == before
    assert len({row["id"] for row in first["rollouts"]}) == 6


def test_an_equal_rollout_that_has_ended_answers_when_asked_to(
    secret: Functions, tasks: list[str], claim: Callable[[], dict[str, Any]]
) -> None:
    body = {"task_id": tasks[0], "agent": "noop", "seed": 1}
    made = ok(secret.post("rollouts", body))["rollouts"][0]["id"]
    ended = {"rollouts": [{"id": made, "status": "failed"}]}
    secret.rpc("ingest", batch=ended, all_or_nothing=True, leases=[claim()["lease_id"]])

    again = ok(secret.post("rollouts", body | {"reuse": True, "attempts": 2}))

    assert again["reused"] == [made]
    assert again["rollouts"][0]["id"] == made
    assert again["message"] == "1 rollout is in the queue; 1 had ended before"


def test_an_evaluation_of_a_checkpoint_is_made_with_its_rollouts(
    secret: Functions, sql: Database, run_id: str, tasks: list[str], environment: str
) -> None:
    checkpoint = sql.one(
        "insert into public.model_checkpoints (training_run_id, checkpoint_number, step, storage_path)"
        " values (%s, 1, 40, 'x') returning id::text",
        run_id,
    )
    body = {"checkpoint_id": checkpoint, "environment": environment, "attempts": 2, "evaluation": {"name": "nightly"}}

    answer = ok(secret.post("rollouts", body | {"id": str(uuid.uuid4())}))

    assert (answer["evaluation"]["name"], answer["evaluation"]["step"]) == ("nightly", 40)
    assert {row["training_run_id"] for row in answer["rollouts"]} == {run_id}
    assert sorted(row["task_id"] for row in answer["rollouts"]) == sorted(tasks * 2)
    other = ok(secret.post("rollouts", {"task_ids": tasks, "model": "m", "evaluation": {"kind": "baseline"}}))
    assert other["evaluation"]["kind"] == "baseline"
    assert {row["source"] for row in other["rollouts"]} == {"baseline"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "task_id"),
        ({"task_id": None}, "task_id"),
        ({"task_id": 5}, "task_id"),
        ({"task_id": ""}, "task_id"),
        ({"task_id": "x" * 501}, "task_id"),
        ({"task_id": "a\0b"}, "task_id"),
        ({"task_ids": []}, "task_ids"),
        ({"task_ids": "x"}, "task_ids"),
        ({"task_ids": ["x", 5]}, "task_ids.1"),
        ({"task_ids": ["x"] * 10_001}, "task_ids"),
        ({"task_id": "x", "task_ids": ["x"]}, "task_ids"),
        ({"task_id": "x", "attempts": 0}, "attempts"),
        ({"task_id": "x", "attempts": 1001}, "attempts"),
        ({"task_id": "x", "attempts": 1.5}, "attempts"),
        ({"task_id": "x", "attempts": "2"}, "attempts"),
        ({"task_id": "x", "priority": 1001}, "priority"),
        ({"task_id": "x", "seed": 2**60}, "seed"),
        ({"task_id": "x", "limits": "none"}, "limits"),
        ({"task_id": "x", "limits": {"max_steps": 0}}, "limits.max_steps"),
        ({"task_id": "x", "limits": {"max_seconds": -1}}, "limits.max_seconds"),
        ({"task_id": "x", "limits": {"steps": 1}}, "limits.steps"),
        ({"task_id": "x", "agent_options": []}, "agent_options"),
        ({"task_id": "x", "agent": ""}, "agent"),
        ({"task_id": "x", "reuse": "yes"}, "reuse"),
        ({"task_id": "x", "training_run_id": "x"}, "training_run_id"),
        ({"task_id": "x", "checkpoint_id": "x"}, "checkpoint_id"),
        ({"task_id": "x", "evaluation": {"kind": "exam"}}, "evaluation.kind"),
        ({"task_id": "x", "evaluation": {}, "reuse": True}, "reuse"),
        ({"task_id": "x", "status": "running"}, "status"),
        ({"task_id": "x", "id": "x"}, "id"),
    ],
)
def test_a_request_that_makes_no_sense_names_the_field(
    secret: Functions, sql: Database, body: dict[str, object], path: str
) -> None:
    before = sql.fingerprint()
    response = secret.post("rollouts", body)
    refused(response, 400, "invalid_input")
    assert response.json()["error"]["details"][0]["path"] == path
    assert sql.fingerprint() == before


def test_of_many_tasks_all_are_asked_for_or_none(secret: Functions, sql: Database, tasks: list[str]) -> None:
    before = sql.fingerprint()
    for unknown in ("../../x", "%2e%2e", UNKNOWN_ID):
        message = refused(secret.post("rollouts", {"task_ids": [*tasks, unknown]}), 404, "not_found")
        assert message.startswith(f"task {unknown}: ")
    refused(secret.post("rollouts", {"task_ids": tasks, "attempts": 2, "environment": "nowhere"}), 404, "not_found")
    refused(secret.post("rollouts", {"task_ids": tasks, "training_run_id": UNKNOWN_ID}), 404, "not_found")
    refused(secret.post("rollouts", {"checkpoint_id": UNKNOWN_ID, "task_ids": tasks}), 404, "not_found")
    refused(secret.post("rollouts", {"evaluation": {}, "environment": "nowhere"}), 404, "not_found")
    assert sql.fingerprint() == before


# Who may


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("stranger", 403), ("publishable", 401)])
def test_who_may_not_write_changes_nothing(
    callers: Callers, publishable: Functions, secret: Functions, sql: Database, tasks: list[str], who: str, status: int
) -> None:
    caller = callers.get(who, publishable)
    made = ok(secret.post("rollouts", {"task_id": tasks[0]}))["rollouts"][0]["id"]
    before = sql.fingerprint()
    code = {401: "unauthorized", 403: "forbidden"}[status]
    refused(caller.post("rollouts", {"task_id": tasks[0]}), status, code)
    refused(caller.post(f"rollouts/{made}/cancel", {}), status, code)
    refused(caller.post(f"rollouts/{made}/retry", {}), status, code)
    refused(caller.delete(f"rollouts/{made}"), status, code)
    assert sql.fingerprint() == before


def test_editors_change_their_own_rollouts_and_read_all(callers: Callers, tasks: list[str]) -> None:
    made = ok(callers["editor"].post("rollouts", {"task_id": tasks[0]}))["rollouts"][0]["id"]
    for who in ("other_editor", "viewer"):
        assert ok(callers[who].get(f"rollouts/{made}"))["rollout"]["id"] == made
    refused(callers["other_editor"].delete(f"rollouts/{made}"), 403, "forbidden")
    refused(callers["stranger"].get(f"rollouts/{made}"), 404, "not_found")
    assert ok(callers["stranger"].get("rollouts", task_id=tasks[0]))["rollouts"] == []
    assert ok(callers["editor"].delete(f"rollouts/{made}"))["deleted"] is True


# Reading


def test_rollouts_are_listed_a_page_at_a_time(secret: Functions, sql: Database, tasks: list[str]) -> None:
    made = [
        row["id"]
        for row in ok(secret.post("rollouts", {"task_id": tasks[0], "attempts": 5, "agent": "noop"}))["rollouts"]
    ]
    # All of one request have the same time: pages must tell them apart by their ids.
    assert sql.one("select count(distinct created_at) from public.rollouts where task_id = %s", tasks[0]) == 1
    ok(secret.post(f"rollouts/{made[0]}/cancel"))

    found, after = [], ""
    for _ in range(3):
        page = ok(secret.get("rollouts", task_id=tasks[0], limit=2, after=after))
        found += [row["id"] for row in page["rollouts"]]
        after = page["next"] or ""

    assert (sorted(found), after) == (sorted(made), "")
    statuses = {
        query: len(ok(secret.get("rollouts", task_id=tasks[0], status=query))["rollouts"])
        for query in ("pending", "cancelled", "pending, cancelled", "success")
    }
    assert statuses == {"pending": 4, "cancelled": 1, "pending, cancelled": 5, "success": 0}
    assert len(ok(secret.get("rollouts", task_id=tasks[0], agent="noop"))["rollouts"]) == 5
    assert ok(secret.get("rollouts", task_id=tasks[0], agent="chat"))["rollouts"] == []
    for query in ({"status": "splendid"}, {"status": "pending,"}, {"task_id": "../../x"}):
        refused(secret.get("rollouts", **query), 400, "invalid_input")


def test_a_rollout_has_its_verdicts_its_task_and_an_address_of_its_video(
    secret: Functions, sql: Database, tasks: list[str]
) -> None:
    made = ok(secret.post("rollouts", {"task_id": tasks[0]}))["rollouts"][0]["id"]
    alone = ok(secret.get(f"rollouts/{made}"))
    assert (alone["validations"], alone["task"]["id"], alone["video_url"]) == ([], tasks[0], None)

    path = f"{made}/video.webm"
    ok(secret.post(f"rollouts/{made}/cancel"))
    sql.one(
        "insert into public.validations (rollout_id, validator_name, verdict)"
        " values (%s, 'exact', 'pass') returning id",
        made,
    )
    sql.one("update public.rollouts set video_path = %s where id = %s returning id", path, made)
    assert ok(secret.get(f"rollouts/{made}"))["video_url"] is None, "the file is not there yet"
    bearer = {"authorization": f"Bearer {secret.headers['apikey']}", **secret.headers}
    stored = secret.client.post(f"/storage/v1/object/media/{path}", content=b"webm", headers=bearer)
    assert stored.status_code == 200, stored.text

    whole = ok(secret.get(f"rollouts/{made}"))
    assert [(one["validator_name"], one["verdict"]) for one in whole["validations"]] == [("exact", "pass")]
    assert whole["video_url"].startswith(str(secret.client.base_url).rstrip("/"))
    assert httpx.get(whole["video_url"]).content == b"webm"


@pytest.mark.parametrize(
    ("reference", "status"),
    [("..%2F..%2Fx", 400), ("%00", 400), ("x" * 5000, 400), ("%ff", 400), (UNKNOWN_ID, 404), ("%252e", 400)],
)
def test_a_rollout_that_is_not_there_is_refused_by_every_method(
    secret: Functions, sql: Database, reference: str, status: int
) -> None:
    before = sql.fingerprint()
    code = {400: "invalid_input", 404: "not_found"}[status]
    refused(secret.get(f"rollouts/{reference}"), status, code)
    refused(secret.delete(f"rollouts/{reference}"), status, code)
    refused(secret.post(f"rollouts/{reference}/cancel"), status, code)
    refused(secret.post(f"rollouts/{reference}/retry"), status, code)
    assert sql.fingerprint() == before


# Changing


def test_a_rollout_is_cancelled_and_retried(
    secret: Functions, tasks: list[str], claim: Callable[[], dict[str, Any]]
) -> None:
    made = ok(secret.post("rollouts", {"task_id": tasks[0]}))["rollouts"][0]["id"]
    cancelled = ok(secret.post(f"rollouts/{made}/cancel", {}))
    assert cancelled["rollout"]["status"] == "cancelled"
    assert ok(secret.post(f"rollouts/{made}/cancel"))["message"] == cancelled["message"]
    for _ in range(2):
        retried = ok(secret.post(f"rollouts/{made}/retry"))["rollout"]
        assert (retried["status"], retried["attempt"]) == ("pending", 2)

    held = claim()
    stopping = ok(secret.post(f"rollouts/{made}/cancel"))
    refused(secret.post(f"rollouts/{made}/retry"), 409, "conflict")
    assert (stopping["rollout"]["status"], stopping["rollout"]["cancel_requested_at"] is None) == (
        "provisioning",
        False,
    )
    assert "is being stopped" in stopping["message"]
    secret.rpc("release_rollouts", worker_id=held["worker_id"], lease_ids=[held["lease_id"]])
    assert ok(secret.get(f"rollouts/{made}"))["rollout"]["status"] == "cancelled"
    refused(secret.post(f"rollouts/{made}/cancel", {"status": "x"}), 400, "invalid_input")


def test_a_recorded_rollout_is_not_of_the_queue(secret: Functions) -> None:
    made = secret.submit()
    refused(secret.post(f"rollouts/{made}/cancel"), 409, "conflict")
    refused(secret.post(f"rollouts/{made}/retry"), 409, "conflict")
    assert ok(secret.delete(f"rollouts/{made}"))["deleted"] is True
    refused(secret.get(f"rollouts/{made}"), 404, "not_found")


def test_a_running_rollout_is_deleted_when_its_worker_has_stopped_it(
    secret: Functions, tasks: list[str], claim: Callable[[], dict[str, Any]]
) -> None:
    made = ok(secret.post("rollouts", {"task_id": tasks[0]}))["rollouts"][0]["id"]
    held = claim()

    late = secret.delete(f"rollouts/{made}", wait_seconds=0)
    assert (late.status_code, late.json()["status"]) == (202, "stopping")
    assert ok(secret.get(f"rollouts/{made}"))["rollout"]["delete_requested"] is True

    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(secret.delete(f"rollouts/{made}", wait_seconds=60)))
    waiting.start()
    renewed = secret.rpc("renew_rollouts", worker_id=held["worker_id"], lease_ids=[held["lease_id"]])
    assert [lease["cancelled"] for lease in renewed["leases"]] == [True]
    ended = {"rollouts": [{"id": made, "status": "cancelled"}]}
    secret.rpc("ingest", batch=ended, all_or_nothing=True, leases=[held["lease_id"]])
    waiting.join()

    # If the worker was faster than the second request, there was nothing left to delete.
    assert answers[0].status_code in (200, 404)
    refused(secret.get(f"rollouts/{made}"), 404, "not_found")


# The protocol

METHODS = {
    "tasks": "GET",
    "tasks/upload": "GET, POST",
    f"tasks/{UNKNOWN_ID}": "GET",
    "rollouts": "GET, POST",
    f"rollouts/{UNKNOWN_ID}": "GET, DELETE",
    f"rollouts/{UNKNOWN_ID}/cancel": "POST",
    f"rollouts/{UNKNOWN_ID}/retry": "POST",
}


@pytest.mark.parametrize(("path", "allowed"), METHODS.items())
def test_a_path_says_which_methods_it_takes(http: httpx.Client, secret: Functions, path: str, allowed: str) -> None:
    right = set(allowed.split(", "))
    for other in {"GET", "POST", "PUT", "PATCH", "DELETE"} - right:
        response = secret.client.request(other, f"/functions/v1/{path}", headers=secret.headers)
        message = refused(response, 405, "method_not_allowed")
        assert set(message.removeprefix("use ").split(" or ")) == right
        assert set(response.headers["allow"].split(", ")) == {*right, "OPTIONS"}
    asked = http.options(f"/functions/v1/{path}", headers={"origin": "https://example.com"})
    assert asked.status_code == 204
    assert right <= set(asked.headers["access-control-allow-methods"].split(", "))
    assert "idempotency-key" in asked.headers["access-control-allow-headers"]


@pytest.mark.parametrize("path", METHODS)
def test_without_a_key_nothing_is_said(http: httpx.Client, path: str) -> None:
    for method in METHODS[path].split(", "):
        refused(http.request(method, f"/functions/v1/{path}", content=b"{"), 401, "unauthorized")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"task_id": "\xff"}', b"null"])
def test_a_body_that_is_no_object_is_refused(secret: Functions, content: bytes) -> None:
    refused(secret.post("rollouts", content=content), 400, "invalid_input")


def test_a_body_over_the_limit_is_refused(secret: Functions) -> None:
    large = json.dumps({"task_id": "x", "metadata": {"x": "x" * 16 * 1024 * 1024}})
    refused(secret.post("rollouts", content=large), 413, "too_large")
