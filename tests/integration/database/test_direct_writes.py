"""Rows written one by one, past `ingest`: of a rollout that waits or runs in the queue, only its worker writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from .interleaving import Stage, orders
from .queues import call
from .test_queue_interleavings import alone, calling
from .test_queue_leases import Attempt
from .writing import Connection, Database, acting_as, count, new_id, new_member

# What a row belongs to, the values of a new one, and a change.
TABLES = {
    "agent_states": ("rollout_id", {"step_number": 50}, "thought = 'changed'"),
    "tool_calls": ("agent_state_id", {"tool_name": "t", "position": 50}, "tool_output = 'changed'"),
    "observations": ("agent_state_id", {"kind": "page", "position": 50}, "text = 'changed'"),
    "generations": ("agent_state_id", {"model": "m", "position": 50}, "finish_reason = 'changed'"),
    "rewards": ("rollout_id", {"reward_type": "late", "reward": 1}, "reward = 99"),
    "validations": ("rollout_id", {"validator_name": "late", "verdict": "pass"}, "message = 'changed'"),
    "media": ("rollout_id", {"kind": "file", "path": "late"}, "path = 'changed'"),
}
WRITES = [(table, how) for table in TABLES for how in ("insert", "update", "delete")]


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    stage = Stage(database, 2)
    yield stage
    stage.close()


def write_rows(db: Connection, attempt: Attempt, table: str, how: str) -> int:
    """Insert a row of an attempt, or change or delete all; return how many rows were written."""
    field, values, change = TABLES[table]
    parents = [attempt.id] if field == "rollout_id" else attempt.turns
    if how == "insert":
        return insert(db, table, {field: parents[0], **values})
    statement = f"update public.{table} set {change}" if how == "update" else f"delete from public.{table}"
    return db.execute(f"{statement} where {field} = any(%s::uuid[])", [parents]).rowcount


def insert(db: Connection, table: str, values: dict[str, object]) -> int:
    record = {"id": new_id(), **values}
    marks = ", ".join(f"%({name})s" for name in record)
    return db.execute(f"insert into public.{table} ({', '.join(record)}) values ({marks})", record).rowcount


@contextmanager
def under(db: Connection, *leases: str) -> Iterator[None]:
    """Write under leases, in one transaction."""
    with db.transaction():
        db.execute("select set_config('openmanus_rl.leases', %s, true)", [",".join(leases)])
        yield


def give(attempt: Attempt, owner: str) -> None:
    """Let a user own a rollout and its files, who may then write to them."""
    attempt.db.execute("update public.rollouts set owner_id = %s where id = %s", [owner, attempt.id])
    with under(attempt.db, attempt.lease):
        attempt.db.execute("update public.media set owner_id = %s where rollout_id = %s", [owner, attempt.id])


@pytest.mark.parametrize("who", ["the secret key", "its owner"])
@pytest.mark.parametrize("state", ["running", "waiting"])
def test_turns_of_the_queue_are_not_written_past_the_worker(db: Connection, who: str, state: str) -> None:
    attempt, owner, writes = Attempt(db), new_member(db, "editor"), WRITES
    if state == "waiting":
        attempt.queue.end(attempt.id, attempt.lease, "error")
        call(db, "retry_rollouts", rollout_ids=[attempt.id])
        # It has no turns yet.
        writes = [(table, "insert") for table, (field, *_) in TABLES.items() if field == "rollout_id"]
    give(attempt, owner)
    before = attempt.everything()
    for table, how in writes:
        acting = {"role": "service_role"} if who == "the secret key" else {"user_id": owner}
        with pytest.raises(psycopg.Error) as refused, acting_as(db, **acting):
            write_rows(db, attempt, table, how)
        assert refused.value.sqlstate == "OM409", (table, how, refused.value)
        assert refused.value.diag.column_name in ("rollout_id", "agent_state_id")
    assert attempt.everything() == before


def test_a_file_of_two_rollouts_is_held_to_both(db: Connection) -> None:
    ended, running = Attempt(db), Attempt(db)
    assert ended.queue.end(ended.id, ended.lease) == []
    for first, second in ((ended, running), (running, ended)):
        of_both = {"rollout_id": first.id, "agent_state_id": second.turns[0], "kind": "file", "path": "f"}
        with pytest.raises(psycopg.Error, match="only its worker") as refused:
            insert(db, "media", of_both)
        assert refused.value.sqlstate == "OM409"


def test_under_its_lease_and_after_its_end_rows_are_written(db: Connection) -> None:
    attempt = Attempt(db)
    for table, how in WRITES:
        with db.transaction(force_rollback=True), under(db, new_id(), attempt.lease):
            assert write_rows(db, attempt, table, how) > 0, (table, how)
    assert attempt.queue.end(attempt.id, attempt.lease) == []
    for table, how in WRITES:
        with db.transaction(force_rollback=True), acting_as(db, role="service_role"):
            assert write_rows(db, attempt, table, how) > 0, (table, how)


def test_a_lost_lease_opens_nothing(db: Connection) -> None:
    attempt = Attempt(db)
    attempt.queue.reclaim(attempt.id)
    attempt.queue.lease()
    for table in ("agent_states", "rewards", "validations", "media"):
        with pytest.raises(psycopg.Error) as refused, under(db, attempt.lease):
            write_rows(db, attempt, table, "insert")
        assert refused.value.sqlstate == "OM409", table


def test_a_rollout_that_runs_is_deleted_with_its_turns(db: Connection) -> None:
    attempt = Attempt(db)
    db.execute("delete from public.rollouts where id = %s", [attempt.id])
    assert not any(attempt.everything().values())
    assert count(db, "tool_calls", agent_state_id=attempt.turns[0]) == 0


def test_a_row_that_comes_while_its_rollout_is_tried_again_is_set_aside_or_refused(
    db: Connection, stage: Stage
) -> None:
    for table in ("agent_states", "rewards", "validations", "media"):
        for order in orders([2, 2]):
            attempt = Attempt(db)
            assert attempt.queue.end(attempt.id, attempt.lease, "error") == []
            retry = calling("retry_rollouts", rollout_ids=[attempt.id])

            def write(connection: Connection, table: str = table, attempt: Attempt = attempt) -> object:
                return write_rows(connection, attempt, table, "insert")

            errors = stage.play([alone(write), alone(retry)], order)
            assert all(isinstance(each, psycopg.Error) and each.sqlstate == "OM409" for each in errors), (order, errors)
            assert count(db, table, rollout_id=attempt.id) == 0, (table, order)
