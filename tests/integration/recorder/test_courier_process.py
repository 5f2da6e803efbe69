"""The courier's process: SIGTERM lets it deliver first, and it does not try for ever what nobody waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.destination import connect
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import find_spools, hurry
from openmanus_rl.spool.writer import SpoolWriter

from . import faulty_server
from .conftest import Query, wait_until
from .faulty_server import FaultySupabase
from .test_faults import write_a_run
from .test_recorder import script, start

pytestmark = pytest.mark.usefixtures("recorder_env")


@pytest.fixture
def root() -> Path:
    return spool_root(load_settings())


@pytest.fixture
def writer(root: Path) -> Iterator[SpoolWriter]:
    writer = SpoolWriter(root, url="x", run_id=new_id())
    yield writer
    writer.close()


def start_courier(root: Path) -> subprocess.Popen[bytes]:
    with (root / "courier.log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "openmanus_rl.delivery", str(root)], stdout=log, stderr=log)


def log_of(root: Path) -> str:
    return (root / "courier.log").read_text()


def couriers_of(root: Path) -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cmdline"]) if str(root) in (one.info["cmdline"] or [])]


LOOP = """
import sys, time, openmanus_rl
run = openmanus_rl.init(name="ended by its batch system", environment="e")
print(run.id)
for number in range(100_000):
    with run.rollout(episode_number=number) as rollout:
        rollout.log_turn(observation="x" * 1000)
        rollout.complete("success")
    print(number)
