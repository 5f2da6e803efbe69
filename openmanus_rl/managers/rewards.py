"""Rewards of a rollout, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, matching, of_ids
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.rows import Reward
from openmanus_rl.transport.filters import Page

__all__ = ["RewardManager"]


class RewardManager(Manager[Reward]):
    """Records and reads the rewards of steps and of whole rollouts."""

    table = "rewards"
    noun = "reward"
    order_by = ("rollout_id", "step_number")

    @classmethod
    def log_reward(
        cls,
        rollout_id: Id,
        reward: float,
        *,
        step_number: int | None = None,
        reward_type: str = "step",
        details: Mapping[str, Any] | None = None,
        reward_id: Id | None = None,
    ) -> Reward:
        """Record a reward of a step, or without one of the whole rollout; each type once per step."""
        return cls._create(
            reward_id,
            rollout_id=as_id(rollout_id, field="rollout_id"),
            step_number=step_number,
            reward=reward,
            reward_type=reward_type,
            details=details,
        )

    @classmethod
    def get_reward(cls, reward: Id) -> Reward:
        """Return a reward; an unknown id raises `NotFoundError`."""
        return cls._get(reward, field="reward_id")

    @classmethod
    def list_rewards(
        cls,
        rollout_id: Id | None = None,
        *,
        training_run_id: Id | None = None,
        reward_type: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Reward]:
        """Return a page of rewards, step by step; those of whole rollouts come last."""
        parents = of_ids(rollout_id=rollout_id, training_run_id=training_run_id)
        return cls._page(*parents, *matching(reward_type=reward_type), **paging)
