"""One spool that cannot be delivered keeps no other waiting, unless nothing answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery import courier as module
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.errors import TransientError
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.spools import find_spools
from openmanus_rl.spool.writer import SpoolWriter


class Sink:
    """Fails with some records, each time after a while."""

    def __init__(self, failing: set[int], seconds: float = 0.0) -> None:
        self.failing, self.seconds = failing, seconds
        self.asked: list[int] = []
        self.taken: list[int] = []

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        ids = [record["id"] for record in batch["rollouts"]]
        self.asked += ids
        if self.failing & set(ids):
            time.sleep(self.seconds)
            raise TransientError(f"storage does not take the file of {ids}")
        self.taken += ids
        return []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four ended spools with a record each."""
    for number in range(4):
        writer = SpoolWriter(tmp_path, url="x", run_id=new_id())
        writer.append("rollouts", {"id": number})
        writer.close()
        time.sleep(0.002)  # Spools are delivered in the order of their beginnings.
    return tmp_path


def test_what_fails_for_one_spool_keeps_no_other_waiting_and_is_told(root: Path) -> None:
    sink = Sink({0, 2})
    courier = Courier(root, connect=lambda: sink)
    with pytest.raises(TransientError, match=r"the file of \[0\]"):
        courier.deliver()
    assert sink.taken == [1, 3]
    left = list(find_spools(root))
    assert [spool.progress.error for spool in left] == [
        "storage does not take the file of [0]",
        "storage does not take the file of [2]",
    ]
    sink.failing = set()
    courier.deliver()
    assert sink.taken == [1, 3, 0, 2]
    assert list(find_spools(root)) == []


def test_where_nothing_answers_not_every_spool_waits_to_find_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAILING_SECONDS", 0.15)
    sink = Sink({0, 1, 2, 3}, seconds=0.1)
    with pytest.raises(TransientError):
        Courier(root, connect=lambda: sink).deliver()
    assert sink.asked == [0, 1]
    assert all(spool.progress.error for spool in find_spools(root))
