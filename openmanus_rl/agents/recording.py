"""Records what an agent does, and stops it at the limits of its rollout."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from openmanus_rl.agents.base import AgentError, LimitReached, Limits

__all__ = ["LimitedRecorder", "Usage"]


class _Rollout(Protocol):
    def log_turn(self, **fields: Any) -> str: ...
    def log_media(self, data: Any, **fields: Any) -> str | None: ...


@dataclass(frozen=True)
class Usage:
    """What the model calls of a rollout used. The cost is None if there were none, or if that of one is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        """Return all tokens."""
        return self.input_tokens + self.output_tokens


class LimitedRecorder:
    """A `Recorder` that passes turns on to a rollout of the recorder, until a limit is reached.

    A turn beyond `max_steps` is not recorded. Any other limit is noticed after the fact: what was done is recorded
    first. From then on every call raises again, except `log_media`, so that a video can still be kept.
    """

    def __init__(self, rollout: _Rollout, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._rollout = rollout
        self._clock = clock
        self._started = clock()
        self._steps = 0
        self._usage = Usage()
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage:
        """Return what was used so far."""
        return self._usage

    @property
    def steps(self) -> int:
        """Return the number of turns so far."""
        return self._steps

    @property
    def elapsed_seconds(self) -> float:
        """Return the time since the agent started."""
        return self._clock() - self._started

    @property
    def remaining_seconds(self) -> float | None:
        """Return how much time is left, at least 0; None if there is no limit."""
        if self.limits.max_seconds is None:
            return None
        return max(0.0, self.limits.max_seconds - self.elapsed_seconds)

    def log_turn(
        self,
        *,
        observation: Any = None,
        action: Any = None,
        thought: str | None = None,
        reward: float | Mapping[str, float] | None = None,
        **further: Any,
    ) -> str:
        """Record a turn and return its id."""
        with self._lock:
            if self.limits.max_steps is not None and self._steps >= self.limits.max_steps:
                raise LimitReached("steps", self.limits.max_steps)
            self._steps += 1
        turn_id = self._rollout.log_turn(
            observation=observation, action=action, thought=thought, reward=reward, **further
        )
        self._check_use()
        return turn_id

    def log_media(self, data: Any, *, kind: str | None = None, turn_id: str | None = None, **fields: Any) -> str | None:
        """Record media; allowed at any time, because videos are complete only when the agent has ended."""
        return self._rollout.log_media(data, kind=kind, turn_id=turn_id, **fields)

    def add_usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost_usd: float | None = None) -> None:
        """Count what a model call used. An unknown cost is an `AgentError` if there is a limit of the cost."""
        cost = cost_usd if cost_usd is not None and math.isfinite(cost_usd) and cost_usd >= 0 else None
        with self._lock:
            before = self._usage
            is_known = cost is not None and (self._calls == 0 or before.cost_usd is not None)
            self._calls += 1
            self._usage = Usage(
                before.input_tokens + max(0, input_tokens),
                before.output_tokens + max(0, output_tokens),
                (before.cost_usd or 0.0) + (cost or 0.0) if is_known else None,
            )
        if cost is None and self.limits.max_cost_usd is not None:
            raise AgentError(
                "the cost of a model call is unknown, so that max_cost_usd cannot be kept",
                code="unknown_cost",
                hint="set the model's prices in the agent's options, or remove max_cost_usd",
            )
        self._check_use()

    def check_limits(self) -> None:
        """Raise `LimitReached` if nothing is left for another step."""
        limits, usage = self.limits, self._usage
        self._check_use()
        if limits.max_steps is not None and self._steps >= limits.max_steps:
            raise LimitReached("steps", limits.max_steps)
        if limits.max_tokens is not None and usage.tokens >= limits.max_tokens:
            raise LimitReached("tokens", limits.max_tokens)
        if limits.max_cost_usd is not None and (usage.cost_usd or 0.0) >= limits.max_cost_usd:
            raise LimitReached("cost", limits.max_cost_usd)

    def _check_use(self) -> None:
        """Raise `LimitReached` if more was used than allowed."""
        limits, usage = self.limits, self._usage
        if limits.max_seconds is not None and self.elapsed_seconds >= limits.max_seconds:
            raise LimitReached("seconds", limits.max_seconds)
        if limits.max_tokens is not None and usage.tokens > limits.max_tokens:
            raise LimitReached("tokens", limits.max_tokens)
        if limits.max_cost_usd is not None and (usage.cost_usd or 0.0) > limits.max_cost_usd:
            raise LimitReached("cost", limits.max_cost_usd)
