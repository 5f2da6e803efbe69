"""A record that cannot be written is refused with its reason; its neighbours are written."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .examples import one_of_each
from .writing import (
    Connection,
    Record,
    acting_as,
    change_status,
    count,
    ingest,
    new_id,
    new_rollout,
    new_run,
    row,
    write,
)

NEIGHBOURS = 1000
BAD_AT = 417


def refusal_among_a_thousand(db: Connection, kind: str, records: list[Any], bad: Any) -> Record:
    """Write a thousand good records with a bad one among them; return the one refusal."""
    records.insert(BAD_AT, bad)
    answer = ingest(db, {kind: records})
    assert answer["received"] == NEIGHBOURS + 1
    (refusal,) = answer["refused"]
    assert (refusal["kind"], refusal["index"]) == (kind, BAD_AT)
    if isinstance(bad, dict) and "id" in bad:
        assert refusal["id"] == bad["id"]
    return dict(refusal)


BAD_ROLLOUTS: dict[str, tuple[Any, str, str | None, str]] = {
    "bad uuid": ({"id": "not-a-uuid"}, "OM400", "id", "invalid input syntax for type uuid"),
    "bad parent uuid": ({"training_run_id": "x"}, "OM400", "training_run_id", "invalid input syntax for type uuid"),
    "bad status": ({"status": "done"}, "OM400", "status", "must be one of pending, provisioning, running, success"),
    "bad source": ({"source": "dream"}, "OM400", "source", "must be one of training, evaluation"),
    "missing field": (
        {"environment": None, "training_run_id": None},
        "OM400",
        "environment",
        "environment is required",
    ),
    "unknown field": ({"enviroment": "a"}, "OM400", "enviroment", "no such field; there are id, training_run_id"),
    "field the database keeps": ({"updated_at": "2026-01-01"}, "OM400", "updated_at", "no such field"),
    "unknown parent": ({"task_id": new_id()}, "OM404", "task_id", "is unknown; create it first"),
    "empty text": ({"environment": ""}, "OM400", "environment", "it must hold that"),
    "number out of range": ({"step_count": 2**31}, "OM400", "step_count", "out of range"),
    "number far out of range": ({"total_reward": 10**400}, "OM400", "total_reward", "out of range"),
    "negative number": ({"episode_number": -1}, "OM400", "episode_number", "it must hold that"),
    "fraction": ({"step_count": 1.5}, "OM400", "step_count", "invalid input syntax for type integer"),
    "wrong JSON type": ({"step_count": {"a": 1}}, "OM400", "step_count", "invalid input syntax for type integer"),
    "bad time": ({"started_at": "yesterday-ish"}, "OM400", "started_at", "invalid input syntax for type timestamp"),
    "too long for its index": ({"environment": "".join(map(chr, range(0x4E00, 0x9000)))}, "OM400", None, "maximum"),
}


@pytest.mark.parametrize("badness", BAD_ROLLOUTS)
def test_one_bad_rollout_among_a_thousand_is_refused_alone(db: Connection, badness: str) -> None:
    fields, code, field, message = BAD_ROLLOUTS[badness]
    run_id = new_run(db, environment=None)

    def rollout() -> Record:
        return {"id": new_id(), "training_run_id": run_id, "environment": "alfworld"}

    refusal = refusal_among_a_thousand(db, "rollouts", [rollout() for _ in range(NEIGHBOURS)], rollout() | fields)
    assert (refusal["code"], refusal["field"]) == (code, field)
    assert message in refusal["message"]
    assert refusal["id"] in refusal["message"]
    assert count(db, "rollouts", training_run_id=run_id) == NEIGHBOURS
    assert count(db, "status_history", training_run_id=run_id) == NEIGHBOURS + 1


@pytest.mark.parametrize("bad", [7, "text", None, ["list"], True])
def test_a_record_that_is_no_object_is_refused_alone(db: Connection, bad: object) -> None:
    run_id = new_run(db)
    records: list[Any] = [{"id": new_id(), "training_run_id": run_id, "environment": "a"} for _ in range(NEIGHBOURS)]
    refusal = refusal_among_a_thousand(db, "rollouts", records, bad)
    assert refusal["code"] == "OM400"
    assert "an object is expected" in refusal["message"]
    assert count(db, "rollouts", training_run_id=run_id) == NEIGHBOURS


def test_a_turn_with_a_number_that_is_taken_is_refused_alone(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db))
    turns = [{"id": new_id(), "rollout_id": rollout_id, "step_number": n} for n in range(NEIGHBOURS)]
    refusal = refusal_among_a_thousand(
        db, "agent_states", turns, {"id": new_id(), "rollout_id": rollout_id, "step_number": 5}
    )
    assert refusal["code"] == "OM409"
    assert refusal["field"] == "rollout_id, step_number"
    assert "use its id to change it" in refusal["message"]
    assert count(db, "agent_states", rollout_id=rollout_id) == NEIGHBOURS


def test_a_forbidden_transition_is_refused_alone(db: Connection) -> None:
    run_id = new_run(db)
    done = new_rollout(db, run_id, status="success")
    ids = [new_id() for _ in range(NEIGHBOURS)]
    write(db, {"rollouts": [{"id": each, "training_run_id": run_id, "environment": "a"} for each in ids]})
    changes = [{"id": each, "status": "success", "status_change_id": new_id()} for each in ids]
    refusal = refusal_among_a_thousand(
        db, "rollouts", changes, {"id": done, "status": "running", "status_change_id": new_id()}
    )
    assert (refusal["code"], refusal["field"]) == ("OM409", "status")
    assert f"rollout {done}: cannot go from success to running" in refusal["message"]
    assert count(db, "rollouts", training_run_id=run_id, status="success") == NEIGHBOURS + 1


@pytest.mark.parametrize("value", ["NaN", "Infinity", 1.5, -0.5])
def test_a_progress_that_is_no_fraction_is_refused(db: Connection, value: object) -> None:
    run_id = new_run(db)
    (refusal,) = ingest(db, {"training_runs": [{"id": run_id, "progress": value}]})["refused"]
    assert (refusal["code"], refusal["field"]) == ("OM400", "progress")


def test_a_name_that_is_too_long_is_refused(db: Connection) -> None:
    answer = ingest(db, {"training_runs": [{"id": new_id(), "name": "x" * 501}, {"id": new_id(), "name": "x" * 500}]})
    (refusal,) = answer["refused"]
    assert (refusal["index"], refusal["code"], refusal["field"]) == (0, "OM400", "name")


@pytest.mark.parametrize(("text", "sqlstate"), [("a\x00b", "22P05"), ("\ud800", "22P02")])
def test_text_that_postgres_cannot_hold_is_no_json_to_it_and_nothing_is_written(
    db: Connection, text: str, sqlstate: str
) -> None:
    rollout_id = new_rollout(db, new_run(db))
    turns = [
        {"id": new_id(), "rollout_id": rollout_id, "step_number": n, "observation": text if n else "a"}
        for n in range(2)
    ]
    with pytest.raises(psycopg.DataError) as caught:
        ingest(db, {"agent_states": turns})
    assert caught.value.sqlstate == sqlstate
    assert count(db, "agent_states", rollout_id=rollout_id) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": [1], "values": [1, 2]}, "cardinality"),
        ({"steps": [], "values": [], "times": []}, "cardinality"),
        ({"steps": [-1]}, "first_step >= 0"),
        ({"steps": [None]}, "array_position"),
        ({"values": [None]}, "array_position"),
        ({"values": ["high"]}, "values: invalid input syntax"),
        ({"name": ""}, "name: it must hold that"),
        ({"times": None}, "times is required"),
        ({"steps": None}, "steps is required"),
    ],
)
def test_a_metric_chunk_that_does_not_add_up_is_refused(db: Connection, fields: Record, message: str) -> None:
    chunk = {
        "id": new_id(),
        "training_run_id": new_run(db),
        "name": "loss",
        "steps": [1],
        "values": [1],
        "times": ["2026-01-01"],
    }
    (refusal,) = ingest(db, {"metric_chunks": [chunk | fields]})["refused"]
    assert refusal["code"] == "OM400"
    assert message in refusal["message"]


def test_a_generation_whose_arrays_do_not_match_is_refused(db: Connection) -> None:
    turn = {"id": new_id(), "rollout_id": new_rollout(db, new_run(db)), "step_number": 0}
    bad = [
        {"completion_ids": [1, 2], "logprobs": [0.5]},
        {"completion_ids": [1], "mask": []},
        {"completion_ids": [1], "advantages": [1, 2]},
    ]
    answer = ingest(
        db, {"agent_states": [turn | {"generations": [*bad, {"completion_ids": [1, 2], "advantages": [1]}]}]}
    )
    assert [refusal["code"] for refusal in answer["refused"]] == ["OM400"] * 3
    assert count(db, "generations", agent_state_id=turn["id"]) == 1


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        ({"runs": []}, "runs"),
        ({"rollouts": {}}, "rollouts"),
        ({"rollouts": None}, "rollouts"),
        ([], "batch"),
        (None, "batch"),
        ("x", "batch"),
    ],
)
def test_a_batch_that_is_none_is_refused_as_a_whole(db: Connection, batch: Any, field: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        ingest(db, batch)
    assert caught.value.sqlstate == "OM400"
    assert caught.value.diag.column_name == field


def test_an_empty_batch_is_taken(db: Connection) -> None:
    assert ingest(db, {}) == {"received": 0, "refused": []}
    assert ingest(db, {"rollouts": []}) == {"received": 0, "refused": []}


def test_all_or_nothing_writes_nothing_when_one_is_refused(db: Connection) -> None:
    run_id = new_run(db)
    good = [{"id": new_id(), "training_run_id": run_id, "environment": "a"} for _ in range(20)]
    bad = {"id": new_id(), "training_run_id": run_id, "environment": "a", "step_count": -1}
    with pytest.raises(psycopg.Error) as caught:
        ingest(
            db,
            {"rollouts": [*good, bad], "training_steps": [{"training_run_id": run_id, "step": 1}]},
            all_or_nothing=True,
        )
    assert caught.value.sqlstate == "OM400"
    assert caught.value.diag.column_name == "step_count"
    detail = json.loads(caught.value.diag.message_detail or "")
    assert detail == {"kind": "rollouts", "index": 20, "id": bad["id"], "field": "step_count"}
    assert count(db, "rollouts", training_run_id=run_id) == count(db, "training_steps", training_run_id=run_id) == 0
    assert ingest(db, {"rollouts": good}, all_or_nothing=True)["refused"] == []


@pytest.mark.parametrize(
    ("entity", "status", "more", "code"),
    [
        ("rollouts", "success", {"entity_id": new_id()}, "OM404"),
        ("rollouts", "done", {}, "OM400"),
        ("rollouts", None, {}, "OM400"),
        ("tasks", "success", {}, "OM400"),
        ("nothing", "success", {}, "OM400"),
        ("rollouts", "success", {"fields": {"reward": 1}}, "OM400"),
        ("rollouts", "success", {"fields": {"step_count": -1}}, "OM400"),
    ],
)
def test_change_status_says_what_is_wrong(
    db: Connection, entity: str, status: str | None, more: Record, code: str
) -> None:
    more = dict(more)
    rollout_id = more.pop("entity_id", None) or new_rollout(db, new_run(db))
    with pytest.raises(psycopg.Error) as caught:
        change_status(db, entity, rollout_id, status, **more)
    assert caught.value.sqlstate == code
    assert caught.value.diag.column_name


def test_change_status_repeated_changes_nothing_and_answers_the_same(db: Connection) -> None:
    rollout_id, change_id = new_rollout(db, new_run(db)), new_id()
    first = change_status(
        db, "rollouts", rollout_id, "success", change_id=change_id, fields={"total_reward": 1.5}, message="good"
    )
    again = change_status(
        db, "rollouts", rollout_id, "success", change_id=change_id, fields={"total_reward": 1.5}, message="good"
    )
    assert first == again
    assert (first["status"], first["total_reward"], first["status_message"]) == ("success", 1.5, "good")


# Whatever is sent: each record is either there afterwards or refused, and the call does not fail.

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@st.composite
def broken_batches(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Records of every kind, some of them with fields that were replaced, removed or added."""
    records = one_of_each()
    batch: dict[str, list[Any]] = {kind: [record] for kind, record in records.items()}
    for kind in draw(st.lists(st.sampled_from(list(records)), max_size=4)):
        copy: Any = {
            name: value
            for name, value in records[kind].items()
            if name not in ("run_name", "external_id", "checkpoint_number")
        }
        copy["id"] = draw(st.sampled_from([new_id(), records[kind]["id"], "x", None]))
        for name in draw(st.lists(st.sampled_from(list(copy)), max_size=2, unique=True)):
            copy[name] = draw(ANY_JSON)
        batch[kind].append(draw(st.sampled_from([copy, copy, copy, None, 3])))
    return batch


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(batch=broken_batches())
def test_each_record_is_either_there_or_refused(db: Connection, batch: dict[str, list[Any]]) -> None:
    answer = ingest(db, batch, return_rows=True)
    assert answer["received"] == sum(len(records) for records in batch.values())
    refused = {(refusal["kind"], refusal["index"]) for refusal in answer["refused"]}
    assert len(refused) == len(answer["refused"])
    for refusal in answer["refused"]:
        assert refusal["code"] in ("OM400", "OM403", "OM404", "OM409")
        assert refusal["message"]
    for kind, records in batch.items():
        for index, record in enumerate(records):
            if (kind, index) not in refused and record.get("id"):
                assert row(db, kind, record["id"])


@pytest.mark.parametrize("field", ["request", "worker_id", "lease_id", "attempt", "cancel_requested_at"])
def test_a_lease_is_written_by_the_functions_of_the_queue_alone(db: Connection, field: str) -> None:
    value = {"request": "{}", "attempt": 2, "cancel_requested_at": "2099-01-01T00:00:00Z"}.get(field, new_id())
    run_id = new_run(db)
    with acting_as(db, role="service_role"):
        answer = ingest(db, {"rollouts": [{"training_run_id": run_id, field: value}]})
        assert [(one["code"], one["field"]) for one in answer["refused"]] == [("OM400", field)]
        rollout_id = new_rollout(db, run_id)
        with pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
            db.execute(f"update public.rollouts set {field} = %s where id = %s", [value, rollout_id])
