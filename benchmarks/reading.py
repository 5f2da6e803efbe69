"""What `get-metrics` costs as a run grows, beside a recount of all its rollouts."""

from __future__ import annotations

import time
from collections.abc import Sequence

import httpx
import psycopg

from benchmarks.measuring import Measured
from benchmarks.stack import Stack
from openmanus_rl.records.ids import new_id

WAYS = ("get-metrics", "full recount")
BATCH = 50_000

FILL = """
insert into public.rollouts (training_run_id, environment, episode_number, status, total_reward, step_count, created_at)
select %(run_id)s, 'bench', n, case n %% 3 when 0 then 'success' else 'failed' end, n %% 10, n %% 20,
       now() - make_interval(secs => %(last)s - n)
from generate_series(%(first)s::bigint, %(last)s::bigint) n
"""
RECOUNT = """
select count(*), avg(total_reward), avg(step_count), count(*) filter (where status = 'success')
from public.rollouts where training_run_id = %s
"""


def measure_reading(stack: Stack, sizes: Sequence[int], way: str, _repeat: int) -> Measured:
    """Read the figures of a run of each size once; return the seconds by size."""
    seconds = {}
    headers = {"apikey": stack.settings["SUPABASE_SERVICE_ROLE_KEY"]}
    with (
        psycopg.connect(stack.settings["DATABASE_URL"], autocommit=True) as connection,
        httpx.Client(base_url=stack.settings["SUPABASE_URL"], headers=headers, timeout=60) as client,
    ):
        client.get("/functions/v1/get-metrics", params={"limit": 1})
        for size in sizes:
            run_id = _run_of(connection, size)
            began = time.perf_counter()
            if way == "get-metrics":
                answer = client.get("/functions/v1/get-metrics", params={"training_run_id": run_id, "limit": 100})
                assert answer.raise_for_status().json()["total_rollouts"] == size
            else:
                connection.execute(RECOUNT, [run_id]).fetchone()
            seconds[f"{size:,}"] = time.perf_counter() - began
    return seconds


def _run_of(connection: psycopg.Connection, size: int) -> str:
    """Return the id of a run of so many finished rollouts, which is made the first time."""
    name = f"{size:,} rollouts"
    if row := connection.execute("select id from public.training_runs where name = %s", [name]).fetchone():
        return str(row[0])
    run_id = new_id()
    connection.execute("insert into public.training_runs (id, name) values (%s, %s)", [run_id, name])
    for first in range(1, size + 1, BATCH):
        connection.execute(FILL, {"run_id": run_id, "first": first, "last": min(first + BATCH - 1, size)})
    connection.execute("vacuum analyze public.rollouts")
    return run_id
