"""Records are written by the same rules whichever way they come: by COPY, over HTTP, or as one batch to `ingest`."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from openmanus_rl.connections import get_client
from openmanus_rl.delivery.destination import HttpSink
from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.managers.batches import write_batch
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.files import Position
from openmanus_rl.spool.writer import SpoolWriter
from openmanus_rl.transport.loading import Loader

from .conftest import Query

Lines = list[tuple[str, dict[str, Any]]]
Refusals = list[tuple[Any, ...]]
Deliver = Callable[[Lines], Refusals]

_TABLES = (
    "training_runs", "training_steps", "evaluations", "rollout_groups", "rollouts", "agent_states", "observations",
    "generations", "tool_calls", "rewards", "media", "model_checkpoints", "status_history", "rollout_stats",
)  # fmt: skip
# When a row was written, and by which session.
_ACCIDENTS = {"updated_at", "heartbeat_at", "changed_at", "shard", "started_at", "finished_at"}


def an_episode(run_id: str) -> Lines:
    """Lines of a run as a training loop writes them: a step, a group, rollouts with turns and their parts, metrics."""
    step, group = new_id(), new_id()
    lines: Lines = [
        ("training_runs", {"id": run_id, "name": "same", "environment": "e", "status": "running"}),
        ("training_steps", {"id": step, "training_run_id": run_id, "step": 3, "status": "running"}),
        ("rollout_groups", {"id": group, "training_step_id": step, "number": 0, "task_description": "find it"}),
    ]
    for _ in range(2):
        rollout = new_id()
        lines.append(
            ("rollouts", {"id": rollout, "group_id": group, "status": "running", "status_change_id": new_id()})
        )
        for number in range(3):
            turn: dict[str, Any] = {
                "id": new_id(),
                "rollout_id": rollout,
                "step_number": number,
                "observation": "a\tb\\N\n",
            }
            turn["tool_calls"] = [{"tool_name": f"t{n}", "tool_input": {"q": [n, None]}} for n in range(number)]
            turn["rewards"] = [{"reward_type": "step", "reward": 0.1 * number}, {"reward_type": "form", "reward": -1}]
            turn["observations"] = [{"kind": "page", "text": "…"}]
            turn["generations"] = [{"completion_ids": [1, 2], "logprobs": [-0.5, -1.5], "mask": [True, False]}]
            lines.append(("agent_states", turn))
        end = {"id": rollout, "status": "success", "total_reward": 1.5, "step_count": 3, "status_change_id": new_id()}
        lines.append(("rollouts", end))
    return lines


def _repeated(lines: Lines) -> Lines:
    return lines + copy.deepcopy(lines)


def _reordered(lines: Lines) -> Lines:
    """The same records in another order, but for those of one id, which follow each other."""
    mixed = random.Random(7).sample(lines, len(lines))
    of_ids = {record["id"]: iter([line for line in lines if line[1]["id"] == record["id"]]) for _, record in lines}
    return [next(of_ids[record["id"]]) for _, record in mixed]


def _partly_bad(lines: Lines) -> Lines:
    """One fault of each sort: a wrong type, an unknown parent, a word that is none, a bad part, a place taken twice."""
    turns = [record for kind, record in lines if kind == "agent_states"]
    turns[0]["step_number"] = "first"
    turns[1]["rollout_id"] = new_id()
    turns[2]["tool_calls"][0]["tool_name"] = ""
    turns[3]["rewards"][1]["reward"] = "much"
    turns[4]["generations"][0]["mask"] = [True]
    lines.append(("agent_states", {"id": new_id(), "rollout_id": turns[5]["rollout_id"], "step_number": 0}))
    lines.append(("rollouts", {"id": new_id(), "training_run_id": new_id(), "status": "running"}))
    lines.append(("rollouts", {"id": new_id(), "group_id": lines[2][1]["id"], "status": "victory"}))
    return lines


def _clearing(lines: Lines) -> Lines:
    """Records that give fields as null, among others that leave them out, before and after some that set them."""
    run_id, step_id, group_id = (lines[place][1]["id"] for place in range(3))
    first, second = dict.fromkeys(record["id"] for kind, record in lines if kind == "rollouts")
    said = {"description": "a run", "progress": 0.5, "config": {"lr": 1}, "tags": ["a"], "status_message": "begun"}
    lines.insert(1, ("training_runs", {"id": run_id, **said}))
    lines += [
        ("training_runs", {"id": run_id, "description": None, "progress": None, "status_message": None}),
        ("training_runs", {"id": run_id, "algorithm": None, "config": {"seed": None}}),
        ("training_steps", {"id": step_id, "loss": 0.5, "kl": 0.1}),
        ("training_steps", {"id": step_id, "loss": None, "training_run_id": None}),
        ("rollout_groups", {"id": group_id, "task_description": None, "training_step_id": None}),
        ("rollouts", {"id": first, "total_reward": None, "result": {"a": None}, "group_id": None}),
        ("rollouts", {"id": first, "step_count": 7}),
        ("rollouts", {"id": second, "result": {"b": 1}, "error": "e"}),
        ("rollouts", {"id": second, "result": None, "task_description": None, "step": None}),
        ("rollouts", {"id": first, "result": {"c": 1}, "model": None}),
        ("agent_states", {"id": new_id(), "rollout_id": first, "step_number": 9, "observation": None, "info": None}),
    ]
    return lines


def _clearing_what_is_required(lines: Lines) -> Lines:
    rollouts = [record for kind, record in lines if kind == "rollouts"]
    return [
        *_clearing(lines),
        ("training_runs", {"id": lines[0][1]["id"], "name": None, "description": "not written"}),
        ("rollouts", {"id": rollouts[0]["id"], "environment": None}),
        ("rollouts", {"id": rollouts[-1]["id"], "status": None, "error": "not written"}),
        ("rollouts", {"id": rollouts[-1]["id"], "seed": 3, "cleared": ["error"]}),
    ]


def _with_odd_texts(lines: Lines) -> Lines:
    """Texts with the characters that separate fields and records on their way, and others that need care."""
    turns = [record for kind, record in lines if kind == "agent_states"]
    odd = ["a\x1fb", "\x1c", "\x1e\x1d\x1c", "\\x1f{}\\N", "", '{"a"}\u2028\u0001']
    for turn, text in zip(turns, odd, strict=True):
        turn["observation"] = turn["thought"] = text
        turn["info"] = {text: [text, None]}
    lines[0][1]["tags"] = [*odd, 'say "\\"', "NULL", " "]
    return lines


def _with_quoted_texts(lines: Lines) -> Lines:
    lines[0][1]["tags"] = ['say "\\"', "NULL", " ", "{a,b}", ""]
    return lines


_BATCHES: dict[str, Callable[[Lines], Lines]] = {
    "good": lambda lines: lines,
    "with odd texts": _with_odd_texts,
    "with quoted texts": _with_quoted_texts,
    "repeated": _repeated,
    "reordered": _reordered,
    "partly bad": _partly_bad,
    "partly bad and repeated": lambda lines: _repeated(_partly_bad(lines)),
    "clearing": _clearing,
    "clearing and repeated": lambda lines: _repeated(_clearing(lines)),
    "clearing and reordered": lambda lines: _reordered(_clearing(lines)),
    "clearing and partly bad": _clearing_what_is_required,
    "clearing, partly bad and repeated": lambda lines: _repeated(_clearing_what_is_required(lines)),
}


@pytest.fixture(params=["COPY", "HTTP"])
def sink(request: pytest.FixtureRequest, stack: Any, recorder_env: dict[str, str]) -> Iterator[Any]:  # noqa: ARG001
    if request.param == "HTTP":
        yield HttpSink(get_client())
        return
    loader = Loader(stack.database_url)
    yield loader
    loader.close()


def _by_spool(lines: Lines, sink: Any, folder: Path) -> Refusals:
    """Write lines to a spool, and load what a courier would read there."""
    writer = SpoolWriter(folder, url="x", run_id=new_id())
    for kind, record in lines:
        writer.append(kind, record)
    writer.close()
    batch = SpoolReader(writer.folder, Position(1, 0)).read(10**9)
    assert batch is not None
    assert not batch.refused
    return _told(sink.load(batch.records), batch.records)


def some_metrics(run_id: str) -> Lines:
    """Lines of metrics: the same ones together at each step, others now and then, alone, and ever other ones."""
    chance = random.Random(3)
    lines: Lines = [("training_runs", {"id": run_id, "name": "same", "status": "running"})]
    for step in range(1500):
        values: dict[str, Any] = {"loss": chance.gauss(0, 1), "kl": step, "entropy": chance.choice([0.5, "NaN", True])}
        some = [values, {"lr": 1e-4}, {f"env {n}": step for n in sorted(chance.sample(range(9), 3))}]
        lines += [("metrics", {"run": run_id, "step": step, "values": each}) for each in some]
    return lines


def metrics_of(query: Query, run_id: str) -> list[str]:
    return [
        str(sorted((name, value) for name, value in row["r"].items() if name != "updated_at"))
        for table in ("metric_axes", "metric_chunks")
        for row in query(f"select to_jsonb(t) as r from {table} t where training_run_id = %s order by id", run_id)
    ]


def test_the_same_metrics_whichever_way_and_however_often(query: Query, sink: Any, stack: Any, tmp_path: Path) -> None:
    run_id = new_id()
    writer = SpoolWriter(tmp_path, url="x", run_id=run_id)
    lines = some_metrics(run_id)
    for kind, record in lines:
        writer.append(kind, record)
    writer.close()
    batch = SpoolReader(writer.folder, Position(1, 0)).read(10**9)
    assert batch is not None
    assert not write_batch(batch.records).refused
    expected = metrics_of(query, run_id)
    logged = {(name, line["step"]) for kind, line in lines if kind == "metrics" for name in line["values"]}
    points = query("select name, step from metrics where training_run_id = %s", run_id)
    assert sorted((point["name"], point["step"]) for point in points) == sorted(logged)
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute("delete from public.training_runs where id = %s", [run_id])
    assert metrics_of(query, run_id) == []

    chance = random.Random(5)
    position = Position(1, 0)
    while True:
        # Each courier dies after its batch, some of them before they noted that it was delivered.
        batch = SpoolReader(writer.folder, position).read(chance.choice([2_000, 20_000, 100_000]))
        if batch is None:
            break
        assert sink.load(batch.records) == []
        position = chance.choice([position, batch.end, batch.end])
    assert metrics_of(query, run_id) == expected


def _by_batch(lines: Lines) -> Refusals:
    """Write all lines in one call of `ingest`, the parts of turns within their turns."""
    batch: dict[str, list[dict[str, Any]]] = {}
    for kind, record in lines:
        batch.setdefault(kind, []).append(record)
    refused = write_batch(batch).refused
    return sorted((one.kind, one.id, one.code, one.field, one.message) for one in refused)


def _told(refused: list[dict[str, Any]], batch: dict[str, list[dict[str, Any]]]) -> Refusals:
    for one in refused:
        assert batch[one["kind"]][one["index"]]["id"] == one["id"]
    return sorted((one["kind"], one["id"], one["code"], one["field"], one["message"]) for one in refused)


def rows_of(query: Query, run_id: str) -> dict[str, list[str]]:
    found = {}
    for table in _TABLES:
        own = "id" if table == "training_runs" else "training_run_id"
        rows = [dict(row["r"]) for row in query(f"select to_jsonb(t) as r from {table} t where {own} = %s", run_id)]
        dropped = _ACCIDENTS | {"created_at"} | ({"id"} if table in ("status_history", "rollout_stats") else set())
        found[table] = sorted(str(sorted((k, v) for k, v in row.items() if k not in dropped)) for row in rows)
    return found


@pytest.mark.parametrize("batch", _BATCHES)
def test_the_same_records_and_refusals_whichever_way(
    query: Query, sink: Any, stack: Any, tmp_path: Path, batch: str
) -> None:
    run_id = new_id()
    lines = _BATCHES[batch](an_episode(run_id))
    expected = _by_batch(copy.deepcopy(lines))
    rows = rows_of(query, run_id)
    assert bool(expected) == ("bad" in batch)
    assert len(rows["rollouts"]) == 2
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute("delete from public.training_runs where id = %s", [run_id])
    assert rows_of(query, run_id) == {table: [] for table in _TABLES}

    refused = _by_spool(copy.deepcopy(lines), sink, tmp_path)
    assert rows_of(query, run_id) == rows
    assert refused == expected
