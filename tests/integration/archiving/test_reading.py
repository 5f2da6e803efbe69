"""An archive is read without this package by DuckDB, and with it as if nothing had been moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from openmanus_rl.archiving import Archiver
from openmanus_rl.errors import AuthError, ConflictError, InvalidInput, NotFoundError
from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.transport.client import Client

from ..conftest import Query
from .conftest import TABLES, Record, digests

PAGES = {
    "outline": "select public.rollout_outline(%s) as answer",
    "turns": "select public.rollout_turns(%s, 0, 200, 1000000) as answer",
    "rewards": "select public.rollout_rewards(%s) as answer",
    "fingerprints": "select public.turn_fingerprints(%s) as answer",
    "search": "select public.search_rollout(%s, 'quoted') as answer",
    "times": "select public.video_times(%s) as answer",
}
OF_TURNS = ("agent_states", "observations", "generations", "tool_calls")


def download(run_id: str, folder: Path) -> Path:
    """Copy an archive to a folder, as it lies in the bucket."""
    (folder / run_id).mkdir()
    for file in StorageManager.walk_files("archives", run_id):
        StorageManager.download_file("archives", file["path"], folder / file["path"])
    return folder / run_id


def test_duckdb_answers_from_the_files_alone(archiver: Archiver, record: Record, query: Query, tmp_path: Path) -> None:
    run_id = record(rollouts=5)
    by_step = query(
        "select r.step, avg(a.reward) as mean, count(*) as turns from public.agent_states a join"
        " public.rollouts r on r.id = a.rollout_id"
        " where r.training_run_id = %s and a.reward between -1e9 and 1e9 group by 1 order by 1", run_id)  # fmt: skip
    tools = query(
        "select tool_name, count(*) as calls, count(*) filter (where not success) as failed from public.tool_calls"
        " where training_run_id = %s group by 1 order by 1", run_id)  # fmt: skip
    losses = query(
        "select step, value from public.metrics where training_run_id = %s and name = 'loss' order by step", run_id
    )
    archiver.archive(run_id)
    folder = download(run_id, tmp_path)

    with duckdb.connect() as db:
        found = db.execute(
            f"select r.step, avg(a.reward), count(*) from '{folder}/agent_states-*.parquet' a join"
            f" '{folder}/rollouts-*.parquet' r"
            " on r.id = a.rollout_id where a.reward between -1e9 and 1e9 group by 1 order by 1"
        ).fetchall()
        assert [(step, pytest.approx(mean), turns) for step, mean, turns in found] == [
            tuple(row.values()) for row in by_step
        ]
        called = db.execute(
            f"select tool_name, count(*), count(*) filter (not success) from '{folder}/tool_calls-*.parquet'"
            f" group by 1 order by 1"
        ).fetchall()
        assert called == [tuple(row.values()) for row in tools]
        points = db.execute(
            "select unnest(coalesce(a.steps, c.steps)[:len(c.values)]) as step, unnest(c.values) as value"
            f" from '{folder}/metric_chunks-*.parquet' c left join '{folder}/metric_axes-*.parquet' a on a.id ="
            f" c.axis_id"
            " where c.name = 'loss' order by 1"
        ).fetchall()
        assert list(map(str, points)) == [str(tuple(row.values())) for row in losses]
        types = dict(
            db.execute(
                f"select column_name, column_type from (describe from '{folder}/agent_states-*.parquet')"
            ).fetchall()
        )
    assert {types[name] for name in ("id", "rollout_id", "observation", "messages")} == {"VARCHAR"}
    assert (types["reward"], types["step_number"], types["created_at"], types["chat"]) == (
        "DOUBLE", "BIGINT", "TIMESTAMP WITH TIME ZONE", "BIGINT[]")  # fmt: skip
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["format"], manifest["run"]["id"]) == (1, run_id)
    assert {file["path"] for file in manifest["files"]} | {f"{run_id}/manifest.json"} == {
        f"{run_id}/{path.name}" for path in folder.iterdir()
    }


def test_what_is_loaded_is_shown_as_before_and_restoring_replaces_it(
    archiver: Archiver, record: Record, query: Query
) -> None:
    run_id = record(rollouts=4)
    rollouts = [
        str(row["id"]) for row in query("select id from public.rollouts where training_run_id = %s order by id", run_id)
    ]
    chosen = rollouts[1]
    before = {name: query(statement, chosen)[0]["answer"] for name, statement in PAGES.items()}
    everything = digests(query, run_id)
    of_one = (
        "select md5(string_agg(to_jsonb(t)::text, e'\n' order by t.id)) as digest from public.agent_states"
        " t where t.rollout_id = %s"
    )
    exact = query(of_one, chosen)
    series = query("select public.metric_series(%s) as answer", run_id)
    archiver.archive(run_id)

    loaded = ArchiveManager.load_rollout(chosen)
    assert {name: loaded[name] for name in OF_TURNS} == dict.fromkeys(OF_TURNS, 4)
    assert {name: query(statement, chosen)[0]["answer"] for name, statement in PAGES.items()} == before
    assert query(of_one, chosen) == exact
    assert digests(query, run_id)["agent_states"]["rows"] == 4
    assert set(ArchiveManager.load_rollout(chosen).values()) == {0}

    assert ArchiveManager.load_metrics(run_id) == {"metric_axes": 1, "metric_chunks": 3}
    assert query("select public.metric_series(%s) as answer", run_id) == series
    metrics = ("metric_axes", "metric_chunks")
    assert digests(query, run_id, metrics) == {name: everything[name] for name in metrics}

    assert archiver.restore(run_id).left_out == 0
    assert digests(query, run_id) == everything


def test_what_was_loaded_is_removed_after_a_day(archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record(rollouts=1)
    archiver.archive(run_id)
    rollout = str(query("select id from public.rollouts where training_run_id = %s", run_id)[0]["id"])
    ArchiveManager.load_rollout(rollout)
    archiver.unload()
    assert digests(query, run_id)["agent_states"]["rows"] == 4
    query(
        "update public.archives set loaded_at = now() - interval '25 hours' where training_run_id = %s returning 1",
        run_id,
    )
    assert archiver.unload() >= 1
    assert {found["rows"] for found in digests(query, run_id, TABLES).values()} == {0}
    assert ArchiveManager.get_archive(run_id)["loaded_at"] is None


@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed"])
def test_an_archive_that_lost_something_is_said_to_be_unreadable_at_once(
    archiver: Archiver, record: Record, query: Query, damage: str
) -> None:
    run_id = record(rollouts=1)
    archiver.archive(run_id)
    rollout = str(query("select id from public.rollouts where training_run_id = %s", run_id)[0]["id"])
    path = next(file["path"] for file in ArchiveManager.get_archive(run_id)["files"] if file["table"] == "tool_calls")
    if damage == "removed":
        StorageManager.delete_files("archives", [path])
    else:
        content = StorageManager.download_bytes("archives", path)
        StorageManager.upload_bytes("archives", path, content[:-100] if damage == "truncated" else b"")
    with pytest.raises(ConflictError, match=f"archive verify {run_id}") as raised:
        ArchiveManager.load_rollout(rollout)
    assert (raised.value.code, raised.value.attempts, path in raised.value.message) == ("archive_unreadable", 1, True)


def test_only_those_who_see_a_run_load_it(stack: Any, archiver: Archiver, record: Record, query: Query) -> None:
    run_id = record(rollouts=1)
    rollout = str(query("select id from public.rollouts where training_run_id = %s", run_id)[0]["id"])
    assert ArchiveManager.load_rollout(rollout) == {}
    archiver.archive(run_id)
    with pytest.raises(NotFoundError):
        ArchiveManager.load_rollout(run_id)
    client = Client.from_url_and_key(stack.url, stack.publishable_key, anon_key=stack.publishable_key)
    with pytest.raises(AuthError):
        ArchiveManager.using(client).load_rollout(rollout)
    with pytest.raises(InvalidInput):
        client.from_url_and_key(stack.url, stack.secret_key).function("load-archive", json={})
    assert digests(query, run_id)["agent_states"]["rows"] == 0
