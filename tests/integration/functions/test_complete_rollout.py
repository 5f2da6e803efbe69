"""POST complete-rollout."""

from __future__ import annotations

import uuid

import pytest

from .api import UNKNOWN_ID, Database, Functions, ok, refused


def history(sql: Database, rollout_id: str) -> list[str]:
    """The statuses that a rollout went through."""
    rows = sql.rows(
        "select new_status from public.status_history where entity_id = %s order by changed_at, id", rollout_id
    )
    return [status for (status,) in rows]


def unstamped(answer: dict[str, object]) -> dict[str, object]:
    """The answer but for the time of the last touch."""
    rollout = answer["rollout"]
    assert isinstance(rollout, dict)
    return answer | {"rollout": {key: value for key, value in rollout.items() if key != "updated_at"}}


def test_a_rollout_is_completed_and_answered(secret: Functions, run_id: str) -> None:
    rollout_id = secret.submit(training_run_id=run_id, metadata={"a": 1})
    body = {
        "rollout_id": rollout_id,
        "status": "success",
        "total_reward": 10.5,
        "step_count": 15,
        "result": {"answer": 42, "why": {"known": None}},
        "metadata": {"b": 2},
        "message": "found it",
    }
    answer = ok(secret.post("complete-rollout", body))
    assert answer["success"] is True
    assert answer["message"] == f"rollout {rollout_id} is success"
    rollout = answer["rollout"]
    expected = {
        "id": rollout_id,
        "training_run_id": run_id,
        "status": "success",
        "status_message": "found it",
        "total_reward": 10.5,
        "step_count": 15,
        "result": {"answer": 42, "why": {"known": None}},
        "metadata": {"a": 1, "b": 2},
    }
    assert {key: rollout[key] for key in expected} == expected
    assert rollout["finished_at"] is not None


@pytest.mark.parametrize(
    "status", ["success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"]
)
def test_a_rollout_can_end_in_every_final_status(secret: Functions, status: str) -> None:
    answer = ok(secret.post("complete-rollout", {"rollout_id": secret.submit(), "status": status, "error": "e"}))
    assert (answer["rollout"]["status"], answer["rollout"]["error"]) == (status, "e")


@pytest.mark.parametrize("status", ["pending", "running", "done", "", None, 1])
def test_a_status_that_is_not_final_is_refused_with_those_that_are(secret: Functions, status: object) -> None:
    body = {"rollout_id": secret.submit(), "status": status}
    message = refused(secret.post("complete-rollout", body), 400, "invalid_input")
    assert message == (
        "status: a rollout can end as success, failed, completed, truncated, timeout, error, cancelled, interrupted"
    )


def test_an_unknown_rollout_is_named(secret: Functions) -> None:
    message = refused(
        secret.post("complete-rollout", {"rollout_id": UNKNOWN_ID, "status": "success"}), 404, "not_found"
    )
    assert message == f"rollout_id {UNKNOWN_ID}: there is no such rollout"


def test_a_forbidden_transition_is_a_conflict_that_says_where_to_go(secret: Functions, sql: Database) -> None:
    rollout_id = secret.submit()
    ok(secret.post("complete-rollout", {"rollout_id": rollout_id, "status": "success", "total_reward": 1}))
    before = sql.fingerprint()
    body = {"rollout_id": rollout_id, "status": "error", "total_reward": 2}
    message = refused(secret.post("complete-rollout", body), 409, "conflict")
    assert "cannot go from success to error; from success it can go to failed, completed" in message
    assert sql.fingerprint() == before


def test_a_repetition_answers_the_same_and_adds_no_history(secret: Functions, sql: Database) -> None:
    body = {"rollout_id": secret.submit(), "status": "success", "total_reward": 1.5, "step_count": 3, "message": "m"}
    first = ok(secret.post("complete-rollout", body))
    assert unstamped(ok(secret.post("complete-rollout", body))) == unstamped(first)
    assert history(sql, str(body["rollout_id"])) == ["running", "success"]


def test_a_rollout_can_be_judged_anew_and_back(secret: Functions, sql: Database) -> None:
    rollout_id = secret.submit()
    for status in ("success", "failed", "success"):
        answer = ok(secret.post("complete-rollout", {"rollout_id": rollout_id, "status": status}))
        assert answer["rollout"]["status"] == status
    assert history(sql, rollout_id) == ["running", "success", "failed", "success"]


def test_a_late_repetition_with_its_change_id_leaves_the_new_judgement(secret: Functions, sql: Database) -> None:
    rollout_id = secret.submit()
    first = {"rollout_id": rollout_id, "status": "success", "total_reward": 1, "change_id": str(uuid.uuid4())}
    ok(secret.post("complete-rollout", first))
    ok(secret.post("complete-rollout", {"rollout_id": rollout_id, "status": "failed", "total_reward": 0}))
    before = sql.fingerprint()
    answer = ok(secret.post("complete-rollout", first))
    assert (answer["rollout"]["status"], answer["rollout"]["total_reward"]) == ("failed", 0)
    assert sql.fingerprint() == before


def test_rewards_that_are_not_finite_are_kept(secret: Functions) -> None:
    for value in ("NaN", "Infinity", "-Infinity"):
        body = {"rollout_id": secret.submit(), "status": "completed", "total_reward": value}
        assert ok(secret.post("complete-rollout", body))["rollout"]["total_reward"] == value


def test_a_field_that_is_left_out_stays_and_null_clears_it(secret: Functions) -> None:
    rollout_id = secret.submit(metadata={"a": 1})
    body = {"rollout_id": rollout_id, "status": "success"}
    ok(secret.post("complete-rollout", body | {"total_reward": 1.5, "step_count": 3, "message": "found it"}))
    stays = ok(secret.post("complete-rollout", body | {"message": None, "change_id": None}))["rollout"]
    assert (stays["total_reward"], stays["step_count"], stays["status_message"]) == (1.5, 3, "found it")
    for _ in range(2):
        cleared = ok(secret.post("complete-rollout", body | {"total_reward": None}))["rollout"]
        assert (cleared["total_reward"], cleared["step_count"], cleared["metadata"]) == (None, 3, {"a": 1})
    message = refused(
        secret.post("complete-rollout", body | {"metadata": None, "step_count": None}), 400, "invalid_input"
    )
    assert message == "metadata: an object is expected"
    assert ok(secret.post("complete-rollout", body))["rollout"]["step_count"] == 3
