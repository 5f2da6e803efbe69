"""A new version of a validator runs over past rollouts; what changes is shown before it is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openmanus_rl.managers.tasks import TaskManager, ValidatorManager

Ask = Callable[..., list[str]]


@pytest.fixture
def judged(queue: Any, ask: Ask) -> tuple[str, str]:
    """A task whose validator was too strict, and a rollout that failed because of it."""
    task = {
        "external_id": "strict",
        "validators": [{"kind": "exact", "spec": {"expected": "Paris"}}],
        "metadata": {"script": [{"answer": "paris"}]},
    }
    [rollout] = ask(task=task, agent="scripted")
    queue.work_off()
    assert queue.status_of(rollout) == "failed"
    return TaskManager.get_by_external_id("strict")["id"], rollout


def test_nothing_changes_until_it_is_applied(queue: Any, command: Any, judged: tuple[str, str]) -> None:
    task, rollout = judged
    ValidatorManager.save_validator(task, kind="exact", spec={"expected": "Paris", "ignore_case": True})

    shown = command("rescore", "--validator", "default", "--task", "strict", "--json")

    assert shown.code == 0, shown.err
    assert shown.json["statuses"] == [{"from": "failed", "to": "success", "count": 1}]
    assert queue.status_of(rollout) == "failed"

    applied = command("rescore", "--validator", "default", "--task", "strict", "--apply")

    assert applied.code == 0, applied.err
    assert queue.status_of(rollout) == "success"
    [verdict] = queue.rows("select * from public.validations where rollout_id = %s", rollout)
    assert (verdict["verdict"], verdict["validator_version"]) == ("pass", 2)
    # Once more: there is nothing left to change.
    assert command("rescore", "--validator", "default", "--task", "strict", "--json").json["statuses"] == []


def test_it_must_be_said_which_rollouts(command: Any, queue: Any) -> None:
    assert queue.rows("select 1") != []
    refused = command("rescore", "--validator", "default")

    assert refused.code == 1
    assert "--task, --environment or --rollout" in refused.message
