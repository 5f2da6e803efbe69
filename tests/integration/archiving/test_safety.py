"""Killed at any point, and whatever is written meanwhile: nothing is lost and nothing doubled."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import openmanus_rl
from openmanus_rl.archiving import Archiver
from openmanus_rl.errors import ConflictError, ConnectionFailed, NotFoundError, OpenManusError
from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.batches import write_batch
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.archive_rows import Content
from openmanus_rl.transport.loading import Loader

from ..conftest import Command, Query, Row
from .conftest import Record, digests

# Kills itself when a method is called for the nth time.
KILLED = """
import os, signal, sys
from openmanus_rl.archiving import Archiver
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.transport.archive_rows import Content
run_id, what, nth = sys.argv[1], sys.argv[2], int(sys.argv[3])
owner, name = {"Storage": StorageManager, "Content": Content}[what.split(".")[0]], what.split(".")[1]
real, calls = getattr(owner, name), []
def counted(*arguments, **options):
    calls.append(arguments)
    if len(calls) == nth:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **options)
setattr(owner, name, staticmethod(counted) if owner is StorageManager else counted)
with Archiver() as archiver:
    getattr(archiver, sys.argv[4])(run_id)
"""


def run_until_killed(stack: Any, run_id: str, what: str, nth: int, method: str = "archive") -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, run_id, what, str(nth), method],
        env={**stack.env, "PATH": "/usr/bin:/bin"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == -9, ended.stderr


def status_of(query: Query, run_id: str) -> str | None:
    return query("select archive_status from public.training_runs where id = %s", run_id)[0]["archive_status"]


def test_killed_at_any_point_and_run_again_nothing_is_lost(
    stack: Any, archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=3)
    before = digests(query, run_id)
    points = [
        ("Storage.upload_file", 4), ("Storage.upload_bytes", 1), ("Storage.download_file", 8), ("Content.call", 3),
    ]  # fmt: skip
    for what, nth in points:
        run_until_killed(stack, run_id, what, nth)
        assert status_of(query, run_id) == "writing", (what, nth)
        assert digests(query, run_id) == before, (what, nth)

    assert [one.is_begun for one in archiver.find_runs(older_than=timedelta(days=100_000)) if one.id == run_id] == [
        True
    ]
    # After the rows were removed, before the files of earlier attempts were.
    run_until_killed(stack, run_id, "Storage.walk_files", 1)
    assert status_of(query, run_id) == "archived"
    archiver.verify(run_id)

    run_until_killed(stack, run_id, "Storage.download_file", 5, "restore")
    assert status_of(query, run_id) == "archived"
    assert {found["rows"] for found in digests(query, run_id).values()} == {0}
    run_until_killed(stack, run_id, "Storage.walk_files", 1, "restore")
    assert (status_of(query, run_id), digests(query, run_id)) == (None, before)
    archiver.archive(run_id)
    archiver.restore(run_id)
    assert digests(query, run_id) == before


def test_killed_while_rows_are_removed_nothing_is_lost(
    stack: Any, record: Record, query: Query, archiver: Archiver
) -> None:
    run_id = record(rollouts=2)
    before = digests(query, run_id)
    with psycopg.connect(stack.database_url) as other:
        # The last row that is removed: the process waits for it in the middle of its last transaction.
        other.execute("select 1 from public.metric_axes where training_run_id = %s for update", [run_id])
        code = "import sys; from openmanus_rl.archiving import Archiver\nwith Archiver() as a: a.archive(sys.argv[1])"
        process = subprocess.Popen([sys.executable, "-c", code, run_id], env={**stack.env, "PATH": "/usr/bin:/bin"})
        waiting = (
            "select count(*) as n from pg_stat_activity where query like 'select internal.finish_archive%%' and"
            " wait_event_type = 'Lock'"
        )
        while query(waiting)[0]["n"] == 0:
            assert process.poll() is None
        process.kill()
        process.wait()
    assert digests(query, run_id) == before
    archiver.archive(run_id)
    archiver.restore(run_id)
    assert digests(query, run_id) == before


def turn_of(rollout_id: str, step: int = 900) -> Row:
    return {"id": new_id(), "rollout_id": rollout_id, "step_number": step, "observation": "late", "reward": 1.0,
            "tool_calls": [{"tool_name": "late"}]}  # fmt: skip


def rollout_of(query: Query, run_id: str) -> str:
    return str(
        query("select id::text from public.rollouts where training_run_id = %s order by id limit 1", run_id)[0]["id"]
    )


def late_records(query: Query, run_id: str) -> dict[str, list[Row]]:
    rollout = rollout_of(query, run_id)
    chunk = {
        "id": new_id(),
        "training_run_id": run_id,
        "name": "late",
        "steps": [1],
        "values": [1.0],
        "times": ["2026-01-01T00:00:00Z"],
    }
    reward = {"id": new_id(), "rollout_id": rollout, "step_number": 901, "reward_type": "late", "reward": 1.0}
    return {"agent_states": [turn_of(rollout)], "metric_chunks": [chunk], "rewards": [reward]}


@pytest.mark.parametrize("state", ["writing", "archived"])
def test_late_turns_and_points_are_refused_with_the_way_out_and_the_rest_is_written(
    state: str, stack: Any, archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=2)
    rollout = rollout_of(query, run_id)
    before = digests(query, run_id)
    if state == "archived":
        archiver.archive(run_id)
    else:
        query("select internal.begin_archive(%s) is null as done", run_id)
    now = digests(query, run_id)
    late = late_records(query, run_id)

    refused = write_batch(late).refused
    assert {one.kind for one in refused} >= {"agent_states", "tool_calls", "metric_chunks", "rewards"}
    assert {one.code for one in refused} == {"OM409"}
    assert all(f"archive restore {run_id}" in one.message for one in refused)
    loader = Loader(stack.database_url)
    # As the courier loads them: parts as records of their own.
    turn = {name: value for name, value in late["agent_states"][0].items() if name != "tool_calls"}
    flat = {
        **late,
        "agent_states": [turn],
        "tool_calls": [{"id": new_id(), "agent_state_id": turn["id"], "tool_name": "late"}],
    }
    try:
        again = loader.load(flat)
    finally:
        loader.close()
    assert {(one["kind"], one["code"]) for one in again} == {(kind, "OM409") for kind in flat}
    for statement in (
        "insert into public.agent_states (rollout_id, training_run_id, step_number) values (%(rollout)s, %(run)s, 903)",
        "insert into public.rewards (rollout_id, training_run_id, step_number, reward) values (%(rollout)s,"
        " %(run)s, 904, 1)",
        "insert into public.metric_chunks (training_run_id, name, steps, values, times) values (%(run)s, 'l',"
        " '{1}', '{1}', '{2026-01-01}')",
        "insert into public.metric_axes (training_run_id, steps, times) values (%(run)s, '{1}', '{2026-01-01}')",
        "select public.resume_run(%(run)s, gen_random_uuid())",
        "update public.training_runs set rewinds = '{1}' where id = %(run)s",
        *(
            f"{change} public.{table}{values} where training_run_id = %(run)s"
            for table, values in (
                ("agent_states", " set action = 'x'"),
                ("tool_calls", " set tool_name = 'x'"),
                ("generations", " set model = 'x'"),
            )
            for change, values in (("update", values), ("delete from", ""))
            if state == "writing"
        ),
        *(["delete from public.metric_chunks where training_run_id = %(run)s"] if state == "writing" else []),
    ):
        with psycopg.connect(stack.database_url) as connection, pytest.raises(psycopg.Error, match="archive restore"):
            connection.execute(statement, {"run": run_id, "rollout": rollout})

    # A verdict, a reward of the whole rollout, a note, a late rollout.
    assert not write_batch(
        {
            "validations": [{"id": new_id(), "rollout_id": rollout, "validator_name": "later", "verdict": "fail"}],
            "rewards": [{"id": new_id(), "rollout_id": rollout, "reward_type": "judge", "reward": 0.5}],
            "training_runs": [{"id": run_id, "description": "a note"}],
            "rollouts": [{"id": new_id(), "training_run_id": run_id, "status": "failed"}],
        }
    ).refused
    query("select public.override_validation(%s, 'fail', 'a person looked')", rollout)
    assert digests(query, run_id, ("agent_states", "metric_chunks")) == {
        name: now[name] for name in ("agent_states", "metric_chunks")
    }

    archiver.restore(run_id)
    kept = ("agent_states", "tool_calls", "generations", "observations", "metric_chunks", "metric_axes")
    assert digests(query, run_id, kept) == {name: before[name] for name in kept}
    assert not write_batch(late).refused
    assert not write_batch(late).refused
    assert query("select count(*) as n from public.agent_states where training_run_id = %s", run_id)[0]["n"] == 9
    query("update public.training_runs set finished_at = now() - interval '1 year' where id = %s returning 1", run_id)
    assert archiver.archive(run_id).row_counts["agent_states"] == 9


def test_archiving_waits_for_a_session_that_writes_and_archives_its_turn(
    stack: Any, archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=1)
    rollout = rollout_of(query, run_id)
    for write in (
        "select public.ingest(jsonb_build_object('agent_states',"
        " jsonb_build_array(jsonb_build_object('rollout_id', %s::text, 'step_number', 50))))",
        "insert into public.agent_states (rollout_id, step_number, training_run_id) select id, 51,"
        " training_run_id from public.rollouts where id = %s",
        "select internal.begin_copy('{}'), internal.lock_parents(array[%s::uuid], '{}')",
    ):
        with psycopg.connect(stack.database_url) as writer, ThreadPoolExecutor(1) as pool:
            writer.execute(write, [rollout])
            begun = pool.submit(query, "select internal.begin_archive(%s) is null as done", run_id)
            blocked = (
                "select count(*) as n from pg_stat_activity where query like 'select internal.begin_archive%%' and"
                " wait_event_type = 'Lock'"
            )
            with psycopg.connect(stack.database_url, autocommit=True) as watcher:
                while watcher.execute(blocked).fetchone() == (0,):
                    assert not begun.done(), write
            writer.commit()
            begun.result()
        assert query("select internal.cancel_archive(%s) as done", run_id)[0]["done"]
    assert archiver.archive(run_id).row_counts["agent_states"] == 6


def test_a_lost_connection_costs_one_attempt_and_leaves_no_run_locked(
    archiver: Archiver, record: Record, query: Query
) -> None:
    run_id, other = record(rollouts=1), record(rollouts=1)
    before = digests(query, run_id)

    def lose(phase: str, done: int, _total: int) -> None:
        if (phase, done) == ("checking files", 1):
            query("select pg_terminate_backend(%s)", archiver._content._open.info.backend_pid)

    with pytest.raises(ConnectionFailed):
        archiver.archive(run_id, on_progress=lose)
    assert (status_of(query, run_id), digests(query, run_id)) == (None, before)
    assert archiver.archive(other).row_counts["agent_states"] == 4


def test_a_connection_that_is_lost_after_the_commit_is_not_told_as_a_failure(
    archiver: Archiver, record: Record, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = record(rollouts=1)
    call = Content.call

    def lose_the_answer(self: Content, statement: str, *arguments: Any, **options: Any) -> Any:
        answer = call(self, statement, *arguments, **options)
        if "finish_archive" in statement:
            raise ConnectionFailed("server closed the connection unexpectedly")
        return answer

    monkeypatch.setattr(Content, "call", lose_the_answer)
    assert archiver.archive(run_id).row_counts["agent_states"] == 4
    assert status_of(query, run_id) == "archived"
    assert len(list(StorageManager.walk_files("archives", run_id))) == 9


def test_a_run_that_is_deleted_meanwhile_is_not_archived(archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record(rollouts=1)

    def delete(phase: str, done: int, _total: int) -> None:
        if phase == "removing" and done == 0:
            query("delete from public.training_runs where id = %s returning 1", run_id)

    with pytest.raises(OpenManusError, match="deleted"):
        archiver.archive(run_id, on_progress=delete)
    with pytest.raises(NotFoundError):
        ArchiveManager.get_archive(run_id)


def test_an_archived_run_is_deleted_with_its_archive(
    command: Command, archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=1)
    archiver.archive(run_id)
    assert command("runs", "delete", run_id, "--yes").code == 0
    assert list(StorageManager.walk_files("archives", run_id)) == []
    assert query("select count(*) as n from public.media where training_run_id = %s", run_id)[0]["n"] == 0


def test_rows_of_a_rollout_that_was_deleted_since_are_left_out(
    archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=3)
    archiver.archive(run_id)
    query("delete from public.rollouts where id = %s returning 1", rollout_of(query, run_id))
    restored = archiver.restore(run_id)
    assert restored.row_counts["agent_states"] == 8
    assert restored.left_out > 0
    orphans = (
        "select count(*) as n from public.agent_states a where a.training_run_id = %s and not exists"
        " (select 1 from public.rollouts r where r.id = a.rollout_id)"
    )
    assert query(orphans, run_id)[0]["n"] == 0


def test_unfinished_recent_and_queued_runs_are_not_archived(archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record(rollouts=1)
    query("select public.resume_run(%s, gen_random_uuid())", run_id)
    with pytest.raises(ConflictError, match="only finished runs"):
        archiver.archive(run_id)
    assert status_of(query, run_id) is None


def test_two_processes_do_not_archive_a_run_at_once(archiver: Archiver, stack: Any, record: Record) -> None:
    run_id = record(rollouts=1)
    refused = threading.Event()

    def meanwhile(phase: str, _done: int, _total: int) -> None:
        if phase == "checking files" and not refused.is_set():
            with Archiver(stack.database_url) as other, pytest.raises(ConflictError, match="another process"):
                other.archive(run_id)
            refused.set()

    archiver.archive(run_id, on_progress=meanwhile)
    assert refused.is_set()


def test_a_copy_of_a_spool_that_is_synced_after_archiving_is_kept_and_doubles_nothing(
    command: Command, archiver: Archiver, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path / "laptop"))
    with openmanus_rl.init(name="late", environment="house", mode="offline") as run:
        run.log({"loss": 1.0}, step=0)
        with run.rollout(task_description="fetch") as rollout:
            rollout.log_turn(observation="a room", action="go", tool_calls=[{"tool_name": "search"}])
    shutil.copytree(tmp_path / "laptop", tmp_path / "copy")
    assert command("sync").code == 0
    before = digests(query, run.id)
    archiver.archive(run.id)

    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path / "copy"))
    synced = command("sync")
    assert synced.code == 1
    assert "openmanus-rl archive restore" in synced.out
    assert {found["rows"] for found in digests(query, run.id).values()} == {0}

    archiver.restore(run.id)
    assert command("sync", "--refused").code == 0
    assert digests(query, run.id) == before
