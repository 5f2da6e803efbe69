"""How a status moves: every allowed step is taken and recorded, every other is refused with its own code."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import psycopg
import pytest

from .examples import one_of_each
from .writing import (
    Connection,
    acting_as,
    change_status,
    count,
    history,
    ingest,
    new_id,
    new_member,
    new_run,
    row,
    write,
)

ENTITIES = ["training_runs", "training_steps", "evaluations", "rollouts"]
# Written by functions alone: no record makes a row of them.
ORCHESTRATED = ["jobs", "sweeps"]


def statuses_of(db: Connection, entity: str) -> list[str]:
    """Return the statuses that the table's CHECK allows."""
    found = db.execute(
        "select pg_get_constraintdef(oid) as definition from pg_constraint where conrelid = %s::regclass"
        " and conname = %s",
        [f"public.{entity}", f"{entity}_status_check"],
    ).fetchone()
    assert found is not None
    return re.findall(r"'([^']*)'::text", found["definition"])


def next_statuses(db: Connection, entity: str, status: str) -> list[str] | None:
    found = db.execute("select internal.next_statuses(%s, %s) as next", [entity, status]).fetchone()
    assert found is not None
    return found["next"]  # type: ignore[no-any-return]


def new_row(db: Connection, entity: str, status: str, **fields: Any) -> str:
    """Create a row of an entity in a status; return its id."""
    record = one_of_each()[entity] | {
        "id": new_id(),
        "status": status,
        "status_message": None,
        "started_at": None,
        "finished_at": None,
    }
    for name in ("group_id", "task_id", "checkpoint_id", "training_run_id"):
        if name in record and entity != "training_steps":
            record[name] = None
    if entity == "training_steps":
        record["training_run_id"] = new_run(db)
    write(db, {entity: [record | fields]})
    return str(record["id"])


def test_the_tables_with_a_status_are_those_that_have_transitions(db: Connection) -> None:
    rows = db.execute(
        "select table_name from information_schema.columns where table_schema = 'public'"
        " and column_name = 'status_change_id'"
        " and table_name <> 'run_overview'"
    )
    assert {found["table_name"] for found in rows} == {*ENTITIES, *ORCHESTRATED}


@pytest.mark.parametrize("entity", [*ENTITIES, *ORCHESTRATED])
def test_the_check_and_the_transitions_know_the_same_statuses(db: Connection, entity: str) -> None:
    known = statuses_of(db, entity)
    assert len(known) >= 5
    for status in known:
        following = next_statuses(db, entity, status)
        assert following is not None, f"{entity}: {status} is allowed and has no transitions"
        assert set(following) <= set(known) - {status}
    assert next_statuses(db, entity, "no such status") is None


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_transition_is_made_and_recorded_or_refused(db: Connection, entity: str) -> None:
    for old, new in product(statuses_of(db, entity), repeat=2):
        row_id = new_row(db, entity, old)
        allowed = new in (next_statuses(db, entity, old) or [])
        if allowed:
            stored = change_status(db, entity, row_id, new, message=f"to {new}")
            assert (stored["status"], stored["status_message"]) == (new, f"to {new}")
            assert history(db, row_id) == [(None, old, None), (old, new, f"to {new}")]
        elif old == new:
            assert change_status(db, entity, row_id, new)["status"] == new
            assert len(history(db, row_id)) == 1
        else:
            with pytest.raises(psycopg.Error) as caught:
                change_status(db, entity, row_id, new)
            assert caught.value.sqlstate == "OM409"
            singular = entity.replace("_", " ").removesuffix("s")
            message = caught.value.diag.message_primary or ""
            assert message.startswith(f"{singular} {row_id}: cannot go from {old} to {new}; ")
            assert ("is final" in message) == (next_statuses(db, entity, old) == [])
            assert row(db, entity, row_id)["status"] == old
            assert len(history(db, row_id)) == 1


@pytest.mark.parametrize("entity", ENTITIES)
def test_plain_sql_is_held_to_the_same_transitions(db: Connection, entity: str) -> None:
    for old, new in product(statuses_of(db, entity), repeat=2):
        if old == new:
            continue
        row_id = new_row(db, entity, old)
        update = f"update public.{entity} set status = %s where id = %s"
        if new in (next_statuses(db, entity, old) or []):
            db.execute(update, [new, row_id])
            assert history(db, row_id)[1:] == [(old, new, None)]
        else:
            with pytest.raises(psycopg.Error) as caught:
                db.execute(update, [new, row_id])
            assert caught.value.sqlstate == "OM409"


