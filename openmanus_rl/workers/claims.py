"""What a worker claims: a rollout with its task, its validators and its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openmanus_rl.agents.base import Limits, Task
from openmanus_rl.errors import InvalidInput
from openmanus_rl.verification.base import ValidatorSpec

__all__ = ["Claim"]

_DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Claim:
    """A claimed rollout, as the function `claim_rollouts` returns it."""

    content: Mapping[str, Any]

    @property
    def rollout_id(self) -> str:
        return str(self.content["rollout"]["id"])

    @property
    def lease_id(self) -> str:
        return str(self.content["lease_id"])

    @property
    def run_id(self) -> str | None:
        run_id: str | None = self.content["rollout"]["training_run_id"]
        return run_id

    @property
    def seed(self) -> int | None:
        seed: int | None = self.content["rollout"]["seed"]
        return seed

    @property
    def agent(self) -> str:
        return str(self.content["rollout"]["agent"])

    @property
    def model(self) -> str | None:
        model: str | None = self.content["rollout"]["model"]
        return model

    @property
    def agent_options(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] = self._request.get("agent_options") or {}
        return options

    @property
    def limits(self) -> Limits:
        """Return the limits that were asked for; those that were not are the defaults, and null is no limit."""
        given = self._request.get("limits") or {}
        return Limits(**{name: given.get(name, default) for name, default in vars(_DEFAULT_LIMITS).items()})

    @property
    def environment(self) -> Mapping[str, Any] | None:
        """Return the spec of the environment with its kind, or None if there is nothing to start."""
        found = self.content["environment"]
        if found is None or found["kind"] is None:
            return None
        return {**found["spec"], "kind": found["kind"]}

    @property
    def expected_answer(self) -> str | None:
        expected: str | None = self._task.get("expected_answer")
        return expected

    @property
    def files_path(self) -> str | None:
        path: str | None = self._task.get("files_path")
        return path

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self._task.get("metadata") or {}
        return metadata

    @property
    def validators(self) -> list[ValidatorSpec]:
        return [ValidatorSpec.from_row(row) for row in self._task.get("validators", ())]

    def task(self, *, with_solution: bool) -> Task:
        """Return the task as the agent sees it."""
        task = self._task
        if not task:
            raise InvalidInput(f"rollout {self.rollout_id}: its task was deleted", field="task_id")
        return Task(
            id=task["id"],
            description=task["description"],
            external_id=task["external_id"],
            name=task["name"],
            metadata=self.metadata,
            solution=task["solution"] if with_solution else None,
        )

    @property
    def _request(self) -> Mapping[str, Any]:
        request: Mapping[str, Any] = self.content["rollout"]["request"] or {}
        return request

    @property
    def _task(self) -> Mapping[str, Any]:
        return self.content["task"] or {}
