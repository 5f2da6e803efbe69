"""What was read is what the database keeps, and what a worker verifies with."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from openmanus_rl.managers.tasks import TaskManager, ValidatorManager
from openmanus_rl.tasks import read_tasks
from openmanus_rl.tasks.importing import import_task_set
from openmanus_rl.verification import ValidatorSpec, status_of, verify


@pytest.mark.usefixtures("_stack_settings")
def test_the_good_tasks_of_a_bad_file_are_imported_and_verified(tmp_path: Path) -> None:
    environment = f"shop-{uuid4()}"
    lines = [
        {"id": "sum", "task": "How much?", "answer": {"total": 12.5}, "level": 3},
        {"id": "../../x", "task": "leave"},
        {
            "id": "list",
            "task": "Which?",
            "validators": [{"kind": "json", "spec": {"expected": [1, 2], "unordered": True}}],
        },
        {"id": "sum", "task": "again"},
        {"id": "open", "task": "Write a poem."},
        {"id": "nul", "task": "a\0b"},
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    found = read_tasks(path, environment=environment)
    result = TaskManager.import_tasks(found.tasks)

    assert not result.refused
    assert [problem.where for problem in found.problems] == ["line 2", "line 4", "line 6"]
    statuses = {}
    for external_id, answer in (("sum", '{"total": 12.50}'), ("list", "[2, 1]"), ("open", "Roses")):
        task = TaskManager.get_by_external_id(external_id, environment=environment)
        rows = ValidatorManager.list_validators(task=task["id"])
        validators = [ValidatorSpec.from_row(row) for row in rows]
        verdicts = verify(validators, answer=answer, expected_answer=task["expected_answer"])
        statuses[external_id] = status_of(verdicts)
    assert statuses == {"sum": "success", "list": "success", "open": "completed"}
    assert TaskManager.get_by_external_id("sum", environment=environment)["metadata"] == {"level": 3}


@pytest.mark.usefixtures("_stack_settings")
def test_importing_a_file_again_leaves_the_validators_that_it_names(tmp_path: Path) -> None:
    environment, path = f"shop-{uuid4()}", tmp_path / "tasks.json"
    exact = {"kind": "exact", "spec": {"expected": "a"}}
    pattern = {"kind": "regex", "external_id": "pattern", "spec": {"pattern": "x"}}
    for named, expected in (
        ({"validators": [exact, pattern]}, ["default", "pattern"]),
        ({"validators": [pattern]}, ["pattern"]),
        ({}, []),
        ({"validators": [exact]}, ["default"]),
    ):
        path.write_text(json.dumps([{"id": "sum", "task": "How much?", **named}]))
        assert import_task_set(path, environment=environment).problems == []
        task = TaskManager.get_by_external_id("sum", environment=environment)
        assert [one["external_id"] for one in ValidatorManager.list_validators(task=task["id"])] == expected
