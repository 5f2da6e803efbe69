"""Metric points in chunks: the same ones wherever a reader begins, and what is logged together shares its steps."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery.metric_chunks import MetricChunks
from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.spool.files import Position
from openmanus_rl.spool.writer import SpoolWriter

Record = dict[str, Any]
SPOOL = "01a1ec40-9024-7f20-b2f6-a564c82c0204"


def taken(chunks: MetricChunks) -> list[Record]:
    return [record for some in chunks.take() for record in some.as_records(0)]


def points(records: list[Record]) -> dict[str, list[tuple[int, Any]]]:
    """Return the points of chunks by metric, in the order of their steps; of a chunk that grew, only the last state."""
    axes = {record.get("axis_id", record["id"]): record["steps"] for record in records if "steps" in record}
    found: dict[str, list[tuple[int, Any]]] = {}
    for record in {record["id"]: record for record in records}.values():
        steps = axes[record.get("axis_id", record["id"])]
        found.setdefault(record["name"], []).extend(zip(steps, record["values"], strict=True))
    return {name: sorted(some) for name, some in found.items()}


def test_metrics_that_are_logged_together_share_their_steps_and_others_have_their_own() -> None:
    chunks = MetricChunks(SPOOL, 1)
    for step in range(3):
        chunks.add("r", step, f"t{step}", {"a": step, "b": step / 2, "c": -step}, step)
        chunks.add("r", step, f"u{step}", {"alone": step}, step)
    a, b, c, alone = taken(chunks)
    assert (a["name"], a["steps"], a["times"], a["values"]) == ("a", [0, 1, 2], ["t0", "t1", "t2"], [0, 1, 2])
    assert a["axis_id"] == b["axis_id"] == c["axis_id"] is not None
    assert {"steps", "times"}.isdisjoint(b.keys() | c.keys())
    assert "axis_id" not in alone
    assert alone["steps"] == [0, 1, 2]
    assert len({record["id"] for record in (a, b, c, alone)} | {a["axis_id"]}) == 5


def test_a_metric_of_several_sets_loses_no_point() -> None:
    chunks = MetricChunks(SPOOL, 1)
    for step in range(2000):
        chunks.add("r", step, "t", {"loss": step} | ({"eval": -step} if step % 10 == 0 else {}), step)
    assert points(taken(chunks)) == {
        "loss": [(step, step) for step in range(2000)],
        "eval": [(step, -step) for step in range(0, 2000, 10)],
    }


def test_ever_other_sets_of_metrics_do_not_make_a_chunk_for_each_point() -> None:
    chunks, chance = MetricChunks(SPOOL, 1), random.Random(0)
    logged: dict[str, list[tuple[int, Any]]] = {}
    for step in range(1000):
        values = {f"env {n}": step for n in sorted(chance.sample(range(64), 8))}
        chunks.add("r", step, "t", values, step)
        for name in values:
            logged.setdefault(name, []).append((step, step))
    records = taken(chunks)
    assert points(records) == logged
    assert len(records) < 64 + 16 * 8 + 1, "one for each metric, but for the first few sets"


@pytest.mark.parametrize("value", ["high", {"a": 1}, [1.0], "1.0"])
def test_a_value_that_is_no_number_is_refused_alone(value: Any) -> None:
    chunks = MetricChunks(SPOOL, 1)
    assert chunks.add("r", 0, "t", {"a": 1, "b": 2, "c": 3}, 0) == []
    (refused,) = chunks.add("r", 1, "t", {"a": 4, "b": value, "c": 5}, 1)
    assert refused["field"] == "b"
    assert chunks.add("r", 2, "t", {"a": 6, "b": None, "c": True}, 2) == []
    assert chunks.add("r", 3, "t", {"a": 7, "b": 8, "c": 9}, 3) == []
    assert points(taken(chunks)) == {
        "a": [(0, 1), (1, 4), (2, 6), (3, 7)],
        "b": [(0, 2), (3, 8)],
        "c": [(0, 3), (1, 5), (2, 1), (3, 9)],
    }


def test_a_bad_name_or_step_is_refused_alone() -> None:
    chunks = MetricChunks(SPOOL, 1)
    refused = chunks.add("r", 0, "t", {"": 1, "a": 1, "x" * 501: 1, "b": 2}, 0)
    assert [entry["field"] for entry in refused] == ["", "x" * 501]
    for step in (-1, 2**63, 1.5, "1", None):
        assert len(chunks.add("r", step, "t", {"a": 1, "b": None, "c": 2}, 1)) == 2  # type: ignore[arg-type]
    assert points(taken(chunks)) == {"a": [(0, 1)], "b": [(0, 2)]}


def test_what_is_not_finite_keeps_its_name_and_finite_sums_that_overflow_keep_their_numbers() -> None:
    chunks = MetricChunks(SPOOL, 1)
    chunks.add("r", 0, "t", {"a": "NaN", "b": 1e308}, 0)
    chunks.add("r", 1, "t", {"a": "-Infinity", "b": 1e308}, 1)
    chunks.add("r", 2, "t", {"a": 0.5, "b": -0.0}, 2)
    a, b = taken(chunks)
    assert a["values"] == ["NaN", "-Infinity", 0.5]
    assert b["values"] == [1e308, 1e308, 0.0]
    assert math.copysign(1, b["values"][2]) == -1


def test_the_chunks_are_the_same_wherever_a_reader_begins(tmp_path: Path) -> None:
    chance = random.Random(1)
    writer = SpoolWriter(tmp_path, url="x", run_id="r", segment_bytes=40_000)
    for step in range(1200):
        names = chance.choice([["a", "b", "c"], ["a"], ["b", "a"], ["c", "a"], chance.sample("abcdefgh", 4)])
        values: Record = {name: chance.choice([step, step / 2, "NaN", None, "bad", True]) for name in names}
        writer.append("metrics", {"run": chance.choice(["r", "q"]), "step": step, "values": values})
    writer.close()
    whole = _read(writer.folder, Position(1, 0), 10**9)
    assert len({record["id"] for record in whole}) > 20
    for _ in range(5):
        position, records = Position(1, 0), []
        while True:
            # A courier that is killed after each batch: the next one begins where that one was.
            batch = SpoolReader(writer.folder, position).read(chance.choice([100, 5_000, 60_000]))
            if batch is None:
                break
            records += batch.records.get("metric_chunks", [])
            position = batch.end
        grown: dict[str, Record] = {}
        for record in records:
            before = grown.get(record["id"])
            assert before is None or before["values"] == record["values"][: len(before["values"])]
            grown[record["id"]] = record
        assert grown == {record["id"]: record for record in whole}


def _read(folder: Path, position: Position, max_bytes: int) -> list[Record]:
    reader, records = SpoolReader(folder, position), []
    while (batch := reader.read(max_bytes)) is not None:
        records += batch.records.get("metric_chunks", [])
    return records
