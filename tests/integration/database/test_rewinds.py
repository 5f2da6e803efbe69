"""Going on with a run and going back in it: what is hidden together, what stays readable, what comes late."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from .writing import Connection, Record, ingest, new_id, row, write


def scalar(db: Connection, query: str, *values: Any) -> Any:
    found = db.execute(query, values).fetchone()
    assert found is not None
    return next(iter(found.values()))


def call(db: Connection, function: str, **arguments: Any) -> Any:
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    found = db.execute(f"select public.{function}({named}) as answer", arguments).fetchone()
    assert found is not None
    return found["answer"]


def resume(db: Connection, run_id: str, **options: Any) -> Record:
    return dict(call(db, "resume_run", **{"run_id": run_id, "change_id": new_id()} | options))


class Course:
    """A run of ten steps, each with a rollout in a group, a metric point, a checkpoint and an evaluation."""

    def __init__(self, db: Connection, *, timeline: int = 0) -> None:
        self.db, self.run_id = db, new_id()
        write(db, {"training_runs": [{"id": self.run_id, "name": "r", "environment": "e", "status": "running"}]})
        self.add(range(10), timeline=timeline)

    def add(self, steps: range, *, timeline: int | None) -> None:
        on = {} if timeline is None else {"timeline": timeline}
        batch: dict[str, list[Any]] = {}
        for step in steps:
            ids = {name: new_id() for name in ("step", "group", "rollout")}
            run = {"training_run_id": self.run_id}
            records: Record = {
                "training_steps": {"id": ids["step"], "step": step, "status": "completed", **run, **on},
                "model_checkpoints": {"id": new_id(), "checkpoint_number": step, "step": step, **run, **on},
                "evaluations": {"id": new_id(), "step": step, "status": "completed", **run, **on},
                "rollout_groups": {"id": ids["group"], "training_step_id": ids["step"], "number": 0},
                "rollouts": {"id": ids["rollout"], "group_id": ids["group"], "status": "success", "total_reward": 1,
                             **on},
                "agent_states": {"id": new_id(), "rollout_id": ids["rollout"], "step_number": 0, "observation": "o"},
                "media": {"id": new_id(), "kind": "frame", "path": "p", "metadata": {"step": step}, **run, **on},
            }  # fmt: skip
            for kind, record in records.items():
                batch.setdefault(kind, []).append(record)
        points = {"steps": list(steps), "values": [float(step) for step in steps]}
        times = ["2026-01-01T00:00:00Z"] * len(steps)
        batch["metric_chunks"] = [
            {"id": new_id(), "training_run_id": self.run_id, "name": "loss", "times": times, **points, **on}
        ]
        write(self.db, batch)

    def steps(self, table: str) -> list[int]:
        """Return the steps of a table's rows that count."""
        rows = self.db.execute(
            f"select step from public.{table} where training_run_id = %s and rewound_at is null order by 1",
            [self.run_id],
        )
        return [found["step"] for found in rows]

    def metric_steps(self, **options: Any) -> list[int]:
        series = call(self.db, "metric_series", training_run_id=self.run_id, **options)
        return list(series.get("loss", {"steps": []})["steps"])

    def frame_steps(self) -> list[int]:
        return list(call(self.db, "frame_steps", training_run_id=self.run_id)["steps"])

    def counted(self) -> int:
        return int(scalar(self.db, "select public.run_metrics(%s) -> 'total_rollouts'", self.run_id))


HIDDEN_TOGETHER = ("training_steps", "model_checkpoints", "evaluations", "rollouts")


