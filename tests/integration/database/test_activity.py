"""What changed last: marked by every way of writing, for the run that was written to and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from openmanus_rl.transport.loading import Loader

from .examples import one_of_each
from .servers import Server, apply_migrations
from .writing import (
    Connection,
    Database,
    Record,
    acting_as,
    change_status,
    ingest,
    new_group,
    new_id,
    new_member,
    new_rollout,
    new_run,
    write,
)

KINDS = list(one_of_each())
WITHOUT_A_RUN = {"environments", "tasks", "validators"}
OF_A_RUN = [kind for kind in KINDS if kind not in WITHOUT_A_RUN]


class Watched:
    """Runs whose marks are old, until something is written."""

    def __init__(self, db: Connection, *run_ids: str | None) -> None:
        self.db, self.run_ids = db, run_ids
        self.forget()

    def forget(self) -> None:
        self.db.execute("update public.activity set changed_at = '2000-01-01'")

    def marked(self) -> list[str | None]:
        """Return the watched runs that were marked since, and forget it."""
        rows = self.db.execute(
            "select training_run_id::text as run from public.activity where changed_at > now() - interval '1 hour'"
        )
        found = {row["run"] for row in rows}
        self.forget()
        return [run_id for run_id in self.run_ids if run_id in found]


@pytest.fixture
def two_runs(db: Connection) -> tuple[str, str]:
    return new_run(db), new_run(db)


def parents_and_record(kind: str) -> tuple[dict[str, list[Record]], Record, str | None]:
    """Return what a record of a kind hangs on, the record, and the run it is of."""
    records = one_of_each(status="running")
    before = KINDS[: KINDS.index(kind)]
    run_id = None if kind in WITHOUT_A_RUN else records["training_runs"]["id"]
    return {name: [records[name]] for name in before}, records[kind], run_id


def by_ingest(db: Connection, batch: dict[str, list[Record]]) -> None:
    write(db, batch)


def by_copy(db: Connection, batch: dict[str, list[Record]]) -> None:
    server = db.info
    loader = Loader(f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}/{server.dbname}")
    assert loader.load(batch) == []
    loader.close()


def by_table(db: Connection, batch: dict[str, list[Record]]) -> None:
    for kind, records in batch.items():
        for record in records:
            names = ", ".join(f'"{name}"' for name in record)
            db.execute(
                f"insert into public.{kind} ({names}) select {names}"
                f" from jsonb_populate_record(null::public.{kind}, %s)",
                [Jsonb(record)],
            )


@pytest.mark.parametrize("way", [by_ingest, by_copy, by_table], ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_every_kind_marks_its_run_and_no_other(db: Connection, kind: str, way: Callable[..., None]) -> None:
    parents, record, run_id = parents_and_record(kind)
    if parents:
        write(db, parents)
    other = new_run(db)
    watched = Watched(db, run_id, other)
    way(db, {kind: [record]})
    assert watched.marked() == [run_id]


@pytest.mark.parametrize("kind", [kind for kind in OF_A_RUN if kind != "training_runs"])
def test_a_change_of_every_kind_marks_its_run(db: Connection, kind: str) -> None:
    parents, record, run_id = parents_and_record(kind)
    write(db, {**parents, kind: [record]})
    watched = Watched(db, run_id, None)
    column = {"rollout_groups": "number", "metric_chunks": "name"}.get(kind, "id")
    db.execute(f"update public.{kind} set {column} = {column} where id = %s", [record["id"]])
    assert watched.marked() == [run_id]


def test_turns_and_their_parts_that_come_together_mark_all_their_runs(db: Connection) -> None:
    runs = [new_run(db) for _ in range(3)]
    rollouts = [new_rollout(db, run_id) for run_id in runs]
    earlier = {"id": new_id(), "rollout_id": rollouts[2], "step_number": 0}
    write(db, {"agent_states": [earlier]})
    for number, way in enumerate((by_ingest, by_copy), start=1):
        turns: list[Record] = [
            {"id": new_id(), "rollout_id": rollout_id, "step_number": number} for rollout_id in rollouts[:2]
        ]
        calls: list[Record] = [
            {"id": new_id(), "agent_state_id": turn_id, "position": number, "tool_name": "t"}
            for turn_id in (turns[0]["id"], earlier["id"])
        ]
        watched = Watched(db, *runs, None)
        way(db, {"agent_states": turns, "tool_calls": calls})
        assert watched.marked() == runs, way.__name__


def test_what_hangs_on_no_run_marks_the_row_without_one(db: Connection, two_runs: Any) -> None:
    watched = Watched(db, None, *two_runs)
    rollout_id = new_rollout(db, None)
    assert watched.marked() == [None]
    for number, way in enumerate((by_ingest, by_copy, by_table)):
        turn: Record = {"id": new_id(), "rollout_id": rollout_id, "step_number": number}
        way(db, {"agent_states": [turn]})
        assert watched.marked() == [None], way.__name__


def test_calls_that_change_a_run_mark_it(db: Connection, two_runs: tuple[str, str]) -> None:
    run_id, other = two_runs
    change_id = new_id()
    rollout_id = new_rollout(db, run_id, status="running", status_change_id=change_id)
    watched = Watched(db, run_id, other, None)
    db.execute(
        "select public.interrupt(jsonb_build_object('rollouts', %s::jsonb))", [f'[["{rollout_id}", "{change_id}"]]']
    )
    assert watched.marked() == [run_id]
    change_status(db, "rollouts", rollout_id, "success")
    assert watched.marked() == [run_id]
    db.execute("select public.heartbeat(%s)", [run_id])
    assert watched.marked() == [run_id]
    change_status(db, "training_runs", run_id, "failed")
    assert watched.marked() == [run_id]
    db.execute("select public.resume_run(%s, %s, rewind_to_step => 0)", [run_id, new_id()])
    assert watched.marked() == [run_id]
    db.execute("delete from public.rollouts where id = %s", [rollout_id])
    assert watched.marked() == [run_id]


def test_a_run_that_goes_takes_its_mark_along_and_marks_the_row_without_a_run(db: Connection) -> None:
    run_id = new_run(db)
    new_group(db, run_id)
    new_rollout(db, run_id)
    watched = Watched(db, run_id, None)
    db.execute("delete from public.training_runs where id = %s", [run_id])
    assert watched.marked() == [None]
    assert db.execute("select 1 from public.activity where training_run_id = %s", [run_id]).fetchall() == []


def test_what_writes_nothing_marks_nothing(db: Connection, two_runs: tuple[str, str]) -> None:
    rollout_id = new_rollout(db, two_runs[0])
    turn = {"id": new_id(), "rollout_id": rollout_id, "step_number": 0}
    watched = Watched(db, *two_runs, None)
    assert ingest(db, {"agent_states": [{**turn, "rollout_id": new_id()}]})["refused"] != []
    db.execute("update public.rollouts set error = 'x' where id = %s", [new_id()])
    db.execute("select public.run_health(%s)", [two_runs[0]])
    assert watched.marked() == []


def test_a_second_write_within_a_second_leaves_the_mark_and_a_later_one_moves_it(db: Connection) -> None:
    run_id = new_run(db)

    def mark() -> Any:
        found = db.execute("select changed_at from public.activity where training_run_id = %s", [run_id]).fetchone()
        assert found is not None
        return found["changed_at"]

    def set_back(interval: str) -> Any:
        db.execute(
            "update public.activity set changed_at = clock_timestamp() - %s::interval where training_run_id = %s",
            [interval, run_id],
        )
        return mark()

    # In one transaction, where nobody can hold up what is between the two.
    with db.transaction():
        db.execute("update public.activity set changed_at = clock_timestamp() where training_run_id = %s", [run_id])
        just_now = mark()
        db.execute("update public.training_runs set description = 'a' where id = %s", [run_id])
        assert mark() == just_now
    for away in ("1.1 seconds", "-1 hour"):
        before = set_back(away)
        db.execute("update public.training_runs set description = 'b' where id = %s", [run_id])
        assert mark() != before, away


def test_a_writer_does_not_wait_for_another_ones_mark(connect: Callable[[], Connection]) -> None:
    first, second = connect(), connect()
    run_id = new_run(first)
    rollout_id = new_rollout(first, run_id)
    watched = Watched(first, run_id)
    second.execute("set statement_timeout = '10s'")
    with first.transaction():
        write(first, {"agent_states": [{"id": new_id(), "rollout_id": rollout_id, "step_number": 0}]})
        assert first.execute(
            "select 1 from public.activity where training_run_id = %s and changed_at > '2001-01-01'", [run_id]
        ).fetchall()
        second.execute("update public.training_runs set description = 'x' where id = %s", [new_run(second)])
        for number, way in enumerate((by_ingest, by_table)):
            turn: Record = {"id": new_id(), "rollout_id": rollout_id, "step_number": number + 1}
            way(second, {"agent_states": [turn]})
    assert watched.marked() == [run_id]


def test_whoever_sees_a_run_sees_its_mark(db: Connection) -> None:
    private, public = new_run(db), new_run(db, visibility="public")
    viewer, stranger = new_member(db, "viewer"), new_member(db, None)

    def seen(**actor: Any) -> set[str | None]:
        with acting_as(db, **actor):
            rows = db.execute("select training_run_id::text as run from public.activity").fetchall()
        return {row["run"] for row in rows} & {private, public, None}

    assert seen(user_id=viewer) == {private, public, None}
    assert seen(user_id=stranger) == set()
    assert seen(role="anon") == {public}


def test_a_member_marks_what_it_writes_though_the_marks_are_not_its_own_to_write(db: Connection) -> None:
    editor = new_member(db, "editor")
    run_id = new_run(db, owner_id=editor)
    rollout_id = new_rollout(db, run_id)
    watched = Watched(db, run_id)
    turn: Record = {"id": new_id(), "rollout_id": rollout_id, "step_number": 0}
    with acting_as(db, user_id=editor):
        write(db, {"agent_states": [turn]})
    assert watched.marked() == [run_id]
    with acting_as(db, user_id=editor):
        by_table(db, {"agent_states": [{**turn, "id": new_id(), "step_number": 1, "training_run_id": run_id}]})
    assert watched.marked() == [run_id]
    with pytest.raises(psycopg.errors.InsufficientPrivilege), acting_as(db, user_id=editor):
        db.execute("update public.activity set changed_at = now()")


def test_marks_are_published_where_changes_are(server: Server) -> None:
    """Hosted projects have the publication; migrating one adds the marks and nothing else."""
    url = server.create_database("published", template="system")
    apply_migrations(url)
    with Database(url).connect() as db:
        published = db.execute("select tablename from pg_publication_tables where pubname = 'supabase_realtime'")
        assert [row["tablename"] for row in published] == ["activity"]