@pytest.mark.parametrize("entity", ENTITIES)
def test_a_status_that_does_not_exist_is_refused(db: Connection, entity: str) -> None:
    row_id = new_row(db, entity, "pending")
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute(f"update public.{entity} set status = 'no such status' where id = %s", [row_id])
    (refusal,) = ingest(db, {entity: [{"id": row_id, "status": "no such status"}]})["refused"]
    assert (refusal["code"], refusal["field"]) == ("OM400", "status")


@pytest.mark.parametrize("entity", ENTITIES)
def test_times_follow_the_status(db: Connection, entity: str) -> None:
    row_id = new_row(db, entity, "pending")
    before = row(db, entity, row_id)
    assert (before["started_at"], before["finished_at"]) == (None, None)
    running = change_status(db, entity, row_id, "running")
    assert running["started_at"]
    assert running["finished_at"] is None
    assert running["updated_at"] > before["updated_at"]
    final = {"rollouts": "success"}.get(entity, "failed")
    done = change_status(db, entity, row_id, final)
    assert done["started_at"] == running["started_at"]
    assert done["finished_at"] > done["started_at"]
    if entity != "rollouts":
        assert change_status(db, entity, row_id, "running")["finished_at"] is None


@pytest.mark.parametrize("entity", ENTITIES)
def test_what_begins_running_has_a_start(db: Connection, entity: str) -> None:
    stored = row(db, entity, new_row(db, entity, "running", created_at="2026-01-02T03:04:05+00:00"))
    assert stored["started_at"] == "2026-01-02T03:04:05+00:00"
    assert stored["finished_at"] is None


def test_times_that_are_given_are_kept(db: Connection) -> None:
    at = "2026-01-02T03:04:05+00:00"
    row_id = new_row(db, "rollouts", "running", started_at=at)
    stored = change_status(db, "rollouts", row_id, "success", fields={"finished_at": at})
    assert (stored["started_at"], stored["finished_at"]) == (at, at)


def test_a_message_belongs_to_its_change_alone(db: Connection) -> None:
    run_id = new_run(db)
    change_status(db, "training_runs", run_id, "interrupted", message="lost")
    change_status(db, "training_runs", run_id, "failed", message="lost")
    assert change_status(db, "training_runs", run_id, "running")["status_message"] is None
    db.execute(
        "update public.training_runs set status = 'interrupted', status_message = 'again' where id = %s", [run_id]
    )
    db.execute("update public.training_runs set status = 'running' where id = %s", [run_id])
    assert history(db, run_id) == [
        (None, "running", None),
        ("running", "interrupted", "lost"),
        ("interrupted", "failed", "lost"),
        ("failed", "running", None),
        ("running", "interrupted", "again"),
        ("interrupted", "running", None),
    ]
    assert row(db, "training_runs", run_id)["status_message"] is None


def test_one_statement_over_many_rows_records_each_change_once(db: Connection) -> None:
    run_id = new_run(db)
    ids = [new_id() for _ in range(50)]
    write(
        db,
        {
            "rollouts": [
                {"id": each, "training_run_id": run_id, "environment": "a", "status": "pending"} for each in ids
            ]
        },
    )
    db.execute("update public.rollouts set status = 'running' where id = any(%s::uuid[])", [ids[:30]])
    db.execute(
        "update public.rollouts set status = 'cancelled', status_message = 'stop' where training_run_id = %s", [run_id]
    )
    db.execute("update public.rollouts set metadata = '{\"a\": 1}' where training_run_id = %s", [run_id])
    for index, each in enumerate(ids):
        through = (
            [("pending", "running", None), ("running", "cancelled", "stop")]
            if index < 30
            else [("pending", "cancelled", "stop")]
        )
        assert history(db, each) == [(None, "pending", None), *through]
    stored = db.execute(
        "select * from public.status_history where entity_id = %s order by changed_at", [ids[0]]
    ).fetchall()
    assert {found["entity"] for found in stored} == {"rollouts"}
    assert {str(found["training_run_id"]) for found in stored} == {run_id}
    assert [found["changed_at"] for found in stored] == sorted(found["changed_at"] for found in stored)