def test_a_rewind_hides_everything_after_its_step_together_and_deletes_nothing(db: Connection) -> None:
    course = Course(db)
    answer = resume(db, course.run_id, rewind_to_step=5)
    assert (answer["next_step"], answer["rewinds"], answer["next_episode"]) == (6, [5], 6)
    for table in HIDDEN_TOGETHER:
        assert course.steps(table) == list(range(6)), table
        assert scalar(db, f"select count(*) from public.{table} where training_run_id = %s", course.run_id) == 10
    assert course.metric_steps() == course.frame_steps() == list(range(6))
    assert call(db, "run_frames", training_run_id=course.run_id, steps=[6, 9]) == []
    assert scalar(db, "select count(*) from public.media where training_run_id = %s", course.run_id) == 10
    shown = db.execute("select step from public.metrics where training_run_id = %s order by 1", [course.run_id])
    assert [found["step"] for found in shown] == list(range(6))
    assert course.counted() == 6
    recent = scalar(db, "select public.run_metrics(%s) -> 'rollouts'", course.run_id)
    assert sorted(rollout["step"] for rollout in recent) == list(range(6))
    # Still readable: the turns of a hidden rollout, its group's figures, and the series as it was.
    assert scalar(db, "select count(*) from public.agent_states where training_run_id = %s", course.run_id) == 10
    groups = "select sum(success_count) from public.rollout_groups where training_run_id = %s"
    assert scalar(db, groups, course.run_id) == 10
    assert course.metric_steps(timeline=0) == list(range(10))


def test_what_follows_a_rewind_takes_the_place_of_what_was_hidden(db: Connection) -> None:
    course = Course(db)
    resume(db, course.run_id, rewind_to_step=5)
    course.add(range(6, 8), timeline=1)
    for table in HIDDEN_TOGETHER:
        assert course.steps(table) == list(range(8)), table
    assert course.metric_steps() == course.frame_steps() == list(range(8))
    assert course.counted() == 8
    answer = resume(db, course.run_id, rewind_to_step=2)
    assert (answer["next_step"], answer["rewinds"]) == (3, [5, 2])
    assert course.steps("rollouts") == course.metric_steps() == [0, 1, 2]
    assert course.metric_steps(timeline=0) == list(range(10))
    assert course.metric_steps(timeline=1) == list(range(8))
    assert resume(db, course.run_id, rewind_to_step=-1)["next_step"] == 0
    assert course.steps("training_steps") == course.metric_steps() == course.frame_steps() == []
    assert course.counted() == 0


def test_of_two_processes_that_begin_a_run_anew_at_once_the_second_hides_what_the_first_records(db: Connection) -> None:
    run_id = new_id()
    write(db, {"training_runs": [{"id": run_id, "name": "r", "environment": "e", "status": "pending"}]})

    first = resume(db, run_id, rewind_to_step=-1)
    second = resume(db, run_id, rewind_to_step=-1)

    assert (first["rewinds"], second["rewinds"]) == ([], [-1])


def test_a_run_that_was_recorded_before_it_began_can_be_begun_anew(db: Connection) -> None:
    run_id = new_id()
    rollout = {"id": new_id(), "training_run_id": run_id, "environment": "e", "status": "success", "step": 3}
    run = {"id": run_id, "name": "r", "environment": "e", "status": "pending"}
    write(db, {"training_runs": [run], "rollouts": [rollout]})

    assert resume(db, run_id, rewind_to_step=-1)["rewinds"] == [-1]


def test_what_was_written_before_a_rewind_and_comes_after_it_is_hidden_as_it_comes(db: Connection) -> None:
    course = Course(db)
    resume(db, course.run_id, rewind_to_step=5)
    course.add(range(10, 13), timeline=0)
    assert course.steps("rollouts") == course.steps("training_steps") == course.metric_steps() == list(range(6))
    assert course.frame_steps() == list(range(6))
    assert course.counted() == 6
    # Who says nothing of timelines writes on the present one.
    course.add(range(6, 7), timeline=None)
    assert course.steps("rollouts") == course.steps("training_steps") == course.metric_steps() == list(range(7))
    assert course.frame_steps() == list(range(7))


def test_a_chunk_that_goes_on_growing_after_a_rewind_shows_no_more_than_before(db: Connection) -> None:
    course = Course(db)
    chunk = {"id": new_id(), "training_run_id": course.run_id, "name": "late", "timeline": 0}
    write(db, {"metric_chunks": [{**chunk, "steps": [4], "values": [0], "times": ["2026-01-01"]}]})
    resume(db, course.run_id, rewind_to_step=5)
    grown = {"steps": [4, 5, 6], "values": [0, 1, 2], "times": ["2026-01-01"] * 3}
    write(db, {"metric_chunks": [{**chunk, **grown}]})
    shown = db.execute(
        "select step from public.metrics where name = 'late' and training_run_id = %s order by 1", [course.run_id]
    )
    assert [found["step"] for found in shown] == [4, 5]


