"""How a rollout is stored: its records for `ingest`, its rows in the tables, and COPY of rows.

This is the only place of the benchmarks that knows the tables of turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from benchmarks.workloads import Rollout
from openmanus_rl.records.ids import new_id

Batch = dict[str, list[dict[str, Any]]]


def make_batch(run_id: str, rollouts: Iterable[Rollout]) -> Batch:
    """Return finished rollouts as records for `ingest`."""
    batch: Batch = {"rollouts": [], "agent_states": []}
    for episode, rollout in enumerate(rollouts):
        rollout_id = new_id()
        turns = rollout["turns"]
        batch["rollouts"].append({
            "id": rollout_id, "training_run_id": run_id, "environment": "bench", "episode_number": episode,
            "task_description": rollout["task_description"], "status": "success",
            "total_reward": sum(turn["reward"] for turn in turns), "step_count": len(turns),
        })  # fmt: skip
        batch["agent_states"] += [
            {
                "id": new_id(), "rollout_id": rollout_id, "step_number": number,
                **{name: turn[name] for name in ("observation", "action", "thought", "reward")},
                "tool_calls": [{"id": new_id(), **call} for call in turn["tool_calls"]],
            }
            for number, turn in enumerate(turns)
        ]  # fmt: skip
    return batch


def flatten(batch: Batch) -> Batch:
    """Take the tool calls out of the turns: the rows as they are stored in the tables."""
    rows: Batch = {"rollouts": batch["rollouts"], "agent_states": [], "tool_calls": []}
    run = {"training_run_id": batch["rollouts"][0]["training_run_id"]}
    for turn in batch["agent_states"]:
        rows["agent_states"].append({k: v for k, v in turn.items() if not isinstance(v, list)} | run)
        rows["tool_calls"] += [{**call, "agent_state_id": turn["id"], **run} for call in turn["tool_calls"]]
    return rows


def copy_rows(
    connection: psycopg.Connection[Any], rows: Mapping[str, list[dict[str, Any]]], *, staged: bool = False
) -> None:
    """COPY the rows of each table, all with the columns of its first row, to the table or to the stage of `ingest`."""
    for table, records in rows.items():
        target = sql.Identifier("pg_temp", f"stage_{table}") if staged else sql.Identifier("public", table)
        columns = list(records[0])
        names = sql.SQL(", ").join(map(sql.Identifier, [*columns, *(["ordinal"] if staged else [])]))
        statement = sql.SQL("copy {} ({}) from stdin").format(target, names)
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for number, record in enumerate(records):
                given = [record[column] for column in columns]
                values = [Jsonb(value) if isinstance(value, dict) else value for value in given]
                copy.write_row([*values, number] if staged else values)
