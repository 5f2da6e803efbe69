"""Metric series: thinned on the server without losing a spike, read through the index."""

from __future__ import annotations

import json
import math
from typing import Any

import psycopg
import pytest

from .writing import Connection, Record, new_id, new_run, write


def log_series(
    db: Connection, run_id: str, name: str, values: list[Any], *, chunk: int = 500, first_step: int = 0, stride: int = 1
) -> None:
    """Write a series, a chunk at a time."""
    plain = [value if not isinstance(value, float) or math.isfinite(value) else str(value) for value in values]
    plain = [{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(value, value) for value in plain]
    chunks = []
    for start in range(0, len(values), chunk):
        part = plain[start : start + chunk]
        steps = [first_step + stride * (start + n) for n in range(len(part))]
        chunks.append(
            {
                "id": new_id(),
                "training_run_id": run_id,
                "name": name,
                "steps": steps,
                "values": part,
                "times": ["2026-01-01T00:00:00+00:00"] * len(part),
            }
        )
    write(db, {"metric_chunks": chunks})


def series(db: Connection, run_id: str, **options: Any) -> dict[str, list[tuple[int, float]]]:
    named = "".join(f", {name} => %({name})s" for name in options)
    query = f"select public.metric_series(%(run)s{named}) as found"
    found = db.execute(query, {"run": run_id, **options}).fetchone()["found"]
    return {name: list(zip(of["steps"], map(float, of["values"]), strict=True)) for name, of in found.items()}


def test_a_short_series_comes_back_whole_and_in_order(db: Connection) -> None:
    run_id = new_run(db)
    log_series(db, run_id, "loss", [3.0, 1.0, 2.0], chunk=2)
    assert series(db, run_id) == {"loss": [(0, 3.0), (1, 1.0), (2, 2.0)]}


def test_a_long_series_is_thinned_and_keeps_its_extremes(db: Connection) -> None:
    run_id = new_run(db)
    values = [math.sin(n / 50) for n in range(5000)]
    values[1234], values[4321] = 100.0, -100.0
    log_series(db, run_id, "loss", values)
    for max_points in (2, 3, 10, 101, 1000):
        (points,) = series(db, run_id, max_points=max_points).values()
        assert 2 <= len(points) <= max_points
        assert (1234, 100.0) in points
        assert (4321, -100.0) in points
        assert points == sorted(points)
        assert all(values[step] == value for step, value in points)
    assert len(points) > 900, "most of what is allowed is used"


def test_nan_and_infinity_stay_visible_beside_the_extremes(db: Connection) -> None:
    run_id = new_run(db)
    values = [float(n % 7) for n in range(2000)]
    values[500], values[505], values[1500] = 1e9, math.nan, -math.inf
    log_series(db, run_id, "loss", values)
    (points,) = series(db, run_id, max_points=30).values()
    assert len(points) <= 30
    assert (500, 1e9) in points, "a spike is not lost to a NaN near by"
    assert (1500, -math.inf) in points
    assert [step for step, value in points if math.isnan(value)] == [505]


def test_a_series_of_nan_alone_is_a_series(db: Connection) -> None:
    run_id = new_run(db)
    log_series(db, run_id, "loss", [math.nan] * 300)
    (points,) = series(db, run_id, max_points=20).values()
    assert 1 <= len(points) <= 20
    assert all(math.isnan(value) for _, value in points)


@pytest.mark.parametrize("first_step", [0, 1_760_000_000_000_000_000, 2**63 - 3000])
def test_steps_may_be_as_large_as_they_come(db: Connection, first_step: int) -> None:
    run_id = new_run(db)
    log_series(db, run_id, "loss", [float(n) for n in range(3000)], first_step=first_step)
    (points,) = series(db, run_id, max_points=10).values()
    assert len(points) == 10
    assert (points[0], points[-1]) == ((first_step, 0.0), (first_step + 2999, 2999.0))


def test_many_points_of_one_step_are_thinned_too(db: Connection) -> None:
    run_id = new_run(db)
    log_series(db, run_id, "loss", [float(n) for n in range(100)], first_step=2**60, stride=0)
    assert series(db, run_id, max_points=10) == {"loss": [(2**60, 0.0), (2**60, 99.0)]}


def test_a_range_of_steps_and_names_are_chosen(db: Connection) -> None:
    run_id = new_run(db)
    for name in ("a", "b", "c"):
        log_series(db, run_id, name, [float(n) for n in range(100)], chunk=30)
    found = series(db, run_id, names=["a", "c", "none"], from_step=25, to_step=64)
    assert list(found) == ["a", "c"]
    assert [step for step, _ in found["a"]] == list(range(25, 65))
    assert series(db, run_id, from_step=99)["b"] == [(99, 99.0)]
    assert series(db, run_id, to_step=0)["b"] == [(0, 0.0)]
    assert series(db, run_id, from_step=100) == {}


def test_many_names_come_at_once(db: Connection) -> None:
    run_id = new_run(db)
    for number in range(40):
        log_series(db, run_id, f"metric {number:02}", [float(n) for n in range(200)])
    found = series(db, run_id, max_points=20)
    assert list(found) == [f"metric {number:02}" for number in range(40)]
    assert {len(points) for points in found.values()} == {20}


def test_fewer_points_than_extremes_is_an_error(db: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        series(db, new_run(db), max_points=1)
    assert caught.value.sqlstate == "OM400"


def test_the_view_of_points_shows_each_and_reads_through_the_index(db: Connection) -> None:
    run_id = new_run(db)
    log_series(db, run_id, "loss", [1.0, math.nan])
    points = db.execute(
        "select step, value from public.metrics where training_run_id = %s and name = 'loss' order by step", [run_id]
    )
    assert [(point["step"], str(point["value"])) for point in points] == [(0, "1.0"), (1, "nan")]
    for number in range(50):
        log_series(db, new_run(db), "loss", [1.0])
        log_series(db, run_id, f"other {number}", [1.0])
    db.execute("analyze public.metric_chunks")
    # Too few rows here for the index to be worth it: the question is whether the filter can reach it.
    with db.transaction():
        db.execute("set local enable_seqscan = off")
        plan = db.execute(
            "explain (format json) select * from public.metrics where training_run_id = %s and name = 'loss'"
            " and step > 3",
            [run_id],
        ).fetchone()
    assert plan is not None
    text = json.dumps(plan["QUERY PLAN"])
    assert "metric_chunks_of_a_metric" in text
    conditions = [node["Index Cond"] for node in walk(plan["QUERY PLAN"][0]["Plan"]) if "Index Cond" in node]
    assert any("training_run_id" in condition and "name" in condition for condition in conditions)


def walk(node: Record) -> list[Record]:
    return [node] + [found for inner in node.get("Plans", []) for found in walk(inner)]


def test_the_names_of_a_runs_metrics_are_listed_once_each(db: Connection) -> None:
    run_id, other = new_run(db), new_run(db)
    for name in ("reward", "loss", "äöü"):
        log_series(db, run_id, name, [1.0] * 10, chunk=2)
    log_series(db, other, "elsewhere", [1.0])
    names = db.execute("select public.metric_names(%s) as found", [run_id]).fetchone()["found"]
    assert names == sorted(["reward", "loss", "äöü"])
    assert db.execute("select public.metric_names(%s) as found", [new_run(db)]).fetchone()["found"] == []
