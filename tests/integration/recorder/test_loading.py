"""Batches by COPY: what is new goes straight to its table, and everything else by the merge, with the same outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.files import Position
from openmanus_rl.spool.writer import SpoolWriter
from openmanus_rl.transport.loading import Loader

from .conftest import Query

Batch = dict[str, list[dict[str, Any]]]


@pytest.fixture
def loader(stack: Any) -> Iterator[Loader]:
    opened = Loader(stack.database_url)
    yield opened
    opened.close()


def a_run(*, rollouts: int = 2, turns: int = 3) -> tuple[str, Batch]:
    run_id = new_id()
    batch: Batch = {
        "training_runs": [{"id": run_id, "name": "r", "environment": "e", "status": "running"}],
        "rollouts": [], "agent_states": [], "tool_calls": [], "rewards": [], "generations": [],
    }  # fmt: skip
    for _ in range(rollouts):
        rollout_id = new_id()
        batch["rollouts"].append({"id": rollout_id, "training_run_id": run_id, "status": "success", "timeline": 0})
        for number in range(turns):
            turn_id = new_id()
            turn = {
                "id": turn_id,
                "rollout_id": rollout_id,
                "step_number": number,
                "observation": "\\N\ttab\nnew\\line",
            }
            batch["agent_states"].append(turn)
            of_turn = {"agent_state_id": turn_id, "position": 0}
            batch["tool_calls"].append({"id": new_id(), **of_turn, "tool_name": "t", "tool_input": {"q": [1, None]}})
            batch["generations"].append(
                {
                    "id": new_id(),
                    **of_turn,
                    "completion_ids": [1, 2],
                    "logprobs": [-0.5, "-Infinity"],
                    "mask": [True, False],
                }
            )
            batch["rewards"].append({"id": new_id(), "rollout_id": rollout_id, "step_number": number, "reward": "NaN"})
    return run_id, batch


def counts(query: Query, run_id: str) -> dict[str, int]:
    kinds = ("rollouts", "agent_states", "tool_calls", "generations", "rewards")
    return {
        kind: query(f"select count(*) from {kind} where training_run_id = %s", run_id)[0]["count"] for kind in kinds
    }


def chunk(run_id: str, steps: list[int], values: list[Any], **fields: Any) -> dict[str, Any]:
    times = ["2026-01-02T03:04:05.678901+00:00"] * len(steps)
    record = {"id": new_id(), "training_run_id": run_id, "timeline": 0, "name": "loss"}
    return {**record, "steps": steps, "values": values, "times": times, **fields}


def test_a_batch_that_is_loaded_again_changes_nothing(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    assert loader.load(batch) == []
    expected = {"rollouts": 2, "agent_states": 6, "tool_calls": 6, "generations": 6, "rewards": 6}
    assert counts(query, run_id) == expected
    assert loader.load(batch) == []
    assert counts(query, run_id) == expected
    (turn,) = query("select * from agent_states where id = %s", batch["agent_states"][0]["id"])
    assert turn["observation"] == "\\N\ttab\nnew\\line"
    (tokens,) = query("select * from generations where id = %s", batch["generations"][0]["id"])
    assert (tokens["logprobs"], tokens["mask"]) == ([-0.5, -math.inf], [True, False])


def test_what_hangs_on_a_turn_of_the_same_batch_finds_it(loader: Loader, query: Query) -> None:
    _, batch = a_run()
    of_turn = {"rollout_id": batch["rollouts"][0]["id"], "agent_state_id": batch["agent_states"][0]["id"]}
    picture = {"id": new_id(), **of_turn, "kind": "image", "path": "a/b.png"}
    assert loader.load({"media": [picture], **batch}) == []
    assert query("select path from media where id = %s", picture["id"]) == [{"path": "a/b.png"}]


def test_of_a_batch_that_was_loaded_in_part_the_rest_is_loaded(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    first = {kind: records[: len(records) // 2] or records for kind, records in batch.items()}
    assert loader.load(first) == []
    assert loader.load(batch) == []
    assert counts(query, run_id)["tool_calls"] == 6


def test_thousands_of_orphans_are_refused_each_and_their_neighbours_written(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    nowhere = new_id()
    orphans = [{"id": new_id(), "rollout_id": nowhere, "step_number": number} for number in range(3000)]
    calls = [{"id": new_id(), "agent_state_id": one["id"], "position": 0, "tool_name": "t"} for one in orphans]
    batch["agent_states"] = orphans[:1500] + batch["agent_states"] + orphans[1500:]
    batch["tool_calls"] += calls
    refused = loader.load(batch)
    assert len(refused) == 6000
    assert {(entry["kind"], entry["code"], entry["field"]) for entry in refused} == {
        ("agent_states", "OM404", "rollout_id"), ("tool_calls", "OM404", "agent_state_id"),
    }  # fmt: skip
    assert all(batch[entry["kind"]][entry["index"]]["id"] == entry["id"] for entry in refused)
    assert refused[0]["message"] == f"agent_states {orphans[0]['id']}: rollout_id {nowhere} is unknown; create it first"
    assert counts(query, run_id)["agent_states"] == counts(query, run_id)["tool_calls"] == 6


def test_what_the_merge_refuses_is_refused_here_too(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    other_run, other = a_run()
    assert loader.load(other) == []
    batch["agent_states"][0]["training_run_id"] = other_run
    batch["rewards"][3]["reward"] = "much"
    batch["tool_calls"][5]["tool_name"] = ""
    refused = {(entry["kind"], entry["index"]): entry["field"] for entry in loader.load(batch)}
    assert refused["agent_states", 0] == "training_run_id"
    assert refused["rewards", 3] == "reward"
    assert refused["tool_calls", 5] == "tool_name"
    assert counts(query, run_id)["rewards"] == 5


def test_whoever_writes_turns_says_that_the_run_is_alive(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    assert loader.load(batch) == []
    query("update training_runs set heartbeat_at = now() - interval '1 hour' where id = %s returning 1", run_id)
    rollout_id = batch["rollouts"][0]["id"]
    assert loader.load({"agent_states": [{"id": new_id(), "rollout_id": rollout_id, "step_number": 99}]}) == []
    assert query("select 1 from training_runs where id = %s and heartbeat_at > now() - interval '1 minute'", run_id)


def test_chunks_come_back_as_they_were_and_only_grow(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    assert loader.load(batch) == []
    values = [0.1, 7, True, "NaN", "-Infinity", -0.0]
    one = chunk(run_id, [0, 1, 2, 3, 4, 2**62], values)
    grown = {**one, "steps": [*one["steps"], 9], "values": [*values, 9.5], "times": [*one["times"], one["times"][0]]}
    assert loader.load({"metric_chunks": [one, chunk(run_id, [1], [1.0], name="kl")]}) == []
    assert loader.load({"metric_chunks": [grown, chunk(run_id, [2], [2.0], name="kl")]}) == []
    assert loader.load({"metric_chunks": [one]}) == []
    (found,) = query("select * from metric_chunks where id = %s", one["id"])
    assert found["steps"] == grown["steps"]
    assert found["values"][:3] == [0.1, 7.0, 1.0]
    assert math.isnan(found["values"][3])
    assert found["values"][4:] == [-math.inf, 0.0, 9.5]
    assert {when.isoformat() for when in found["times"]} == {"2026-01-02T03:04:05.678901+00:00"}
    assert (found["first_step"], found["last_step"]) == (0, 2**62)
    assert len(query("select 1 from metric_chunks where training_run_id = %s and name = 'kl'", run_id)) == 2


def test_chunks_that_share_an_axis_come_back_as_they_were_and_only_grow(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    axis_id, first, other = new_id(), chunk(run_id, [3, 4], [0.5, "NaN"]), chunk(run_id, [], [7, "Infinity"], name="kl")
    first["axis_id"] = other["axis_id"] = axis_id
    del other["steps"], other["times"]
    assert loader.load({**batch, "metric_chunks": [first, other]}) == []
    more = {"steps": [3, 4, 9], "times": [*first["times"], first["times"][0]]}
    grown = [{**first, **more, "values": [0.5, "NaN", 1]}, {**other, "values": [7, "Infinity", 2]}]
    for state in (grown, [first, other], grown):
        assert loader.load({"metric_chunks": state}) == []
    points = query("select name, step, value::text from metrics where training_run_id = %s order by 1, 2", run_id)
    assert [tuple(point.values()) for point in points] == [
        ("kl", 3, "7"), ("kl", 4, "Infinity"), ("kl", 9, "2"), ("loss", 3, "0.5"), ("loss", 4, "NaN"), ("loss", 9, "1")
    ]  # fmt: skip
    (axis,) = query("select steps, times, first_step, last_step, points from metric_axes where id = %s", axis_id)
    assert (axis["steps"], axis["first_step"], axis["last_step"], axis["points"]) == ([3, 4, 9], 3, 9, 3)
    assert {when.isoformat() for when in axis["times"]} == {"2026-01-02T03:04:05.678901+00:00"}


def test_a_chunk_whose_axis_is_unknown_or_too_short_is_refused_alone(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    first, orphan, long = chunk(run_id, [1], [1.0]), chunk(run_id, [1], [1.0]), chunk(run_id, [1, 2], [1.0, 2.0])
    first["axis_id"] = long["axis_id"] = new_id()
    orphan["axis_id"] = new_id()
    for one in (orphan, long):
        del one["steps"], one["times"]
    refused = loader.load({**batch, "metric_chunks": [first, orphan, long]})
    assert {(entry["index"], entry["code"]) for entry in refused} == {(1, "OM404"), (2, "OM400")}
    assert query("select id::text from metric_chunks where training_run_id = %s", run_id) == [{"id": first["id"]}]


def test_the_same_chunk_twice_in_a_batch_is_the_longer_one(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    short = chunk(run_id, [1], [1.0])
    long = {**short, "steps": [1, 2], "values": [1.0, 2.0], "times": short["times"] * 2}
    assert loader.load({**batch, "metric_chunks": [short, long, short]}) == []
    assert query("select steps from metric_chunks where id = %s", short["id"]) == [{"steps": [1, 2]}]


def test_a_chunk_of_an_unknown_run_or_with_a_bad_value_is_refused_alone(loader: Loader, query: Query) -> None:
    run_id, batch = a_run()
    good, unknown = chunk(run_id, [1], [1.0]), chunk(new_id(), [1], [1.0])
    bad = chunk(run_id, [1, 2], [1.0, "nought"], name="bad")
    uneven = chunk(run_id, [1, 2, 3], [1.0], name="uneven")
    refused = loader.load({**batch, "metric_chunks": [good, unknown, bad, uneven]})
    assert {(entry["index"], entry["code"]) for entry in refused} == {(1, "OM404"), (2, "OM400"), (3, "OM400")}
    assert query("select id::text from metric_chunks where training_run_id = %s", run_id) == [{"id": good["id"]}]


ODD: list[tuple[str, str, Any]] = [
    ("rollouts", "seed", {"a": 1}),
    ("rollouts", "seed", [1, 2]),
    ("rollouts", "seed", 2**63),
    ("rollouts", "seed", True),
    ("rollouts", "total_reward", {"a": 1}),
    ("rollouts", "total_reward", [0.5]),
    ("rollouts", "group_id", {"a": 1}),
    ("rollouts", "group_id", "none"),
    ("rollouts", "created_at", ["now"]),
    ("rollouts", "no_such_field", {"a": 1}),
    ("rollouts", "task_description", 10**400),
    ("agent_states", "duration_ms", {"a": 1}),
    ("agent_states", "duration_ms", True),
    ("tool_calls", "success", {"a": 1}),
    ("tool_calls", "success", "perhaps"),
    ("tool_calls", "position", 2**40),
    ("rewards", "reward", [1.0, 2.0]),
    ("rewards", "reward", True),
    ("generations", "completion_ids", {"a": 1}),
    ("generations", "logprobs", ["low", "high"]),
    ("generations", "mask", [[True, False], [True]]),
    ("metric_chunks", "steps", {"a": 1}),
    ("metric_chunks", "values", [[1.0], [2.0]]),
    ("metric_chunks", "values", [True, False]),
    ("metric_chunks", "times", [{}, {}]),
    ("metric_chunks", "name", {"a": 1}),
]


@pytest.mark.parametrize(("kind", "field", "value"), ODD, ids=lambda value: str(value)[:20])
def test_an_odd_value_in_any_field_is_refused_alone_or_taken(
    loader: Loader, query: Query, kind: str, field: str, value: Any
) -> None:
    run_id, batch = a_run(rollouts=3)
    batch["metric_chunks"] = [chunk(run_id, [0, 1], [0.5, 0.25]) for _ in range(3)]
    expected = counts(query, run_id)
    batch[kind][1] = {**batch[kind][1], field: value}
    refused = loader.load(batch)
    hanging = {entry["kind"] for entry in refused if entry["code"] == "OM404"}
    assert {(entry["kind"], entry["index"]) for entry in refused if entry["kind"] not in hanging} <= {(kind, 1)}
    expected = {name: len(records) for name, records in batch.items() if name in expected}
    for entry in refused:
        if entry["kind"] in expected:
            expected[entry["kind"]] -= 1
    assert counts(query, run_id) == expected
    chunks = query("select count(*) as n from metric_chunks where training_run_id = %s", run_id)
    assert chunks == [{"n": 3 - (kind == "metric_chunks" and bool(refused))}]


def test_text_columns_hold_json_of_what_is_no_text(loader: Loader, query: Query) -> None:
    _, batch = a_run(rollouts=1, turns=2)
    batch["agent_states"][0] |= {"observation": {"room": [1, None]}, "action": ["go", True], "thought": True}
    assert loader.load(batch) == []
    found = query("select observation, action, thought from agent_states where id = %s", batch["agent_states"][0]["id"])
    assert found == [{"observation": '{"room":[1,null]}', "action": '["go",true]', "thought": "true"}]


def test_a_rollout_that_the_recorder_began_and_ended_is_written_once(loader: Loader, tmp_path: Path) -> None:
    run_id, rollout_id = new_id(), new_id()
    writer = SpoolWriter(tmp_path, url="x", run_id=run_id)
    begin = {"id": rollout_id, "training_run_id": run_id, "status": "running", "status_change_id": new_id()}
    writer.append("training_runs", {"id": run_id, "name": "r", "environment": "e", "status": "running"})
    writer.append("rollouts", begin)
    writer.append("agent_states", {"id": new_id(), "rollout_id": rollout_id, "step_number": 0, "reward": 1.0})
    writer.append("rollouts", {"id": rollout_id, "status": "success", "status_change_id": new_id(), "step_count": 1})
    writer.close()
    batch = SpoolReader(writer.folder, Position(1, 0)).read(10**6)
    assert batch is not None
    connection = loader._connected()
    with connection.transaction():
        assert loader.load(batch.records) == []
        updated = connection.execute("select pg_stat_get_xact_tuples_updated('public.rollouts'::regclass)").fetchone()
    assert updated == (0,)
