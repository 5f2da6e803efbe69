"""Records the episodes of the environments that Stable-Baselines3 trains in."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._beginning import Axis
from openmanus_rl.integrations._episodes import Episodes, Plan, outcome
from openmanus_rl.integrations._sb3_model import Originals, environment_of, is_monitored, pick
from openmanus_rl.integrations._videos import require_encoder
from openmanus_rl.recorder import Rollout

__all__ = ["TRUNCATED", "FollowedEpisodes", "TrainingEpisodes", "actions_of", "episodes_of", "info_of_turn", "plan_for"]

TRUNCATED = "TimeLimit.truncated"
# These are recorded in other fields.
_NOT_INFO = ("terminal_observation", "episode", TRUNCATED)
_FRAMES_PER_SECOND = 30.0


def plan_for(env: VecEnv, intervals: Mapping[str, int]) -> Plan:
    """Return what to record; refuse frames and videos if the environments cannot be rendered."""
    metadata: Mapping[str, Any] = env.metadata or {}
    plan = Plan(**intervals, frames_per_second=float(metadata.get("render_fps") or _FRAMES_PER_SECOND))
    if plan.looks and env.render_mode != "rgb_array":
        raise InvalidInput(
            f"{environment_of(env)}: cannot record frames, because its render_mode is {env.render_mode!r}",
            field="frame_interval" if plan.frame_interval else "video_interval_episodes",
            hint='create it with render_mode="rgb_array"',
        )
    if plan.video_interval_episodes:
        require_encoder(extra="sb3")
    return plan


def episodes_of(
    env: VecEnv, *, plan: Plan, new_rollout: Callable[..., Rollout], environment: str | None = None
) -> list[Episodes]:
    """Return a recorder for each environment; episodes are numbered across all of them."""
    order = itertools.count()
    name = environment or environment_of(env)
    return [
        Episodes(
            plan=plan,
            order=order,
            new_rollout=new_rollout,
            fields={"environment": name, "metadata": {"environment_index": index}},
            # Render only this environment: rendering all of them is much slower.
            render=lambda index=index: env.env_method("render", indices=[index])[0],  # type: ignore[misc]
        )
        for index in range(env.num_envs)
    ]


def info_of_turn(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the info of a turn without what is recorded in other fields."""
    return {key: value for key, value in info.items() if key not in _NOT_INFO}


def actions_of(values: Mapping[str, Any]) -> Any:
    """Return the actions that the environments received; on-policy algorithms clip them first."""
    return values["clipped_actions"] if "clipped_actions" in values else values["actions"]


class FollowedEpisodes(ABC):
    """Reads the steps of training from the local variables of its loop; subclasses record them."""

    def __init__(self, env: VecEnv, *, axis: Axis) -> None:
        self._axis = axis
        self._originals = Originals(env)
        self._monitored = is_monitored(env)
        # Without a Monitor, return and length are counted here.
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, dtype=int)
        self._watched: list[int] = []

    def take(self, values: Mapping[str, Any], *, timesteps: int) -> None:
        """Record a step of all environments."""
        if not self._monitored:
            self._returns += self._originals.rewards(values["rewards"])
            self._lengths += 1
        if self._watched:
            self._take_turns(values)
        # Faster than `any`.
        if np.count_nonzero(values["dones"]):
            self._end(values, step=self._axis.step(timesteps))

    @abstractmethod
    def _take_turns(self, values: Mapping[str, Any]) -> None:
        """Record a step of the environments whose turns are recorded."""

    @abstractmethod
    def _end(self, values: Mapping[str, Any], *, step: int) -> None:
        """End the finished episodes, and start the next ones."""

    def _over(self, values: Mapping[str, Any]) -> list[int]:
        """Return the environments with finished episodes; with a Monitor, `done` may also be the loss of a life."""
        done: list[int] = values["dones"].nonzero()[0].tolist()
        return [index for index in done if not self._monitored or "episode" in values["infos"][index]]

    def _count(self, index: int, info: Mapping[str, Any]) -> tuple[float, int, bool]:
        """Return the return and length of a finished episode and whether it was truncated, and reset the counts."""
        counted = info.get("episode") or {"r": self._returns[index], "l": self._lengths[index]}
        found = float(counted["r"]), int(counted["l"]), bool(info.get(TRUNCATED, False))
        self._returns[index], self._lengths[index] = 0.0, 0
        return found


class TrainingEpisodes(FollowedEpisodes):
    """Records each turn immediately, with frames."""

    def __init__(
        self,
        env: VecEnv,
        *,
        plan: Plan,
        new_rollout: Callable[..., Rollout],
        environment: str | None,
        axis: Axis,
    ) -> None:
        super().__init__(env, axis=axis)
        self._episodes = episodes_of(env, plan=plan, new_rollout=new_rollout, environment=environment)

    def begin(self, observations: Any, *, timesteps: int) -> None:
        """Start an episode of each environment, after a reset."""
        step = self._axis.step(timesteps)
        seen = self._originals.observations(observations)
        for index, episodes in enumerate(self._episodes):
            # That of its first turn: a rewind to the step at which it began hides it.
            episodes.begin(pick(seen, index), step=step + 1)
        self._choose()

    def settle(self) -> None:
        """Do nothing: every turn was written immediately."""

    def pause(self, message: str) -> None:
        """Close the open episodes, because training may not continue."""
        for episodes in self._episodes:
            episodes.pause(message)
        self._choose()

    def fail(self, error: BaseException) -> None:
        """Close the open episodes with the error that ended training."""
        for index in self._watched:
            self._episodes[index].fail(error)
        self._choose()

    def _choose(self) -> None:
        self._watched = [index for index, episodes in enumerate(self._episodes) if episodes.watches]

    def _take_turns(self, values: Mapping[str, Any]) -> None:
        seen = self._originals.observations(values["new_obs"])
        rewards = self._originals.rewards(values["rewards"])
        actions = actions_of(values)
        over = self._over(values)
        for index in self._watched:
            info = values["infos"][index]
            next_seen = pick(seen, index)
            self._episodes[index].take(
                action=actions[index],
                reward=rewards[index],
                info=info_of_turn(info),
                observation=self._originals.final(info, otherwise=next_seen) if index in over else next_seen,
                last=index in over,
                # It has been reset already.
                see_end=False,
            )

    def _end(self, values: Mapping[str, Any], *, step: int) -> None:
        seen = self._originals.observations(values["new_obs"])
        for index in self._over(values):
            info = values["infos"][index]
            total_reward, step_count, truncated = self._count(index, info)
            self._episodes[index].end(
                outcome(info, truncated=truncated),
                total_reward=total_reward,
                step_count=step_count,
                step=step,
                result={"terminated": not truncated, "truncated": truncated},
            )
            self._episodes[index].begin(pick(seen, index), step=step + 1)
        self._choose()
