"""How the agent learns: it plays groups of episodes of the same task, and is updated by GRPO."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from statistics import fmean, pstdev

from openmanus_rl.demo.agent import Decision, Memory, Policy
from openmanus_rl.demo.house import House, Result, Task, make_tasks


@dataclass
class Turn:
    """What the agent saw, thought and did, and the result; the advantage is known once the whole group is."""

    observation: str
    thought: str
    memory_summary: str
    decision: Decision
    result: Result
    model_duration_ms: float
    environment_duration_ms: float
    advantage: float | None = None

    @property
    def reward(self) -> float:
        """The sum of the turn's rewards."""
        return sum(self.result.rewards.values())


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
        return sum(turn.reward for turn in self.turns)

    def returns(self, *, discount: float) -> list[float]:
        """Return the discounted sum of the rewards from each turn on."""
        returns = [0.0]
        for turn in reversed(self.turns):
            returns.append(turn.reward + discount * returns[-1])
        return returns[:0:-1]


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
        thought = policy.explain(decision)
        decided = time.perf_counter()
        result = house.step(decision.command)
        model_ms, environment_ms = (decided - began) * 1000, (time.perf_counter() - decided) * 1000
        turns.append(Turn(f"{answer} {seen}", thought, memory.summary(), decision, result, model_ms, environment_ms))
        memory.note(decision.command, result.text)
        answer = result.text
    return Episode(task, seed, policy.version, turns, house.outcome, house.taken)


def assign_advantages(group: list[Episode]) -> None:
    """Set the advantage of each turn: its return relative to the other episodes at the same turn, in deviations."""
    returns = [episode.returns(discount=0.95) for episode in group]
    # An episode that was over by then earned nothing more.
    means = [fmean(row[i] if i < len(row) else 0.0 for row in returns) for i in range(max(map(len, returns)))]
    differences = [[mine - mean for mine, mean in zip(row, means, strict=False)] for row in returns]
    # The lower bound keeps noise small where all episodes did about the same.
    deviation = max(pstdev(difference for row in differences for difference in row), 0.05)
    for episode, row in zip(group, differences, strict=True):
        for turn, difference in zip(episode.turns, row, strict=True):
            turn.advantage = difference / deviation


def measure(episodes: list[Episode]) -> dict[str, float]:
    """Return how episodes went."""
    rewards = [episode.total_reward for episode in episodes]
    calls = [call for episode in episodes for turn in episode.turns for call in turn.result.tool_calls]
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
    entropy_bonus: float = 0.05


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
        count = self.config.groups_per_step
        tasks = [self.training_tasks[((step - 1) * count + i) % len(self.training_tasks)] for i in range(count)]
        groups = [
            [self._play(task, "train", step, sibling) for sibling in range(self.config.group_size)] for task in tasks
        ]
        for group in groups:
            assign_advantages(group)
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
            self._descend(epochs[-1][1])
        self.policy.version += 1
        loss, gradient, _ = epochs[0]
        return {
            "loss": loss,
            "grad_norm": math.sqrt(sum(slope * slope for slope in gradient.values())),
            "clip_fraction": fmean(clip_fraction for _, _, clip_fraction in epochs),
            "entropy": fmean(_entropy(turn.decision.probabilities) for turn in turns),
            "kl": fmean(_divergence(turn.decision, self.policy) for turn in turns),
            "learning_rate": self.config.learning_rate,
        }

    def _descend(self, gradient: dict[str, float]) -> None:
        """Move the weights against the gradient, with momentum."""
        weights = self.policy.weights
        for name in self._velocity | gradient:
            self._velocity[name] = self.config.momentum * self._velocity.get(name, 0.0) + gradient.get(name, 0.0)
            weights[name] = weights.get(name, 0.0) - self.config.learning_rate * self._velocity[name]

    def loss_and_gradient(self, turns: list[Turn]) -> tuple[float, dict[str, float], float]:
        """Return -mean(min(ratio * advantage, clipped ratio * advantage)) - entropy_bonus * mean(entropy).

        With it come its gradient and the fraction of the turns that were clipped.
        """
        loss, gradient, clipped = 0.0, dict[str, float](), 0
        for turn in turns:
            decision, advantage = turn.decision, turn.advantage or 0.0
            probabilities = self.policy.probabilities(decision.features)
            entropy = _entropy(probabilities)
            ratio = probabilities[decision.chosen] / decision.probabilities[decision.chosen]
            bounded = min(max(ratio, 1 - self.config.clip), 1 + self.config.clip)
            is_clipped = bounded * advantage < ratio * advantage
            clipped += is_clipped
            loss -= min(ratio * advantage, bounded * advantage) + self.config.entropy_bonus * entropy
            push = 0.0 if is_clipped else ratio * advantage
            for index, probability in enumerate(probabilities):
                slope = push * ((index == decision.chosen) - probability)
                if probability > 0:
                    slope -= self.config.entropy_bonus * probability * (math.log(probability) + entropy)
                for name in decision.features[index]:
                    gradient[name] = gradient.get(name, 0.0) - slope / len(turns)
        return loss / len(turns), gradient, clipped / len(turns)


def _entropy(probabilities: list[float]) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def _divergence(decision: Decision, policy: Policy) -> float:
    """Return KL(before || after) of a decision."""
    after = policy.probabilities(decision.features)
    return sum(p * math.log(p / q) for p, q in zip(decision.probabilities, after, strict=True) if p > 0 and q > 0)
