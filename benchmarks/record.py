"""Rows per second into the record: managers one by one, `ingest`, and COPY of the same rows, on one server in one run.

    python benchmarks/record.py [--repeats 5] [--rollouts 64]

A row is a database row: a rollout of 20 turns is 61 (itself, and a turn, a tool call and a reward each). COPY goes
straight into the same tables, with the same indexes, foreign keys and triggers; it checks and explains nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import psycopg
from common import Measurement, console, embedded_stack, print_table, repeat
from copying import by_copy, copy_rows
from psycopg import sql
from workloads import TURNS, Batch, flatten, make_batch

from openmanus_rl.managers.batches import write_batch
from openmanus_rl.utils.supabase_db import RolloutManager, TrainingRunManager

ROWS_PER_ROLLOUT = 1 + 3 * TURNS
# One by one costs a request a row: fewer rollouts tell as much.
ROLLOUTS_ONE_BY_ONE = 2


def by_staging(connection: psycopg.Connection, rows: Batch) -> None:
    with connection.transaction():
        connection.execute("select internal.open_stage(%s)", [list(rows)])
        copy_rows(connection, rows, into=lambda kind: sql.Identifier("pg_temp", f"stage_{kind}"), numbered=True)
        answer = connection.execute("select internal.merge_stage(%s)", [list(rows)]).fetchone()
    assert answer is not None
    assert answer[0]["refused"] == []


def one_by_one(batch: Batch) -> None:
    for rollout in batch["rollouts"]:
        rollout = dict(rollout)
        outcome = {key: rollout.pop(key) for key in ("status", "total_reward", "step_count")}
        made = RolloutManager.create_rollout(rollout_id=rollout.pop("id"), **rollout)
        for turn in batch["agent_states"]:
            if turn["rollout_id"] != made["id"]:
                continue
            state_id = RolloutManager.log_agent_state(
                made["id"], turn["step_number"], turn["observation"], turn["action"], turn["thought"])  # fmt: skip
            for call in turn["tool_calls"]:
                RolloutManager.log_tool_call(state_id, **{key: value for key, value in call.items() if key != "id"})
            for reward in turn["rewards"]:
                RolloutManager.log_reward(made["id"], turn["step_number"], reward["reward"])
        RolloutManager.complete_rollout(made["id"], **outcome)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each way (default 5)")
    parser.add_argument("--rollouts", type=int, default=64, help="rollouts in a batch (default 64)")
    options = parser.parse_args()

    with embedded_stack() as settings, psycopg.connect(settings["DATABASE_URL"], autocommit=True) as connection:
        run_id = TrainingRunManager.create_run(name="benchmark", environment="bench")["id"]

        def batch(rollouts: int = options.rollouts) -> Batch:
            return make_batch(run_id, rollouts=rollouts, turns=TURNS)

        def ingest(records: Batch) -> None:
            assert write_batch(records).refused == ()

        rows = options.rollouts * ROWS_PER_ROLLOUT
        ways: list[tuple[str, int, Callable[[], Any], Callable[[Any], None]]] = [
            ("COPY", rows, lambda: flatten(batch()), lambda data: by_copy(connection, data)),
            ("COPY to staging, then merge", rows, lambda: flatten(batch()), lambda data: by_staging(connection, data)),
            ("ingest over HTTP", rows, batch, ingest),
            (
                "managers, one by one",
                ROLLOUTS_ONE_BY_ONE * ROWS_PER_ROLLOUT,
                lambda: batch(ROLLOUTS_ONE_BY_ONE),
                one_by_one,
            ),
        ]
        measurements: list[Measurement] = []
        for name, units, make, run in ways:
            with console.status(name):
                repeat(name, units, 1, make, run)  # warm
                measurements.append(repeat(name, units, options.repeats, make, run))

    print_table(f"Rows into the record, median of {options.repeats}", measurements, unit="rows", against="COPY")


if __name__ == "__main__":
    main()
