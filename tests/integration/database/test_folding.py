"""A rollout that begins and ends in one batch is written once, and is the same as one that came in two batches."""

from __future__ import annotations

from typing import Any

import pytest

from .writing import Connection, Record, history, ingest, new_id, new_run, row, write

# When a row was written.
ACCIDENTS = ("id", "updated_at", "status_change_id", "created_at", "started_at", "finished_at")


def _two(run_id: str, begin: Record, end: Record) -> list[Record]:
    rollout_id = new_id()
    return [
        {"id": rollout_id, "training_run_id": run_id, "status": "running", "status_change_id": new_id(), **begin},
        {"id": rollout_id, "status": "success", "status_change_id": new_id(), **end},
    ]


def _shown(db: Connection, rollout_id: str) -> Record:
    return {name: value for name, value in row(db, "rollouts", rollout_id).items() if name not in ACCIDENTS}


CASES: dict[str, tuple[Record, Record]] = {
    "plain": ({}, {}),
    "figures": ({"metadata": {"a": 1, "b": 1}}, {"total_reward": 1.5, "step_count": 3, "metadata": {"b": 2}}),
    "given twice": ({"model": "a", "result": {"x": 1}}, {"model": "b", "result": [2]}),
    "messages": ({"status_message": "begun"}, {"status_message": "ended", "status": "failed"}),
    "a message of the beginning": ({"status_message": "begun"}, {"status": "timeout"}),
    "derived fields in the end": ({"environment": "a"}, {"environment": "b", "step": 4, "task_description": "t"}),
    "cleared in the end": ({"model": "a", "total_reward": 1}, {"model": None, "total_reward": None}),
    "times": (
        {"created_at": "2026-01-01T00:00:00+00:00"},
        {"finished_at": "2026-01-01T00:00:09+00:00", "created_at": "2026-02-01T00:00:00+00:00"},
    ),
    "the same timeline": ({"timeline": 0}, {"timeline": 0}),
    "another timeline": ({"timeline": 0}, {"timeline": 1}),
    "interrupted": ({}, {"status": "interrupted", "step_count": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_one_batch_or_two_makes_the_same_rollout(db: Connection, case: str) -> None:
    begin, end = CASES[case]
    run_id = new_run(db)
    together, apart = _two(run_id, begin, end), _two(run_id, begin, end)
    write(db, {"rollouts": together})
    for record in apart:
        write(db, {"rollouts": [record]})
    assert _shown(db, together[0]["id"]) == _shown(db, apart[0]["id"])
    assert history(db, together[0]["id"]) == history(db, apart[0]["id"])
    first, second = row(db, "rollouts", together[0]["id"]), row(db, "rollouts", apart[0]["id"])
    assert first["status_change_id"] == together[1]["status_change_id"]
    if "created_at" in begin:
        assert [first[name] for name in ACCIDENTS[3:]] == [second[name] for name in ACCIDENTS[3:]]
    assert first["started_at"] is not None
    assert first["finished_at"] is not None


def test_it_is_written_once(db: Connection) -> None:
    """The row's first version is its last: nothing was updated."""
    records = _two(new_run(db), {}, {"total_reward": 1})
    with db.transaction():
        write(db, {"rollouts": records})
        found = db.execute("select pg_stat_get_xact_tuples_updated('public.rollouts'::regclass) as updated").fetchone()
    assert found == {"updated": 0}


@pytest.mark.parametrize("again", [[0], [1], [0, 1], [1, 0], [0, 0, 1, 1]])
def test_either_record_delivered_again_changes_nothing(db: Connection, again: list[int]) -> None:
    records = _two(new_run(db), {"metadata": {"a": 1}}, {"total_reward": 1})
    write(db, {"rollouts": records})
    kept = row(db, "rollouts", records[0]["id"])
    write(db, {"rollouts": [records[place] for place in again]})
    assert row(db, "rollouts", records[0]["id"]) == kept
    assert [new for _, new, _ in history(db, records[0]["id"])] == ["running", "success"]


def test_the_counts_are_those_of_its_end(db: Connection) -> None:
    run_id, step, group = new_run(db), new_id(), new_id()
    ended = [record for _ in range(3) for record in _two(run_id, {"group_id": group}, {"total_reward": 2})]
    write(db, {
        "training_steps": [{"id": step, "training_run_id": run_id, "step": 1}],
        "rollout_groups": [{"id": group, "training_step_id": step, "number": 0}],
        "rollouts": ended,
    })  # fmt: skip
    counted = row(db, "rollout_groups", group)
    assert [counted[name] for name in ("rollout_count", "completed_count", "success_count", "reward_mean")] == [
        3,
        3,
        3,
        2,
    ]
    stats: Any = db.execute("select public.run_metrics(%s) as m", [run_id]).fetchone()
    assert (stats["m"]["total_rollouts"], stats["m"]["success_rate"], stats["m"]["average_reward"]) == (3, 1, 2)


@pytest.mark.parametrize(
    ("end", "field"),
    [({"step_count": -1}, "step_count"), ({"status": "victory"}, "status"), ({"status": "pending"}, None)],
)
def test_an_end_that_is_refused_leaves_the_beginning(db: Connection, end: Record, field: str | None) -> None:
    records = _two(new_run(db), {}, end)
    refused = ingest(db, {"rollouts": records})["refused"]
    assert [(refusal["index"], refusal["field"]) for refusal in refused] == ([(1, field)] if field else [])
    assert row(db, "rollouts", records[0]["id"])["status"] == ("running" if field else "pending")


def test_a_rollout_with_three_records_has_all_of_them(db: Connection) -> None:
    records = _two(new_run(db), {}, {})
    judged = {"id": records[0]["id"], "status": "failed", "status_change_id": new_id()}
    write(db, {"rollouts": [*records, judged]})
    assert [new for _, new, _ in history(db, judged["id"])] == ["running", "success", "failed"]
