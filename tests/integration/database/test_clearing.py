"""A field that a record leaves out stays as it is; null clears it, unless it is required or a parent."""

from __future__ import annotations

from typing import Any

import pytest

from .examples import one_of_each
from .writing import Connection, change_status, history, ingest, new_group, new_id, new_rollout, new_run, row, write

# What null says nothing of: identity, parents, and what the database keeps itself.
KEPT = {
    "id", "created_at", "owner_id", "status_change_id", "training_run_id", "training_step_id", "evaluation_id",
    "group_id", "rollout_id", "rewinds",
}  # fmt: skip
# Parents of some kinds, and of others fields that may change.
PARENTS = {
    "validators": {"task_id"},
    "rollout_groups": {"task_id"},
    "evaluation_results": {"task_id", "checkpoint_id"},
}
# Required fields of which the examples say the default: null asks for nothing else.
AT_DEFAULT = {
    "training_runs": {"visibility"},
    "training_steps": {"status", "timeline"},
    "model_checkpoints": {"timeline"},
    "evaluations": {"kind", "status", "timeline"},
    "rollouts": {"source", "timeline"},
}
CHANGEABLE = [
    "environments", "tasks", "validators", "training_runs", "training_steps", "model_checkpoints", "evaluations",
    "evaluation_results", "rollout_groups", "rollouts", "validations",
]  # fmt: skip


def columns(db: Connection, kind: str) -> dict[str, Any]:
    """The fields of a kind, and whether each is required."""
    found = db.execute("select name, is_required from internal.record_columns(%s)", [kind])
    return {column["name"]: column["is_required"] for column in found}


