"""The command: what it takes, what it says, and what it costs."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from openmanus_rl.errors import ConnectionFailed, TimeoutExceeded, TooLargeError
from openmanus_rl.importing import Import
from openmanus_rl.importing.writing import BatchWriter
from openmanus_rl.transport.retry import RetryPolicy

CHAT = {"prompt": "p", "completion": "c"}


def test_a_file_goes_to_a_run_named_after_it(command: Any, write: Any) -> None:
    name = f"chats-{uuid4().hex}"

    done = command("import", write([CHAT], f"{name}.jsonl"))

    assert done.code == 0
    assert f"Imported 1 rollouts (1 of them new) with 1 turns into run import-{name}; 0 of 1 lines refused" in done.out


def test_a_run_that_goes_on_elsewhere_is_left_as_it_is(command: Any, write: Any, run_name: str, query: Any) -> None:
    query("insert into training_runs (name, run_name, status) values ('x', %s, 'running') returning id", run_name)
    (run,) = query("select id from training_runs where run_name = %s", run_name)

    done = command("import", write([CHAT]), "--run", str(run["id"]), "--json")

    assert done.json["run_id"] == str(run["id"])
    assert query("select status from training_runs where id = %s", run["id"]) == [{"status": "running"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["some.jsonl", "some.jsonl", "--run", "r"], "some.jsonl: it is given twice; give each file once"),
        (["some.jsonl", "missing.jsonl", "--run", "r"], "missing.jsonl: it can't be read: No such file"),
        (["some.jsonl", "other.jsonl"], "several files: name the run to import into"),
        (["-"], "standard input: name the run to import into"),
        (["some.jsonl", "--format", "csv"], "'csv' is not one of auto, openmanus-rl, chat"),
        (["other.jsonl"], "other.jsonl: line 1 is neither a step (env_id, step, action) nor a conversation"),
    ],
)
def test_what_can_not_be_meant_is_refused_before_anything_is_written(
    command: Any, write: Any, query: Any, arguments: list[str], message: str
) -> None:
    write([CHAT])
    write([{"text": "hi"}], "other.jsonl")
    runs = "select count(*) from training_runs"
    before = query(runs)

    done = command("import", *arguments)

    assert done.code != 0
    assert message in done.message
    assert query(runs) == before


def test_an_empty_file_is_an_import_of_nothing(command: Any, write: Any, run_name: str) -> None:
    done = command("import", write([]), "--run", run_name, "--json")

    assert done.code == 0
    assert (done.json["rollouts"], done.json["lines"]) == (0, 0)


def test_a_named_pipe_is_read_once_and_whole(command: Any, run_name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_text, args=((json.dumps(CHAT) + "\n") * 3,))
    writing.start()

    done = command("import", "pipe", "--run", run_name, "--json")
    writing.join()

    assert done.json["new_rollouts"] == 3


def test_over_http_alone_the_same_is_written(
    command: Any, write: Any, run_name: str, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL")

    done = command("import", write([CHAT, {**CHAT, "reward": float("nan")}]), "--run", run_name, "--json")

    assert done.code == 0, done.err
    assert done.json["new_rollouts"] == 2
    found = "select o.total_reward from rollouts o join training_runs r on r.id = o.training_run_id where run_name = %s"
    assert sorted(str(row["total_reward"]) for row in query(found, run_name)) == ["None", "nan"]


def test_what_is_too_large_for_one_request_goes_in_several_and_what_is_too_large_alone_is_refused() -> None:
    taken: list[str] = []
    refused: list[tuple[int, str]] = []

    def load(batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        size = sum(len(record["text"]) for record in batch["rollouts"])
        if size > 25:
            raise TooLargeError(f"{size} bytes are too many")
        taken.extend(record["id"] for record in batch["rollouts"])
        return []

    writer = BatchWriter(load, on_refused=lambda line, reason: refused.append((line, reason)))
    for number in range(10):
        text = "x" * (100 if number == 3 else 10)
        writer.add("rollouts", {"id": str(number), "text": text}, line_number=number)
    writer.flush()

    assert taken == [str(number) for number in range(10) if number != 3]
    assert refused == [(3, "rollouts: 100 bytes are too many")]
    assert writer.written["rollouts"] == 9


def test_a_huge_line_that_can_not_be_written_in_time_does_not_keep_the_others_out(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    sizes = [10, 10, 5000, 10, 10]
    path.write_text("".join(json.dumps({"prompt": str(n), "completion": "x" * n}) + "\n" for n in sizes))
    batches: list[int] = []

    def load(batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        batches.append(len(batch["rollouts"]))
        if len(str(batch)) > 5000:
            raise TimeoutExceeded("the answer took too long")
        return []

    retry = RetryPolicy(limit_seconds=0)
    report = Import(load, run_id=str(uuid4()), batch_bytes=1000, retry=retry).add_file(str(path))

    assert [refusal.line for refusal in report.refusals] == [3]
    assert "too large to be written in time" in report.refusals[0].reason
    assert (report.rollouts, batches[0], batches[-1]) == (4, 2, 2)


def test_a_server_that_is_away_for_a_moment_is_tried_again() -> None:
    calls: list[int] = []

    def load(batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        calls.append(len(batch["rollouts"]))
        if len(calls) < 3:
            raise ConnectionFailed("away")
        return []

    waited: list[float] = []
    retry = RetryPolicy(sleep=waited.append)
    writer = BatchWriter(load, on_refused=lambda *_: None, retry=retry)
    writer.add("rollouts", {"id": "1"}, line_number=1)
    writer.flush()
    writer.flush()

    assert calls == [1, 1, 1]
    assert len(waited) == 2


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for lines in (2_000, 8_000):
        path = tmp_path / f"{lines}.jsonl"
        with path.open("w") as file:
            file.writelines(_steps(lines))
        # The filter of seen lines is of one size: made before, it is not counted.
        importing = Import(lambda _batch: [], run_id=str(uuid4()), batch_bytes=200_000)
        tracemalloc.start()
        report = importing.add_file(str(path))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (report.turns, report.refused) == (lines, 0)

    assert peaks[1] < peaks[0] * 1.3, peaks


def _steps(lines: int) -> Iterator[str]:
    for number in range(lines):
        step, env_id = number // 20 % 10, number % 20
        line = {"batch_idx": number // 200, "env_id": env_id, "step": step, "prompt": f"{number} " * 50, "action": "a"}
        yield json.dumps(line | {"done": step == 9, "env_type": "alfworld"}) + "\n"


def test_the_bar_shows_how_much_of_the_files_is_read(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text((json.dumps(CHAT) + "\n") * 1000)
    seen: list[int] = []

    class Listener:
        def recognised(self, report: Any) -> None:
            assert report.format == "chat"

        def moved(self, _path: str, read_bytes: int) -> None:
            seen.append(read_bytes)

    Import(lambda _batch: [], run_id=str(uuid4()), listener=Listener()).add_file(str(path))

    assert seen == sorted(seen)
    assert len(seen) > 10
    assert seen[-1] == path.stat().st_size