def test_a_rollout_that_knows_no_step_is_hidden_by_its_time(db: Connection) -> None:
    run_id, before, after = new_id(), new_id(), new_id()
    step = {"training_run_id": run_id, "status": "completed"}
    write(db, {
        "training_runs": [{"id": run_id, "name": "r", "environment": "e", "status": "running"}],
        "training_steps": [
            {"id": new_id(), "step": 1, "created_at": "2026-01-01T10:00:00Z", **step},
            {"id": new_id(), "step": 2, "created_at": "2026-01-01T11:00:00Z", **step},
        ],
        "rollouts": [
            {"id": before, "training_run_id": run_id, "status": "success", "created_at": "2026-01-01T10:30:00Z"},
            {"id": after, "training_run_id": run_id, "status": "success", "created_at": "2026-01-01T11:30:00Z"},
        ],
    })  # fmt: skip
    resume(db, run_id, rewind_to_step=1)
    assert row(db, "rollouts", before)["rewound_at"] is None
    assert row(db, "rollouts", after)["rewound_at"] is not None


def test_going_on_marks_what_was_cut_short_and_keeps_its_turns(db: Connection) -> None:
    course = Course(db)
    cut, ended, queued = new_id(), new_id(), new_id()
    write(db, {
        "rollouts": [
            {"id": cut, "training_run_id": course.run_id, "status": "running"},
            {"id": ended, "training_run_id": course.run_id, "status": "failed"},
            {"id": queued, "training_run_id": course.run_id, "status": "pending"},
        ],
        "agent_states": [{"id": new_id(), "rollout_id": cut, "step_number": number} for number in range(3)],
    })  # fmt: skip
    resume(db, course.run_id)
    found = row(db, "rollouts", cut)
    assert (found["status"], found["step_count"], found["total_reward"]) == ("interrupted", 3, None)
    assert row(db, "rollouts", ended)["status"] == "failed"
    assert row(db, "rollouts", queued)["status"] == "pending"
    # Whoever was alive after all ends it as if nothing had been.
    write(db, {"rollouts": [{"id": cut, "status": "success", "status_change_id": new_id()}]})
    assert row(db, "rollouts", cut)["status"] == "success"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "interrupted", "running"])
def test_a_run_goes_on_from_any_status_when_it_is_resumed_and_only_then(db: Connection, status: str) -> None:
    course = Course(db)
    write(db, {"training_runs": [{"id": course.run_id, "status": status, "status_change_id": new_id()}]})
    resume(db, course.run_id)
    found = row(db, "training_runs", course.run_id)
    assert (found["status"], found["finished_at"]) == ("running", None)
    write(db, {"training_runs": [{"id": course.run_id, "status": "completed", "status_change_id": new_id()}]})
    again = {"id": course.run_id, "status": "running", "status_change_id": new_id()}
    assert ingest(db, {"training_runs": [again]})["refused"][0]["code"] == "OM409"


def test_the_next_step_is_the_one_after_the_last_completed_one(db: Connection) -> None:
    course = Course(db)
    begun = {"id": new_id(), "training_run_id": course.run_id, "step": 10, "status": "running"}
    write(db, {"training_steps": [begun]})
    assert resume(db, course.run_id)["next_step"] == 10
    assert row(db, "training_steps", begun["id"])["status"] == "interrupted"
    # What the caller still has in its spool counts as well.
    assert resume(db, course.run_id, known_step=12, known_metric_step=99)["next_step"] == 13


def test_without_steps_the_metrics_say_how_far_the_run_is(db: Connection) -> None:
    run_id = new_id()
    points = {"steps": [100, 2048], "values": [0, 1], "times": ["2026-01-01"] * 2}
    chunk = {"id": new_id(), "training_run_id": run_id, "name": "loss", **points}
    write(db, {"training_runs": [{"id": run_id, "name": "r", "status": "running"}], "metric_chunks": [chunk]})
    assert resume(db, run_id)["next_step"] == 2049
    assert resume(db, run_id, known_metric_step=4096)["next_step"] == 4097
    assert resume(db, run_id, rewind_to_step=500)["next_step"] == 501
    assert resume(db, run_id)["next_step"] == 501


