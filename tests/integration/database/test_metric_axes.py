"""Metrics that were logged together share their steps and times: they are read, and refused, as if each had its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .writing import Connection, Record, ingest, new_id, new_run, row, rows_read, write

AT = "2026-01-01T00:00:00+00:00"


def together(run_id: str, steps: list[int], series: dict[str, list[Any]], **fields: Any) -> list[Record]:
    """Return a chunk for each metric, of which the first brings the steps and times of all."""
    shared = {"training_run_id": run_id, "axis_id": new_id(), **fields}
    chunks: list[Record] = [{"id": new_id(), **shared, "name": name, "values": of} for name, of in series.items()]
    chunks[0] |= {"steps": steps, "times": [f"2026-01-01T00:00:{n:02}+00:00" for n in range(len(steps))]}
    return chunks


def grown(chunks: list[Record], steps: list[int], series: dict[str, list[Any]]) -> list[Record]:
    """Return later states of chunks."""
    longer = together(chunks[0]["training_run_id"], steps, series)
    return [new | {"id": old["id"], "axis_id": old["axis_id"]} for old, new in zip(chunks, longer, strict=True)]


def points(db: Connection, run_id: str) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    query = "select name, step, value from public.metrics where training_run_id = %s order by name, step"
    for point in db.execute(query, [run_id]):
        found.setdefault(point["name"], []).append((point["step"], point["value"]))
    return found


def stored(db: Connection, run_id: str) -> list[str]:
    """Return all that is stored of a run's metrics, and when."""
    tables = ("metric_chunks", "metric_axes")
    return [
        json.dumps(found["row"], sort_keys=True)
        for table in tables
        for found in db.execute(
            f"select to_jsonb(t) as row from public.{table} t where training_run_id = %s order by id", [run_id]
        )
    ]


def test_they_are_read_as_if_each_had_its_own_steps(db: Connection) -> None:
    run_id = new_run(db)
    chunks = together(run_id, [1, 2, 4], {"loss": [3.0, 2.0, "NaN"], "kl": [0.1, 0.2, 0.3]})
    write(db, {"metric_chunks": chunks})
    series = db.execute("select public.metric_series(%s) as found", [run_id]).fetchone()["found"]
    assert series["loss"]["steps"] == series["kl"]["steps"] == [1, 2, 4]
    assert series["kl"]["times"] == [f"2026-01-01T00:00:0{n}+00:00" for n in range(3)]
    assert series["loss"]["values"] == [3.0, 2.0, "NaN"]
    assert db.execute("select public.metric_names(%s) as found", [run_id]).fetchone()["found"] == ["kl", "loss"]
    assert points(db, run_id)["kl"] == [(1, 0.1), (2, 0.2), (4, 0.3)]
    for chunk in chunks:
        found = row(db, "metric_chunks", chunk["id"])
        assert (found["first_step"], found["last_step"], found["steps"], found["times"]) == (1, 4, None, None)
    assert row(db, "metric_axes", chunks[0]["axis_id"])["steps"] == [1, 2, 4]


def test_they_only_grow_and_an_earlier_state_changes_nothing(db: Connection) -> None:
    run_id = new_run(db)
    early = together(run_id, [1], {"loss": [1.0], "kl": [10.0]})
    late = grown(early, [1, 2, 3], {"loss": [1.0, 2.0, 3.0], "kl": [10.0, 20.0, 30.0]})
    write(db, {"metric_chunks": early})
    write(db, {"metric_chunks": late})
    before = stored(db, run_id)
    for batch in (early, late, early + late, list(reversed(late)), [{**early[0], "steps": [9]}]):
        write(db, {"metric_chunks": batch})
        assert stored(db, run_id) == before
    assert points(db, run_id) == {"loss": [(1, 1.0), (2, 2.0), (3, 3.0)], "kl": [(1, 10.0), (2, 20.0), (3, 30.0)]}


