"""Turns, their parts and rewards always have their parent, as with a foreign key, whoever writes and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.rows import dict_row, tuple_row

from openmanus_rl.transport.loading import Loader

from .interleaving import COMMIT, Stage, Step, begun, orders, sql
from .servers import Server
from .writing import Batch, Connection, Database, count, ingest, load_text, new_id, new_run, write

# Table, field and parent.
REFERENCES = [
    ("public.agent_states", "rollout_id", "public.rollouts"),
    ("internal.rewards", "rollout_id", "public.rollouts"),
    ("public.tool_calls", "agent_state_id", "public.agent_states"),
    ("public.observations", "agent_state_id", "public.agent_states"),
    ("public.generations", "agent_state_id", "public.agent_states"),
    ("public.media", "agent_state_id", "public.agent_states"),
]


class Rollout:
    """A rollout with one turn, and one of everything that belongs to them."""

    def __init__(self, db: Connection) -> None:
        self.db, self.run, self.id, self.turn = db, new_run(db), new_id(), new_id()
        write(db, {
            "rollouts": [{"id": self.id, "training_run_id": self.run}],
            "agent_states": [{
                "id": self.turn, "rollout_id": self.id, "step_number": 0, "reward": 1,
                "tool_calls": [{"tool_name": "a"}], "observations": [{"kind": "page"}], "generations": [{}],
            }],
            "rewards": [{"rollout_id": self.id, "reward_type": "outcome", "reward": 2}],
            "media": [{"rollout_id": self.id, "agent_state_id": self.turn, "kind": "image", "path": "p"}],
        })  # fmt: skip

    def more(self) -> Batch:
        """Something more of every kind, on the rollout and on its turn."""
        turn = {"id": new_id(), "rollout_id": self.id, "step_number": 1}
        return {
            "agent_states": [turn],
            "tool_calls": [
                {"id": new_id(), "agent_state_id": parent, "position": 7, "tool_name": "b"}
                for parent in (turn["id"], self.turn)
            ],
            "generations": [{"id": new_id(), "agent_state_id": self.turn, "position": 7}],
            "rewards": [{"id": new_id(), "rollout_id": self.id, "reward_type": "form", "reward": 3}],
        }


def orphans(db: Connection) -> dict[str, int]:
    """Return how many rows of each table have no parent."""
    found = {}
    for table, field, parent in REFERENCES:
        rows = db.execute(
            f"select count(*) as n from {table} c where c.{field} is not null"
            f" and not exists (select 1 from {parent} p where p.id = c.{field})"
        ).fetchone()
        assert rows is not None
        found[table] = rows["n"]
    return found


NONE = {table: 0 for table, _, _ in REFERENCES}


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    stage = Stage(database, 2)
    yield stage
    stage.close()


def by_ingest(batch: Batch) -> Step:
    return lambda connection: ingest(connection, batch)


def by_copy(batch: Batch) -> Step:
    """Load a batch as the recorder does where it can connect to Postgres."""

    def load(connection: Connection) -> None:
        loader = Loader("")
        loader._connection = connection  # type: ignore[assignment]
        connection.row_factory = tuple_row  # type: ignore[assignment]
        try:
            loader.load(batch)
        finally:
            connection.row_factory = dict_row

    return load


def by_text(batch: Batch) -> Step:
    """Load a batch as the recorder does where it knows only the API."""
    return lambda connection: load_text(connection, batch)


WAYS: dict[str, Callable[[Batch], Step]] = {"ingest": by_ingest, "COPY": by_copy, "text": by_text}


@pytest.mark.parametrize("way", WAYS)
def test_a_part_does_not_take_a_rollout_of_its_batch_for_its_turn(db: Connection, way: str) -> None:
    made = Rollout(db)
    turn = {"id": new_id(), "rollout_id": made.id, "step_number": 99}
    stray = {"id": new_id(), "agent_state_id": made.id, "tool_name": "a", "position": 0}
    WAYS[way]({"agent_states": [turn], "tool_calls": [stray]})(db)
    assert count(db, "agent_states", id=turn["id"]) == 1
    assert count(db, "tool_calls", id=stray["id"]) == 0
    assert orphans(db) == NONE


# By hand -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("insert", "field"),
    [
        ("agent_states (rollout_id, step_number) values (%s, 0)", "rollout_id"),
        ("rewards (rollout_id, reward) values (%s, 1)", "rollout_id"),
        ("rewards (rollout_id, step_number, reward) values (%s, 1, 1)", "rollout_id"),
        ("tool_calls (agent_state_id, tool_name) values (%s, 'a')", "agent_state_id"),
        ("observations (agent_state_id, kind) values (%s, 'a')", "agent_state_id"),
        ("generations (agent_state_id) values (%s)", "agent_state_id"),
        ("media (agent_state_id, kind, path) values (%s, 'image', 'p')", "agent_state_id"),
    ],
)
def test_an_unknown_parent_is_refused_as_by_a_foreign_key(db: Connection, insert: str, field: str) -> None:
    unknown = new_id()
    with pytest.raises(psycopg.errors.ForeignKeyViolation) as refused:
        db.execute(f"insert into public.{insert}", [unknown])
    assert refused.value.diag.column_name == field
    assert f"Key ({field})=({unknown}) is not present" in (refused.value.diag.message_detail or "")


@pytest.mark.parametrize(("table", "what"), [("training_runs", "run"), ("rollouts", "id"), ("agent_states", "turn")])
def test_what_is_deleted_takes_its_rows_with_it(db: Connection, table: str, what: str) -> None:
    kept, gone = Rollout(db), Rollout(db)
    db.execute(f"delete from public.{table} where id = %s", [getattr(gone, what)])
    assert orphans(db) == NONE
    assert count(db, "agent_states", rollout_id=gone.id) == count(db, "tool_calls", agent_state_id=gone.turn) == 0
    assert count(db, "rewards", rollout_id=gone.id) == (1 if what == "turn" else 0)
    assert count(db, "tool_calls", agent_state_id=kept.turn) == count(db, "media", agent_state_id=kept.turn) == 1
    assert count(db, "rewards", rollout_id=kept.id) == 2


def test_thousands_of_rollouts_are_deleted_with_all_of_theirs(db: Connection) -> None:
    run_id = new_run(db)
    db.execute(
        "with made as (insert into public.rollouts (training_run_id, environment)"
        " select %s, 'e' from generate_series(1, 2500) returning id, training_run_id),"
        " turns as (insert into public.agent_states (rollout_id, training_run_id, step_number)"
        " select id, training_run_id, 0 from made returning id) select count(*) from turns",
        [run_id],
    )
    db.execute(
        "insert into public.tool_calls (agent_state_id, training_run_id, tool_name)"
        " select id, training_run_id, 'a' from public.agent_states where training_run_id = %s",
        [run_id],
    )
    assert count(db, "tool_calls", training_run_id=run_id) == 2500
    db.execute("delete from public.training_runs where id = %s", [run_id])
    assert count(db, "tool_calls", training_run_id=run_id) == count(db, "agent_states", training_run_id=run_id) == 0


def test_a_table_is_truncated_with_those_that_refer_to_it(server: Server) -> None:
    with Database(server.create_database("truncated", template="migrated")).connect() as db:
        Rollout(db)
        db.execute("truncate public.training_runs cascade")
        assert orphans(db) == NONE
        assert count(db, "agent_states") == count(db, "tool_calls") == count(db, "rewards") == 0
        Rollout(db)
        db.execute("truncate public.training_runs, public.rollouts, public.agent_states, internal.rewards cascade")
        assert count(db, "tool_calls") == count(db, "rewards") == 0


@pytest.mark.parametrize(("table", "what"), [("rollouts", "id"), ("agent_states", "turn")])
def test_an_id_that_others_refer_to_cannot_change(db: Connection, table: str, what: str) -> None:
    made = Rollout(db)
    with pytest.raises(psycopg.Error) as refused:
        db.execute(f"update public.{table} set id = %s where id = %s", [new_id(), getattr(made, what)])
    assert refused.value.sqlstate == "OM409"


# At once -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [*WAYS, "by hand"])
@pytest.mark.parametrize("deleted", ["training_runs", "rollouts", "agent_states"])
def test_whoever_writes_while_a_parent_is_deleted_leaves_no_orphan_in_any_order(
    db: Connection, stage: Stage, way: str, deleted: str
) -> None:
    for order in orders([2, 2]):
        made = Rollout(db)
        writing = (
            sql("insert into public.tool_calls (agent_state_id, tool_name, position) values (%s, 'b', 9)", made.turn)
            if way == "by hand"
            else WAYS[way](made.more())
        )
        target = {"training_runs": made.run, "rollouts": made.id, "agent_states": made.turn}[deleted]
        deleting = sql(f"delete from public.{deleted} where id = %s", target)
        errors = stage.play([[begun(writing), COMMIT], [begun(deleting), COMMIT]], order)
        assert [error for error in errors if getattr(error, "sqlstate", "") != "23503"] == [], order
        assert orphans(db) == NONE, order
        assert count(db, deleted, id=target) == 0


# Rewards -------------------------------------------------------------------------------------------------------------


def _rewards_of(db: Connection, rollout_id: str) -> list[tuple[int | None, str, float]]:
    rows = db.execute(
        "select step_number, reward_type, reward from public.rewards where rollout_id = %s order by 1, 2", [rollout_id]
    ).fetchall()
    return [(row["step_number"], row["reward_type"], row["reward"]) for row in rows]


def _turn_with_reward(rollout_id: str) -> Batch:
    return {"agent_states": [{"id": new_id(), "rollout_id": rollout_id, "step_number": 1, "reward": 5}]}


def _reward_by_itself(rollout_id: str) -> Batch:
    return {
        "rewards": [{"id": new_id(), "rollout_id": rollout_id, "step_number": 1, "reward_type": "step", "reward": 6}]
    }


@pytest.mark.parametrize("one", [*WAYS, "by hand"])
@pytest.mark.parametrize("other", [*WAYS, "by hand"])
def test_a_step_has_one_reward_of_a_type_in_any_order(db: Connection, stage: Stage, one: str, other: str) -> None:
    for order in orders([2, 2]):
        made = Rollout(db)
        turn = (
            sql("insert into public.agent_states (rollout_id, step_number, reward) values (%s, 1, 5)", made.id)
            if one == "by hand"
            else WAYS[one](_turn_with_reward(made.id))
        )
        reward = (
            sql("insert into public.rewards (rollout_id, step_number, reward) values (%s, 1, 6)", made.id)
            if other == "by hand"
            else WAYS[other](_reward_by_itself(made.id))
        )
        errors = stage.play([[begun(turn), COMMIT], [begun(reward), COMMIT]], order)
        assert [error for error in errors if getattr(error, "sqlstate", "") != "23505"] == [], order
        found = [one for one in _rewards_of(db, made.id) if one[0] == 1]
        assert found in ([(1, "step", 5)], [(1, "step", 6)]), order


def test_batches_with_turns_and_rewards_of_one_rollout_do_not_wait_in_a_circle(db: Connection, stage: Stage) -> None:
    for order in orders([3, 3]):
        made = Rollout(db)
        scripts = []
        for first in (10, 20):
            batches = [
                {
                    "agent_states": [{"id": new_id(), "rollout_id": made.id, "step_number": first + n, "reward": 1}],
                    "rewards": [{"id": new_id(), "rollout_id": made.id, "step_number": first + n + 5, "reward": 2}],
                }
                for n in range(2)
            ]
            scripts.append([begun(by_ingest(batches[0])), by_ingest(batches[1]), COMMIT])
        assert stage.play(scripts, order) == [], order
        assert len(_rewards_of(db, made.id)) == 2 + 8


def test_a_turn_whose_step_has_a_reward_is_written_without_its_own(db: Connection) -> None:
    made = Rollout(db)
    write(db, _reward_by_itself(made.id))
    batch = _turn_with_reward(made.id)
    (refusal,) = ingest(db, batch)["refused"]
    assert (refusal["kind"], refusal["code"], refusal["field"]) == ("agent_states", "OM409", "reward")
    assert count(db, "agent_states", id=batch["agent_states"][0]["id"]) == 1
    assert (1, "step", 6) in _rewards_of(db, made.id)
    # Sent again it is known, and says nothing new.
    assert ingest(db, batch)["refused"] == []


def test_the_reward_of_a_turn_can_be_changed_moved_and_deleted_through_the_view(db: Connection) -> None:
    made = Rollout(db)
    by_id = "where id = %s"
    db.execute(f"update public.rewards set reward = 7 {by_id}", [made.turn])
    assert (0, "step", 7) in _rewards_of(db, made.id)
    assert count(db, "agent_states", id=made.turn, reward=7) == 1
    db.execute(f"update public.rewards set details = '{{}}', reward_type = 'other' {by_id}", [made.turn])
    assert (0, "other", 7) in _rewards_of(db, made.id)
    assert count(db, "agent_states", reward=7, id=made.turn) == 0
    db.execute(f"delete from public.rewards {by_id}", [made.turn])
    assert _rewards_of(db, made.id) == [(None, "outcome", 2)]
    db.execute("update public.agent_states set reward = 8 where id = %s", [made.turn])
    deleted = db.execute(f"delete from public.rewards {by_id} returning reward", [made.turn]).fetchall()
    assert deleted == [{"reward": 8}]
    assert count(db, "agent_states", id=made.turn) == 1
    with pytest.raises(psycopg.Error) as refused:
        db.execute("update public.rewards set rollout_id = %s where rollout_id = %s", [Rollout(db).id, made.id])
    assert refused.value.sqlstate == "OM409"


@pytest.mark.parametrize(
    ("rewards", "of_turn", "others"),
    [
        ([{"reward": 1}], 1.0, 0),
        ([{"reward": 1, "reward_type": "step"}, {"reward": 2, "reward_type": "form"}], 1.0, 1),
        ([{"reward": "NaN"}], float("nan"), 0),
        ([{"reward": 1, "details": {}}], None, 1),
        ([{"reward": 1, "id": "00000000-0000-7000-8000-0000000000aa"}], None, 1),
        ([{"reward": 1, "reward_type": "form"}], None, 1),
        ({"reward": -2.5}, -2.5, 0),
        ([], None, 0),
        (None, None, 0),
    ],
)
def test_a_turn_holds_its_first_reward_if_nothing_else_is_said_of_it(
    db: Connection, rewards: object, of_turn: float | None, others: int
) -> None:
    made, turn_id = Rollout(db), new_id()
    if isinstance(rewards, list):
        rewards = [{**each, "id": new_id()} if "id" in each else each for each in rewards]
    write(db, {"agent_states": [{"id": turn_id, "rollout_id": made.id, "step_number": 1, "rewards": rewards}]})
    found = db.execute("select reward::text from public.agent_states where id = %s", [turn_id]).fetchone()
    assert found is not None
    assert found["reward"] == (None if of_turn is None else {"nan": "NaN", "1.0": "1"}.get(str(of_turn), str(of_turn)))
    rows = db.execute("select 1 from internal.rewards where rollout_id = %s and step_number = 1", [made.id]).fetchall()
    assert len(rows) == others


@pytest.mark.parametrize("value", ["much", 1e400, True, None, [1]])
def test_a_reward_that_is_none_is_refused_without_its_turn(db: Connection, value: object) -> None:
    made, turn_id = Rollout(db), new_id()
    reward = "1e400" if value == 1e400 else value
    turn = {"id": turn_id, "rollout_id": made.id, "step_number": 1, "rewards": [{"reward": reward}]}
    (refusal,) = ingest(db, {"agent_states": [turn]})["refused"]
    assert (refusal["kind"], refusal["field"], refusal["code"]) == ("rewards", "reward", "OM400")
    assert count(db, "agent_states", id=turn_id) == 1