"""


def test_sigterm_to_a_whole_job_loses_nothing_and_ends_all_of_it(query: Query, root: Path) -> None:
    process = script(LOOP, start_new_session=True)
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    for _ in range(300):
        process.stdout.readline()
    couriers = couriers_of(root)
    assert couriers
    for pid in (process.pid, *(courier.pid for courier in couriers)):
        os.kill(pid, signal.SIGTERM)
    said = [int(line) for line in process.stdout.read().split() if line.isdigit()]
    assert process.wait() == -signal.SIGTERM
    # It ends by itself: nobody writes, and everything is there.
    _, alive = psutil.wait_procs(couriers, timeout=40)
    assert not alive
    found = query(
        "select episode_number from rollouts where training_run_id = %s and status = 'success' order by 1", run_id
    )
    numbers = [row["episode_number"] for row in found]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > max(said, default=298)
    assert list(find_spools(root)) == []
    assert query("select status from training_runs where id = %s", run_id) == [{"status": "interrupted"}]


def test_after_sigterm_what_is_written_yet_is_delivered_and_the_server_is_tried_urgently(
    server: FaultySupabase, query: Query, writer: SpoolWriter, root: Path
) -> None:
    server.fault = faulty_server.broken
    run_id = write_a_run(writer, rollouts=2)
    courier = start_courier(root)
    wait_until(lambda: "delivery failed" in log_of(root))
    # Ctrl-C in the terminal, and a second SIGTERM, change nothing.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
        courier.send_signal(number)
    wait_until(lambda: "SIGTERM" in log_of(root))
    writer.append("rollouts", {"id": new_id(), "training_run_id": run_id, "environment": "e", "seed": 99})
    writer.close()
    server.fault = None
    assert courier.wait(timeout=40) == 0
    assert query("select count(*) as n from rollouts where training_run_id = %s", run_id) == [{"n": 3}]
    assert list(find_spools(root)) == []


def test_after_the_grace_time_the_courier_ends_and_the_spool_waits(
    server: FaultySupabase, query: Query, writer: SpoolWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_GRACE_SECONDS", "0.5")
    server.fault = faulty_server.broken
    run_id = write_a_run(writer, rollouts=2)
    courier = start_courier(root)
    wait_until(lambda: "delivery failed" in log_of(root))
    courier.terminate()
    assert courier.wait(timeout=40) == 0
    assert "the grace time after SIGTERM is over" in log_of(root)
    writer.close()
    (spool,) = find_spools(root)
    assert spool.unread_records() == 7
    server.fault = None
    Courier(root, connect=lambda: connect(load_settings())).deliver()
    assert query("select count(*) as n from rollouts where training_run_id = %s", run_id) == [{"n": 2}]


def test_a_signal_that_comes_before_the_courier_is_ready_does_not_end_it(query: Query, root: Path) -> None:
    recording = Recording(load_settings(), run_id=new_id())
    for courier in couriers_of(root):
        courier.terminate()
    recording.append("training_runs", {"id": recording.run_id, "name": "begun while the job was ended"})
    recording.close()
    hurry(root)
    wait_until(lambda: bool(query("select 1 from training_runs where id = %s", recording.run_id)))


def test_a_courier_gives_up_when_nobody_writes_and_the_destination_stays_away(
    server: FaultySupabase, writer: SpoolWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_COURIER_PATIENCE_SECONDS", "0")
    server.fault = faulty_server.broken
    write_a_run(writer, rollouts=2)
    courier = start_courier(root)
    # As long as somebody writes, it goes on.
    wait_until(lambda: log_of(root).count("delivery failed") >= 3)
    assert courier.poll() is None
    writer.close()
    assert courier.wait(timeout=40) == 0
    assert "giving up" in log_of(root).splitlines()[-1]
    assert "in 1 spools wait" in log_of(root).splitlines()[-1]
    assert "`openmanus-rl sync` delivers them" in log_of(root).splitlines()[-1]
    (spool,) = find_spools(root)
    assert spool.unread_records() == 7


def test_flush_is_false_and_stats_say_why_when_a_record_was_damaged(server: FaultySupabase, root: Path) -> None:
    server.fault = faulty_server.broken
    with start() as run:
        run.log({"loss": 1.0}, step=0)
        run.log({"loss": 2.0}, step=1)
        wait_until(lambda: run.stats.error is not None)
        (spool,) = find_spools(root)
        segment = spool.folder / "000001.jsonl"
        content = segment.read_bytes()
        with segment.open("r+b") as file:
            file.seek(content.index(b'"loss":2.0'))
            file.write(b"?")
        server.fault = None
        assert not run.flush(timeout_seconds=30)
        stats = run.stats
        assert (stats.queued, stats.delivered, stats.lost) == (0, 2, 1)
        assert "000001.jsonl has a line at byte" in (stats.lost_reason or "")
    wait_until(lambda: not couriers_of(root))
    assert not run.flush(timeout_seconds=0)
    # Kept for a look.
    (spool,) = find_spools(root)
    assert b"?" in (spool.folder / "000001.damaged").read_bytes()


def test_flush_waits_for_what_was_only_in_memory_when_it_began(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    with start() as run:
        assert run.flush(timeout_seconds=30)
        real_write = os.write

        def full(file: int, data: bytes) -> int:
            if b'"loss"' in data:
                raise OSError(28, "No space left on device")
            return real_write(file, data)

        with monkeypatch.context() as patch:
            patch.setattr("openmanus_rl.spool.writer.os.write", full)
            run.log({"loss": 1.0}, step=0)
            run.log({"loss": 2.0}, step=1)
            assert (run.stats.in_memory, run.stats.queued, run.stats.lost) == (2, 2, 0)
            assert not run.flush(timeout_seconds=0.5)
        # There is room again: what the flush waits for is written only now.
        assert run.flush(timeout_seconds=30)
        assert run.stats.in_memory == 0
        assert query("select count(*) as n from metrics where training_run_id = %s", run.id) == [{"n": 2}]


def test_flush_is_false_when_somebody_removed_the_spool_under_its_writer(root: Path) -> None:
    with start() as run:
        assert run.flush(timeout_seconds=30)
        (spool,) = find_spools(root)
        for path in spool.folder.iterdir():
            path.unlink()
        spool.folder.rmdir()
        run.log({"loss": 1.0}, step=0)
        assert not run.flush(timeout_seconds=0.5)
        assert "was removed" in (run.stats.error or "")
