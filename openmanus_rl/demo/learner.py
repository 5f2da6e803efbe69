"""Learning from groups: a clipped policy gradient, with advantages relative to the other rollouts of the same task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, pstdev

from openmanus_rl.demo.episode import Episode
from openmanus_rl.demo.policy import Decision, Policy

__all__ = ["Learner", "Update", "assign_advantages"]

# A group whose rollouts all did about the same says little: don't blow its noise up.
_LEAST_DEVIATION = 0.05
_DISCOUNT = 0.95


@dataclass(frozen=True)
class Update:
    """What one update did, measured on the turns it learned from."""

    loss: float
    entropy: float
    kl: float
    grad_norm: float
    clip_fraction: float
    learning_rate: float


def assign_advantages(group: list[Episode]) -> None:
    """Give each turn its advantage: how much more was earned from it on than by the siblings at the same turn."""
    returns = [episode.returns(discount=_DISCOUNT) for episode in group]
    # A sibling that had finished by then earned nothing more.
    baselines = [
        fmean(earned[turn] if turn < len(earned) else 0.0 for earned in returns)
        for turn in range(max(len(earned) for earned in returns))
    ]
    differences = [[mine - other for mine, other in zip(earned, baselines, strict=False)] for earned in returns]
    deviation = max(pstdev(difference for row in differences for difference in row), _LEAST_DEVIATION)
    for episode, row in zip(group, differences, strict=True):
        episode.advantages = [difference / deviation for difference in row]


@dataclass
class _Epoch:
    """What one pass over the turns adds up: the loss, and its slope in each weight."""

    gradient: dict[int, float]
    loss: float = 0.0
    clipped_count: int = 0


class Learner:
    """GRPO with Adam: a few passes over each batch, none of which may move a choice too far."""

    def __init__(
        self,
        policy: Policy,
        *,
        learning_rate: float,
        epochs: int = 3,
        clip: float = 0.2,
        entropy_bonus: float = 0.05,
        max_grad_norm: float = 1.0,
    ) -> None:
        self.policy = policy
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.clip = clip
        self.entropy_bonus = entropy_bonus
        self.max_grad_norm = max_grad_norm
        self._optimizer = _Adam()

    def update(self, episodes: list[Episode]) -> Update:
        """Learn from judged episodes of the present policy; loss and gradient are those of the first pass."""
        turns = [
            (turn.decision, advantage)
            for episode in episodes
            for turn, advantage in zip(episode.turns, episode.advantages, strict=True)
        ]
        losses, norms, clipped = [], [], 0
        for _ in range(self.epochs):
            epoch = self._pass_over(turns)
            losses.append(epoch.loss)
            clipped += epoch.clipped_count
            norm = math.sqrt(sum(slope * slope for slope in epoch.gradient.values()))
            norms.append(norm)
            scale = min(1.0, self.max_grad_norm / norm) if norm > 0 else 0.0
            self._optimizer.descend(self.policy.weights, epoch.gradient, learning_rate=self.learning_rate, scale=scale)
        self.policy.version += 1
        return Update(
            loss=losses[0],
            entropy=fmean(decision.entropy for decision, _ in turns),
            kl=fmean(_divergence(decision, self.policy) for decision, _ in turns),
            grad_norm=norms[0],
            clip_fraction=clipped / (self.epochs * len(turns)),
            learning_rate=self.learning_rate,
        )

    def _pass_over(self, turns: list[tuple[Decision, float]]) -> _Epoch:
        """Add up loss = -mean(min(ratio * advantage, clipped ratio * advantage)) - entropy_bonus * mean(entropy)."""
        epoch = _Epoch(gradient={})
        for decision, advantage in turns:
            probabilities = self.policy.probabilities(decision.features)
            ratio = probabilities[decision.chosen] / decision.probabilities[decision.chosen]
            bounded = min(max(ratio, 1 - self.clip), 1 + self.clip)
            gain = min(ratio * advantage, bounded * advantage)
            is_clipped = bounded * advantage < ratio * advantage
            epoch.clipped_count += is_clipped
            entropy = -sum(p * math.log(p) for p in probabilities if p > 0)
            epoch.loss -= (gain + self.entropy_bonus * entropy) / len(turns)
            push = 0.0 if is_clipped else ratio * advantage
            self._add_slopes(epoch.gradient, decision, probabilities, entropy, push=push, scale=1 / len(turns))
        return epoch

    def _add_slopes(
        self,
        gradient: dict[int, float],
        decision: Decision,
        probabilities: list[float],
        entropy: float,
        *,
        push: float,
        scale: float,
    ) -> None:
        """Add the loss's slope in each weight: a command's share of it goes to each of its features."""
        for index, probability in enumerate(probabilities):
            share = push * ((index == decision.chosen) - probability)
            if probability > 0:
                share -= self.entropy_bonus * probability * (math.log(probability) + entropy)
            for feature in decision.features[index]:
                gradient[feature] = gradient.get(feature, 0.0) - scale * share


class _Adam:
    """Adam on weights of which most are never touched."""

    def __init__(self, *, beta1: float = 0.8, beta2: float = 0.99, epsilon: float = 1e-4) -> None:
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.step_count = 0
        self._first: dict[int, float] = {}
        self._second: dict[int, float] = {}

    def descend(self, weights: list[float], gradient: dict[int, float], *, learning_rate: float, scale: float) -> None:
        """Move the weights against the gradient, scaled."""
        self.step_count += 1
        unbias1, unbias2 = 1 - self.beta1**self.step_count, 1 - self.beta2**self.step_count
        for index in self._first.keys() | gradient.keys():
            slope = scale * gradient.get(index, 0.0)
            first = self._first[index] = self.beta1 * self._first.get(index, 0.0) + (1 - self.beta1) * slope
            second = self._second[index] = self.beta2 * self._second.get(index, 0.0) + (1 - self.beta2) * slope * slope
            weights[index] -= learning_rate * (first / unbias1) / (math.sqrt(second / unbias2) + self.epsilon)


def _divergence(decision: Decision, policy: Policy) -> float:
    """Return KL(before || after) of a choice, exactly: the commands are few."""
    after = policy.probabilities(decision.features)
    return sum(p * math.log(p / q) for p, q in zip(decision.probabilities, after, strict=True) if p > 0 and q > 0)
