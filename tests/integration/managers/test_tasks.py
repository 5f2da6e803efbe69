"""Environments, tasks and validators, on a real database."""

from __future__ import annotations

from uuid import uuid4

import pytest

from openmanus_rl.errors import InvalidInput, NotFoundError
from openmanus_rl.transport.client import Client
from openmanus_rl.utils.supabase_db import (
    EnvironmentManager,
    RolloutManager,
    TaskManager,
    ValidationManager,
    ValidatorManager,
)


@pytest.fixture
def environment() -> str:
    return f"environment {uuid4()}"


def test_an_environment_is_saved_by_name(client: Client, environment: str) -> None:
    environments = EnvironmentManager.using(client)
    first = environments.save_environment(environment, kind="text", spec={"rooms": 3})
    second = environments.save_environment(environment, spec={"keys": 1})

    assert first["id"] == second["id"]
    found = environments.get_environment(environment)
    assert (found["kind"], found["spec"]) == ("text", {"keys": 1})
    assert [e["name"] for e in environments.list_environments(name_contains=environment)] == [environment]
    environments.delete_environment(first["id"])
    assert environments.find_environment(environment) is None
    with pytest.raises(NotFoundError):
        environments.get_environment(environment)


def test_importing_again_updates_by_external_id(client: Client, environment: str) -> None:
    tasks = TaskManager.using(client)
    batch = [
        {
            "external_id": n,
            "description": f"find ball {n}",
            "split": "train",
            "validators": [{"kind": "exact", "spec": {"answer": n}}, {"kind": "judge", "external_id": "judge"}],
        }
        for n in range(3)
    ]

    first = tasks.import_tasks(batch, environment=environment)
    batch[1]["description"] = "find the other ball"
    second = tasks.import_tasks(batch, environment=environment)

    assert (first.received, first.refused, second.refused) == (9, (), ())
    assert tasks.list_tasks(environment=environment, count=True).total == 3
    changed = tasks.get_by_external_id("1", environment=environment)
    assert changed["description"] == "find the other ball"
    validators = ValidatorManager.using(client).list_validators(task=changed["id"])
    assert [(v["external_id"], v["kind"]) for v in validators] == [("default", "exact"), ("judge", "judge")]


def test_validators_that_an_import_no_longer_names_are_retired_and_keep_their_verdicts(
    client: Client, environment: str
) -> None:
    tasks, validators = TaskManager.using(client), ValidatorManager.using(client)
    both = [{"kind": "exact"}, {"kind": "regex", "external_id": "pattern", "spec": {"pattern": "x"}}]
    made, other = ({"external_id": n, "description": f"find ball {n}"} for n in ("made", "other"))
    tasks.import_tasks([made | {"validators": both}, other | {"validators": both}], environment=environment)
    task_id = tasks.get_by_external_id("made", environment=environment)["id"]
    pattern = next(one for one in validators.list_validators(task=task_id) if one["external_id"] == "pattern")
    rollout = RolloutManager.using(client).create_rollout(None, 0, environment, "find", task_id=task_id)
    verdict = ValidationManager.using(client).log_validation(rollout["id"], "pass", validator_id=pattern["id"])

    def used(of: str) -> list[str]:
        task = tasks.get_by_external_id(of, environment=environment)
        return [one["external_id"] for one in validators.list_validators(task=task["id"])]

    tasks.import_tasks([made | {"validators": both[:1]}], environment=environment)
    assert (used("made"), used("other")) == (["default"], ["default", "pattern"])
    listed = tasks.list_with_results(environment=environment)
    assert {one["external_id"]: one["validators"] for one in listed} == {"made": 1, "other": 2}
    assert validators.get_validator(pattern["id"])["retired_at"] is not None
    assert ValidationManager.using(client).get_validation(verdict["id"])["validator_id"] == pattern["id"]

    # What says nothing of validators leaves them as they are.
    tasks.import_tasks([made], environment=environment)
    assert used("made") == ["default"]
    tasks.import_tasks([made | {"validators": []}], environment=environment)
    assert used("made") == []
    tasks.import_tasks([made | {"validators": both}], environment=environment)
    assert used("made") == ["default", "pattern"]
    tasks.import_tasks([made | {"validators": []}], environment=environment)
    assert validators.save_validator(task_id, kind="exact")["retired_at"] is None
    assert used("made") == ["default"]
    assert len(validators.list_validators(task=task_id, include_retired=True)) == 2


def test_a_refused_task_does_not_lose_its_neighbours(client: Client, environment: str) -> None:
    tasks = TaskManager.using(client)
    result = tasks.import_tasks(
        [
            {"external_id": "a", "description": "good"},
            {"external_id": "b", "description": ""},
            {"external_id": "c", "description": "good", "colour": "red"},
            {"external_id": "d", "description": "good"},
        ],
        environment=environment,
    )

    assert [(refusal.index, refusal.field) for refusal in result.refused] == [(1, "description"), (2, "colour")]
    assert sorted(task["external_id"] for task in tasks.list_tasks(environment=environment)) == ["a", "d"]
    with pytest.raises(InvalidInput, match="description"):
        result.raise_if_refused()


def test_an_import_that_is_no_list_of_tasks_is_refused_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(InvalidInput, match="task 1: an object is expected"):
        TaskManager.using(client).import_tasks([{"description": "x"}, "y"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="validators must be a list"):
        TaskManager.using(client).import_tasks([{"description": "x", "validators": "exact"}])


def test_a_large_import_goes_in_parts_and_numbers_its_refusals(client: Client, environment: str) -> None:
    tasks = TaskManager.using(client)
    batch = [{"external_id": str(n), "description": "" if n in (3, 703) else f"task {n}"} for n in range(1100)]

    result = tasks.import_tasks(batch, environment=environment)

    assert [refusal.index for refusal in result.refused] == [3, 703]
    assert tasks.list_tasks(environment=environment, limit=1, count=True).total == 1098


def test_tasks_are_saved_found_listed_and_deleted(client: Client, environment: str) -> None:
    tasks = TaskManager.using(client)
    loose = tasks.save_task("no external id", environment=environment)
    named = tasks.save_task(
        "find the ball", environment=environment, external_id="1", split="test", expected_answer="42"
    )
    validator = ValidatorManager.using(client).save_validator(named["id"], kind="exact", spec={"a": 1})

    assert tasks.get_task(named["id"]) == named
    assert [t["id"] for t in tasks.list_tasks(environment=environment, split="test")] == [named["id"]]
    assert [t["id"] for t in tasks.list_tasks(environment=environment, description_contains="EXTERNAL")] == [
        loose["id"]
    ]
    assert ValidatorManager.using(client).get_validator(validator["id"]) == validator
    tasks.delete_task(named["id"])
    with pytest.raises(NotFoundError):
        ValidatorManager.using(client).get_validator(validator["id"])
    with pytest.raises(NotFoundError, match="unknown"):
        tasks.get_by_external_id("1", environment=environment)
