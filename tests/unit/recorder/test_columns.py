"""Turns that are written in columns, and the records that are made of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.delivery.turns import turns_of
from openmanus_rl.recorder.columns import WholeRollout
from openmanus_rl.spool.files import Position
from openmanus_rl.spool.lines import dump_line
from openmanus_rl.spool.writer import SpoolWriter


class Kept:
    """A recording that keeps what it is given, as it would stand in a spool."""

    run_id = "run"

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def append(self, kind: str, record: dict[str, Any]) -> None:
        assert kind == "rollouts"
        self.records.append(orjson.loads(dump_line(kind, record))[2])


def columns(count: int, *, first: int = 0, **further: Any) -> dict[str, Any]:
    return {
        "first": first,
        "times": np.arange(count) + 1000.5,
        "observations": np.full((count, 2), 0.1, np.float32),
        "actions": np.arange(count),
        "rewards": np.ones(count),
        "infos": {},
        **further,
    }


def test_a_rollout_that_ends_at_once_is_one_line() -> None:
    kept = Kept()
    rollout = WholeRollout(kept, environment="maze", episode_number=3)  # type: ignore[arg-type]
    assert kept.records == []
    rollout.complete("success", total_reward=2.0, step_count=2, turns=columns(2))
    (record,) = kept.records
    assert (record["id"], record["environment"], record["status"], record["step_count"]) == (
        rollout.id,
        "maze",
        "success",
        2,
    )
    assert {"status_change_id", "finished_at", "turns"} <= set(record)
    rollout.complete("failed")
    assert len(kept.records) == 1


def test_a_long_rollout_is_known_to_run_before_it_ends() -> None:
    kept = Kept()
    rollout = WholeRollout(kept, environment="maze")  # type: ignore[arg-type]
    rollout.write(turns=columns(2))
    rollout.write(turns=columns(1, first=2))
    rollout.write()
    rollout.complete("completed", step_count=3)
    begun, further, ended = kept.records
    assert (begun["status"], begun["environment"]) == ("running", "maze")
    assert set(further) == {"id", "turns"}
    assert (ended["status"], "environment" in ended) == ("completed", False)
    assert begun["status_change_id"] != ended["status_change_id"]


def test_columns_are_turns_the_same_ones_whenever_they_are_read(tmp_path: Any) -> None:
    writer = SpoolWriter(tmp_path, url="postgres://", run_id="run")
    rollout_id = "01970000-0000-7000-8000-ffffffffffff"
    infos = {"1": {"lives": 2}}
    writer.append("rollouts", {"id": rollout_id, "turns": columns(3, first=5, infos=infos, final="the end")})
    read = [SpoolReader(writer.folder, Position(1, 0)).read(1 << 20) for _ in range(2)]
    writer.close()
    assert read[0] is not None
    assert read[1] is not None
    assert read[0].records == read[1].records
    turns = read[0].records["agent_states"]
    # A line that says nothing else of its rollout is no record of it.
    assert set(read[0].records) == {"agent_states", "observations"}
    assert [turn["step_number"] for turn in turns] == [5, 6, 7]
    assert [(turn["observation"], turn["action"]) for turn in turns] == [("[0.1,0.1]", str(n)) for n in range(3)]
    assert [turn.get("info") for turn in turns] == [None, {"lives": 2}, None]
    assert turns[1]["created_at"] == "1970-01-01T00:16:41.500000+00:00"
    (final,) = read[0].records["observations"]
    assert (final["text"], final["kind"], final["agent_state_id"]) == ("the end", "final", turns[2]["id"])
    assert [turn["reward"] for turn in turns] == [1.0, 1.0, 1.0]


def test_no_two_things_in_columns_have_the_same_id() -> None:
    rollout_id = "01970000-0000-7000-8000-ffffffffff00"
    plain = orjson.loads(orjson.dumps(columns(500), option=orjson.OPT_SERIALIZE_NUMPY))
    ids = [turn["id"] for turn in turns_of(rollout_id, plain)]
    ids += [turn["id"] for turn in turns_of(rollout_id, {**plain, "first": 500})]
    assert len(set(ids)) == 1000
    places = sorted(int(turn_id.replace("-", "")[20:], 16) for turn_id in ids)
    # Between them is room for all that hangs on a turn.
    assert min(after - before for before, after in pairwise(places)) >= 2**24


def test_columns_that_are_none_are_refused_and_their_neighbours_are_not(tmp_path: Any) -> None:
    writer = SpoolWriter(tmp_path, url="postgres://", run_id="run")
    short = {**columns(3), "actions": [1]}
    writer.append("rollouts", {"id": "01970000-0000-7000-8000-000000000000", "turns": short})
    writer.append("rollouts", {"id": "01970000-0000-7000-8000-000000000001", "turns": columns(1)})
    batch = SpoolReader(writer.folder, Position(1, 0)).read(1 << 20)
    writer.close()
    assert batch is not None
    (refused,) = batch.refused
    assert (refused["record"]["id"][-1], "turns" in refused["record"]) == ("0", True)
    assert len(batch.records["agent_states"]) == 1
