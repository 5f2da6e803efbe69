"""Whatever training code hands over becomes a line that JSON and Postgres can hold, and nothing is raised."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.records.plain import OPTIONS
from openmanus_rl.spool.files import Position
from openmanus_rl.spool.lines import dump_line, dump_text
from openmanus_rl.spool.spools import Spool
from openmanus_rl.spool.writer import SpoolWriter


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def cyclic() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["itself"] = found
    return found


def read(kind: str, record: Any) -> Any:
    found_kind, when, found = orjson.loads(dump_line(kind, record))
    assert found_kind == kind
    assert isinstance(when, float)
    return found


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("a\0b", "a\u2400b"),
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        ("ends in half \ud83d", "ends in half \ufffd"),
        ("\ud83d\ude00", "😀"),
        (r"a backslash \u0000 of its own", r"a backslash \u0000 of its own"),
        (2**80, str(2**80)),
        ({1: "a", (2, 3): "b"}, {"1": "a", "(2, 3)": "b"}),
        ({"deep": {"x\0": ["\ud83d", 2**70, {3}]}}, {"deep": {"x\u2400": ["\ufffd", str(2**70), [3]]}}),
        (Path("/tmp"), "/tmp"),
        (Unspeakable(), "<Unspeakable>"),
        ([Unspeakable(), "\0"], ["<Unspeakable>", "\u2400"]),
        (b"\xff\x00", "\\xff\u2400"),
    ],
)
def test_what_cannot_be_stored_is_replaced_where_it_shows(given: Any, stored: Any) -> None:
    assert read("rollouts", {"id": 1, "value": given}) == {"id": 1, "value": stored}


@pytest.mark.parametrize("nothing_finite", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: {"text": "x" * 1000, "value": value},
        lambda value: {"value": value, "text": "x" * 1000},
        lambda value: {"text": "é" * 1000, "count": 7, "rest": [{"deep": (value,)}]},
        lambda value: {"text": 'null "null" \n', "none": None, "value": value, "more": "null"},
        lambda value: {"text": "x", 1: value},
        lambda value: {"text": "x", "value": value if value.__class__ is str else np.float32(value)},
        lambda value: [{"text": "x" * 1000}, value],
    ],
)
def test_a_number_that_is_not_finite_is_named_wherever_it_stands(make: Any, nothing_finite: float) -> None:
    name = {"nan": "NaN", "inf": "Infinity"}[str(nothing_finite)]
    assert read("rollouts", make(nothing_finite)) == orjson.loads(orjson.dumps(make(name), option=OPTIONS))


@pytest.mark.parametrize("value", ["a\0b", "a\n\0", "\\\0"])
def test_a_nul_is_replaced_wherever_it_stands(value: str) -> None:
    shown = value.replace("\0", "\u2400")
    for record in ({"text": value}, {"a": 1, "b": [{"c": value}]}, {value: "x"}, {"long": "x" * 5000, "text": value}):
        assert read("rollouts", record) == orjson.loads(orjson.dumps(record).replace(b"\\u0000", "\u2400".encode()))
    assert read("rollouts", {"text": value}) == {"text": shown}


def test_what_contains_itself_ends_somewhere() -> None:
    assert b"(nested too deeply)" in dump_line("rollouts", cyclic())
    assert "(nested too deeply)" in dump_text(cyclic())


def test_a_large_whole_number_is_still_a_metric() -> None:
    assert read("metrics", {"values": {"flops": 10**30}}) == {"values": {"flops": 1e30}}
    assert isinstance(read("metrics", {"values": {"flops": 10**400}})["values"]["flops"], str)


def test_a_huge_record_is_read_alone(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    for size in (10, 10, 100_000, 10, 10):
        writer.append("rollouts", {"id": "x", "text": "y" * size})
    writer.close()
    reader = SpoolReader(writer.folder, Position(1, 0))
    sizes = []
    while (batch := reader.read(5_000)) is not None:
        sizes.append(batch.lines)
    assert sizes == [2, 1, 2]


def test_what_comes_after_the_end_is_counted_as_lost_and_written_nowhere(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    writer.close()
    # This file gets the number that the spool's had.
    with (tmp_path / "somebody's own").open("wb") as other:
        writer.append("rollouts", {"id": "x"})
        writer.close()
        assert other.tell() == 0
    assert (tmp_path / "somebody's own").read_bytes() == b""
    assert (writer.appended, writer.lost) == (1, 1)


class Taker:
    """Takes everything, and remembers it."""

    def __init__(self) -> None:
        self.batches: list[dict[str, list[dict[str, Any]]]] = []

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        self.batches.append(batch)
        return []


def ids_in(sink: Taker) -> list[Any]:
    return [record["id"] for batch in sink.batches for record in batch.get("rollouts", ())]


def let_the_disk_hold(room_bytes: int, patch: pytest.MonkeyPatch) -> None:
    """Give a spool's segments only so much room."""
    left, real_write = [room_bytes], os.write

    def write(file: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real_write(file, data[: left[0]])
        left[0] -= count
        return count

    patch.setattr("openmanus_rl.spool.writer.os.write", write)


def test_a_line_that_its_dead_writer_did_not_finish_holds_nothing_up(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    writer.append("rollouts", {"id": "whole"})
    with (writer.folder / "000001.jsonl").open("ab") as file:
        file.write(b'["rollouts",1.0,{"id":"ha')
    sink = Taker()
    courier = Courier(tmp_path, connect=lambda: sink)
    courier.deliver()
    # As long as the writer lives, the rest may come.
    assert Spool(writer.folder).unread_bytes() > 0
    writer.close()
    courier.deliver()
    assert not writer.folder.exists()
    assert ids_in(sink) == ["whole"]


def test_a_line_that_broke_off_on_a_full_disk_is_continued_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x", segment_bytes=100)
    with monkeypatch.context() as patch:
        let_the_disk_hold(100, patch)
        writer.append("rollouts", {"id": "first", "text": "y" * 200})
        writer.append("rollouts", {"id": "second"})
    assert writer.waiting == 2
    sink = Taker()
    courier = Courier(tmp_path, connect=lambda: sink)
    courier.deliver()
    assert sink.batches == []
    writer.append("rollouts", {"id": "third"})
    assert writer.waiting == 0
    courier.deliver()
    assert ids_in(sink) == ["first", "second", "third"]
    progress = Spool(writer.folder).progress
    assert (progress.taken, progress.damaged) == (3, 0)
    writer.close()


def test_a_write_that_takes_less_than_it_was_given_is_continued_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x", segment_bytes=100)
    real_write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("openmanus_rl.spool.writer.os.write", lambda file, data: real_write(file, data[:7]))
        for name in ("first", "second"):
            writer.append("rollouts", {"id": name, "text": "y" * 200})
        assert writer.waiting == 0
    writer.close()
    sink = Taker()
    Courier(tmp_path, connect=lambda: sink).deliver()
    assert ids_in(sink) == ["first", "second"]


class Refuser(Taker):
    """Takes nothing."""

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        super().load(batch)
        return [
            {"kind": kind, "index": index, "code": "OM400", "message": "no"}
            for kind, records in batch.items()
            for index in range(len(records))
        ]


def test_each_refusal_is_kept_once_also_after_a_crash_in_the_middle(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    spool = Spool(writer.folder)
    for number in range(5):
        writer.append("rollouts", {"id": str(number)})
    (writer.folder / "refused.jsonl").write_bytes(b'{"kind":"rollouts","reco')
    writer.close()
    for batch_bytes in (1, 10_000):
        # A courier that died before it could write down how far it was.
        (writer.folder / "progress.json").unlink(missing_ok=True)
        courier = Courier(tmp_path, connect=Refuser, batch_bytes=batch_bytes)
        segment = (writer.folder / "000001.jsonl").read_bytes()
        courier.deliver()
        assert [entry["record"]["id"] for entry in spool.refused()] == list("01234")
        assert spool.progress.refused == 5
        (writer.folder / "000001.jsonl").write_bytes(segment)


def test_a_clock_that_jumps_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x", segment_bytes=500)
    clock = [2_000_000_000.0]
    monkeypatch.setattr("openmanus_rl.spool.lines.time.time", lambda: clock[0])
    for step in range(100):
        clock[0] -= 10_000_000
        writer.append("metrics", {"run": "r", "step": step, "values": {"loss": step}})
    writer.close()
    monkeypatch.undo()
    assert time.time() > 1.7e9
    sink = Taker()
    Courier(tmp_path, connect=lambda: sink).deliver()
    chunks = {chunk["id"]: chunk for batch in sink.batches for chunk in batch["metric_chunks"]}
    assert [step for chunk in chunks.values() for step in chunk["steps"]] == list(range(100))