def test_rewinding_to_the_last_step_hides_what_its_successor_had_begun(db: Connection) -> None:
    course = Course(db)
    begun = {"id": new_id(), "training_run_id": course.run_id, "step": 10, "status": "running"}
    points = {"steps": [10], "values": [7], "times": ["2026-01-01"]}
    chunk = {"id": new_id(), "training_run_id": course.run_id, "name": "loss", **points}
    write(db, {"training_steps": [begun], "metric_chunks": [chunk]})
    assert resume(db, course.run_id, rewind_to_last=True) == {"next_step": 10, "rewinds": [9], "next_episode": 10}
    assert course.metric_steps() == course.steps("training_steps") == list(range(10))


def test_the_processes_of_one_job_rewind_once(db: Connection) -> None:
    course = Course(db)
    launch_id = new_id()
    for number in range(3):
        answer = resume(db, course.run_id, rewind_to_step=5, change_id=launch_id)
        assert (answer["next_step"], answer["rewinds"]) == (6, [5])
        course.add(range(6 + number, 7 + number), timeline=1)
    assert course.steps("training_steps") == list(range(9))
    assert resume(db, course.run_id, rewind_to_step=5)["rewinds"] == [5, 5]


def test_a_launch_is_forgotten_with_its_run(db: Connection) -> None:
    course, launch = Course(db), new_id()
    assert resume(db, course.run_id, change_id=launch)["next_step"] == 10
    db.execute("delete from public.training_runs where id = %s", [course.run_id])
    assert scalar(db, "select count(*) from internal.launches where training_run_id = %s", course.run_id) == 0
    # A run that is made anew under the same name has the same id, and a job that is still there its launch.
    write(db, {"training_runs": [{"id": course.run_id, "name": "r", "environment": "e"}]})
    assert resume(db, course.run_id, change_id=launch)["next_step"] == 0


def test_a_repeated_request_changes_nothing_and_answers_the_same(db: Connection) -> None:
    course = Course(db)
    change_id = new_id()
    first = resume(db, course.run_id, rewind_to_step=5, change_id=change_id)
    course.add(range(6, 7), timeline=1)
    rollout = new_id()
    write(db, {"rollouts": [{"id": rollout, "training_run_id": course.run_id, "status": "running"}]})
    again = resume(db, course.run_id, rewind_to_step=5, change_id=change_id)
    assert (again["next_step"], again["rewinds"]) == (first["next_step"], [5])
    assert row(db, "rollouts", rollout)["status"] == "running"
    assert course.steps("training_steps") == list(range(7))


def test_a_wrong_step_or_run_is_named(db: Connection) -> None:
    course = Course(db)
    with pytest.raises(psycopg.Error, match="rewind_to_step is -2"):
        resume(db, course.run_id, rewind_to_step=-2)
    with pytest.raises(psycopg.Error, match="unknown id"):
        resume(db, new_id())


def test_only_what_is_as_it_was_left_is_interrupted(db: Connection) -> None:
    run_id, left, moved = new_id(), new_id(), new_id()
    changes = {name: new_id() for name in (run_id, left, moved)}
    write(db, {
        "training_runs": [{"id": run_id, "name": "r", "environment": "e", "status": "running",
                           "status_change_id": changes[run_id]}],
        "rollouts": [{"id": one, "training_run_id": run_id, "status": "running", "status_change_id": changes[one]}
                     for one in (left, moved)],
    })  # fmt: skip
    for status in ("interrupted", "running"):
        write(db, {"rollouts": [{"id": moved, "status": status, "status_change_id": new_id()}]})
    entries = {
        "rollouts": [[left, changes[left]], [moved, changes[moved]]],
        "training_runs": [[run_id, changes[run_id]]],
    }
    query = "select public.interrupt(%s, 'the process ended')"
    assert scalar(db, query, psycopg.types.json.Jsonb(entries)) == 2
    assert scalar(db, query, psycopg.types.json.Jsonb(entries)) == 0
    assert [row(db, "rollouts", one)["status"] for one in (left, moved)] == ["interrupted", "running"]
    found = row(db, "training_runs", run_id)
    assert (found["status"], found["status_message"]) == ("interrupted", "the process ended")