def test_the_change_says_who_made_it(db: Connection) -> None:
    editor = new_member(db, "editor")
    with acting_as(db, user_id=editor):
        run_id = new_run(db)
        change_status(db, "training_runs", run_id, "completed")
    stored = db.execute("select changed_by from public.status_history where entity_id = %s", [run_id]).fetchall()
    assert [str(found["changed_by"]) for found in stored] == [editor, editor]


def test_updated_at_moves_with_every_change(db: Connection) -> None:
    rows = db.execute(
        "select table_name from information_schema.columns where table_schema = 'public' and column_name = 'updated_at'"
        " and table_name not in ('run_overview', 'run_list', 'members', 'metric_chunks', 'jobs', 'sweeps')"
    )
    tables = {found["table_name"] for found in rows}
    records = one_of_each()
    write(db, {kind: [record] for kind, record in records.items()})
    for table in sorted(tables):
        before = row(db, table, records[table]["id"])
        for value in (before["created_at"], "2026-05-05T05:05:05+00:00"):
            db.execute(f"update public.{table} set created_at = %s where id = %s", [value, before["id"]])
            moved = row(db, table, before["id"])["updated_at"] > before["updated_at"]
            assert moved == (value != before["created_at"]), f"{table}: {'an empty' if moved else 'a real'} change"


# Heartbeats ----------------------------------------------------------------------------------------------------------


def shown_status(db: Connection, run_id: str) -> str:
    found = db.execute("select shown_status from public.run_overview where id = %s", [run_id]).fetchone()
    assert found is not None
    return str(found["shown_status"])


def age_heartbeat(db: Connection, run_id: str, seconds: int) -> None:
    db.execute(
        "update public.training_runs set heartbeat_at = now() - make_interval(secs => %s) where id = %s",
        [seconds, run_id],
    )


def test_a_run_whose_heartbeat_stopped_is_shown_as_stalled_until_it_beats_again(db: Connection) -> None:
    run_id = new_run(db, heartbeat_timeout_seconds=60)
    assert shown_status(db, run_id) == "running"
    age_heartbeat(db, run_id, 61)
    assert shown_status(db, run_id) == "stalled"
    assert row(db, "training_runs", run_id)["status"] == "running"
    db.execute("select public.heartbeat(%s, progress => 0.5, current_step => 7)", [run_id])
    assert shown_status(db, run_id) == "running"
    stored = row(db, "training_runs", run_id)
    assert (stored["progress"], stored["current_step"]) == (0.5, 7)
    db.execute("select public.heartbeat(%s)", [run_id])
    assert row(db, "training_runs", run_id)["progress"] == 0.5


def test_a_run_that_never_beat_is_stalled_by_its_age(db: Connection) -> None:
    old = new_run(db, created_at="2026-01-01T00:00:00+00:00")
    db.execute("update public.training_runs set heartbeat_at = null where id = %s", [old])
    assert shown_status(db, old) == "stalled"


@pytest.mark.parametrize("status", ["pending", "completed", "failed", "cancelled", "interrupted"])
def test_only_a_running_run_can_stall(db: Connection, status: str) -> None:
    run_id = new_run(db, status=status)
    age_heartbeat(db, run_id, 10**6)
    assert shown_status(db, run_id) == status


@pytest.mark.parametrize("kind", ["training_runs", "training_steps", "rollouts", "agent_states", "metric_chunks"])
def test_whoever_writes_of_a_run_says_that_it_is_alive(db: Connection, kind: str) -> None:
    records = one_of_each(status="running")
    write(db, {other: [record] for other, record in records.items()})
    run_id = records["training_runs"]["id"]
    age_heartbeat(db, run_id, 10**6)
    write(db, {kind: [{"id": run_id, "summary": {"a": 1}} if kind == "training_runs" else records[kind]]})
    assert shown_status(db, run_id) == "running"


def test_a_heartbeat_of_an_unknown_run_is_an_error(db: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        db.execute("select public.heartbeat(%s)", [new_id()])
    assert caught.value.sqlstate == "OM404"
    assert count(db, "training_runs", name="no such run") == 0
