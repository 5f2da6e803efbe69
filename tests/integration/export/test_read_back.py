"""Exports, read by pandas and by Hugging Face `datasets`, hold what was recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet
import pytest

FORMATS = ("parquet", "jsonl")


def frame_of(path: Path) -> pandas.DataFrame:
    if path.suffix == ".parquet":
        return pandas.read_parquet(path)
    # Values as they are: a seed beyond 2**53 must not pass through a float.
    return pandas.read_json(path, lines=True, dtype=False, precise_float=True)


def dataset_of(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    datasets.disable_progress_bars()
    builder = "parquet" if path.suffix == ".parquet" else "json"
    return datasets.load_dataset(builder, data_files=str(path), cache_dir=str(cache), split="train")


def same(found: Any, expected: Any) -> bool:
    if expected is None:
        return found is None or (isinstance(found, float) and math.isnan(found))
    return bool(found == expected) or (expected != expected and math.isnan(found))


def expected_reward(record: dict[str, Any]) -> float | None:
    return None if record.get("total_reward") is None else float(record["total_reward"])


@pytest.mark.parametrize("extension", FORMATS)
def test_rollouts_come_back_whole(
    export: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = tmp_path / f"rollouts.{extension}"
    done = export("rollouts", str(path), "--run", recorded.run["run_name"], "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary == {"kind": "rollouts", "path": str(path), "rows": 250, "size_bytes": path.stat().st_size}
    written = {record["id"]: record for record in recorded.rollouts}

    frame = frame_of(path)
    assert sorted(frame["id"]) == sorted(written)
    for row in frame.to_dict("records"):
        record = written[row["id"]]
        assert same(row["total_reward"], expected_reward(record))
        assert same(row["task_description"], record.get("task_description"))
        assert json.loads(row["metadata"]) == record["metadata"]
        assert row["seed"] == 2**53 + 1
        assert [reward["reward"] for reward in row["rewards"]] == [1.5]

    rows = dataset_of(path, tmp_path / "cache", monkeypatch)
    assert sorted(rows["id"]) == sorted(written)
    by_reward = {row["id"]: row["total_reward"] for row in rows}
    # Unlike pandas, datasets tells an unknown reward from one that is no number.
    assert by_reward[recorded.rollouts[0]["id"]] is None
    assert math.isnan(by_reward[recorded.rollouts[1]["id"]])
    assert by_reward[recorded.rollouts[2]["id"]] == math.inf


@pytest.mark.parametrize("extension", FORMATS)
def test_turns_come_back_with_their_tool_calls_and_rewards(
    export: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = tmp_path / f"turns.{extension}"
    assert export("turns", str(path), "--run", recorded.run["id"]).code == 0
    written = {record["id"]: record for record in recorded.turns}
    assert sorted(frame_of(path)["id"]) == sorted(written)

    rows = dataset_of(path, tmp_path / "cache", monkeypatch)
    places = [(row["rollout_id"], row["step_number"]) for row in rows]
    assert len(places) == len(set(places)) == len(written)
    for row in rows:
        record = written[row["id"]]
        assert (row["observation"], row["thought"]) == (record["observation"], record["thought"])
        calls = [(call["tool_name"], call["success"], call["tool_output"]) for call in row["tool_calls"]]
        assert calls == [(call["tool_name"], call["success"], call.get("tool_output")) for call in record["tool_calls"]]
        assert len(row["rewards"]) == len(record["rewards"])
        for reward, expected in zip(row["rewards"], record["rewards"], strict=True):
            assert same(reward["reward"], float(expected["reward"]))
    first = next(row for row in rows if row["tool_calls"])
    assert json.loads(first["tool_calls"][0]["tool_input"]) == {"q": [0]}


@pytest.mark.parametrize("extension", FORMATS)
def test_metrics_come_back_point_by_point(
    export: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = tmp_path / f"metrics.{extension}"
    assert export("metrics", str(path), "--run", recorded.run["id"]).code == 0
    frame = frame_of(path)
    assert len(frame) == 2400
    for name in ("loss", "größe"):
        series = frame[frame["name"] == name]
        assert list(series["step"]) == list(range(1200))
        values = list(series["value"])
        assert math.isnan(values.pop(7))
        assert values == [step / 8 for step in range(1200) if step != 7]
    rows = dataset_of(path, tmp_path / "cache", monkeypatch)
    assert len(rows) == 2400
    assert "2026-01-02" in str(rows[0]["recorded_at"])


@pytest.mark.parametrize("extension", FORMATS)
def test_runs_come_back_with_their_configuration(
    export: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = tmp_path / f"runs.{extension}"
    chosen = ("--run", recorded.run["id"], "--run", recorded.empty_run["id"])
    assert export("runs", str(path), *chosen).code == 0
    frame = frame_of(path).set_index("id")
    assert set(frame.index) == {recorded.run["id"], recorded.empty_run["id"]}
    assert json.loads(frame.loc[recorded.run["id"], "config"]) == recorded.run["config"]
    rows = dataset_of(path, tmp_path / "cache", monkeypatch)
    assert {row["id"]: row["tags"] for row in rows}[recorded.run["id"]] == ["a", "b,c"]


@pytest.mark.parametrize("extension", FORMATS)
def test_chats_come_back_as_messages_with_a_reward(
    export: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = tmp_path / f"chats.{extension}"
    assert export("chats", str(path), "--run", recorded.run["id"]).code == 0
    rows = {row["rollout_id"]: row for row in dataset_of(path, tmp_path / "cache", monkeypatch)}
    assert set(rows) == {record["id"] for record in recorded.rollouts}
    assert set(frame_of(path)["rollout_id"]) == set(rows)
    record = recorded.rollouts[10]
    observed = [turn["observation"] for turn in recorded.turns if turn["rollout_id"] == record["id"]]
    assert rows[record["id"]] == {
        "messages": [
            {"role": "system", "content": record["task_description"]},
            {"role": "user", "content": observed[0]},
            {"role": "assistant", "content": "thought 0\n\nact 0"},
            {"role": "tool", "content": "found 0"},
            {"role": "tool", "content": "no signal"},
            {"role": "user", "content": observed[1]},
            {"role": "assistant", "content": "thought 1\n\nact 1"},
            {"role": "user", "content": observed[2]},
            {"role": "assistant", "content": "thought 2\n\nact 2"},
        ],
        "reward": 0.1,
        "status": "failed",
        "rollout_id": record["id"],
        "task_description": record["task_description"],
        "run_id": recorded.run["id"],
        "environment": "webshop",
    }
    without_turns = recorded.rollouts[3]
    assert rows[without_turns["id"]]["messages"] == [{"role": "user", "content": without_turns["task_description"]}]


@pytest.mark.parametrize("kind", ["rollouts", "turns", "metrics", "chats"])
def test_a_run_without_rows_gives_an_empty_file_with_all_columns(
    export: Any, recorded: Any, tmp_path: Path, kind: str
) -> None:
    empty, full = tmp_path / "empty.parquet", tmp_path / "full.parquet"
    assert export(kind, str(empty), "--run", recorded.empty_run["id"]).code == 0
    assert export(kind, str(full), "--run", recorded.run["id"], "--limit", "2").code == 0
    assert len(pandas.read_parquet(empty)) == 0
    assert len(pandas.read_parquet(full)) == 2
    assert pyarrow.parquet.read_schema(empty) == pyarrow.parquet.read_schema(full)
    assert export(kind, str(tmp_path / "empty.jsonl"), "--run", recorded.empty_run["id"]).code == 0
    assert (tmp_path / "empty.jsonl").read_bytes() == b""
