"""How tasks have gone: listed, over time, by checkpoint and by run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from .writing import Connection, Record, acting_as, new_id, new_member, new_rollout, new_run, write

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def call(db: Connection, function: str, **arguments: Any) -> Record:
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    values = {name: Jsonb(value) if isinstance(value, (dict, list)) else value for name, value in arguments.items()}
    answer = db.execute(f"select public.{function}({named}) as answer", values).fetchone()
    assert answer is not None
    return dict(answer["answer"])


def new_task(db: Connection, **fields: Any) -> str:
    task = {"id": new_id(), "description": "find it"} | fields
    write(db, {"tasks": [task]})
    return str(task["id"])


def rollouts_of(db: Connection, task_id: str, run_id: str | None, *statuses: str, **fields: Any) -> list[str]:
    """Make rollouts of a task, one a second, that end so; return their ids."""
    return [
        new_rollout(db, run_id, **{"task_id": task_id, "status": status, "created_at": at(number)} | fields)
        for number, status in enumerate(statuses)
    ]


def pages(db: Connection, **arguments: Any) -> list[Record]:
    found, after = [], None
    while True:
        page = call(db, "list_tasks", after=after, **arguments)
        found += page["tasks"]
        after = page["next"]
        if after is None:
            return found


def test_a_task_shows_how_its_newest_rollouts_went(db: Connection) -> None:
    environment, run_id = new_id(), new_run(db)
    task_id = new_task(db, environment=environment, description="d" * 400, expected_answer="a" * 400, name="ball")
    write(db, {"validators": [{"task_id": task_id, "external_id": name, "kind": "match"} for name in "ab"]})
    rollouts_of(db, task_id, run_id, "success", "success", "failed", "running", "success", total_reward=2)
    hidden = rollouts_of(db, task_id, run_id, "failed")
    db.execute("update public.rollouts set rewound_at = now() where id = any (%s)", [hidden])

    [task] = call(db, "list_tasks", filters={"environment": environment})["tasks"]
    counts = ("validators", "rollouts", "completed", "solved", "success_rate", "mean_reward")
    assert [task[name] for name in counts] == [2, 5, 4, 3, 0.75, 2]
    assert task["last_rollout_at"] == at(4)
    assert (task["description"], task["expected_answer"]) == ("d" * 300, "a" * 300)

    [task] = call(db, "list_tasks", filters={"environment": environment}, recent=3)["tasks"]
    assert [task[name] for name in counts] == [2, 3, 2, 1, 0.5, 2]


def test_what_is_not_known_of_a_task_is_null(db: Connection) -> None:
    environment = new_id()
    task_id = new_task(db, environment=environment)
    rollouts_of(db, task_id, new_run(db), "running", "failed", total_reward="NaN")
    [task] = call(db, "list_tasks", filters={"environment": environment})["tasks"]
    assert (task["rollouts"], task["success_rate"], task["mean_reward"]) == (2, 0, None)
    new_task(db, environment=environment + "b")
    [task] = call(db, "list_tasks", filters={"environment": environment + "b"})["tasks"]
    assert [task[name] for name in ("rollouts", "success_rate", "mean_reward", "last_rollout_at")] == [
        0,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("page_size", [1, 3, 50])
def test_tasks_are_paged_newest_first_with_none_twice(db: Connection, page_size: int) -> None:
    environment = new_id()
    ids = sorted(new_task(db, environment=environment, created_at=at(0)) for _ in range(4))
    newest = new_task(db, environment=environment, created_at=at(1))
    oldest = new_task(db, environment=environment, created_at=at(-1))
    found = pages(db, filters={"environment": environment}, page_size=page_size)
    assert [task["id"] for task in found] == [newest, *ids, oldest]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["a", "b", "c"]),
        ({"split": "test"}, ["b"]),
        ({"search": "RED"}, ["a", "b"]),
        ({"search": "red", "split": "test"}, ["b"]),
        ({"search": "100%"}, ["c"]),
        ({"search": "_"}, ["c"]),
        ({"search": ".*"}, []),
        ({"search": None, "split": ""}, ["a", "b", "c"]),
    ],
    ids=["none", "split", "search", "both", "percent", "underscore", "pattern", "empty"],
)
def test_tasks_are_found_by_what_they_say(db: Connection, filters: Record, expected: list[str]) -> None:
    environment = new_id()
    texts = {"a": {"description": "a red ball"}, "b": {"name": "Red", "split": "test"}, "c": {"description": "100%_"}}
    for external_id, fields in texts.items():
        new_task(db, environment=environment, external_id=external_id, **fields)
    found = pages(db, filters={"environment": environment, **filters})
    assert sorted(task["external_id"] for task in found) == expected


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"filters": {"colour": "red"}}, "colour"),
        ({"filters": {"search": 1}}, "search"),
        ({"filters": []}, "filters"),
        ({"after": {"id": "7"}}, "after"),
        ({"page_size": 0}, "page_size"),
        ({"recent": 0}, "recent"),
    ],
    ids=["unknown", "type", "list", "after", "page_size", "recent"],
)
def test_a_bad_argument_is_named(db: Connection, arguments: Record, field: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        call(db, "list_tasks", **arguments)
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", field)


def test_facets_are_what_tasks_have(db: Connection) -> None:
    environment, split = new_id(), new_id()
    new_task(db, environment=environment, split=split)
    new_task(db, environment=environment)
    facets = call(db, "task_facets")
    assert facets["environments"].count(environment) == 1
    assert facets["splits"].count(split) == 1
    assert None not in facets["environments"] + facets["splits"]
    assert facets["environments"] == sorted(facets["environments"])


def test_history_over_time_and_by_run(db: Connection) -> None:
    first, second = new_run(db, name="first"), new_run(db, name="second")
    task_id = new_task(db)
    rollouts_of(db, task_id, first, "failed", "failed", "success", "running", total_reward=1)
    rollouts_of(db, task_id, second, "success", created_at=at(10))
    answer = call(db, "task_history", task_id=task_id, buckets=2)
    assert answer["sample"] == 5
    assert answer["over_time"] == [
        {"from": at(0), "to": at(3), "rollouts": 4, "completed": 3, "solved": 1, "mean_reward": 1},
        {"from": at(10), "to": at(10), "rollouts": 1, "completed": 1, "solved": 1, "mean_reward": None},
    ]
    assert [(r["run_name"], r["rollouts"], r["completed"], r["solved"], r["last_at"]) for r in answer["by_run"]] == [
        ("second", 1, 1, 1, at(10)),
        ("first", 4, 3, 1, at(3)),
    ]
    newest = call(db, "task_history", task_id=task_id, sample=1)
    assert (newest["sample"], [r["run_name"] for r in newest["by_run"]]) == (1, ["second"])


@pytest.mark.parametrize("buckets", [1, 7, 60])
def test_every_rollout_is_in_one_stretch_of_time(db: Connection, buckets: int) -> None:
    task_id = new_task(db)
    rollouts_of(db, task_id, new_run(db), *["success", "failed"] * 10)
    over_time = call(db, "task_history", task_id=task_id, buckets=buckets)["over_time"]
    assert len(over_time) <= buckets
    assert sum(stretch["rollouts"] for stretch in over_time) == 20
    assert sum(stretch["solved"] for stretch in over_time) == 10


def test_history_by_checkpoint_is_measured_or_told(db: Connection) -> None:
    run_id, task_id = new_run(db, name="r"), new_task(db)
    checkpoints, evaluation_id, group_id = [new_id(), new_id()], new_id(), new_id()
    told = {"episode_count": 4, "success_rate": 0.75, "mean_reward": 0.5, "task_id": task_id, "environment": "a"}
    write(
        db,
        {
            "model_checkpoints": [
                {"id": c, "training_run_id": run_id, "checkpoint_number": n, "step": 10 * n}
                for n, c in enumerate(checkpoints)
            ],
            "evaluations": [{"id": evaluation_id, "training_run_id": run_id, "checkpoint_id": checkpoints[1]}],
            "rollout_groups": [{"id": group_id, "evaluation_id": evaluation_id, "number": 0}],
            # Of the second checkpoint there are rollouts: what was told of it is not counted on top.
            "evaluation_results": [{"checkpoint_id": c, **told} for c in checkpoints],
        },
    )
    for status in ("success", "failed"):
        new_rollout(db, None, group_id=group_id, task_id=task_id, status=status, total_reward=1)
    names = (
        "checkpoint_id",
        "checkpoint_number",
        "step",
        "run_name",
        "rollouts",
        "completed",
        "solved",
        "success_rate",
    )
    by_checkpoint = call(db, "task_history", task_id=task_id)["by_checkpoint"]
    assert [[found[name] for name in (*names, "mean_reward")] for found in by_checkpoint] == [
        [checkpoints[0], 0, 0, "r", 4, 4, 3, 0.75, 0.5],
        [checkpoints[1], 1, 10, "r", 2, 2, 1, 0.5, 1],
    ]


def test_a_task_without_rollouts_has_an_empty_history(db: Connection) -> None:
    empty: Record = {"sample": 0, "over_time": [], "by_checkpoint": [], "by_run": []}
    assert call(db, "task_history", task_id=new_task(db)) == empty


def test_an_unknown_task_is_said_to_be(db: Connection) -> None:
    with pytest.raises(psycopg.Error, match="unknown id") as caught:
        call(db, "task_history", task_id=new_id())
    assert caught.value.sqlstate == "OM404"


def test_tasks_are_for_members(db: Connection) -> None:
    environment = new_id()
    new_task(db, environment=environment)
    with acting_as(db, user_id=new_member(db, "viewer")):
        assert len(call(db, "list_tasks", filters={"environment": environment})["tasks"]) == 1
    with acting_as(db, user_id=new_member(db, None)):
        assert call(db, "list_tasks", filters={"environment": environment})["tasks"] == []
    with acting_as(db, role="anon"), pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
        call(db, "list_tasks")
