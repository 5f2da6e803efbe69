"""A courier ends when nobody needs it any more: who begins to record meanwhile has one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from openmanus_rl.delivery.__main__ import run_alone
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.files import lock_file
from openmanus_rl.spool.spools import find_spools
from openmanus_rl.spool.writer import SpoolWriter


class Sink:
    def __init__(self) -> None:
        self.taken: list[int] = []
        self.defects = 0

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        if self.defects:
            self.defects -= 1
            raise ZeroDivisionError("a defect of ours")
        self.taken += [record["id"] for record in batch["rollouts"]]
        return []


def record(root: Path, number: int) -> None:
    writer = SpoolWriter(root, url="x", run_id=new_id())
    writer.append("rollouts", {"id": number})
    writer.close()


def is_courier_running(root: Path) -> bool:
    """Ask as a process does that begins to record."""
    try:
        os.close(lock_file(root / "courier.lock"))
    except BlockingIOError:
        return True
    return False


T = TypeVar("T")
STEPS = ("before the last look", "after the last look", "after the end of the delivery")


@pytest.mark.parametrize("comes", STEPS)
def test_who_begins_to_record_while_a_courier_ends_has_one(tmp_path: Path, comes: str) -> None:
    """Its steps are: make a spool, and look whether a courier is running; the courier's are in `STEPS`."""
    sink = Sink()
    courier = Courier(tmp_path, connect=lambda: sink)
    told: list[bool] = []

    def begin_to_record() -> None:
        if not told:
            record(tmp_path, 2)
            told.append(is_courier_running(tmp_path))

    def look(function: Callable[[], T], step: str) -> Callable[[], T]:
        def looked() -> T:
            if comes == STEPS[0] and step == "run":
                begin_to_record()
            answer = function()
            if comes == STEPS[1] and step == "run":
                begin_to_record()
            return answer

        return looked

    def run() -> None:
        courier.run(until_idle_seconds=0)

    record(tmp_path, 1)
    run_alone(tmp_path, look(run, "run"), has_seen_all=look(courier.has_seen_all, "end"))
    if comes == STEPS[2]:
        begin_to_record()
    # Either it is told that there is none, and starts one, or it is delivered by the one that there is.
    assert told == [comes != STEPS[2]]
    assert sorted(sink.taken) == ([1] if comes == STEPS[2] else [1, 2])


def test_a_courier_that_leaves_what_is_not_its_own_ends(tmp_path: Path) -> None:
    record(tmp_path, 1)
    (spool,) = find_spools(tmp_path)
    other = lock_file(spool.folder / "courier.lock")
    courier = Courier(tmp_path, connect=Sink)
    run_alone(tmp_path, lambda: courier.run(until_idle_seconds=0), has_seen_all=courier.has_seen_all)
    os.close(other)


def test_a_defect_in_one_delivery_ends_no_courier(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    sink.defects = 2
    record(tmp_path, 1)
    Courier(tmp_path, connect=lambda: sink).run(until_idle_seconds=0)
    assert sink.taken == [1]
    assert "ZeroDivisionError: a defect of ours" in caplog.text
    assert list(find_spools(tmp_path)) == []