def unstamped(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a row without what its triggers count."""
    return {name: value for name, value in stored.items() if name not in ("updated_at", "version")}


def test_these_are_the_kinds_that_change_field_by_field(db: Connection) -> None:
    found = db.execute("select kind from internal.record_kinds() where can_change order by place")
    assert [row["kind"] for row in found] == [*CHANGEABLE, "metric_chunks"]


@pytest.mark.parametrize("kind", CHANGEABLE)
def test_null_clears_any_field_that_may_be_null_and_no_other(db: Connection, kind: str) -> None:
    examples = one_of_each()
    write(db, {kind: [record] for kind, record in examples.items()})
    row_id = examples[kind]["id"]
    kept = KEPT | PARENTS.get(kind, set()) | AT_DEFAULT.get(kind, set())
    for name, is_required in columns(db, kind).items():
        if name == "id":
            continue
        before = unstamped(row(db, kind, row_id))
        refused = ingest(db, {kind: [{"id": row_id, name: None}]})["refused"]
        after = unstamped(row(db, kind, row_id))
        if name in kept:
            assert (refused, after) == ([], before), name
        elif is_required:
            told = [(one["code"], one["field"], one["message"]) for one in refused]
            assert told == [("OM400", name, f"{kind} {row_id}: {name} is required")], name
            assert after == before, name
        else:
            assert refused == [], name
            assert after == before | {name: None}, name


@pytest.mark.parametrize("kind", CHANGEABLE)
def test_null_for_a_parent_moves_nothing(db: Connection, kind: str) -> None:
    examples = one_of_each()
    write(db, {kind: [record] for kind, record in examples.items()})
    row_id = examples[kind]["id"]
    parents = (KEPT | PARENTS.get(kind, set())) & columns(db, kind).keys() - {"id"}
    before = unstamped(row(db, kind, row_id))
    write(db, {kind: [{"id": row_id} | dict.fromkeys(parents)]})
    assert unstamped(row(db, kind, row_id)) == before


def test_an_object_is_merged_and_null_clears_it_whole(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db), result={"a": 1, "b": None})
    write(db, {"rollouts": [{"id": rollout_id, "result": {"c": None}}]})
    assert row(db, "rollouts", rollout_id)["result"] == {"a": 1, "b": None, "c": None}
    write(db, {"rollouts": [{"id": rollout_id, "result": None}]})
    assert row(db, "rollouts", rollout_id)["result"] is None


def test_in_a_new_record_null_is_the_default_and_sent_again_it_changes_nothing(db: Connection) -> None:
    records = {
        "tasks": {"id": new_id(), "description": "find it", "metadata": None, "split": None},
        "training_runs": {
            "id": new_id(), "name": "a run", "config": None, "tags": None, "visibility": None, "status": None,
            "heartbeat_timeout_seconds": None, "created_at": None, "owner_id": None,
        },
    }  # fmt: skip
    write(db, {kind: [record] for kind, record in records.items()})
    stored = {kind: unstamped(row(db, kind, record["id"])) for kind, record in records.items()}
    assert stored["tasks"]["metadata"] == {}
    assert (stored["training_runs"]["tags"], stored["training_runs"]["status"]) == ([], "pending")
    write(db, {kind: [record, record] for kind, record in records.items()})
    assert {kind: unstamped(row(db, kind, record["id"])) for kind, record in records.items()} == stored


def test_null_in_a_new_record_is_not_replaced_by_what_its_group_says(db: Connection) -> None:
    run_id, group_id = new_run(db), new_id()
    step = {"id": new_id(), "training_run_id": run_id, "step": 3}
    group = {"id": group_id, "training_step_id": step["id"], "number": 0, "task_description": "find it"}
    silent, none = {"id": new_id(), "group_id": group_id}, {"id": new_id(), "group_id": group_id}
    none |= {"task_description": None, "step": None, "environment": None, "source": None}
    write(db, {"training_steps": [step], "rollout_groups": [group], "rollouts": [silent, none]})
    for record, expected in ((silent, ("find it", 3)), (none, (None, None))):
        stored = row(db, "rollouts", record["id"])
        assert (stored["task_description"], stored["step"]) == expected
        # Required: these are derived.
        assert (stored["environment"], stored["source"]) == ("alfworld", "training")


def test_records_of_one_id_apply_in_their_order(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db))
    changes: list[dict[str, Any]] = [
        {"error": "first", "model": "a", "seed": 1}, {"error": None, "model": None}, {"error": "last"}, {"seed": None},
    ]  # fmt: skip
    write(db, {"rollouts": [{"id": rollout_id, **change} for change in changes]})
    stored = row(db, "rollouts", rollout_id)
    assert (stored["error"], stored["model"], stored["seed"]) == ("last", None, None)
    made_here = new_id()
    records = [{"id": made_here, "training_run_id": stored["training_run_id"]}, *changes]
    write(db, {"rollouts": [{**record, "id": made_here} for record in records]})
    stored = row(db, "rollouts", made_here)
    assert (stored["error"], stored["model"], stored["seed"]) == ("last", None, None)


def test_a_refused_record_clears_nothing_and_its_neighbours_are_written(db: Connection) -> None:
    run_id = new_run(db, description="first")
    other = new_run(db, description="first")
    batch: list[dict[str, Any]] = [
        {"id": run_id, "description": None, "name": None}, {"id": other, "description": None},
    ]  # fmt: skip
    refused = ingest(db, {"training_runs": batch})["refused"]
    assert [(one["index"], one["field"]) for one in refused] == [(0, "name")]
    assert row(db, "training_runs", run_id)["description"] == "first"
    assert row(db, "training_runs", other)["description"] is None


def test_a_change_of_status_that_was_applied_before_clears_nothing(db: Connection) -> None:
    rollout_id, change_id = new_rollout(db, new_run(db)), new_id()
    end = {"id": rollout_id, "status": "success", "status_change_id": change_id, "error": None}
    write(db, {"rollouts": [end]})
    write(db, {"rollouts": [{"id": rollout_id, "error": "found later"}]})
    write(db, {"rollouts": [end]})
    assert row(db, "rollouts", rollout_id)["error"] == "found later"


def test_the_message_of_a_status_goes_with_a_new_status_or_by_null(db: Connection) -> None:
    run_id = new_run(db, status_message="warming up")
    write(db, {"training_runs": [{"id": run_id, "status": "running"}]})
    assert row(db, "training_runs", run_id)["status_message"] == "warming up"
    write(db, {"training_runs": [{"id": run_id, "status": "running", "status_message": None}]})
    assert row(db, "training_runs", run_id)["status_message"] is None
    write(db, {"training_runs": [{"id": run_id, "status": "failed", "status_message": "no memory"}]})
    write(db, {"training_runs": [{"id": run_id, "status": "running", "status_message": None}]})
    assert row(db, "training_runs", run_id)["status_message"] is None
    assert history(db, run_id) == [
        (None, "running", "warming up"), ("running", "failed", "no memory"), ("failed", "running", None),
    ]  # fmt: skip


def test_change_status_clears_what_its_fields_give_as_null(db: Connection) -> None:
    rollout_id = new_rollout(db, new_run(db), total_reward=2.0, error="e", step_count=3)
    fields = {"total_reward": None, "error": None}
    ended = change_status(db, "rollouts", rollout_id, "success", message="found it", fields=fields)
    assert (ended["total_reward"], ended["error"], ended["step_count"]) == (None, None, 3)
    # Without a message, the one that belongs to the status stays.
    again = change_status(db, "rollouts", rollout_id, "success", message=None, change_id=None)
    assert again["status_message"] == "found it"
    assert (
        change_status(db, "rollouts", rollout_id, "success", fields={"status_message": None})["status_message"] is None
    )
    assert history(db, rollout_id)[-1] == ("running", "success", "found it")


def test_an_evaluation_that_completes_with_null_is_measured(db: Connection) -> None:
    run_id, evaluation_id, group_id = new_run(db), new_id(), new_id()
    write(db, {
        "evaluations": [{"id": evaluation_id, "training_run_id": run_id, "mean_reward": 9.0, "success_rate": 0.5}],
        "rollout_groups": [{"id": group_id, "evaluation_id": evaluation_id, "number": 0}],
        "rollouts": [{"id": new_id(), "group_id": group_id, "status": "success", "total_reward": 2.0}],
    })  # fmt: skip
    write(db, {"evaluations": [{"id": evaluation_id, "status": "completed", "mean_reward": None}]})
    stored = row(db, "evaluations", evaluation_id)
    assert (stored["mean_reward"], stored["success_rate"]) == (2.0, 0.5)


@pytest.mark.parametrize("kind", ["agent_states", "observations", "generations", "tool_calls", "rewards", "media"])
def test_what_never_changes_is_not_cleared(db: Connection, kind: str) -> None:
    examples = one_of_each()
    write(db, {kind: [record] for kind, record in examples.items()})
    before = row(db, kind, examples[kind]["id"])
    ingest(db, {kind: [dict.fromkeys(examples[kind]) | {"id": examples[kind]["id"]}]})
    assert row(db, kind, examples[kind]["id"]) == before


def test_null_changes_no_metric_chunk(db: Connection) -> None:
    run_id = new_run(db)
    chunk = {"id": new_id(), "training_run_id": run_id, "name": "loss", "steps": [1], "values": [0.5],
             "times": ["2026-01-01T00:00:00+00:00"]}  # fmt: skip
    write(db, {"metric_chunks": [chunk]})
    before = row(db, "metric_chunks", chunk["id"])
    for nothing in ({"training_run_id": None}, {"name": None}, {"timeline": None}, {"steps": None, "values": None}):
        ingest(db, {"metric_chunks": [chunk | nothing]})
        assert row(db, "metric_chunks", chunk["id"]) == before


def test_a_field_of_the_staging_tables_is_none_of_a_record(db: Connection) -> None:
    run_id = new_run(db, description="first")
    for name in ("cleared", "ordinal", "round"):
        refused = ingest(db, {"training_runs": [{"id": run_id, name: ["description"]}]})["refused"]
        assert [one["field"] for one in refused] == [name]
    assert row(db, "training_runs", run_id)["description"] == "first"


def test_a_group_keeps_its_step_when_a_record_gives_it_as_null(db: Connection) -> None:
    group_id = new_group(db, new_run(db))
    before = unstamped(row(db, "rollout_groups", group_id))
    write(db, {"rollout_groups": [{"id": group_id, "training_step_id": None, "evaluation_id": None, "number": 0}]})
    assert unstamped(row(db, "rollout_groups", group_id)) == before
