"""A claim reads as much of the table whatever is in it: what ended, and what waits for other workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .queues import Queue, call
from .writing import Connection, Database, new_run


@pytest.fixture
def db(server: Any) -> Iterator[Connection]:
    """A session on a database of its own: in the shared one, a claim also reads what other tests left."""
    with Database(server.create_database("queue_cost", template="migrated")).connect() as connection:
        yield connection


def blocks_read(db: Connection, queue: Queue) -> int:
    """Return how many blocks a claim of one rollout reads, from memory or from the disk.

    The least of several: Postgres plans a statement anew after it analyzed the table, and then reads its catalogs.
    """
    statement = "explain (analyze, buffers, format json) select public.claim_rollouts(%s, 1, 60, %s)"
    for _ in range(7):  # Until the plans of this session are kept.
        assert len(queue.claim()) == 1
    found: list[Any] = [db.execute(statement, [queue.worker, [queue.provider]]).fetchone() for _ in range(5)]
    plans = [one["QUERY PLAN"][0]["Plan"] for one in found]
    return min(int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) for plan in plans)


def unnoticed(db: Connection, statement: str, *values: Any) -> None:
    """Run a statement without triggers, which would take most of the time."""
    with db.transaction():
        db.execute("set local session_replication_role = replica")
        db.execute(statement, list(values))


def write_ended(db: Connection, queue: Queue, number: int) -> None:
    unnoticed(
        db,
        "insert into public.rollouts (environment, status, request, created_at)"
        " select %s, 'success', jsonb_build_object('provider', %s::text), now() - make_interval(secs => n)"
        " from generate_series(1, %s) n",
        queue.environment,
        queue.provider,
        number,
    )


def test_a_claim_does_not_read_what_ended_or_waits_for_others(db: Connection) -> None:
    queue, other, held = Queue(db), Queue(db), Queue(db)
    queue.request(attempts=50)
    before = blocks_read(db, queue)
    write_ended(db, queue, 20_000)
    # More urgent and older, and the statistics of the table know nothing of them.
    for _ in range(5):
        other.request(attempts=1000, priority=10)
    held.request(attempts=300)
    assert len(held.claim(300)) == 300
    assert blocks_read(db, queue) < 2 * before + 50
    db.execute("analyze public.rollouts")
    assert blocks_read(db, queue) < 2 * before + 50
    # They were not counted when they were made.
    unnoticed(db, "delete from public.rollouts where environment = %s and status = 'success'", queue.environment)
    db.execute("delete from public.rollouts where environment = any(%s)", [[queue.environment, other.environment]])


def test_a_claim_does_not_read_other_evaluations_or_leases(db: Connection) -> None:
    queue, held, run_id = Queue(db), Queue(db), new_run(db)
    queue.request(attempts=50)
    before = blocks_read(db, queue)
    held.request(attempts=900)
    assert len(held.claim(900)) == 900
    unnoticed(
        db,
        "with made as (insert into public.evaluations (training_run_id, status, is_queued)"
        " select %s, 'completed', true from generate_series(1, 3000) returning id)"
        " insert into public.rollout_groups (training_run_id, evaluation_id, number) select %s, id, 0 from made",
        run_id,
        run_id,
    )
    db.execute("analyze public.evaluations, public.rollout_groups, internal.leases")
    assert blocks_read(db, queue) < 2 * before + 50
    db.execute("delete from public.rollouts where environment = any(%s)", [[queue.environment, held.environment]])
    db.execute("delete from public.training_runs where id = %s", [run_id])


def test_an_evaluation_of_thousands_is_cancelled_at_once(db: Connection) -> None:
    """Its rollouts are counted once, and not once for each that ends."""
    queue = Queue(db, tasks=3)
    evaluation_id, made = queue.evaluate(attempts=1000)
    found: Any = db.execute(
        "explain (analyze, buffers, format json) select public.cancel_rollouts(%s::uuid[])", [made]
    ).fetchone()
    plan = found["QUERY PLAN"][0]["Plan"]
    assert (plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) / len(made) < 500
    assert call(db, "queue_overview", listed=0)["waiting"] >= 0
    status = db.execute("select status from public.evaluations where id = %s", [evaluation_id]).fetchone()
    assert status == {"status": "cancelled"}
    db.execute("delete from public.evaluations where id = %s", [evaluation_id])
