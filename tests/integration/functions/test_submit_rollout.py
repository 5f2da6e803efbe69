"""POST submit-rollout."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

from .api import UNKNOWN_ID, Database, Functions, ok, refused


def test_a_rollout_is_created_as_the_contract_says(secret: Functions, sql: Database, run_id: str) -> None:
    body = {
        "training_run_id": run_id,
        "episode_number": 1,
        "environment": "alfworld",
        "task_description": "Find the red ball 🔴",
        "metadata": {"difficulty": None, "nested": {"a": [1, 2.5, "x"]}},
    }
    answer = ok(secret.post("submit-rollout", body))
    rollout_id = answer["rollout_id"]
    assert answer == {"rollout_id": rollout_id, "status": "created", "message": f"rollout {rollout_id} was created"}
    assert uuid.UUID(rollout_id).version == 7
    (row,) = sql.rows(
        "select training_run_id::text, episode_number, environment, task_description, metadata, status, source"
        " from public.rollouts where id = %s",
        rollout_id,
    )
    assert row == (run_id, 1, "alfworld", "Find the red ball 🔴", body["metadata"], "running", "training")


def test_further_fields_are_kept(secret: Functions, sql: Database) -> None:
    rollout_id = secret.submit(seed=-7, model="qwen", source="manual")
    row = sql.rows("select seed, model, source, episode_number from public.rollouts where id = %s", rollout_id)
    assert row == [(-7, "qwen", "manual", 0)]


def test_whole_numbers_keep_every_digit(secret: Functions, sql: Database) -> None:
    rollout_id = secret.submit(metadata={"tweet": 1234567890123456789012})
    assert (
        sql.one("select metadata ->> 'tweet' from public.rollouts where id = %s", rollout_id)
        == "1234567890123456789012"
    )


def test_a_run_gives_its_environment(secret: Functions, sql: Database, run_id: str) -> None:
    rollout_id = secret.submit(training_run_id=run_id, environment=None)
    assert sql.one("select environment from public.rollouts where id = %s", rollout_id) == "webshop"


def test_an_environment_is_asked_for_where_nothing_gives_one(secret: Functions) -> None:
    message = refused(secret.post("submit-rollout", {"episode_number": 0}), 400, "invalid_input")
    assert message == "environment: is required where no run has one"


def test_a_repetition_changes_nothing_and_answers_the_same(secret: Functions, sql: Database, run_id: str) -> None:
    body = {"id": str(uuid.uuid4()), "training_run_id": run_id, "episode_number": 0}
    first = ok(secret.post("submit-rollout", body))
    before = sql.fingerprint()
    assert ok(secret.post("submit-rollout", body)) == first
    assert sql.fingerprint() == before
    assert first["rollout_id"] == body["id"]
    # The id by which every client marks a creation.
    change_id = sql.one("select id from public.status_history where entity_id = %s", body["id"])
    assert change_id == uuid.uuid5(uuid.UUID(str(body["id"])), "created")


def test_a_repetition_after_the_end_does_not_begin_the_rollout_again(secret: Functions, sql: Database) -> None:
    body = {"id": str(uuid.uuid4()), "episode_number": 0, "environment": "alfworld"}
    first = ok(secret.post("submit-rollout", body))
    ok(secret.post("complete-rollout", {"rollout_id": body["id"], "status": "success"}))
    before = sql.fingerprint()
    assert ok(secret.post("submit-rollout", body)) == first
    assert sql.fingerprint() == before


def test_repetitions_at_once_make_one_rollout(secret: Functions, sql: Database, run_id: str) -> None:
    body = {"id": str(uuid.uuid4()), "training_run_id": run_id, "episode_number": 0}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: ok(secret.post("submit-rollout", body)), range(6)))
    assert all(answer == answers[0] for answer in answers)
    assert sql.one("select count(*) from public.rollouts where training_run_id = %s", run_id) == 1


def test_a_known_id_cannot_move_to_another_run(secret: Functions, run_id: str) -> None:
    rollout_id = secret.submit()
    body = {"id": rollout_id, "training_run_id": run_id, "episode_number": 0}
    assert "cannot move" in refused(secret.post("submit-rollout", body), 409, "conflict")


def test_an_unknown_run_group_or_task_is_named(secret: Functions) -> None:
    for field, noun in (("training_run_id", "training run"), ("group_id", "rollout group"), ("task_id", "task")):
        body = {"episode_number": 0, "environment": "alfworld", field: UNKNOWN_ID}
        message = refused(secret.post("submit-rollout", body), 404, "not_found")
        assert message == f"{field} {UNKNOWN_ID}: there is no such {noun}"
    # Without an environment the run is still what is wrong.
    body = {"episode_number": 0, "training_run_id": UNKNOWN_ID}
    assert "there is no such training run" in refused(secret.post("submit-rollout", body), 404, "not_found")


def test_everything_wrong_is_named_at_once(secret: Functions) -> None:
    body = {"id": "x", "episode_number": 1.5, "environment": "", "metadata": [], "source": "dream", "episode": 1}
    response = secret.post("submit-rollout", body)
    message = refused(response, 400, "invalid_input")
    paths = [problem["path"] for problem in response.json()["error"]["details"]]
    assert paths == ["id", "episode_number", "environment", "metadata", "source", "episode"]
    assert "episode: no such field; there are id, training_run_id, episode_number" in message
    assert "source: one of training, evaluation, baseline, manual, import is expected" in message


def test_null_in_a_new_rollout_is_the_same_as_nothing(secret: Functions, sql: Database, run_id: str) -> None:
    rollout_id = str(uuid.uuid4())
    given = {"id": rollout_id, "training_run_id": run_id, "episode_number": 0, "model": "small"}
    ok(secret.post("submit-rollout", given))
    ok(
        secret.post(
            "submit-rollout", given | dict.fromkeys(("model", "metadata", "environment", "task_id", "group_id"))
        )
    )
    assert sql.rows("select model, metadata from public.rollouts where id = %s", rollout_id) == [("small", {})]
