"""The agent: a softmax over the commands at hand, linear in hashed text features."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

from openmanus_rl.demo.features import FEATURE_COUNT, describe_command, feature_index
from openmanus_rl.demo.memory import Memory

__all__ = ["Decision", "Policy"]

_FORMAT = "openmanus-rl-demo-policy"


@dataclass(frozen=True)
class Decision:
    """The commands that were at hand, how likely each was, and which was chosen."""

    commands: list[str]
    feature_names: list[list[str]]
    features: list[list[int]]
    probabilities: list[float]
    chosen: int

    @property
    def command(self) -> str:
        """The command that was chosen."""
        return self.commands[self.chosen]

    @property
    def logprob(self) -> float:
        """How likely the policy was to choose it."""
        return math.log(self.probabilities[self.chosen])

    @property
    def entropy(self) -> float:
        """How undecided the policy was."""
        return -sum(p * math.log(p) for p in self.probabilities if p > 0)


class Policy:
    """Weights, one a feature; `version` counts the updates they have had."""

    def __init__(self, weights: list[float] | None = None, *, version: int = 0) -> None:
        self.weights = weights if weights is not None else [0.0] * FEATURE_COUNT
        self.version = version

    def probabilities(self, features: list[list[int]]) -> list[float]:
        """Return how likely each command is, given the features of each."""
        weights = self.weights
        logits = [sum([weights[i] for i in active]) for active in features]
        highest = max(logits)
        exponentials = [math.exp(logit - highest) for logit in logits]
        total = sum(exponentials)
        return [e / total for e in exponentials]

    def decide(self, commands: list[str], memory: Memory, rng: random.Random) -> Decision:
        """Draw one of the commands."""
        names = [describe_command(command, memory) for command in commands]
        features = [[feature_index(name) for name in active] for active in names]
        probabilities = self.probabilities(features)
        chosen = rng.choices(range(len(commands)), weights=probabilities)[0]
        return Decision(commands, names, features, probabilities, chosen)

    def explain(self, decision: Decision, *, reason_count: int = 2) -> str:
        """Say what spoke for the chosen command: the features that weigh most, and the runner-up."""
        names = decision.feature_names[decision.chosen]
        reasons = sorted(names, key=lambda name: -abs(self.weights[feature_index(name)]))[:reason_count]
        weighed = ", ".join(f"{name} ({self.weights[feature_index(name)]:+.2f})" for name in reasons)
        others = [i for i in range(len(decision.commands)) if i != decision.chosen]
        best = max(others, key=decision.probabilities.__getitem__)
        return (
            f"{decision.command} ({decision.probabilities[decision.chosen]:.0%}) because {weighed}; "
            f"otherwise {decision.commands[best]} ({decision.probabilities[best]:.0%})."
        )

    def save(self, path: Path) -> None:
        """Write the weights as JSON."""
        content = {"format": _FORMAT, "version": self.version, "weights": self.weights}
        path.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read weights that `save` wrote; anything else is a `ValueError`."""
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError(f"{path}: not a policy of the demo")
        weights = content.get("weights")
        if not isinstance(weights, list) or len(weights) != FEATURE_COUNT:
            raise ValueError(f"{path}: {FEATURE_COUNT} weights expected")
        return cls([float(w) for w in weights], version=int(content["version"]))
