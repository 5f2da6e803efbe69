"""Shared code of the wrappers for single and vector environments."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._episodes import Episodes, Plan
from openmanus_rl.integrations._videos import require_encoder
from openmanus_rl.recorder import Rollout, Run, init
from openmanus_rl.recorder.membership import read_membership

__all__ = ["CLOSE_MESSAGE", "RESET_MESSAGE", "Bookkeeping", "Describe"]

Describe = Callable[[Any, Mapping[str, Any]], str | None]
"""Returns the task of an episode from its first observation and info."""

RESET_MESSAGE = "the environment was reset in the middle of the episode"
CLOSE_MESSAGE = "the environment was closed in the middle of the episode"

_TASK_KEYS = ("task_description", "task")
_FRAMES_PER_SECOND = 30.0


class Bookkeeping:
    """Creates the rollouts for the episodes of a wrapper."""

    def __init__(
        self,
        env: Any,
        *,
        run: Run | None,
        environment: str | None,
        task_description: str | Describe | None,
        metadata: Mapping[str, Any] | None,
        step: Callable[[], int] | None,
        intervals: Mapping[str, int],
    ) -> None:
        self._run = run
        if run is None:
            _run_id()
        self._environment = environment or _name_of(env)
        self._task_description = task_description
        self._metadata = dict(metadata or {})
        self._step = step
        self._order = itertools.count()
        frames_per_second = float((env.metadata or {}).get("render_fps") or _FRAMES_PER_SECOND)
        self._plan = Plan(**intervals, frames_per_second=frames_per_second)
        if self._plan.looks and env.render_mode != "rgb_array":
            raise InvalidInput(
                f"{self._environment}: cannot record frames, because its render_mode is {env.render_mode!r}",
                field="frame_interval" if self._plan.frame_interval else "video_interval_episodes",
                hint='create it with render_mode="rgb_array"',
            )
        if self._plan.video_interval_episodes:
            require_encoder(extra="gymnasium")

    def episodes(self, *, render: Callable[[], Any], **metadata: Any) -> Episodes:
        """Return the recorder for the episodes of one environment."""
        fields = {"environment": self._environment, "metadata": {**self._metadata, **metadata} or None}
        return Episodes(plan=self._plan, order=self._order, new_rollout=self._new_rollout, fields=fields, render=render)

    def _new_rollout(self, **fields: Any) -> Rollout:
        if self._run is None:
            # Not earlier: an environment that is created only to read its spaces must not join a run.
            self._run = _join(os.getpid(), _run_id())
        return self._run.rollout(**fields)

    def fields(self, observation: Any, info: Mapping[str, Any], *, seed: int | None) -> dict[str, Any]:
        """Return the fields that are known when an episode starts."""
        step = self._step() if self._step is not None else None
        return {"task_description": self._task(observation, info), "seed": seed, "step": step}

    def _task(self, observation: Any, info: Mapping[str, Any]) -> str | None:
        if callable(self._task_description):
            return self._task_description(observation, info)
        if self._task_description is not None:
            return self._task_description
        said = (info.get(key) for key in _TASK_KEYS)
        return next((text for text in said if isinstance(text, str) and text), None)


def _name_of(env: Any) -> str:
    spec = env.spec
    return spec.id if spec is not None else type(env.unwrapped).__name__


def _run_id() -> str:
    run_id = read_membership().run_id
    if run_id is None:
        raise InvalidInput(
            "no run to record episodes to: none is given, and neither this process nor its parent has started one",
            field="run",
            hint='run = openmanus_rl.init(name="cartpole"), then run=run',
        )
    return run_id


@lru_cache(maxsize=8)
def _join(process_id: int, run_id: str) -> Run:  # noqa: ARG001 - a forked worker joins anew, another run too
    """Join the run once per process, for all its environments."""
    return init()