def test_several_states_in_one_batch_are_the_longest(db: Connection) -> None:
    run_id = new_run(db)
    early = together(run_id, [1], {"loss": [1.0], "kl": [10.0]})
    late = grown(early, [1, 2], {"loss": [1.0, 2.0], "kl": [10.0, 20.0]})
    write(db, {"metric_chunks": [*late, *early]})
    assert points(db, run_id) == {"loss": [(1, 1.0), (2, 2.0)], "kl": [(1, 10.0), (2, 20.0)]}


def test_a_metric_that_is_behind_the_others_shows_what_it_has(db: Connection) -> None:
    """A batch may come in parts: the steps first, and then the values of each metric."""
    run_id = new_run(db)
    early = together(run_id, [5, 1], {"loss": [1.0, 2.0], "kl": [10.0, 20.0]})
    write(db, {"metric_chunks": early})
    loss, kl = grown(early, [5, 1, 9], {"loss": [1.0, 2.0, 3.0], "kl": [10.0, 20.0, 30.0]})
    write(db, {"metric_chunks": [loss]})
    assert points(db, run_id) == {"loss": [(1, 2.0), (5, 1.0), (9, 3.0)], "kl": [(1, 20.0), (5, 10.0)]}
    other = {**kl, "id": new_id(), "name": "late", "values": [7.0]}
    write(db, {"metric_chunks": [other]})
    assert (row(db, "metric_chunks", other["id"])["first_step"], points(db, run_id)["late"]) == (5, [(5, 7.0)])
    series = db.execute("select public.metric_series(%s, from_step => 6) as found", [run_id]).fetchone()["found"]
    assert list(series) == ["loss"]
    write(db, {"metric_chunks": [kl]})
    assert points(db, run_id)["kl"] == [(1, 20.0), (5, 10.0), (9, 30.0)]


def test_a_rewind_hides_all_of_them_also_what_comes_later(db: Connection) -> None:
    run_id = new_run(db)
    early = together(run_id, [1, 2, 3], {"loss": [1.0, 2.0, 3.0], "kl": [1.0, 2.0, 3.0]}, timeline=0)
    write(db, {"metric_chunks": early})
    write(db, {"training_runs": [{"id": run_id, "rewinds": [1]}]})
    assert points(db, run_id) == {"loss": [(1, 1.0)], "kl": [(1, 1.0)]}
    cut_at = db.execute("select cut_at from public.rewinds where training_run_id = %s", [run_id]).fetchone()["cut_at"]
    assert cut_at.isoformat() == "2026-01-01T00:00:01+00:00", "when the run first went beyond the step"
    late = grown(early, [1, 2, 3, 4], {"loss": [1.0, 2.0, 3.0, 4.0], "kl": [1.0, 2.0, 3.0, 4.0]})
    write(db, {"metric_chunks": [{**chunk, "timeline": 0} for chunk in late]})
    write(db, {"metric_chunks": together(run_id, [2], {"loss": [20.0], "kl": [20.0]}, timeline=1)})
    assert points(db, run_id) == {"loss": [(1, 1.0), (2, 20.0)], "kl": [(1, 1.0), (2, 20.0)]}


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"axis_id": "00000000-0000-4000-8000-000000000000"}, "OM404", "is unknown; create it first"),
        ({"axis_id": "of another run"}, "OM409", "axis_id"),
        ({"axis_id": "none"}, "OM400", "axis_id"),
        ({"values": [1.0, 2.0, 3.0]}, "OM400", "arrays match"),
        ({"values": []}, "OM400", "arrays match"),
        ({"values": [1.0, None]}, "OM400", "array_position"),
        ({"name": ""}, "OM400", "name: it must hold that"),
        ({"steps": [1, 2, 3], "times": [AT]}, "OM400", "metric axes arrays match"),
        ({"steps": [1, 2, -3], "times": [AT] * 3}, "OM400", "first_step >= 0"),
        ({"steps": [1, 2, None], "times": [AT] * 3}, "OM400", "array_position"),
        ({"steps": [1, 2, 3]}, "OM400", "times is required"),
    ],
    ids=str,
)
def test_a_metric_that_does_not_add_up_is_refused_alone(db: Connection, fields: Record, code: str, said: str) -> None:
    run_id, other = new_run(db), new_run(db)
    foreign = together(other, [1, 2], {"loss": [1.0, 2.0], "kl": [1.0, 2.0]})
    write(db, {"metric_chunks": foreign})
    if fields.get("axis_id") == "of another run":
        fields = {"axis_id": foreign[0]["axis_id"]}
    chunks = together(run_id, [1, 2], {"loss": [1.0, 2.0], "bad": [3.0, 4.0], "kl": [5.0, 6.0]})
    before = stored(db, other)
    (refusal,) = ingest(db, {"metric_chunks": [chunks[0], chunks[1] | fields, chunks[2]]})["refused"]
    assert (refusal["index"], refusal["code"]) == (1, code)
    assert said in refusal["message"]
    assert points(db, run_id) == {"loss": [(1, 1.0), (2, 2.0)], "kl": [(1, 5.0), (2, 6.0)]}
    assert stored(db, other) == before


