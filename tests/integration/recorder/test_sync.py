"""`openmanus-rl sync` delivers what it can and claims no more than it saw."""

from __future__ import annotations

import os
import re
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.media.blobs import BlobStore, media_record
from openmanus_rl.records.ids import creation_change_id, new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import Progress, Spool, find_spools
from openmanus_rl.spool.writer import SpoolWriter
from tests.support.fault_proxy import fault_proxy

from ..conftest import Command
from .conftest import Query

ELSEWHERE = "https://elsewhere.supabase.co"


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Path:
    """A home in which nothing was recorded; the command works in it."""
    # In this order: the command's settings name the session's home.
    request.getfixturevalue("command")
    return Path(request.getfixturevalue("recorder_env")["OPENMANUS_RL_HOME"])


def record_run(root: Path, *, url: str = "x", points: int = 10) -> SpoolWriter:
    """Record a run with metrics, a rollout and a file, and leave it to be delivered."""
    run_id, rollout_id = new_id(), new_id()
    writer = SpoolWriter(root, url=url, run_id=run_id)
    begun = {"status": "running", "status_change_id": creation_change_id(run_id)}
    writer.append("training_runs", {"id": run_id, "name": "copied", **begun})
    for step in range(points):
        writer.append("metrics", {"run": run_id, "step": step, "values": {"loss": step / 2}})
    begun = {"status": "running", "status_change_id": creation_change_id(rollout_id)}
    writer.append("rollouts", {"id": rollout_id, "training_run_id": run_id, "episode_number": 0, **begun})
    record, _ = media_record(BlobStore(writer.folder), b"the bytes of a file", run_id=run_id, kind="file")
    assert record is not None
    writer.append("media", record)
    return writer


def arrived(query: Query, writer: SpoolWriter) -> tuple[int, int, int]:
    counts = [
        query(f"select count(*) as n from {table} where training_run_id = %s", writer.meta.run_id)[0]["n"]
        for table in ("metrics", "rollouts", "media")
    ]
    return counts[0], counts[1], counts[2]


def test_what_waits_for_another_destination_is_told_and_not_claimed(home: Path, command: Command, query: Query) -> None:
    today = record_run(spool_root(load_settings()))
    today.close()
    other = record_run(home / "spool" / "0123456789abcdef", url=ELSEWHERE)
    other.close()
    Spool(other.folder).save(Progress(error="nobody answers"))
    done = command("sync", "--json")
    assert (done.code, done.json["delivered"], done.json["queued"]) == (0, 13, 0)
    (waiting,) = done.json["waiting"]
    assert (waiting["address"], waiting["is_current"], waiting["queued"]) == (ELSEWHERE, False, 13)
    assert waiting["since"] is not None
    assert waiting["error"] == "nobody answers"
    told = command("sync").out
    assert ELSEWHERE in told
    assert "13 records" in told
    assert "nobody answers" in told
    assert "is in the database" not in told
    assert f"13 records for {ELSEWHERE}" in command("status").out
    assert arrived(query, other) == (0, 0, 0)


@pytest.mark.parametrize("left", ["damaged", "refused", "writing"])
def test_what_is_damaged_refused_or_still_written_is_not_claimed_to_be_there(command: Command, left: str) -> None:
    root = spool_root(load_settings())
    writer = record_run(root)
    if left == "damaged":
        with (writer.folder / "000001.jsonl").open("ab") as file:
            file.write(b'["rollouts", what is this\n')
    if left != "writing":
        writer.append("rollouts", {"id": new_id(), "seed": "many"})
    if left != "writing":
        writer.close()
    for _ in range(2):
        done = command("sync")
        assert done.code == (0 if left == "writing" else 1), done.out
        assert "is in the database" not in done.out
        told = {"damaged": "1 records are lost", "refused": "1 records, kept", "writing": "1 process(es)"}
        assert told[left] in done.out
    writer.close()
    assert command("sync", "--discard", "--yes").code == 0
    assert "is in the database" in command("sync").out


def test_a_copied_home_is_delivered_once_with_its_files_and_stays_as_it_was(
    command: Command, query: Query, tmp_path: Path
) -> None:
    original = tmp_path / "machine a"
    writer = record_run(original / "spool" / "0123456789abcdef", url=ELSEWHERE)
    writer.close()
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    done = command("sync", "--from", str(copy), "--json")
    assert (done.code, done.json["adopted"], done.json["delivered"]) == (0, 1, 13), done.err
    assert arrived(query, writer) == (10, 1, 1)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    # The machine that it was copied from delivers it too, and somebody syncs the copy again, by another folder.
    for source in (original, copy / "spool", writer.folder):
        assert command("sync", "--from", str(source), "--json").json["delivered"] == 13
    assert arrived(query, writer) == (10, 1, 1)
    assert "everything that was recorded in this home is in the database" in command("sync").out


