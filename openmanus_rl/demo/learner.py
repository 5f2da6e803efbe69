"""How the agent learns: it plays groups of episodes of the same task, and is updated by GRPO."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

from openmanus_rl.demo.agent import Decision, Memory, Policy
from openmanus_rl.demo.house import House, Task, make_tasks


@dataclass
class Turn:
    """What the agent decided, and the turn as `log_turn` takes it; the advantage is known once the whole group is."""

    decision: Decision
    record: dict[str, Any]
    advantage: float = 0.0


@dataclass
class Episode:
    """One rollout, from the first observation to the outcome; it has an id once it is recorded."""

    task: Task
    seed: int
    policy_version: int
    turns: list[Turn]
    outcome: str
    taken: str | None
    rollout_id: str = ""

    @property
    def total_reward(self) -> float:
        """The sum of all rewards."""
        return sum(sum(turn.record["reward"].values()) for turn in self.turns)


def play(policy: Policy, task: Task, *, seed: int) -> Episode:
    """Let the policy act until the episode is over."""
    rng, house, memory = random.Random(seed), House(task), Memory(task.target)
    turns: list[Turn] = []
    answer = task.description
    while house.outcome is None:
        seen = house.observe()
        memory.read(seen)
        began = time.perf_counter()
        decision = policy.decide(house.commands(), memory, rng)
        decided = time.perf_counter()
        result = house.step(decision.command)
        ended = time.perf_counter()
        record = {
            "observation": f"{answer} {seen}",
            "thought": policy.explain(decision),
            "action": decision.command,
            "memory_summary": memory.summary(),
            "tool_calls": result.tool_calls,
            "reward": result.rewards,
            "duration_ms": (ended - began) * 1000,
            "model_duration_ms": (decided - began) * 1000,
            "environment_duration_ms": (ended - decided) * 1000,
        }
        turns.append(Turn(decision, record))
        memory.note(decision.command, result.text)
        answer = result.text
    return Episode(task, seed, policy.version, turns, house.outcome, house.taken)


def assign_advantages(group: list[Episode]) -> None:
    """Set the advantage of each turn: its episode's reward relative to the others of the group, in deviations."""
    rewards = [episode.total_reward for episode in group]
    # The lower bound keeps noise small where all episodes did about the same.
    deviation = max(pstdev(rewards), 0.05)
    for episode, reward in zip(group, rewards, strict=True):
        for turn in episode.turns:
            turn.advantage = (reward - fmean(rewards)) / deviation


def measure(episodes: list[Episode]) -> dict[str, float]:
    """Return how episodes went."""
    rewards = [episode.total_reward for episode in episodes]
    calls = [call for episode in episodes for turn in episode.turns for call in turn.record["tool_calls"]]
    return {
        "success_rate": fmean(episode.outcome == "success" for episode in episodes),
        "mean_reward": fmean(rewards),
        "reward_std": pstdev(rewards),
        "mean_turns": fmean(len(episode.turns) for episode in episodes),
        "tool_failure_rate": fmean(not call["success"] for call in calls) if calls else 0.0,
    }


@dataclass(frozen=True)
class Hyperparameters:
    """The configuration of a training run."""

    groups_per_step: int = 4
    group_size: int = 6
    learning_rate: float = 3.0
    momentum: float = 0.8
    epochs: int = 3
    clip: float = 0.2


class Trainer:
    """An agent in training; the same seed gives the same agent after the same steps."""

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self.config = Hyperparameters()
        self.training_tasks = make_tasks("train", seed)
        self.held_out_tasks = make_tasks("test", seed)
        self.policy = Policy()
        self._velocity: dict[str, float] = {}

    def collect(self, step: int) -> list[list[Episode]]:
        """Play the tasks of a step, each several times, and return the groups with their advantages."""
        first = (step - 1) * self.config.groups_per_step
        groups = []
        for number in range(first, first + self.config.groups_per_step):
            task = self.training_tasks[number % len(self.training_tasks)]
            groups.append([self._play(task, "train", step, sibling) for sibling in range(self.config.group_size)])
            assign_advantages(groups[-1])
        return groups

    def examine(self) -> list[Episode]:
        """Play every held-out task once, always with the same seeds: only the policy makes the difference."""
        return [self._play(task, "exam") for task in self.held_out_tasks]

    def _play(self, task: Task, *parts: object) -> Episode:
        # The generator hashes a text the same way on every machine.
        text = ":".join(map(str, (self.seed, task.external_id, *parts)))
        return play(self.policy, task, seed=random.Random(text).getrandbits(32))

    def learn(self, groups: list[list[Episode]]) -> dict[str, float]:
        """Update the policy by a few epochs over the groups; return metrics, loss and gradient of the first epoch."""
        turns = [turn for group in groups for episode in group for turn in episode.turns]
        epochs = []
        for _ in range(self.config.epochs):
            epochs.append(self.loss_and_gradient(turns))
            # Move the weights against the gradient, with momentum.
            gradient, weights = epochs[-1][1], self.policy.weights
            for name in self._velocity | gradient:
                self._velocity[name] = self.config.momentum * self._velocity.get(name, 0.0) + gradient.get(name, 0.0)
                weights[name] = weights.get(name, 0.0) - self.config.learning_rate * self._velocity[name]
        self.policy.version += 1
        loss, gradient, _ = epochs[0]
        return {
            "loss": loss,
            "grad_norm": math.hypot(*gradient.values()),
            "clip_fraction": fmean(clip_fraction for _, _, clip_fraction in epochs),
            "entropy": fmean(-sum(p * math.log(p) for p in turn.decision.probabilities if p > 0) for turn in turns),
            "kl": fmean(_divergence(turn.decision, self.policy) for turn in turns),
            "learning_rate": self.config.learning_rate,
        }

    def loss_and_gradient(self, turns: list[Turn]) -> tuple[float, dict[str, float], float]:
        """Return -mean(min(ratio * advantage, clipped ratio * advantage)), its gradient, and the fraction clipped."""
        loss, gradient, clipped = 0.0, dict[str, float](), 0
        for turn in turns:
            decision, advantage = turn.decision, turn.advantage
            probabilities = self.policy.probabilities(decision.features)
            ratio = probabilities[decision.chosen] / decision.probabilities[decision.chosen]
            bounded = min(max(ratio, 1 - self.config.clip), 1 + self.config.clip)
            loss -= min(ratio * advantage, bounded * advantage) / len(turns)
            if bounded * advantage < ratio * advantage:
                clipped += 1
                continue
            for index, probability in enumerate(probabilities):
                slope = ratio * advantage * ((index == decision.chosen) - probability) / len(turns)
                for name in decision.features[index]:
                    gradient[name] = gradient.get(name, 0.0) - slope
        return loss, gradient, clipped / len(turns)


def _divergence(decision: Decision, policy: Policy) -> float:
    """Return KL(before || after) of a decision."""
    after = policy.probabilities(decision.features)
    return sum(p * math.log(p / q) for p, q in zip(decision.probabilities, after, strict=True) if p > 0 and q > 0)
