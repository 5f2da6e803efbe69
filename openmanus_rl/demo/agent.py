"""The demo's agent: it remembers what it read, and chooses a command by a softmax over text features."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from openmanus_rl.demo.house import KEYS

MODEL = "linear-softmax"
END_TOKEN = 0

_ROUTE = re.compile(r"The (.+) is in the \w+\. Route: (.+)\.")


class Memory:
    """What the agent knows of one episode, all of it from the text it read."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.observation = ""
        self.room = ""
        self.key_needed: str | None = None
        self.sought: str | None = None
        self.route: list[str] = []
        self.tried: Counter[tuple[str, str]] = Counter()

    def read(self, observation: str) -> None:
        """Take in what is seen now."""
        self.observation = observation
        self.room = observation.removeprefix("You are in the ").partition(".")[0]

    def note(self, command: str, answer: str) -> None:
        """Take in the answer to a command."""
        verb, _, argument = command.partition(" ")
        self.tried[self.room, command] += 1
        if found := _ROUTE.search(answer):
            self.sought = found[1]
            self.route = [] if found[2].startswith("none") else found[2].split(", ")
        if " takes the " in answer:
            self.key_needed = answer.rpartition(" takes the ")[2].rstrip(".")
        if verb == "go" and self.route[:1] == [argument]:
            self.route.pop(0)
        elif verb == "go" or (verb == "take" and argument == self.sought):
            # Off the route, or the thing is taken: the route no longer helps.
            self.route, self.sought = [], None

    def situation(self) -> str:
        """Return what the agent is after, and whether it lacks a key."""
        goal = "seeking"
        if self.sought:
            what = "target" if self.sought == self.target else "key"
            goal = f"on the way to the {what}" if self.route else f"where the {what} is"
        carried = self.observation.rpartition("You carry ")[2]
        lock = "no lock" if not self.key_needed else "key held" if self.key_needed in carried else "key missing"
        return f"{goal}, {lock}"

    def summary(self) -> str:
        """Return in a sentence what is remembered."""
        rooms = ", ".join(dict.fromkeys(room for room, _ in self.tried)) or "nothing"
        return f"Tried: {rooms}. Now: {self.situation()}; route: {', '.join(self.route) or 'none'}."


def features_of(command: str, memory: Memory) -> list[str]:
    """Return the features of a command: what it is about, how often it was tried here, and the situation."""
    verb, _, argument = command.partition(" ")
    about = _about(verb, argument, memory)
    tried = f"tried {min(memory.tried[memory.room, command], 2)}x"
    situation = memory.situation()
    in_sight = "target in sight" if memory.target in memory.observation else "target not in sight"
    features = [about, tried, f"{about}, {tried}", f"{about}, {situation}", f"{situation}, {in_sight}"]
    return [f"{verb}: {feature}" for feature in features]


def _about(verb: str, argument: str, memory: Memory) -> str:
    """Return what a command is about, in words that fit any house."""
    if verb == "go":
        return "no route" if not memory.route else "on the route" if memory.route[0] == argument else "off the route"
    if verb == "look":
        return "unseen things" if "Something lies" in memory.observation else "nothing unseen"
    if verb in ("inspect", "open"):
        return next(state for state in ("closed", "locked", "open") if f"{state} {argument}" in memory.observation)
    if argument == memory.target:
        return "the target"
    if argument in KEYS:
        return "the needed key" if argument == memory.key_needed else "some key"
    return "something else"


@dataclass(frozen=True)
class Decision:
    """The possible commands, the features and the probability of each, and which was chosen."""

    commands: list[str]
    features: list[list[str]]
    probabilities: list[float]
    chosen: int

    @property
    def command(self) -> str:
        """The command that was chosen."""
        return self.commands[self.chosen]


class Policy:
    """A weight for each feature that was met in training; `version` counts the updates."""

    def __init__(self, weights: dict[str, float] | None = None, *, version: int = 0) -> None:
        self.weights = weights or {}
        self.version = version

    def probabilities(self, features: list[list[str]]) -> list[float]:
        """Return the probability of each command, given the features of each."""
        logits = [sum([self.weights.get(name, 0.0) for name in names]) for names in features]
        highest = max(logits)
        exponentials = [math.exp(logit - highest) for logit in logits]
        total = sum(exponentials)
        return [exponential / total for exponential in exponentials]

    def decide(self, commands: list[str], memory: Memory, rng: random.Random) -> Decision:
        """Draw one of the commands."""
        features = [features_of(command, memory) for command in commands]
        probabilities = self.probabilities(features)
        return Decision(commands, features, probabilities, rng.choices(range(len(commands)), probabilities)[0])

    def explain(self, decision: Decision) -> str:
        """Return the reasons for a decision: the features with the largest weights."""
        weights = {name: self.weights.get(name, 0.0) for name in decision.features[decision.chosen]}
        reasons = sorted(weights, key=lambda name: -abs(weights[name]))[:2]
        told = ", ".join(f"{name} ({weights[name]:+.2f})" for name in reasons)
        return f"{decision.command} ({decision.probabilities[decision.chosen]:.0%}) because {told}."

    def save(self, path: Path) -> None:
        """Write the weights to a JSON file."""
        path.write_text(json.dumps({"model": MODEL, "version": self.version, "weights": self.weights}))

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a file that `save` wrote; any other content is a `ValueError`."""
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or content.get("model") != MODEL or not isinstance(content["weights"], dict):
            raise ValueError(f"{path}: not a policy of the demo")
        return cls(content["weights"], version=content["version"])


def encode(text: str) -> list[int]:
    """Return the tokens of a text: a hash of each word and punctuation mark."""
    return [crc32(word.encode()) % 32749 + 1 for word in re.findall(r"\w+|[^\w\s]", text.lower())]


def completion_tokens(decision: Decision) -> tuple[list[int], list[float]]:
    """Return the chosen command's tokens and the log probability of each, given those before it.

    The probability of a token is that of all commands which go on with it, among those which began alike. The sum of
    the log probabilities is that of the command.
    """
    pairs = zip(decision.commands, decision.probabilities, strict=True)
    candidates = [([*encode(command), END_TOKEN], probability) for command, probability in pairs]
    tokens, logprobs, before = candidates[decision.chosen][0], [], 1.0
    for position, token in enumerate(tokens):
        candidates = [(other, p) for other, p in candidates if other[position : position + 1] == [token]]
        after = sum(probability for _, probability in candidates)
        # Rounding may bring the ratio slightly above one.
        logprobs.append(min(math.log(after / before), 0.0))
        before = after
    return tokens, logprobs
