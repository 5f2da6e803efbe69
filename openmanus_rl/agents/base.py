"""The agent protocol: an agent gets a task, an environment and a recorder, and returns an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from openmanus_rl.errors import OpenManusError
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["Agent", "AgentError", "LimitReached", "Limits", "Recorder", "SafetyStop", "Task"]

LimitKind = Literal["steps", "seconds", "tokens", "cost"]


class AgentError(OpenManusError):
    """The agent could not work: its model cannot be reached, or its options are wrong. Not a wrong answer."""


class LimitReached(Exception):
    """The rollout has used up its steps, time, tokens or money."""

    def __init__(self, kind: LimitKind, limit: float) -> None:
        super().__init__(f"the limit of {limit:g} {'US dollars' if kind == 'cost' else kind} is reached")
        self.kind: LimitKind = kind


class SafetyStop(Exception):
    """The model asked for a person's confirmation; it is never given automatically, so the rollout ends."""


@dataclass(frozen=True)
class Limits:
    """How much a rollout may use; None is no limit."""

    max_steps: int | None = 100
    max_seconds: float | None = 1800.0
    max_tokens: int | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True)
class Task:
    """What an agent is asked to do. It does not contain the expected answer."""

    id: str
    description: str
    external_id: str | None = None
    name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    solution: Any = None
    """How the task is solved; given only to agents with `sees_solution`."""


class Recorder(Protocol):
    """Records the rollout. Each call may raise `LimitReached`; agents let it pass."""

    limits: Limits

    def log_turn(
        self,
        *,
        observation: Any = None,
        action: Any = None,
        thought: str | None = None,
        reward: float | Mapping[str, float] | None = None,
        **further: Any,
    ) -> str:
        """Record a turn, with everything that `Rollout.log_turn` of the recorder takes, and return its id."""

    def log_media(
        self, data: Any, *, kind: str | None = None, turn_id: str | None = None, **fields: Any
    ) -> str | None: ...

    def add_usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost_usd: float | None = None) -> None:
        """Count what a call of the model used; raises `LimitReached`. An unknown cost is None."""

    def check_limits(self) -> None:
        """Raise `LimitReached` if nothing is left for another step; agents call it before long work."""

    @property
    def remaining_seconds(self) -> float | None:
        """Return how much time is left, None if there is no limit."""


class Agent(Protocol):
    """An agent. One named `module:attribute` is made by calling that attribute with `model` and `options`."""

    sees_solution: bool

    def run(self, task: Task, environment: Sandbox, recorder: Recorder) -> Any:
        """Work on the task and return the answer: a text, any JSON value, or None for no answer."""
