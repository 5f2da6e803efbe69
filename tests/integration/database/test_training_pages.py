"""What the pages of training read: the frames of a run, jobs that wait, and the orchestrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from .queues import call
from .trained import new_frames, new_run, overviews
from .writing import Connection, acting_as, ingest, new_id


def steps_of(db: Connection, run_id: UUID, **arguments: Any) -> Any:
    return call(db, "frame_steps", training_run_id=run_id, **arguments)


def test_frames_are_found_by_step_and_the_last_of_a_step_counts(db: Connection) -> None:
    run_id, other = new_run(db), new_run(db)
    first = new_frames(db, run_id, [3000, 1000, 2000])
    # The run was resumed from a checkpoint, and recorded a step again.
    again = new_frames(db, run_id, [2000])
    new_frames(db, other, [7])
    assert steps_of(db, run_id) == {"total": 3, "timeline": 0, "steps": [1000, 2000, 3000]}
    found = call(db, "run_frames", training_run_id=run_id, steps=[2000, 3000, 7, 2000])
    assert [(frame["step"], frame["id"]) for frame in found] == [(2000, again[0]), (3000, first[0])]


def test_media_without_a_step_are_no_frames_of_the_run(db: Connection) -> None:
    run_id = new_run(db)
    new_frames(db, run_id, ["4", None, [1], {"a": 1}, True, "many", 2.5, -1])
    ingest(db, {"media": [{"id": new_id(), "training_run_id": str(run_id), "kind": "frame", "path": "x"}]})
    video = {"id": new_id(), "training_run_id": str(run_id), "kind": "video", "path": "x", "metadata": {"step": 9}}
    rollout = {"id": new_id(), "training_run_id": str(run_id), "environment": "e"}
    turn = {"id": new_id(), "rollout_id": rollout["id"], "kind": "frame", "path": "x", "metadata": {"step": 9}}
    ingest(db, {"rollouts": [rollout], "media": [video, turn]})
    assert steps_of(db, run_id) == {"total": 2, "timeline": 0, "steps": [-1, 2.5]}


@pytest.mark.parametrize(("most", "kept"), [(10, 10), (9, 5), (4, 4), (1, 1), (0, 1), (-5, 1)])
def test_of_too_many_frames_some_are_told_and_always_the_last(db: Connection, most: int, kept: int) -> None:
    run_id = new_run(db)
    new_frames(db, run_id, list(range(10)))
    told = steps_of(db, run_id, max_steps=most)
    assert told["total"] == 10
    assert len(told["steps"]) == kept
    assert told["steps"][-1] == 9


def test_frames_are_seen_by_who_may_see_the_run(db: Connection) -> None:
    hidden, shown = new_run(db), new_run(db, visibility="public")
    for run_id in (hidden, shown):
        new_frames(db, run_id, [1])
    with acting_as(db, role="anon"):
        assert steps_of(db, shown)["steps"] == [1]
        assert len(call(db, "run_frames", training_run_id=shown, steps=[1])) == 1
        for function, arguments in (("frame_steps", {}), ("run_frames", {"steps": [1]})):
            with pytest.raises(psycopg.Error) as refused, db.transaction():
                call(db, function, training_run_id=hidden, **arguments)
            assert refused.value.sqlstate == "OM404"


def test_no_more_frames_are_read_at_once_than_a_page_shows(db: Connection) -> None:
    with pytest.raises(psycopg.Error) as refused, db.transaction():
        call(db, "run_frames", training_run_id=new_run(db), steps=list(range(501)))
    assert refused.value.sqlstate == "OM413"


def test_jobs_that_no_living_orchestrator_can_launch_are_told_of(db: Connection) -> None:
    with db.transaction(force_rollback=True):
        nothing, waiting, followed = overviews(db)
    assert nothing == {"counts": {}, "unserved": [], "orchestrators": []}
    assert waiting["unserved"] == [{"backend": "local", "jobs": 1}, {"backend": "skypilot", "jobs": 1}]
    # The only orchestrator with SkyPilot is silent.
    assert followed["unserved"] == [{"backend": "skypilot", "jobs": 1}]
    assert [(each["host"], each["is_silent"], each["held"]) for each in followed["orchestrators"]] == [
        ("here", False, 1),
        ("silent", True, 0),
        ("stopped", False, 0),
    ]
