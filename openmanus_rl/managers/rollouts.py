"""Rollouts, with shortcuts to log their turns, tool calls and rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, OneOrMany, Paging, counting, matching, of_ids
from openmanus_rl.managers.chats import fill_chats
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.rewards import RewardManager
from openmanus_rl.managers.tool_calls import ToolCallManager
from openmanus_rl.managers.turns import TurnManager
from openmanus_rl.records.ids import Id, as_optional_id
from openmanus_rl.records.rows import AgentState, Reward, Rollout, ToolCall
from openmanus_rl.records.statuses import RolloutSource, RolloutStatus
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["RolloutManager", "Trajectory", "TrajectoryTurn"]


class TrajectoryTurn(AgentState):
    """A turn with its tool calls."""

    tool_calls: list[ToolCall]


class Trajectory(Rollout):
    """A rollout with its turns and rewards."""

    turns: list[TrajectoryTurn]
    rewards: list[Reward]


class RolloutManager(EditableManager[Rollout]):
    """Creates, logs, ends and finds rollouts."""

    table = "rollouts"
    noun = "rollout"

    @classmethod
    def create_rollout(
        cls,
        training_run_id: Id | None = None,
        episode_number: int | None = None,
        environment: str | None = None,
        task_description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        group_id: Id | None = None,
        task_id: Id | None = None,
        source: RolloutSource | None = None,
        model: str | None = None,
        policy_version: int | None = None,
        seed: int | None = None,
        step: int | None = None,
        status: RolloutStatus = "running",
        rollout_id: Id | None = None,
    ) -> Rollout:
        """Create a rollout and return it; task and environment default to those of its group or run."""
        return cls._create(
            rollout_id,
            status=status,
            training_run_id=as_optional_id(training_run_id, field="training_run_id"),
            group_id=as_optional_id(group_id, field="group_id"),
            task_id=as_optional_id(task_id, field="task_id"),
            episode_number=episode_number,
            environment=environment,
            task_description=task_description,
            metadata=metadata,
            source=source,
            model=model,
            policy_version=policy_version,
            seed=seed,
            step=step,
        )

    @classmethod
    def log_agent_state(
        cls,
        rollout_id: Id,
        step_number: int,
        observation: Any = None,
        action: Any = None,
        thought: str | None = None,
        memory_summary: str | None = None,
        **further: Any,
    ) -> str:
        """Record a turn and return its id; further arguments are those of `TurnManager.log_turn`."""
        turn = cls._sibling(TurnManager).log_turn(
            rollout_id,
            step_number,
            observation=observation,
            action=action,
            thought=thought,
            memory_summary=memory_summary,
            **further,
        )
        return str(turn["id"])

    @classmethod
    def log_tool_call(
        cls,
        agent_state_id: Id,
        tool_name: str,
        tool_input: Any = None,
        tool_output: Any = None,
        success: bool | None = None,
        execution_time_ms: float | None = None,
        error_message: str | None = None,
        *,
        position: int | None = None,
    ) -> ToolCall:
        """Record a tool call of a turn and return it."""
        return cls._sibling(ToolCallManager).log_tool_call(
            agent_state_id,
            tool_name,
            tool_input=tool_input,
            tool_output=tool_output,
            success=success,
            execution_time_ms=execution_time_ms,
            error_message=error_message,
            position=position,
        )

    @classmethod
    def log_reward(
        cls,
        rollout_id: Id,
        step_number: int | None,
        reward: float,
        reward_type: str = "step",
        details: Mapping[str, Any] | None = None,
    ) -> Reward:
        """Record a reward of a step, or of the whole rollout if the step is None, and return it."""
        return cls._sibling(RewardManager).log_reward(
            rollout_id, reward, step_number=step_number, reward_type=reward_type, details=details
        )

    @classmethod
    def complete_rollout(
        cls,
        rollout_id: Id,
        status: RolloutStatus,
        total_reward: float | None = None,
        step_count: int | None = None,
        *,
        result: Any = None,
        error: str | None = None,
        message: str | None = None,
        video_path: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Rollout:
        """End a rollout with its outcome and return it."""
        return cls._move(
            rollout_id,
            status,
            field="rollout_id",
            message=message,
            total_reward=total_reward,
            step_count=step_count,
            result=result,
            error=error,
            video_path=video_path,
            metadata=metadata,
        )

    @classmethod
    def update_status(cls, rollout_id: Id, status: RolloutStatus, *, message: str | None = None) -> Rollout:
        """Change the status of a rollout and return it."""
        return cls._move(rollout_id, status, field="rollout_id", message=message)

    @classmethod
    def get_rollout(cls, rollout_id: Id) -> Rollout:
        """Return a rollout; an unknown id raises `NotFoundError`."""
        return cls._get(rollout_id, field="rollout_id")

    @classmethod
    def get_trajectory(cls, rollout_id: Id) -> Trajectory:
        """Return a rollout with its `turns` in order, each with its `tool_calls`, and its `rewards`."""
        rollout = cls.get_rollout(rollout_id)
        of_rollout = Filter.eq("rollout_id", rollout["id"])
        turns = list(cls._sibling(TurnManager)._all(of_rollout, order_by="step_number"))
        fill_chats(turns, pool=turns)
        rewards = list(cls._sibling(RewardManager)._all(of_rollout, order_by=("step_number", "reward_type")))
        calls: dict[str, list[ToolCall]] = {turn["id"]: [] for turn in turns}
        ids = list(calls)
        # 100 ids at a time: they are sent in the URL, whose length is limited.
        for start in range(0, len(ids), 100):
            of_turns = Filter.in_("agent_state_id", ids[start : start + 100])
            for call in cls._sibling(ToolCallManager)._all(of_turns, order_by="position"):
                calls[call["agent_state_id"]].append(call)
        return {
            **rollout,
            "turns": [{**turn, "tool_calls": calls[turn["id"]]} for turn in turns],
            "rewards": rewards,
        }

    @classmethod
    def list_rollouts(
        cls,
        *,
        training_run_id: Id | None = None,
        group_id: Id | None = None,
        task_id: Id | None = None,
        environment: OneOrMany | None = None,
        status: OneOrMany | None = None,
        source: OneOrMany | None = None,
        step: int | None = None,
        include_rewound: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[Rollout]:
        """Return a page of rollouts, newest first; those hidden by a rewind only if asked for."""
        conditions = [
            *of_ids(training_run_id=training_run_id, group_id=group_id, task_id=task_id),
            *matching(environment=environment, status=status, source=source, step=step),
            *counting(include_rewound=include_rewound),
        ]
        return cls._page(*conditions, **paging)

    @classmethod
    def delete_rollout(cls, rollout_id: Id) -> bool:
        """Delete a rollout with its turns and rewards, and return whether it is gone.

        One that a worker holds is stopped first: it is deleted when the worker has removed its environment.
        """
        return not cls._sibling(QueueManager).delete_rollouts([rollout_id]).stopping
