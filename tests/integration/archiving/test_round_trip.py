"""What goes to an archive comes back exactly, and what stays gives the same answers meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openmanus_rl.archiving import Archiver
from openmanus_rl.errors import ChecksumMismatch, OpenManusError
from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.storage import StorageManager

from ..conftest import Command, Query
from .conftest import STAYING, TABLES, Record, digests

FIGURES = {
    "run_list": (
        "select to_jsonb(r) - 'updated_at' - 'archive_status' as answer from public.run_list r where r.id = %s"
    ),
    "run_overview": (
        "select to_jsonb(r) - 'updated_at' - 'archive_status' as answer from public.run_overview r where r.id = %s"
    ),
    "run_metrics": "select public.run_metrics(%s) as answer",
    "run_progress": "select public.run_progress(%s) as answer",
    "run_health": "select public.run_health(%s) as answer",
    "metric_names": "select public.metric_names(%s) as answer",
    "last_value": (
        "select jsonb_agg(internal.last_value(%s, n)) as answer from unnest(array['loss', 'reward/mean',"
        " 'own axis', 'none']) n"
    ),
    "rollouts": (
        "select jsonb_agg(to_jsonb(r) order by r.id) as answer from public.rollouts r where r.training_run_id = %s"
    ),
    "groups": (
        "select jsonb_agg(to_jsonb(g) order by g.id) as answer from public.rollout_groups g where"
        " g.training_run_id = %s"
    ),
}


def figures(query: Query, run_id: str) -> dict[str, str]:
    return {
        name: json.dumps(query(statement, run_id)[0]["answer"], sort_keys=True) for name, statement in FIGURES.items()
    }


def test_a_round_trip_changes_no_value(archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record()
    before, staying = digests(query, run_id), digests(query, run_id, STAYING)
    assert all(found["rows"] for found in before.values())

    archived = archiver.archive(run_id)

    assert archived.row_counts == {table: before[table]["rows"] for table in TABLES}
    assert {table: found["rows"] for table, found in digests(query, run_id).items()} == dict.fromkeys(TABLES, 0)
    assert digests(query, run_id, STAYING) == staying
    assert len(archiver.verify(run_id)) == archived.files

    restored = archiver.restore(run_id)

    assert (restored.row_counts, restored.left_out) == (archived.row_counts, 0)
    assert digests(query, run_id) == before
    assert digests(query, run_id, STAYING) == staying
    assert list(StorageManager.walk_files("archives", run_id)) == []


def test_figures_of_an_archived_run_are_those_of_before(archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record(total_steps=100)
    before = figures(query, run_id)
    assert '"loss"' in before["metric_names"]

    archiver.archive(run_id)
    assert figures(query, run_id) == before

    archiver.restore(run_id)
    assert figures(query, run_id) == before


def test_a_run_without_turns_and_one_that_was_rewound_are_archived(
    archiver: Archiver, record: Record, query: Query
) -> None:
    empty, rewound = record(rollouts=0), record(rollouts=2)
    query("select internal.rewind_run(%s, 10, gen_random_uuid()) is null as done", rewound)
    before, shown = digests(query, rewound), figures(query, rewound)
    for run_id in (empty, rewound):
        archiver.archive(run_id)
    assert figures(query, rewound) == shown
    for run_id in (empty, rewound):
        archiver.restore(run_id)
    assert digests(query, rewound) == before


def test_a_value_that_parquet_cannot_hold_leaves_everything_in_the_database(
    archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=1)
    query(
        "update public.agent_states set chat = '{{0,1},{0,1}}' where training_run_id = %s and step_number = 1"
        " returning 1",
        run_id,
    )
    before = digests(query, run_id)
    with pytest.raises(OpenManusError, match="nothing was moved"):
        archiver.archive(run_id)
    assert digests(query, run_id) == before

    # Parquet has no lower bound of a list: the digest notices.
    query(
        "update public.agent_states set chat = '[5:6]={0,1}' where training_run_id = %s and step_number = 1"
        " returning 1",
        run_id,
    )
    before = digests(query, run_id)
    with pytest.raises(ChecksumMismatch, match="digest"):
        archiver.archive(run_id)
    assert digests(query, run_id) == before
    assert query("select archive_status from public.training_runs where id = %s", run_id)[0]["archive_status"] is None


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01"])
def test_a_time_that_parquet_cannot_hold_is_told_as_such(
    archiver: Archiver, record: Record, query: Query, moment: str
) -> None:
    run_id = record(rollouts=1)
    query("update public.tool_calls set created_at = %s where training_run_id = %s returning 1", moment, run_id)
    before = digests(query, run_id)
    with pytest.raises(OpenManusError, match="nothing was moved"):
        archiver.archive(run_id)
    assert digests(query, run_id) == before


def test_a_damaged_file_is_noticed_and_restores_nothing(archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record(rollouts=2)
    archiver.archive(run_id)
    damaged = next(file for file in ArchiveManager.get_archive(run_id)["files"] if file["table"] == "tool_calls")
    content = StorageManager.download_bytes("archives", damaged["path"])
    StorageManager.upload_bytes("archives", damaged["path"], content[:-9] + bytes(9))
    for attempt in (archiver.verify, archiver.restore):
        with pytest.raises(ChecksumMismatch, match="not the file"):
            attempt(run_id)
    assert digests(query, run_id)["agent_states"]["rows"] == 0

    StorageManager.upload_bytes("archives", damaged["path"], content)
    assert archiver.restore(run_id).left_out == 0


def test_the_commands_archive_list_verify_and_restore(command: Command, record: Record, query: Query) -> None:
    run_id, young = record(rollouts=1), record(rollouts=1)
    query("update public.training_runs set finished_at = now() where id = %s returning 1", young)
    plan = command("archive", "--older-than", "100d", "--dry-run", "--json").json["would_archive"]
    found = {one["run_id"]: one for one in plan}
    assert young not in found
    assert found[run_id]["row_counts"]["agent_states"] == 4

    done = command("archive", "--run", run_id, "--json")
    assert done.code == 0, done.err
    archived = done.json["archived"][0]
    assert archived["row_counts"] == found[run_id]["row_counts"]
    assert archived["database_bytes"] == found[run_id]["database_bytes"]
    listed = command("archive", "list", "--json").json
    assert [row["training_run_id"] for row in listed if row["training_run_id"] == run_id] == [run_id]
    assert run_id in command("archive", "list").out
    assert "as they were archived" in command("archive", "verify", run_id).out
    again = command("archive", "--run", run_id)
    assert (again.code, "archived already" in again.message) == (1, True)
    restored = command("archive", "restore", run_id, "--json")
    assert restored.code == 0, restored.err
    assert restored.json["restored"][0]["left_out"] == 0
    assert "is expected" in command("archive", "--older-than", "soon").message
    # Before there were calendars.
    long_ago = command("archive", "--older-than", "999999d", "--json")
    assert (long_ago.code, long_ago.json["archived"]) == (0, []), long_ago.err


def test_each_run_is_done_once_though_others_fail_and_a_dry_run_tells_which_would(
    command: Command, record: Record, query: Query
) -> None:
    run_id, running = record(rollouts=1), record(rollouts=0)
    query("select public.resume_run(%s, gen_random_uuid())", running)
    twice = [part for one in (running, run_id, run_id) for part in ("--run", one)]

    planned = command("archive", "--dry-run", "--json", *twice)
    assert (planned.code, [one["run_id"] for one in planned.json["would_archive"]]) == (1, [run_id])
    assert [one["run_id"] for one in planned.json["failed"]] == [running]
    assert "only finished runs" in planned.err
    done = command("archive", "--json", *twice)
    assert (done.code, [one["run_id"] for one in done.json["archived"]]) == (1, [run_id])

    checked = command("archive", "verify", running, run_id, "--json")
    assert (checked.code, [one["run_id"] for one in checked.json["verified"]]) == (1, [run_id])
    assert "it is not archived" in checked.err
    restored = command("archive", "restore", running, run_id, "--json")
    assert (restored.code, [one["run_id"] for one in restored.json["restored"]]) == (1, [run_id])


def test_what_is_said_of_an_archived_run_names_the_archive(
    command: Command, archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=1)
    archiver.archive(run_id)
    rollout: Any = query("select id::text from public.rollouts where training_run_id = %s", run_id)[0]["id"]
    for arguments in (("export", "turns", "-", "--run", run_id), ("export", "metrics", "-", "--run", run_id)):
        said = command(*arguments)
        assert (said.code, f"archive restore {run_id}" in said.message) == (1, True), arguments
    assert command("export", "rollouts", "-", "--run", run_id).code == 0
    assert "archived" in command("runs", "show", run_id).out
    assert "archived" in command("rollouts", "show", rollout).out
