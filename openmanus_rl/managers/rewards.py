"""Rewards of a rollout, component by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.managers.base import Manager, OneOrMany, matching
from openmanus_rl.records import Reward
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.transport.filters import Filter, Page
from openmanus_rl.transport.rest import Row

__all__ = ["RewardManager"]


class RewardManager(Manager):
    """Records and reads the rewards of steps and of whole rollouts."""

    table = "rewards"
    noun = "reward"
    model = Reward

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
    ) -> Row:
        """Record a reward of a step, or of the whole rollout where there is none; each type once a step."""
        return cls._create(
            reward_id,
            rollout_id=as_id(rollout_id, field="rollout_id"),
            step_number=step_number,
            reward=reward,
            reward_type=reward_type,
            details=details,
        )

    @classmethod
    def get_reward(cls, reward: Id) -> Row:
        """Return a reward; an unknown id is a `NotFoundError`."""
        return cls._get(reward, field="reward_id")

    @classmethod
    def list_rewards(
        cls,
        rollout_id: Id | None = None,
        *,
        training_run_id: Id | None = None,
        reward_type: OneOrMany | None = None,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = ("rollout_id", "step_number"),
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of rewards, step by step; those of whole rollouts come last."""
        conditions = matching(rollout_id=rollout_id, training_run_id=training_run_id, reward_type=reward_type)
        return cls._page([*conditions, *filters], order_by=order_by, limit=limit, offset=offset, count=count)
