"""What a claim costs in the database, whatever has been finished before."""

from __future__ import annotations

import statistics
import time
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.measuring import Measured
from benchmarks.queues import Ours
from benchmarks.stack import Stack

_BATCH = 50_000
_ONES, _MANY, _MANY_TIMES = 60, 16, 15
# As the queue leaves them, in the course of a month; with the history of their statuses.
_FINISHED = """
with made as (
  insert into public.rollouts (environment, task_id, source, task_description, status, agent, request, lease_id,
    worker_id, step_count, created_at, started_at, finished_at)
  select 'default', %(task)s, 'manual', 'do nothing', case n %% 4 when 0 then 'failed' else 'success' end, 'noop',
    '{"provider": "none"}', gen_random_uuid(), gen_random_uuid(), 0, at, at, at
  from generate_series(%(first)s::integer, %(last)s::integer) n,
    lateral (select now() - interval '30 days' * (1 - n / %(count)s::float) as at) t
  returning id, status, created_at)
insert into public.status_history (entity, entity_id, old_status, new_status, changed_at)
select 'rollouts', m.id, s.old, coalesce(s.new, m.status), m.created_at from made m,
  (values (null, 'pending'), ('pending', 'provisioning'), ('provisioning', 'running'), ('running', null)) s (old, new)
"""


def fill(stack: Stack, count: int) -> None:
    """Add finished rollouts of the queue. Triggers do not run: they would take most of an hour."""
    with psycopg.connect(stack.settings["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        task = _value(
            connection, "insert into public.tasks (description, external_id) values ('x', 'past') returning id"
        )
        for first in range(1, count + 1, _BATCH):
            last = min(count, first + _BATCH - 1)
            connection.execute(_FINISHED, {"task": task, "first": first, "last": last, "count": count})
        connection.execute("vacuum analyze")


def measure_claims(stack: Stack) -> Measured:
    """Return the milliseconds of a claim of one rollout, and of one of 16, committed."""
    with psycopg.connect(stack.settings["DATABASE_URL"], autocommit=True) as connection:
        worker_id = _value(connection, "select public.register_worker(%s) ->> 'worker_id'", Jsonb({"name": "measured"}))
        # More than are claimed: those that are left make no difference either.
        Ours(stack).put(connection, 2 * (_ONES + _MANY * _MANY_TIMES))
        ones = [_claim(connection, worker_id, 1) for _ in range(_ONES)]
        many = [_claim(connection, worker_id, _MANY) for _ in range(_MANY_TIMES)]
        connection.execute("select public.retire_worker(%s)", [worker_id])
        connection.execute("delete from public.rollouts where status = 'pending'")
    return {"one_ms": statistics.median(ones), "many_ms": statistics.median(many)}


def _claim(connection: psycopg.Connection[Any], worker_id: Any, wanted: int) -> float:
    begin = time.perf_counter()
    claimed = _value(
        connection, "select jsonb_array_length(public.claim_rollouts(%s, %s) -> 'claims')", worker_id, wanted
    )
    seconds = time.perf_counter() - begin
    if claimed != wanted:
        raise RuntimeError(f"{claimed} of {wanted} rollouts were claimed")
    return seconds * 1000


def _value(connection: psycopg.Connection[Any], statement: Any, *values: Any) -> Any:
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return row[0]
