"""What a machine knows of a run: no step is forgotten, whoever is killed when, and a launch rewinds once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid5

import pytest

from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.route import Route
from openmanus_rl.errors import LocalFileError
from openmanus_rl.records.ids import NAMESPACE, creation_change_id, new_id
from openmanus_rl.spool import run_state
from openmanus_rl.spool.files import lock_file, segment_path
from openmanus_rl.spool.run_state import RunState, forget_old_runs, local_state, note_delivered, rewind_locally
from openmanus_rl.spool.spools import Progress, Spool, find_spools
from openmanus_rl.spool.writer import SpoolWriter

RUN = str(uuid5(NAMESPACE, "run:a name"))
YEARS = 3 * 365 * 86400


class Sink:
    """Takes everything."""

    storage: Any = None

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:  # noqa: ARG002
        return []

    def interrupt(self, entries: dict[str, list[list[str]]], reason: str) -> None:
        """Take that too."""


class Killed(BaseException):
    """Stands for the end of a process between two steps."""


def record(root: Path, *, steps: range, run_id: str = RUN, **options: Any) -> SpoolWriter:
    """Record completed steps with a metric and an episode each."""
    writer = SpoolWriter(root, url="x", run_id=run_id, **options)
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


def test_how_processes_ended_a_run_is_known_in_order_until_it_is_delivered(tmp_path: Path) -> None:
    begun = {"id": RUN, "status": "running", "status_change_id": creation_change_id(RUN)}
    for changes, may_go_on in ((["failed"], True), (["running", "interrupted"], True), (["completed"], False)):
        writer = SpoolWriter(tmp_path, url="x", run_id=RUN)
        for told in (begun, {"id": RUN}, *({"id": RUN, "status": one} for one in changes)):
            writer.append("training_runs", told)
        writer.close()
        assert local_state(tmp_path, RUN).may_go_on is may_go_on
    known = local_state(tmp_path, RUN, undelivered_only=True).changes
    assert [change["status"] for _, change in known] == ["failed", "running", "interrupted", "completed"]
    deliver(tmp_path)
    assert local_state(tmp_path, RUN).changes == ()


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


@pytest.mark.parametrize("moment", ["find_spools", "_undelivered_lines", "_read"])
def test_what_is_delivered_while_a_process_resumes_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    record(tmp_path, steps=range(4)).close()
    real = getattr(run_state, moment)

    def delivered_before(*arguments: Any) -> Any:
        monkeypatch.setattr(run_state, moment, real)
        deliver(tmp_path)
        return real(*arguments)

    monkeypatch.setattr(run_state, moment, delivered_before)
    assert (local_state(tmp_path, RUN).next_step, local_state(tmp_path, RUN).next_episode) == (4, 204)
    assert not list(find_spools(tmp_path))


def test_a_segment_that_is_delivered_meanwhile_does_not_hide_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, steps=range(40), segment_bytes=1000).close()
    (spool,) = find_spools(tmp_path)
    before = spool.progress
    route = Route.open(spool, 2000)
    assert route is not None
    while segment_path(spool.folder, before.segment).exists():
        assert route.forward(lambda _: [])
    assert spool.unread_bytes()
    outdated: list[Progress] = [before]
    real = Spool.progress.fget
    assert real is not None
    monkeypatch.setattr(Spool, "progress", property(lambda self: outdated.pop() if outdated else real(self)))
    assert local_state(tmp_path, RUN).next_step == 40
    assert not outdated
    route.let_go()


def test_a_run_that_nobody_can_resume_leaves_nothing_behind(tmp_path: Path) -> None:
    record(tmp_path, steps=range(4), run_id=new_id()).close()
    deliver(tmp_path)
    assert not list(tmp_path.glob("*.run.*"))


def age(root: Path, run_id: str = RUN, *, seconds: float = YEARS) -> Path:
    path = root / f"{run_id}.run.json"
    os.utime(path, (time.time() - seconds, time.time() - seconds))
    return path


def test_only_old_runs_are_forgotten_and_of_those_not_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_state, "_KEPT_RUNS", 2)
    runs = [str(uuid5(NAMESPACE, f"run:{number}")) for number in range(6)]
    for number, run_id in enumerate(runs):
        record(tmp_path, steps=range(4), run_id=run_id).close()
        deliver(tmp_path)
        age(tmp_path, run_id, seconds=YEARS - number * 86400 if number < 4 else 300 * 86400)

    def known() -> list[str]:
        return [run_id for run_id in runs if local_state(tmp_path, run_id).next_step == 4]

    Courier(tmp_path, connect=Sink).run(until_idle_seconds=0)
    assert known() == runs[4:]
    # A clock that is years ahead makes all of them look old.
    monkeypatch.setattr(run_state, "_KEPT_SECONDS", 0.0)
    forget_old_runs(tmp_path)
    assert known() == runs[4:]


def test_an_old_run_with_a_spool_and_one_that_is_resumed_just_now_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_state, "_KEPT_RUNS", 0)
    record(tmp_path, steps=range(8)).close()
    deliver(tmp_path)
    # Resumed offline, on a new timeline with no steps of its own yet: what was delivered counts.
    record(tmp_path, steps=range(0), rewinds=(5,)).close()
    age(tmp_path)
    forget_old_runs(tmp_path)
    assert local_state(tmp_path, RUN).next_step == 6
    deliver(tmp_path)
    age(tmp_path)
    real = run_state._locked

    def rewound_before(path: Path) -> Any:
        monkeypatch.setattr(run_state, "_locked", real)
        rewind_locally(tmp_path, RUN, 3, launch_id="now")
        return real(path)

    monkeypatch.setattr(run_state, "_locked", rewound_before)
    forget_old_runs(tmp_path)
    assert rewind_locally(tmp_path, RUN, 2, launch_id="now").rewinds == (3,)
    assert local_state(tmp_path, RUN).next_step == 8


def test_runs_are_forgotten_beside_processes_that_note_and_rewind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any limit by age, a file may go at any moment, but never half of it, and nobody fails because of it."""
    monkeypatch.setattr(run_state, "_KEPT_RUNS", 0)
    monkeypatch.setattr(run_state, "_KEPT_SECONDS", -1.0)

    def note(step: int) -> RunState:
        meta = {"run_id": RUN, "rewinds": []}
        note_delivered(tmp_path, meta, {"training_steps": [{"step": step, "status": "completed"}]})
        return local_state(tmp_path, RUN)

    with ThreadPoolExecutor(4) as threads:
        forgotten = [threads.submit(forget_old_runs, tmp_path) for _ in range(100)]
        states = list(threads.map(note, range(100)))
    for one in forgotten:
        one.result()
    assert {state.step for state in states} <= {None, *range(100)}
    assert note(100).step == 100
