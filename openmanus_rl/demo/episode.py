"""Playing one episode, and all that is to be told of it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from openmanus_rl.demo.house import House, Outcome, ToolCall
from openmanus_rl.demo.memory import Memory
from openmanus_rl.demo.policy import Decision, Policy
from openmanus_rl.demo.tasks import HouseTask

__all__ = ["Episode", "Turn", "play"]


@dataclass(frozen=True)
class Turn:
    """What the agent saw, thought and did, and what came of it."""

    observation: str
    thought: str
    memory_summary: str
    decision: Decision
    tool_calls: tuple[ToolCall, ...]
    reward: float
    reward_parts: dict[str, float]
    model_duration_ms: float
    environment_duration_ms: float


@dataclass
class Episode:
    """One rollout, from the first observation to the outcome; `advantages` has one number a turn once it is judged."""

    task: HouseTask
    seed: int
    policy_version: int
    started_at: datetime
    finished_at: datetime
    turns: list[Turn]
    outcome: Outcome
    taken: str | None
    final_rewards: dict[str, float]
    advantages: list[float] = field(default_factory=list)

    @property
    def success(self) -> bool:
        """Whether the task was done."""
        return self.outcome == "success"

    @property
    def total_reward(self) -> float:
        """What all turns and the outcome earned together."""
        return sum(turn.reward for turn in self.turns) + sum(self.final_rewards.values())

    def returns(self, *, discount: float) -> list[float]:
        """Return, of each turn, the discounted sum of what was earned from it on."""
        earned = sum(self.final_rewards.values())
        returns: list[float] = []
        for turn in reversed(self.turns):
            # The outcome comes with the last turn, so it is discounted no more than that turn's own reward.
            earned = turn.reward + (discount * earned if returns else earned)
            returns.append(earned)
        return returns[::-1]


def play(policy: Policy, task: HouseTask, *, seed: int) -> Episode:
    """Let the policy act until the task is done, botched or out of time."""
    rng = random.Random(seed)
    house = House(task)
    memory = Memory(task.target)
    turns: list[Turn] = []
    started_at = datetime.now(UTC)
    heard = task.description
    outcome: Outcome | None = None
    while outcome is None:
        seen = house.observe()
        memory.read(seen)
        began = time.perf_counter()
        decision = policy.decide(house.commands(), memory, rng)
        thought = policy.explain(decision)
        decided = time.perf_counter()
        result = house.step(decision.command)
        done = time.perf_counter()
        turns.append(
            Turn(
                observation=f"{heard} {seen}",
                thought=thought,
                memory_summary=memory.summary(),
                decision=decision,
                tool_calls=result.tool_calls,
                reward=result.reward,
                reward_parts=result.reward_parts,
                model_duration_ms=(decided - began) * 1000,
                environment_duration_ms=(done - decided) * 1000,
            )
        )
        memory.note(decision.command, result.text)
        heard, outcome = result.text, result.outcome
    return Episode(
        task=task,
        seed=seed,
        policy_version=policy.version,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        turns=turns,
        outcome=outcome,
        taken=house.taken,
        final_rewards=house.final_rewards(),
    )
