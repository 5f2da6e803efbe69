"""What a claim says: limits, the environment, and a task without what its agent may not see."""

from __future__ import annotations

from typing import Any

import pytest

from openmanus_rl.agents.base import Limits
from openmanus_rl.errors import InvalidInput
from openmanus_rl.workers.claims import Claim


def claim(*, task: dict[str, Any] | None = None, environment: Any = None, **request: Any) -> Claim:
    rollout = {"id": "r", "training_run_id": None, "seed": None, "agent": "noop", "model": None, "request": request}
    return Claim({"rollout": rollout, "lease_id": "l", "task": task, "environment": environment})


TASK = {"id": "t", "description": "d", "external_id": None, "name": None, "metadata": {}, "solution": {"answer": 1},
        "expected_answer": "1", "files_path": None, "validators": []}  # fmt: skip


def test_limits_that_are_not_asked_for_are_the_defaults_and_null_is_none() -> None:
    limits = claim(limits={"max_steps": 7, "max_seconds": None}).limits

    assert limits == Limits(max_steps=7, max_seconds=None)


def test_only_an_agent_that_may_see_the_solution_gets_it() -> None:
    assert claim(task=TASK).task(with_solution=False).solution is None
    assert claim(task=TASK).task(with_solution=True).solution == {"answer": 1}
    assert "1" not in repr(claim(task=TASK).task(with_solution=False))


def test_the_kind_of_an_environment_belongs_to_its_spec() -> None:
    environment = {"id": "e", "name": "n", "version": 1, "kind": "process", "spec": {"services": {}}}

    assert claim(environment=environment).environment == {"kind": "process", "services": {}}
    assert claim(environment={**environment, "kind": None}).environment is None
    assert claim().environment is None


def test_a_deleted_task_is_named() -> None:
    with pytest.raises(InvalidInput, match="its task was deleted"):
        claim().task(with_solution=False)