def test_a_chunk_keeps_its_axis(db: Connection) -> None:
    run_id = new_run(db)
    one = together(run_id, [1], {"loss": [1.0], "kl": [10.0]})
    two = together(run_id, [1, 2], {"loss": [1.0, 2.0], "kl": [10.0, 20.0]})
    own = {"steps": [1, 2], "values": [1.0, 2.0], "times": [AT] * 2}
    alone = {"id": new_id(), "training_run_id": run_id, "name": "alone", "steps": [1], "values": [1.0], "times": [AT]}
    write(db, {"metric_chunks": [*one, *two, alone]})
    before = stored(db, run_id)
    moves = [
        {**two[1], "id": one[1]["id"]},
        {"id": one[1]["id"], "training_run_id": run_id, "name": "kl", **own},
        {**two[1], "id": alone["id"]},
    ]
    for move in moves:
        (refusal,) = ingest(db, {"metric_chunks": [move]})["refused"]
        assert (refusal["code"], refusal["field"]) == ("OM409", "axis_id")
        assert stored(db, run_id) == before


def test_deleting_a_metric_leaves_those_that_were_logged_with_it(db: Connection) -> None:
    run_id = new_run(db)
    early = together(run_id, [1], {"loss": [1.0], "kl": [10.0]})
    write(db, {"metric_chunks": early})
    db.execute("delete from public.metric_chunks where training_run_id = %s and name = 'loss'", [run_id])
    assert points(db, run_id) == {"kl": [(1, 10.0)]}
    write(db, {"metric_chunks": grown(early, [1, 2], {"loss": [1.0, 2.0], "kl": [10.0, 20.0]})})
    assert points(db, run_id)["kl"] == [(1, 10.0), (2, 20.0)]
    db.execute("delete from public.training_runs where id = %s", [run_id])
    assert stored(db, run_id) == []


def test_writing_reads_no_chunks_of_others(db: Connection) -> None:
    """However many there are: Postgres cannot know how few records a batch has, and would join whole tables."""
    run_id = new_run(db)
    write(db, {"metric_chunks": together(run_id, [1], {f"metric {n}": [1.0] for n in range(2000)})})
    db.execute("analyze public.metric_chunks, public.metric_axes")
    chunks = together(new_run(db), [1], {"loss": [1.0], "kl": [10.0]})
    write(db, {"metric_chunks": chunks})
    with db.transaction():
        before = rows_read(db)
        write(db, {"metric_chunks": grown(chunks, [1, 2], {"loss": [1.0, 2.0], "kl": [10.0, 20.0]})})
        assert 0 < rows_read(db) - before < 1000
