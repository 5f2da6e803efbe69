"""Many writers, many roles, much data: what one session does holds up beside the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from .examples import one_of_each
from .writing import (
    Batch,
    Connection,
    Database,
    acting_as,
    change_status,
    count,
    history,
    ingest,
    new_group,
    new_id,
    new_member,
    new_rollout,
    new_run,
    row,
    rows_read,
    write,
)

WRITERS = 8
# For ten times as many records, work in proportion is 10 times, and a square 100 times as much. Plans depend on when
# autovacuum analyzes the tables: up to 19 times was seen. Looking for a refused record adds a logarithm.
FEWER_THAN_SQUARE = 30


def at_once(database: Database, work: Callable[[Connection, int], Any], *, writers: int = WRITERS) -> list[Any]:
    """Run work(connection, number) in that many sessions, all starting at the same moment."""
    start = threading.Barrier(writers)

    def run(number: int) -> Any:
        with database.connect() as connection:
            connection.execute("select internal.open_stage('{}')")
            start.wait()
            return work(connection, number)

    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(run, range(writers)))


def test_writers_of_one_group_lose_nothing(database: Database, db: Connection) -> None:
    run_id = new_run(db)
    groups = [new_group(db, run_id) for _ in range(3)]

    def write_rollouts(connection: Connection, number: int) -> None:
        # Each writer meets the groups in an order of its own.
        mine = groups[number % 3 :] + groups[: number % 3]
        for _ in range(4):
            rollouts = [{"id": new_id(), "group_id": mine[n % 3], "environment": "a"} for n in range(12)]
            write(connection, {"rollouts": rollouts})
            done = [
                {"id": each["id"], "status": "success", "status_change_id": new_id(), "total_reward": 1}
                for each in rollouts
            ]
            write(connection, {"rollouts": done})

    at_once(database, write_rollouts)
    for group_id in groups:
        group = row(db, "rollout_groups", group_id)
        assert (group["rollout_count"], group["success_count"], group["reward_mean"]) == (128, 128, 1)
    metrics = db.execute("select public.run_metrics(%s) as m", [run_id]).fetchone()
    assert metrics is not None
    assert metrics["m"]["successful_rollouts"] == WRITERS * 4 * 12


def test_many_processes_that_make_the_same_rows_agree(database: Database, db: Connection) -> None:
    run_id = new_run(db)
    for step in range(8):
        step_id = new_id()

        def write_step(connection: Connection, number: int, step: int = step, step_id: str = step_id) -> Any:
            record = {"id": step_id, "training_run_id": run_id, "step": step, "metrics": {f"rank{number}": number}}
            return ingest(connection, {"training_steps": [record]})["refused"]

        assert at_once(database, write_step) == [[]] * WRITERS
        assert row(db, "training_steps", step_id)["metrics"] == {f"rank{n}": n for n in range(WRITERS)}
        assert history(db, step_id) == [(None, "running", None)]


@contextmanager
def meanwhile(db: Connection, waiter: Connection, batch: Batch) -> Iterator[Future[Any]]:
    """Begin a transaction; when its work is done let another session ingest, and commit once that one has to wait."""
    with ThreadPoolExecutor(1) as pool:
        with db.transaction():
            answer: Future[Any] = Future()
            yield answer
            waiting = pool.submit(ingest, waiter, batch)
            query = "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            while not db.execute(query, [waiter.info.backend_pid]).fetchone():
                assert not waiting.done(), "the other session did not have to wait"
                time.sleep(0.01)
        answer.set_result(waiting.result())


def test_a_row_that_another_session_is_just_making_is_changed(
    connect: Callable[[], Connection], db: Connection
) -> None:
    run_id = new_run(db)
    step = {"id": new_id(), "training_run_id": run_id, "step": 1}
    late = [step | {"metrics": {"b": 1}}, step | {"metrics": {"c": 1}}]
    with meanwhile(db, connect(), {"training_steps": late}) as answer:
        write(db, {"training_steps": [step | {"metrics": {"a": 1}}]})
    assert answer.result()["refused"] == []
    assert row(db, "training_steps", step["id"])["metrics"] == {"a": 1, "b": 1, "c": 1}


def test_a_change_that_another_session_is_just_making_is_made_once(
    connect: Callable[[], Connection], db: Connection
) -> None:
    rollout_id = new_rollout(db, new_run(db))
    failed = {"id": rollout_id, "status": "error", "status_change_id": new_id()}
    with meanwhile(db, connect(), {"rollouts": [failed]}) as answer:
        # It is opened again at once: without its id the late delivery would be a change of its own.
        write(db, {"rollouts": [failed, {"id": rollout_id, "status": "pending", "status_change_id": new_id()}]})
    assert answer.result()["refused"] == []
    assert history(db, rollout_id) == [(None, "running", None), ("running", "error", None), ("error", "pending", None)]


def test_one_record_written_by_many_at_once_is_refused_to_none(database: Database, db: Connection) -> None:
    run_id = new_run(db)
    for number in range(12):
        step = {
            "id": new_id(),
            "training_run_id": run_id,
            "step": number,
            "status": "running",
            "status_change_id": new_id(),
        }
        refusals = at_once(
            database, lambda connection, _, step=step: ingest(connection, {"training_steps": [step]})["refused"]
        )
        assert refusals == [[]] * WRITERS


def test_one_status_change_delivered_by_many_at_once_is_made_once(database: Database, db: Connection) -> None:
    run_id = new_run(db)
    for _ in range(8):
        rollout_id, change_id = new_rollout(db, run_id), new_id()
        change = {"id": rollout_id, "status": "error", "status_change_id": change_id, "total_reward": 1}
        refusals = at_once(
            database, lambda connection, _, change=change: ingest(connection, {"rollouts": [change]})["refused"]
        )
        assert refusals == [[]] * WRITERS
        assert history(db, rollout_id) == [(None, "running", None), ("running", "error", None)]
    metrics = db.execute("select public.run_metrics(%s) as m", [run_id]).fetchone()
    assert metrics is not None
    assert metrics["m"]["completed_rollouts"] == 8


def test_a_lock_that_is_not_to_be_had_is_raised_and_refuses_nobody(
    connect: Callable[[], Connection], db: Connection
) -> None:
    run_id = new_run(db)
    rollout_id = new_rollout(db, run_id)
    holder = connect()
    with holder.transaction():
        holder.execute("select 1 from public.rollouts where id = %s for update", [rollout_id])
        db.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            ingest(
                db,
                {
                    "rollouts": [
                        {"id": rollout_id, "status": "success"},
                        {"training_run_id": run_id, "environment": "a"},
                    ]
                },
            )
    assert count(db, "rollouts", training_run_id=run_id) == 1
    assert row(db, "rollouts", rollout_id)["status"] == "running"


def test_a_deadlock_is_raised_and_refuses_nobody(database: Database, db: Connection) -> None:
    run_id = new_run(db)
    pair = [new_rollout(db, run_id), new_rollout(db, run_id)]
    locked = threading.Barrier(2)

    def cross(connection: Connection, number: int) -> str:
        try:
            with connection.transaction():
                write(connection, {"rollouts": [{"id": pair[number], "status": "success"}]})
                locked.wait()
                write(connection, {"rollouts": [{"id": pair[1 - number], "status": "success"}]})
        except psycopg.errors.DeadlockDetected:
            return "deadlock"
        return "written"

    assert sorted(at_once(database, cross, writers=2)) == ["deadlock", "written"]
    assert count(db, "rollouts", training_run_id=run_id, status="success") == 2


def test_copy_into_the_stage_gives_what_json_gives(db: Connection) -> None:
    by_json, by_copy = one_of_each(), one_of_each()
    write(db, {kind: [record] for kind, record in by_json.items()})
    kinds = list(by_copy)
    with db.transaction():
        db.execute("select internal.open_stage(%s)", [kinds])
        for kind, record in by_copy.items():
            copy(db, kind, [record])
        answer = db.execute("select internal.merge_stage(%s) as answer", [kinds]).fetchone()
    assert answer is not None
    assert answer["answer"] == {"received": len(kinds), "refused": []}
    for kind, record in by_copy.items():
        stored = row(db, kind, record["id"])
        assert {name: stored[name] for name in record} == record, kind


def test_copy_refuses_what_json_refuses(db: Connection) -> None:
    run_id = new_run(db)
    good = {"id": new_id(), "training_run_id": run_id, "environment": "a"}
    bad = [
        {"id": new_id(), "training_run_id": run_id, "environment": "a", "status": "done"},
        {"id": new_id(), "training_run_id": new_id(), "environment": "a", "status": "running"},
    ]
    with db.transaction():
        db.execute("select internal.open_stage('{rollouts}')")
        copy(
            db,
            "rollouts",
            [bad[0] | {"step_count": None}, good | {"status": None, "step_count": 3}, bad[1] | {"step_count": None}],
        )
        answer = db.execute("select internal.merge_stage('{rollouts}') as answer").fetchone()
    assert answer is not None
    by_json = ingest(db, {"rollouts": [bad[0], good, bad[1]]})
    assert answer["answer"] == by_json
    assert [refusal["code"] for refusal in by_json["refused"]] == ["OM400", "OM404"]
    assert row(db, "rollouts", good["id"])["step_count"] == 3


def copy(db: Connection, kind: str, records: list[dict[str, Any]]) -> None:
    """COPY records, all with the same fields, into the stage of their kind."""
    names = ", ".join(["ordinal", *(f'"{name}"' for name in records[0])])
    columns = {
        found["name"]: found["type"] for found in db.execute("select * from internal.record_columns(%s)", [kind])
    }
    with db.cursor().copy(f"copy pg_temp.stage_{kind} ({names}) from stdin") as target:
        for ordinal, record in enumerate(records):
            plain = [
                psycopg.types.json.Jsonb(value) if columns[name] == "jsonb" and value is not None else value
                for name, value in record.items()
            ]
            target.write_row([ordinal, *plain])


def test_one_session_serves_many_callers(db: Connection) -> None:
    """A pooled session keeps its staging tables while its role changes with every request."""
    editor, other, viewer = new_member(db, "editor"), new_member(db, "editor"), new_member(db, "viewer")
    runs: dict[str, str] = {}
    for user in (editor, other):
        with acting_as(db, user_id=user):
            runs[user] = new_run(db)
    with acting_as(db, role="service_role"):
        new_rollout(db, runs[editor])
    for user, expected in ((editor, []), (other, ["OM403"]), (viewer, ["OM403"]), (new_id(), ["OM404"])):
        with acting_as(db, user_id=user):
            answer = ingest(db, {"rollouts": [{"training_run_id": runs[editor], "environment": "a"}]})
        assert [refusal["code"] for refusal in answer["refused"]] == expected, user
    assert row(db, "training_runs", runs[editor])["owner_id"] == editor
    assert count(db, "rollouts", training_run_id=runs[editor]) == 2


def test_a_session_does_not_see_what_another_caller_staged(db: Connection) -> None:
    first, second = new_member(db, "editor"), new_member(db, "editor")
    with acting_as(db, user_id=first):
        run_id = new_run(db)
        ingest(db, {"rollouts": [{"training_run_id": run_id, "environment": "a"}, 7]})
    with acting_as(db, user_id=second):
        answer = ingest(db, {"rollouts": []})
    assert answer == {"received": 0, "refused": []}


def test_the_stage_follows_a_changed_schema(server: Any) -> None:
    url = server.create_database("altered", template="migrated")
    with Database(url).connect() as db:
        run_id, step_id = new_run(db), new_id()
        db.execute("alter table public.training_runs add column mood text")
        db.execute("alter table public.training_steps add column mood text")
        db.execute("select internal.define_merge('training_steps')")
        write(db, {"training_steps": [{"id": step_id, "training_run_id": run_id, "step": 1, "mood": "good"}]})
        assert row(db, "training_steps", step_id)["mood"] == "good"


@pytest.mark.parametrize("bad", [False, True], ids=["good", "refused"])
def test_the_work_grows_with_the_batch_and_not_with_its_square(db: Connection, bad: bool) -> None:
    """The rows that Postgres reads for a batch, and for one ten times as large."""

    def work(size: int) -> int:
        rollout_id = new_rollout(db, new_run(db))
        turns = [
            {"id": new_id(), "rollout_id": rollout_id, "step_number": n, "tool_calls": [{"tool_name": "a"}]}
            for n in range(size)
        ]
        if bad:
            turns[size // 2]["step_number"] = -1
        batch: Batch = {
            "agent_states": turns,
            "rollouts": [
                {"id": new_id(), "environment": "a", "status": "running", "status_change_id": new_id()}
                for _ in range(size // 5)
            ],
        }
        with db.transaction():
            before = rows_read(db)
            answer = ingest(db, batch)
            read = rows_read(db) - before
        assert len(answer["refused"]) == (2 if bad else 0)
        return read

    work(10)
    small, large = work(500), work(5000)
    assert large < small * FEWER_THAN_SQUARE, f"{small} rows were read for 500 turns, {large} for 5,000"


def test_a_big_batch_of_changes_is_no_square_either(db: Connection) -> None:
    run_id = new_run(db)

    def work(size: int) -> int:
        ids = [new_id() for _ in range(size)]
        write(db, {"rollouts": [{"id": each, "training_run_id": run_id, "environment": "a"} for each in ids]})
        with db.transaction():
            before = rows_read(db)
            write(db, {"rollouts": [{"id": each, "status": "success", "status_change_id": new_id()} for each in ids]})
            return rows_read(db) - before

    work(10)
    small, large = work(300), work(3000)
    assert large < small * FEWER_THAN_SQUARE, f"{small} rows were read for 300 changes, {large} for 3,000"
    change_status(db, "training_runs", run_id, "completed")
