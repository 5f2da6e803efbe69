"""What `get-metrics` costs for runs of a thousand, a hundred thousand and a million rollouts, side by side.

python benchmarks/get_metrics.py [--repeats 50]
"""

from __future__ import annotations

import argparse
import statistics
import time

import httpx
import psycopg
from common import console, embedded_stack
from rich.table import Table

from openmanus_rl.records.ids import new_id

SIZES = (1_000, 100_000, 1_000_000)
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


def fill(connection: psycopg.Connection, size: int) -> str:
    """Make a run of `size` finished rollouts and return its id."""
    run_id = new_id()
    connection.execute("insert into public.training_runs (id, name) values (%s, %s)", [run_id, f"{size:,} rollouts"])
    for first in range(1, size + 1, BATCH):
        connection.execute(FILL, {"run_id": run_id, "first": first, "last": min(first + BATCH - 1, size)})
    return run_id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50, help="requests per size (default 50)")
    repeats = parser.parse_args().repeats

    with embedded_stack() as settings, psycopg.connect(settings["DATABASE_URL"], autocommit=True) as connection:
        runs = {}
        for size in SIZES:
            with console.status(f"making a run of {size:,} rollouts"):
                runs[size] = fill(connection, size)
        connection.execute("vacuum analyze public.rollouts")

        key = settings["SUPABASE_SERVICE_ROLE_KEY"]
        seconds: dict[tuple[str, int], list[float]] = {}
        with httpx.Client(base_url=settings["SUPABASE_URL"], headers={"apikey": key}, timeout=60) as client:
            # Sizes take turns, so that whatever else the machine does falls on all of them alike.
            for _ in range(repeats):
                for size, run_id in runs.items():
                    began = time.perf_counter()
                    answer = client.get("/functions/v1/get-metrics", params={"training_run_id": run_id, "limit": 100})
                    seconds.setdefault(("get-metrics", size), []).append(time.perf_counter() - began)
                    assert answer.raise_for_status().json()["total_rollouts"] == size

                    began = time.perf_counter()
                    connection.execute(RECOUNT, [run_id]).fetchone()
                    seconds.setdefault(("full recount", size), []).append(time.perf_counter() - began)

    table = Table(title=f"get-metrics, median of {repeats}, relative to a run of {SIZES[0]:,} rollouts")
    for column in ("way", *(f"{size:,}" for size in SIZES)):
        table.add_column(column, justify="right")
    for way in ("get-metrics", "full recount"):
        medians = [statistics.median(seconds[way, size]) for size in SIZES]
        table.add_row(way, *(f"{median / medians[0]:.2f}" for median in medians))
    console.print(table)


if __name__ == "__main__":
    main()
