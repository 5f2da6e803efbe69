"""Which rows are exported, and what is said when that can't be done."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.errors import ServerError
from openmanus_rl.export import Selection, export_to_file
from openmanus_rl.transport.client import Client


def rewards(text: str) -> list[float]:
    return sorted(row["reward"] for row in map(json.loads, text.splitlines()))


def expected(recorded: Any, **wanted: Any) -> list[float]:
    chosen = [r for r in recorded.rollouts if all(r.get(name) == value for name, value in wanted.items())]
    return sorted(r["total_reward"] for r in chosen if isinstance(r.get("total_reward"), float))


def test_rewards_between_bounds_are_chosen_and_nan_is_never_among_them(export: Any, recorded: Any) -> None:
    run = ("--run", recorded.run["id"])
    above = rewards(export("chats", "-", *run, "--min-reward", "2.4").out)
    assert above == [*[reward for reward in expected(recorded) if reward >= 2.4], math.inf]
    between = rewards(export("chats", "-", *run, "--min-reward", "1", "--max-reward", "1.5").out)
    assert between == [reward for reward in expected(recorded) if 1 <= reward <= 1.5]


def test_success_status_and_environment_are_chosen(export: Any, recorded: Any) -> None:
    run = ("--run", recorded.run["id"], "--max-reward", "100")
    assert rewards(export("chats", "-", *run, "--success").out) == expected(recorded, status="success")
    assert rewards(export("chats", "-", *run, "--status", "failed").out) == expected(recorded, status="failed")
    in_shop = export("chats", "-", *run, "--environment", "webshop").out
    assert rewards(in_shop) == expected(recorded, environment="webshop")
    turns = export("turns", "-", *run, "--success", "--min-reward", "2").out
    chosen = {json.loads(line)["rollout_id"] for line in turns.splitlines()}
    assert chosen == {
        record["id"]
        for record in recorded.rollouts
        if record["status"] == "success" and isinstance(record["total_reward"], float) and record["total_reward"] >= 2
    }


def test_several_runs_and_a_limit(export: Any, recorded: Any) -> None:
    both = ("--run", recorded.run["run_name"], "--run", recorded.empty_run["id"])
    assert len(export("rollouts", "-", *both).out.splitlines()) == 250
    assert len(export("rollouts", "-", *both, "--limit", "101").out.splitlines()) == 101
    assert len(export("turns", "-", *both, "--limit", "7").out.splitlines()) == 7


def test_without_a_run_everything_is_exported(export: Any, recorded: Any) -> None:
    found = {json.loads(line)["id"] for line in export("runs", "-").out.splitlines()}
    assert {recorded.run["id"], recorded.empty_run["id"]} <= found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rewards", "out.jsonl"), "'rewards' is not one of runs, rollouts, turns, metrics, chats"),
        (("runs", "out.csv"), "must end in .parquet or .jsonl"),
        (("runs", "no/such/folder/out.jsonl"), "No such file or directory"),
        (("runs", "out.jsonl", "--run", "nobody"), "no run matches 'nobody'"),
        (("runs", "out.jsonl", "--min-reward", "0"), "--min-reward does not apply to runs"),
        (("metrics", "out.jsonl", "--success"), "--success does not apply to metrics"),
        (("rollouts", "out.jsonl", "--status", "great"), "'great' is not a status of rollouts"),
        (("rollouts", "out.jsonl", "--status", "failed", "--success"), "exclude each other"),
        (("runs", "-", "--json"), "cannot be combined with OUT -"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    export: Any, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = export(*arguments)
    assert done.code != 0
    spoken = done.message
    if "--json" not in arguments:
        assert done.out == ""
    assert said in spoken
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_by_force(export: Any, recorded: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("mine")
    refused = export("runs", str(path), "--run", recorded.run["id"])
    assert refused.code == 1
    assert "exists already" in refused.message
    assert "--force" in refused.message
    assert path.read_text() == "mine"
    assert export("runs", str(path), "--run", recorded.run["id"], "--force").code == 0
    assert json.loads(path.read_text())["id"] == recorded.run["id"]


def test_without_pyarrow_the_extra_is_named(
    export: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = export("runs", "out.parquet")
    assert done.code == 1
    assert "pip install 'openmanus-rl[export]'" in done.message
    assert export("runs", "out.jsonl", "--run", recorded.run["id"]).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


@pytest.mark.parametrize("name", ["turns.parquet", "turns.jsonl"])
def test_an_export_that_breaks_off_leaves_what_was_there(
    recorded: Any, export_gateway: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_text("the one before")
    select, pages = Client.select, []

    def fail_later(self: Client, table: str, **options: Any) -> Any:
        pages.append(table)
        if len(pages) > 6:
            raise ServerError("the database went away")
        return select(self, table, **options)

    monkeypatch.setattr(Client, "select", fail_later)
    selection = Selection(run_ids=[recorded.run["id"]])
    with pytest.raises(ServerError):
        export_to_file("turns", path, selection=selection, overwrite=True, client=export_gateway)
    assert path.read_text() == "the one before"
    assert list(tmp_path.iterdir()) == [path]


def test_progress_is_told_up_to_the_end(recorded: Any, export_gateway: Client, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    selection = Selection(run_ids=[recorded.run["id"]])
    export_to_file(
        "chats",
        tmp_path / "chats.jsonl",
        selection=selection,
        on_progress=lambda done, total: told.append((done, total)),
        client=export_gateway,
    )
    assert told == [(0, 250), (100, 250), (200, 250), (250, 250)]
