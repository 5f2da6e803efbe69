"""Measure archiving: rows per second, and the size of an archive against that of its rows in the database.

    .venv/bin/python benchmarks/archive.py [--rollouts 500] [--turns 20]

Records a run of text turns with tool calls, tokens and metrics on the stack of the settings, archives it, restores it,
and deletes it. Sizes are ratios and do not depend on the machine; rates do, so they are compared with the rate at which
the same rows are delivered by the loader.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

from openmanus_rl.archiving import Archiver
from openmanus_rl.connections import find_database_url
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.transport.loading import Loader

_TABLES = (
    "public.agent_states",
    "public.tool_calls",
    "public.generations",
    "public.metric_chunks",
    "public.metric_axes",
)
_WORDS = [
    "you",
    "are",
    "in",
    "a",
    "room",
    "with",
    "door",
    "window",
    "lamp",
    "table",
    "red",
    "blue",
    "ball",
    "go",
    "north",
    "open",
    "take",
    "search",
    "the",
    "of",
    "and",
]
_AT_ONCE = 50


def main() -> None:
    """Print the measurements as JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rollouts", type=int, default=500)
    options.add_argument("--turns", type=int, default=20)
    given = options.parse_args()
    database_url = find_database_url(load_settings())
    assert database_url is not None, "set DATABASE_URL, or start the embedded stack"
    run_id = str(TrainingRunManager.create_run(name="archive benchmark", environment="house")["id"])
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = _size(connection)
        seconds = _record(database_url, run_id, given.rollouts, given.turns)
        TrainingRunManager.update_status(run_id, "completed")
        stored = _size(connection) - before
    # The first conversion imports pandas, where it is installed.
    pyarrow.Table.from_pylist([{"warm": 1}])
    with Archiver(database_url) as archiver:
        archive_seconds, archived = _timed(lambda: archiver.archive(run_id))
        verify_seconds, _ = _timed(lambda: archiver.verify(run_id))
        restore_seconds, _ = _timed(lambda: archiver.restore(run_id))
    TrainingRunManager.delete_run(run_id)
    rows = sum(archived.row_counts.values())
    report = {
        "turns": archived.row_counts["agent_states"],
        "rows": rows,
        "tables_and_indexes_bytes": stored,
        "row_bytes": archived.database_bytes,
        "archive_bytes": archived.archive_bytes,
        "tables_and_indexes_per_archive_byte": round(stored / archived.archive_bytes, 1),
        "row_bytes_per_archive_byte": round(archived.database_bytes / archived.archive_bytes, 1),
        "archive_rows_per_second": round(rows / archive_seconds),
        "verify_rows_per_second": round(rows / verify_seconds),
        "restore_rows_per_second": round(rows / restore_seconds),
        "archive_time_per_delivery_time": round(archive_seconds / seconds, 2),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(report, indent=1))


def _timed(work: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = work()
    return time.perf_counter() - began, answer


def _size(connection: psycopg.Connection[Any]) -> int:
    found = connection.execute(
        "select sum(pg_total_relation_size(t::regclass)) from unnest(%s::text[]) t", [list(_TABLES)]
    )
    row = found.fetchone()
    assert row is not None
    return int(row[0])


def _record(database_url: str, run_id: str, rollouts: int, turns: int) -> float:
    """Deliver the run as the courier does, and return how long it took."""
    loader = Loader(database_url)
    seconds = 0.0
    try:
        for batch in _batches(run_id, rollouts, turns):
            took, refused = _timed(lambda batch=batch: loader.load(batch))
            assert not refused, refused[0]
            seconds += took
    finally:
        loader.close()
    return seconds


def _batches(run_id: str, rollouts: int, turns: int) -> Iterator[dict[str, list[dict[str, Any]]]]:
    chance = random.Random(7)
    for start in range(0, rollouts, _AT_ONCE):
        batch: dict[str, list[dict[str, Any]]] = {
            "rollouts": [],
            "agent_states": [],
            "tool_calls": [],
            "generations": [],
        }
        for number in range(start, min(start + _AT_ONCE, rollouts)):
            rollout = new_id()
            batch["rollouts"].append(
                {
                    "id": rollout,
                    "training_run_id": run_id,
                    "episode_number": number,
                    "status": "success",
                    "total_reward": 1.0,
                }
            )
            for step in range(turns):
                _add_turn(batch, chance, rollout, step)
        yield batch
    steps = list(range(5000))
    times = [f"2026-01-01T{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}Z" for at in steps]
    yield {
        "metric_chunks": [
            {"id": new_id(), "training_run_id": run_id, "name": f"metric/{n}", "steps": steps, "times": times,
             "values": [chance.random() for _ in steps]}
            for n in range(10)
        ]
    }  # fmt: skip


def _add_turn(batch: dict[str, list[dict[str, Any]]], chance: random.Random, rollout: str, step: int) -> None:
    def text(words: int) -> str:
        return " ".join(chance.choices(_WORDS, k=words))

    turn = new_id()
    tokens = [chance.randrange(100_000) for _ in range(80)]
    batch["agent_states"].append(
        {"id": turn, "rollout_id": rollout, "step_number": step, "observation": text(150), "thought": text(60),
         "action": text(8), "reward": chance.random()}
    )  # fmt: skip
    batch["tool_calls"].append(
        {"id": new_id(), "agent_state_id": turn, "position": 0, "tool_name": "search", "tool_input": {"query": text(5)},
         "tool_output": text(80), "success": chance.random() > 0.1}
    )  # fmt: skip
    batch["generations"].append(
        {"id": new_id(), "agent_state_id": turn, "position": 0, "completion_ids": tokens,
         "logprobs": [-chance.random() for _ in tokens], "finish_reason": "stop"}
    )  # fmt: skip


if __name__ == "__main__":
    main()
