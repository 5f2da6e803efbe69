"""What is computed from rows that others write is right in whatever order concurrent sessions take their steps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Barrier

import psycopg
import pytest
from psycopg.rows import dict_row, tuple_row

from openmanus_rl.transport.loading import Loader

from .interleaving import COMMIT, ROLLBACK, Stage, Step, begun, orders, sql
from .writing import Connection, Database, Record, count, history, new_id, new_run, row, write


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    stage = Stage(database, 3)
    yield stage
    stage.close()


def send(batch: Record) -> Step:
    """A step that writes a batch, of which nothing may be refused."""
    return lambda connection: write(connection, batch)


def test_every_order_is_played() -> None:
    assert list(orders([2, 1])) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert len(set(orders([2, 2, 2]))) == 90


# Evaluations ---------------------------------------------------------------------------------------------------------


class Evaluated:
    """An evaluation with two groups and one failed rollout, and what sessions do to it."""

    def __init__(self, db: Connection, *, status: str) -> None:
        self.db, self.id, self.group, self.other_group, self.first = db, *(new_id() for _ in range(4))
        self._numbers = itertools.count()
        write(db, {
            "evaluations": [{"id": self.id, "environment": "a", "status": "running"}],
            "rollout_groups": [
                {"id": group, "evaluation_id": self.id, "number": number}
                for number, group in enumerate([self.group, self.other_group])
            ],
            "rollouts": [
                {"id": self.first, "group_id": self.group, "status": "failed", "total_reward": 0, "step_count": 2}
            ],
        })  # fmt: skip
        if status == "completed":
            write(db, {"evaluations": [{"id": self.id, "status": "completed"}]})

    def rollout(self, group: str | None = None) -> Record:
        return {"group_id": group or self.group, "status": "success", "total_reward": 1, "step_count": 4}

    def late_rollout(self) -> Step:
        return send({"rollouts": [{"id": new_id()} | self.rollout()]})

    def late_rollout_by_hand(self) -> Step:
        return sql(
            "insert into public.rollouts (group_id, environment, status, total_reward, step_count)"
            " values (%s, 'a', 'success', 1, 4)",
            self.other_group,
        )

    def group_with_rollout(self) -> Step:
        group = new_id()
        return send({
            "rollout_groups": [{"id": group, "evaluation_id": self.id, "number": 2 + next(self._numbers)}],
            "rollouts": [{"id": new_id()} | self.rollout(group)],
        })  # fmt: skip

    def complete(self) -> Step:
        return send({"evaluations": [{"id": self.id, "status": "completed", "status_change_id": new_id()}]})

    def judge_first(self) -> Step:
        return send({"rollouts": [{"id": self.first, "status": "success", "total_reward": 1}]})

    def delete_first(self) -> Step:
        return sql("delete from public.rollouts where id = %s", self.first)

    def delete_group(self) -> Step:
        return sql("delete from public.rollout_groups where id = %s", self.group)

    def check(self) -> None:
        expected = self.db.execute("select * from internal.figures_of_evaluation(%s)", [self.id]).fetchone()
        kept = row(self.db, "evaluations", self.id)
        assert expected == {name: kept[name] for name in ("success_rate", "mean_reward", "mean_turns")}


Doing = Callable[[Evaluated], Step]
_EVALUATIONS: dict[str, tuple[str, list[Doing]]] = {
    "two late rollouts": ("completed", [Evaluated.late_rollout, Evaluated.late_rollout_by_hand]),
    "a rollout and the end": ("running", [Evaluated.late_rollout, Evaluated.complete]),
    "a verdict and the end": ("running", [Evaluated.judge_first, Evaluated.complete]),
    "a new group and the end": ("running", [Evaluated.group_with_rollout, Evaluated.complete]),
    "a removal and the end": ("running", [Evaluated.delete_first, Evaluated.complete]),
    "a rollout, a verdict and the end": (
        "running",
        [Evaluated.late_rollout, Evaluated.judge_first, Evaluated.complete],
    ),
    "a late rollout and a removal": ("completed", [Evaluated.late_rollout, Evaluated.delete_first]),
    "a late group and a removed group": ("completed", [Evaluated.group_with_rollout, Evaluated.delete_group]),
}


@pytest.mark.parametrize("name", _EVALUATIONS)
def test_figures_of_an_evaluation_equal_a_recount_in_every_order(db: Connection, stage: Stage, name: str) -> None:
    status, doings = _EVALUATIONS[name]
    for order in orders([2] * len(doings)):
        evaluated = Evaluated(db, status=status)
        scripts = [[begun(doing(evaluated)), COMMIT] for doing in doings]
        assert stage.play(scripts, order) == [], order
        evaluated.check()


def test_figures_forget_a_session_that_rolls_back(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        evaluated = Evaluated(db, status="completed")
        scripts = [[begun(evaluated.late_rollout()), ROLLBACK], [begun(evaluated.judge_first()), COMMIT]]
        assert stage.play(scripts, order) == []
        evaluated.check()


def test_figures_equal_a_recount_after_random_concurrent_writers(database: Database, db: Connection) -> None:
    """Many rounds of a few writers that begin at once: whoever comes last must have seen the others."""
    chance, barrier = random.Random(9), Barrier(4)
    doings = [doing for _, doings in _EVALUATIONS.values() for doing in doings]

    def write_at_once(connection: Connection, steps: list[Step]) -> None:
        barrier.wait()
        for step in steps:
            # What was deleted meanwhile is refused, and the statement of a deadlock is gone with what it counted.
            with suppress(psycopg.Error, AssertionError):
                step(connection)

    with ThreadPoolExecutor(4) as pool, ExitStack() as opened:
        sessions = [opened.enter_context(database.connect()) for _ in range(4)]
        for _ in range(40):
            evaluated = Evaluated(db, status=chance.choice(["running", "completed"]))
            scripts = [[chance.choice(doings)(evaluated) for _ in range(2)] for _ in sessions]
            list(pool.map(write_at_once, sessions, scripts))
            if row(db, "evaluations", evaluated.id)["status"] == "completed":
                evaluated.check()


# Rewinds -------------------------------------------------------------------------------------------------------------


def _resume(run_id: str, to_step: int) -> Step:
    return sql("select public.resume_run(%s, %s, rewind_to_step => %s)", run_id, new_id(), to_step)


def _chunk(run_id: str, chunk_id: str, steps: list[int], **more: object) -> Record:
    times = ["2026-01-01T00:00:00Z"] * len(steps)
    return {
        "id": chunk_id,
        "training_run_id": run_id,
        "name": "loss",
        "steps": steps,
        "values": steps,
        "times": times,
    } | more


def _shared(run_id: str, ids: list[str], steps: list[int]) -> Record:
    """Return a batch of two metrics that were logged together, the ids being of their axis and of each."""
    axis_id, *chunk_ids = ids
    of_both: Record = {"training_run_id": run_id, "axis_id": axis_id, "values": steps, "timeline": 0}
    chunks = [{"id": chunk_id, **of_both, "name": name} for chunk_id, name in zip(chunk_ids, ("a", "b"), strict=True)]
    chunks[0] |= {"steps": steps, "times": ["2026-01-01T00:00:00Z"] * len(steps)}
    return {"metric_chunks": chunks}


def _copy(batch: Record) -> Step:
    """A step that loads a batch as the recorder does where Postgres is near."""

    def load(connection: Connection) -> None:
        connection.row_factory = tuple_row  # type: ignore[assignment]
        try:
            assert Loader("")._copy_what_is_new(connection, batch) == []  # type: ignore[arg-type]
        finally:
            connection.row_factory = dict_row

    return load


@pytest.mark.parametrize(
    "kind",
    [
        "training_steps",
        "rollouts",
        "metric_chunks",
        "a grown chunk",
        "a chunk by COPY",
        "metrics together",
        "metrics together by COPY",
        "grown metrics together",
        "grown metrics together by COPY",
        "a step by hand",
        "a frame",
        "a frame by COPY",
        "a frame by hand",
    ],
)
def test_a_rewind_hides_what_was_being_written_in_every_order(db: Connection, stage: Stage, kind: str) -> None:
    for order in orders([2, 2]):
        run_id, chunk_id = new_run(db), new_id()
        known, unknown = [new_id() for _ in range(3)], [new_id() for _ in range(3)]
        of_run: Record = {"training_run_id": run_id, "timeline": 0}
        frame: Record = {"media": [{"kind": "frame", "path": "p", "metadata": {"step": 5}, **of_run, "id": new_id()}]}
        write(db, {
            "training_steps": [{"id": new_id(), "training_run_id": run_id, "step": step} for step in (3, 4)],
            "metric_chunks": [_chunk(run_id, chunk_id, [1, 2])],
        })  # fmt: skip
        write(db, _shared(run_id, known, [1, 2]))
        writer = {
            "training_steps": send({"training_steps": [{"training_run_id": run_id, "step": 5, "timeline": 0}]}),
            "rollouts": send({"rollouts": [{"training_run_id": run_id, "step": 5, "timeline": 0}]}),
            "metric_chunks": send({"metric_chunks": [_chunk(run_id, new_id(), [4, 5], timeline=0)]}),
            "a chunk by COPY": _copy({"metric_chunks": [_chunk(run_id, new_id(), [4, 5], timeline=0)]}),
            "a grown chunk": send({"metric_chunks": [_chunk(run_id, chunk_id, [1, 2, 3, 4, 5])]}),
            "metrics together": send(_shared(run_id, unknown, [4, 5])),
            "metrics together by COPY": _copy(_shared(run_id, unknown, [4, 5])),
            "grown metrics together": send(_shared(run_id, known, [1, 2, 3, 4, 5])),
            "grown metrics together by COPY": _copy(_shared(run_id, known, [1, 2, 3, 4, 5])),
            "a step by hand": sql("insert into public.training_steps (training_run_id, step) values (%s, 5)", run_id),
            "a frame": send(frame),
            "a frame by COPY": _copy(frame),
            "a frame by hand": sql(
                """insert into public.media (training_run_id, kind, path, metadata)
                   values (%s, 'frame', 'p', '{"step": 5}')""",
                run_id,
            ),
        }[kind]
        assert stage.play([[begun(writer), COMMIT], [begun(_resume(run_id, 3)), COMMIT]], order) == [], order
        assert count(db, "training_runs", id=run_id, timeline=1) == 1
        for table in ("training_steps", "rollouts"):
            shown = db.execute(
                f"select step from public.{table} where training_run_id = %s and rewound_at is null", [run_id]
            ).fetchall()
            assert all(each["step"] <= 3 for each in shown), (table, order)
        points = db.execute("select step from public.metrics where training_run_id = %s", [run_id]).fetchall()
        assert all(each["step"] <= 3 for each in points), order
        found = db.execute("select public.frame_steps(%s) -> 'steps' as steps", [run_id]).fetchone()
        assert found == {"steps": []}, order


@pytest.mark.parametrize("ways", ["ingest, ingest", "ingest, COPY", "COPY, ingest", "COPY, COPY"])
def test_metrics_that_two_deliver_at_once_are_whole_whoever_is_first(db: Connection, stage: Stage, ways: str) -> None:
    """One delivers more of the same points than the other, of two copies of a spool."""
    for order in orders([2, 2]):
        run_id, ids = new_run(db), [new_id() for _ in range(3)]
        batches = [_shared(run_id, ids, [1, 2]), _shared(run_id, ids, [1, 2, 3, 4])]
        writers = [
            {"ingest": send, "COPY": _copy}[way](batch) for way, batch in zip(ways.split(", "), batches, strict=True)
        ]
        errors = stage.play([[begun(writer), COMMIT] for writer in writers], order)
        # Whoever copies what another has just written begins anew, by the merge.
        assert all(isinstance(error, psycopg.errors.UniqueViolation) for error in errors), order
        assert not errors or "COPY" in ways
        for batch in batches if errors else []:
            write(db, batch)
        found = db.execute("select name, step, value from public.metrics where training_run_id = %s", [run_id])
        assert sorted((point["name"], point["step"], point["value"]) for point in found) == [
            (name, step, step) for name in "ab" for step in (1, 2, 3, 4)
        ], order


def test_resuming_and_writing_do_not_wait_in_a_circle(db: Connection, stage: Stage) -> None:
    """A process that is still delivering and one that resumes the run touch the same rollouts and the same run."""
    for order in orders([3, 2]):
        run_id, rollout_id = new_run(db, heartbeat_at="2020-01-01T00:00:00Z"), new_id()
        write(db, {"rollouts": [{"id": rollout_id, "training_run_id": run_id, "status": "running"}]})
        db.execute("update public.training_runs set heartbeat_at = '2020-01-01' where id = %s", [run_id])
        deliver = send({"rollouts": [{"id": rollout_id, "metadata": {"seen": True}}]})
        end = send({"rollouts": [{"id": rollout_id, "status": "success"}]})
        assert stage.play([[begun(deliver), end, COMMIT], [begun(_resume(run_id, 3)), COMMIT]], order) == [], order
        assert row(db, "rollouts", rollout_id)["metadata"] == {"seen": True}


def test_a_batch_that_rewinds_and_one_with_late_rollouts_do_not_wait_in_a_circle(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        run_id, evaluation_id, group_id = new_run(db), new_id(), new_id()
        write(db, {
            "evaluations": [{"id": evaluation_id, "training_run_id": run_id, "environment": "a", "status": "running"}],
            "rollout_groups": [{"id": group_id, "evaluation_id": evaluation_id, "number": 0}],
        })  # fmt: skip
        write(db, {"evaluations": [{"id": evaluation_id, "status": "completed"}]})
        late = {"group_id": group_id, "status": "success", "total_reward": 1, "step_count": 1}
        change = {"id": evaluation_id, "metadata": {"seen": True}}
        scripts = [
            [begun(send({"evaluations": [change], "rollouts": [{"id": new_id()} | late]})), COMMIT],
            [
                begun(send({
                    "training_runs": [{"id": run_id, "rewinds": [3]}],
                    "evaluations": [{"id": evaluation_id, "name": "again"}],
                    "rollouts": [{"id": new_id()} | late],
                })),
                COMMIT,
            ],
        ]  # fmt: skip
        assert stage.play(scripts, order) == [], order
        kept = row(db, "evaluations", evaluation_id)
        assert (kept["metadata"], kept["name"], kept["success_rate"]) == ({"seen": True}, "again", 1.0)
        assert count(db, "rollouts", group_id=group_id) == 2


# Places, statuses and rows that go -----------------------------------------------------------------------------------


def test_tool_calls_without_a_place_get_one_each(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        run_id, rollout_id, turn_id = new_run(db), new_id(), new_id()
        write(db, {
            "rollouts": [{"id": rollout_id, "training_run_id": run_id}],
            "agent_states": [{"id": turn_id, "rollout_id": rollout_id, "step_number": 0}],
        })  # fmt: skip
        scripts = [
            [begun(send({"tool_calls": [{"agent_state_id": turn_id, "tool_name": name}]})), COMMIT] for name in "abc"
        ]
        assert stage.play(scripts, order) == [], order
        places = db.execute("select position from public.tool_calls where agent_state_id = %s", [turn_id]).fetchall()
        assert sorted(each["position"] for each in places) == [0, 1, 2]


def test_a_status_that_is_delivered_twice_at_once_is_taken_once(db: Connection, stage: Stage) -> None:
    """The same change, alone and with the one that followed it, by two deliveries that overlap."""
    for order in orders([2, 2]):
        run_id = new_run(db, status="pending")
        started = {"id": run_id, "status": "running", "status_change_id": new_id()}
        ended = {"id": run_id, "status": "completed", "status_change_id": new_id()}
        scripts = [
            [begun(send({"training_runs": [started, ended]})), COMMIT],
            [begun(send({"training_runs": [started]})), COMMIT],
        ]
        assert stage.play(scripts, order) == [], order
        assert [new for _, new, _ in history(db, run_id)] == ["pending", "running", "completed"]


def test_a_batch_and_another_lock_the_same_rows_in_one_order(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        run_id = new_run(db)
        ids = sorted(new_id() for _ in range(20))
        write(db, {"rollouts": [{"id": each, "training_run_id": run_id} for each in ids]})
        forth = [{"id": each, "metadata": {"forth": 1}} for each in ids]
        back = [{"id": each, "metadata": {"back": 1}} for each in reversed(ids)]
        scripts = [[begun(send({"rollouts": batch})), COMMIT] for batch in (forth, back)]
        assert stage.play(scripts, order) == []
        assert all(row(db, "rollouts", each)["metadata"] == {"forth": 1, "back": 1} for each in ids)


def test_changing_what_is_being_deleted_does_not_make_it_anew(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        evaluation = new_id()
        write(db, {"evaluations": [{"id": evaluation, "name": "first"}]})
        change = sql("select public.change_status('evaluations', %s, 'failed')", evaluation)
        delete = sql("delete from public.evaluations where id = %s", evaluation)
        errors = stage.play([[begun(change), COMMIT], [begun(delete), COMMIT]], order)
        assert all(isinstance(error, psycopg.Error) and error.sqlstate == "OM404" for error in errors), order
        assert count(db, "evaluations", id=evaluation) == 0


def test_objects_that_two_sessions_change_are_merged(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2]):
        run_id = new_run(db)
        scripts = [[begun(send({"training_runs": [{"id": run_id, "summary": {key: 1}}]})), COMMIT] for key in "ab"]
        assert stage.play(scripts, order) == []
        assert row(db, "training_runs", run_id)["summary"] == {"a": 1, "b": 1}


def test_two_people_who_judge_at_once_are_both_heard(db: Connection, stage: Stage) -> None:
    for order in orders([2, 2, 2]):
        evaluated = Evaluated(db, status="completed")
        judge = "select public.override_validation(%s, %s, %s)"
        scripts = [
            [begun(sql(judge, evaluated.first, "pass", "right")), COMMIT],
            [begun(sql(judge, evaluated.first, "fail", "wrong")), COMMIT],
            [begun(evaluated.late_rollout()), COMMIT],
        ]
        assert stage.play(scripts, order) == [], order
        evaluated.check()
        last = db.execute(
            "select new_status from public.validation_overrides where rollout_id = %s order by created_at desc limit 1",
            [evaluated.first],
        ).fetchone()
        assert last is not None
        assert row(db, "rollouts", evaluated.first)["status"] == last["new_status"]