def test_what_is_still_written_elsewhere_is_copied_without_harm(command: Command, query: Query, tmp_path: Path) -> None:
    root = tmp_path / "machine a" / "spool" / "0123456789abcdef"
    writer = record_run(root)
    with (writer.folder / "000001.jsonl").open("ab") as file:
        file.write(b'["metrics",1.0,{"run":"')
    done = command("sync", "--from", str(root), "--json")
    assert (done.code, done.json["delivered"], done.json["damaged"]) == (0, 13, 0), done.err
    # Its process may live: nothing of it was cut short.
    status = query("select status from rollouts where training_run_id = %s", writer.meta.run_id)
    assert status == [{"status": "running"}]
    writer.close()


def test_a_later_copy_brings_what_came_since_though_an_earlier_one_is_kept_for_its_refusals(
    command: Command, query: Query, tmp_path: Path
) -> None:
    writer = record_run(tmp_path / "machine a" / "spool" / "0123456789abcdef", url=ELSEWHERE)
    writer.append("rollouts", {"id": new_id(), "training_run_id": writer.meta.run_id, "episode_number": "none"})
    for copy in ("first copy", "second copy"):
        shutil.copytree(tmp_path / "machine a", tmp_path / copy)
        writer.append("metrics", {"run": writer.meta.run_id, "step": 100, "values": {"loss": 0.5}})
    writer.close()
    shutil.copytree(tmp_path / "machine a", tmp_path / "third copy")
    for copy, points in (("first copy", 10), ("second copy", 11), ("third copy", 12), ("first copy", 12)):
        done = command("sync", "--from", str(tmp_path / copy), "--json")
        assert (done.code, done.json["refused"]) == (1, 1), (copy, done.out, done.err)
        assert arrived(query, writer) == (points, 2, 1), copy
    assert command("sync", "--discard", "--yes").code == 0
    assert "is in the database" in command("sync").out


def test_a_connection_that_is_cut_off_again_and_again_does_not_end_it(
    command: Command, query: Query, stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fault_proxy(os.environ["SUPABASE_URL"], stack.certificate) as proxy:
        monkeypatch.setenv("SUPABASE_URL", proxy.url)
        monkeypatch.delenv("DATABASE_URL", raising=False)
        monkeypatch.setattr("openmanus_rl.cli.sync._PAUSE_SECONDS", 0.01)
        writer = record_run(spool_root(load_settings()))
        writer.close()
        # Once in a request, once in an answer.
        proxy.cuts_of_requests = [500]
        proxy.cuts_of_answers = [10]
        done = command("sync", "--json")
        assert (done.code, done.json["queued"]) == (0, 0), done.err
        assert proxy.broken_off == 2
        assert "trying again" in done.err

        again = record_run(spool_root(load_settings()))
        again.close()
        # Nothing comes through at all: that is told, and it waits.
        proxy.cuts_of_requests = list(range(proxy.sent, proxy.sent + 1_000_000, 100))
        done = command("sync")
        assert done.code == 1
        assert "call load_batch" in done.message
    assert (arrived(query, writer), arrived(query, again)) == ((10, 1, 1), (0, 0, 0))


def test_a_folder_without_spools_is_an_error(command: Command, tmp_path: Path) -> None:
    assert "holds no spools" in command("sync", "--from", str(tmp_path)).message
    assert "no such folder" in command("sync", "--from", str(tmp_path / "nowhere")).message


def test_refusals_are_shown_and_dropped_and_then_not_told_any_more(command: Command) -> None:
    writer = record_run(spool_root(load_settings()))
    for number in range(3):
        writer.append("rollouts", {"id": new_id(), "training_run_id": writer.meta.run_id, "seed": f"secret {number}"})
    writer.close()
    done = command("sync")
    assert (done.code, "3 records, kept" in done.out) == (1, True), done.out
    # Nobody can be asked here.
    assert "--yes" in command("sync", "--discard").message
    shown = command("sync", "--discard", "--yes")
    assert shown.code == 0
    assert re.search(r"rollouts +seed +invalid input syntax .* 3\b", shown.out)
    assert "Deleted 3 records" in shown.out
    assert command("sync", "--discard", "--yes", "--json").json == {"discarded": 0, "kept": 0, "refusals": []}
    done = command("sync")
    assert (done.code, "is in the database" in done.out) == (0, True)
    assert list(find_spools(spool_root(load_settings()))) == []


def test_what_is_delivered_later_keeps_the_times_at_which_it_began_and_ended(command: Command, query: Query) -> None:
    before = datetime.now(UTC)
    run = openmanus_rl.init(name="late", mode="offline")
    with run, run.step(0) as step, step.group(task="wait") as group, run.evaluation(step=0), group.rollout():
        time.sleep(0.2)
    after = datetime.now(UTC)
    assert command("sync").code == 0
    for table in ("training_runs", "training_steps", "evaluations", "rollouts"):
        of_run = "id" if table == "training_runs" else "training_run_id"
        (row,) = query(f"select started_at, finished_at from {table} where {of_run} = %s", run.id)
        assert before <= row["started_at"] <= row["finished_at"] - timedelta(seconds=0.2) < after, table
