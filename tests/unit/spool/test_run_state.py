"""What a machine knows of a run: no step is forgotten, whoever is killed when, and a launch rewinds once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery.courier import Courier
from openmanus_rl.errors import LocalFileError
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool import run_state
from openmanus_rl.spool.files import lock_file
from openmanus_rl.spool.run_state import RunState, local_state, note_delivered, rewind_locally
from openmanus_rl.spool.spools import find_spools
from openmanus_rl.spool.writer import SpoolWriter

RUN = new_id()


class Sink:
    """Takes everything."""

    storage: Any = None

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:  # noqa: ARG002
        return []

    def interrupt(self, entries: dict[str, list[list[str]]], reason: str) -> None:
        """Take that too."""


class Killed(BaseException):
    """Stands for the end of a process between two steps."""


def record(root: Path, *, steps: range, rewinds: tuple[int, ...] = ()) -> SpoolWriter:
    """Record completed steps with a metric and an episode each."""
    writer = SpoolWriter(root, url="x", run_id=RUN, rewinds=rewinds)
    for step in steps:
        writer.append("training_steps", {"id": new_id(), "step": step, "status": "completed"})
        writer.append("metrics", {"run": RUN, "step": step + 100, "values": {"loss": 1.0}})
        writer.append("rollouts", {"id": new_id(), "episode_number": step + 200, "status": "success"})
    return writer


def deliver(root: Path) -> None:
    courier = Courier(root, connect=Sink)
    try:
        courier.deliver()
    finally:
        courier.close()


def test_a_run_is_known_while_it_waits_and_after_it_was_delivered(tmp_path: Path) -> None:
    assert local_state(tmp_path, RUN) == RunState()
    writer = record(tmp_path, steps=range(4))
    expected = RunState(step=3, metric_step=103, episode=203, is_known=True)
    assert local_state(tmp_path, RUN) == expected
    writer.close()
    left = RunState(step=3, metric_step=103, episode=203, is_known=True, is_left=True)
    assert local_state(tmp_path, RUN) == left
    deliver(tmp_path)
    assert not list(find_spools(tmp_path))
    assert local_state(tmp_path, RUN) == left
    assert local_state(tmp_path, RUN, undelivered_only=True) == RunState()
    assert local_state(tmp_path, new_id()) == RunState()


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let the process be killed before it gives a file its name, so many times later."""
    left: list[int] = []
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if left:
            if left[0] == 0:
                left.clear()
                raise Killed
            left[0] -= 1
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    yield left
    # Else it was never killed, and the test has shown nothing.
    assert not left


@pytest.mark.parametrize("moment", range(2))
def test_a_courier_that_is_killed_leaves_every_step_known(tmp_path: Path, kills: list[int], moment: int) -> None:
    """The steps are in the spool, or in the file, or in both, whichever file was the last to be written."""
    record(tmp_path, steps=range(4)).close()
    kills.append(moment)
    with pytest.raises(Killed):
        deliver(tmp_path)
    assert local_state(tmp_path, RUN).next_step == 4
    # Whatever it left, the next one delivers the rest, and nothing is counted twice.
    deliver(tmp_path)
    assert not list(find_spools(tmp_path))
    assert (local_state(tmp_path, RUN).next_step, local_state(tmp_path, RUN).next_episode) == (4, 204)


def test_delivery_does_not_wait_for_whoever_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_state, "_LOCK_SECONDS", 0.0)
    record(tmp_path, steps=range(1)).close()
    lock = lock_file(tmp_path / "runs.lock")
    try:
        with pytest.raises(LocalFileError, match="locked"):
            rewind_locally(tmp_path, RUN, 0, launch_id="a")
        deliver(tmp_path)
    finally:
        os.close(lock)
    assert not list(find_spools(tmp_path))


def test_the_processes_of_a_launch_rewind_once_and_another_launch_again(tmp_path: Path) -> None:
    record(tmp_path, steps=range(6)).close()
    with ThreadPoolExecutor(4) as ranks:
        found = set(ranks.map(lambda _: rewind_locally(tmp_path, RUN, 3, launch_id="first").rewinds, range(8)))
    assert found == {(3,)}
    record(tmp_path, steps=range(4, 5), rewinds=(3,)).close()
    assert rewind_locally(tmp_path, RUN, None, launch_id="second").rewinds == (3, 4)
    assert rewind_locally(tmp_path, RUN, 3, launch_id="first").rewinds == (3,)
    # What was delivered meanwhile and what was agreed on stand in one file, and leave each other alone.
    deliver(tmp_path)
    assert rewind_locally(tmp_path, RUN, 1, launch_id="second").rewinds == (3, 4)
    assert local_state(tmp_path, RUN).step == 4


def test_notes_and_rewinds_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    record(tmp_path, steps=range(1)).close()

    def note(step: int) -> None:
        meta = {"run_id": RUN, "rewinds": []}
        note_delivered(tmp_path, meta, {"training_steps": [{"step": step, "status": "completed"}]})

    def rewind(number: int) -> tuple[int, ...]:
        return rewind_locally(tmp_path, RUN, number, launch_id=str(number)).rewinds

    with ThreadPoolExecutor(4) as threads:
        noted, rewound = [threads.submit(note, step) for step in range(50)], list(threads.map(rewind, range(50)))
    assert [one.result() for one in noted] == [None] * 50
    assert local_state(tmp_path, RUN).step == 49
    assert [rewind(number) for number in range(50)] == rewound == [(number,) for number in range(50)]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"delivered": 7}', b'{"delivered": {"step": 1}}', b"\0" * 64])
def test_a_file_that_cannot_be_read_is_no_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{RUN}.run.json").write_bytes(content)
    assert local_state(tmp_path, RUN) == RunState()
    record(tmp_path, steps=range(2)).close()
    deliver(tmp_path)
    assert local_state(tmp_path, RUN).next_step == 2


def test_of_an_earlier_timeline_only_the_steps_before_the_rewind_count(tmp_path: Path) -> None:
    earlier = RunState(step=9, metric_step=9, episode=30)
    later = RunState(rewinds=(4,), episode=5)
    assert earlier.joined(later) == later.joined(earlier) == RunState((4,), 4, 4, 30)
    beyond = RunState(rewinds=(4,), step=6)
    assert earlier.joined(beyond).next_step == 7
    assert RunState(step=2).joined(RunState(rewinds=(4, 3))).next_step == 3
    assert local_state(tmp_path / "nowhere", RUN) == RunState()
