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
_STATE = re.compile(r"There is an? (closed|locked|open) (\w+)")


class Memory:
    """What the agent knows of one episode, all of it from the text it read."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.observation = ""
        self.room = ""
        self.rooms_seen: list[str] = []
        self.container_states: dict[str, str] = {}
        self.keys_held: list[str] = []
        self.key_needed: str | None = None
        self.sought: str | None = None
        self.route: list[str] = []
        self.tried: Counter[tuple[str, str]] = Counter()

    def read(self, observation: str) -> None:
        """Take in what is seen now."""
        self.observation = observation
        self.room = observation.removeprefix("You are in the ").partition(".")[0]
        if self.room not in self.rooms_seen:
            self.rooms_seen.append(self.room)
        carried = observation.rpartition("You carry ")[2].rstrip(".")
        self.keys_held = [] if carried == "nothing" else carried.split(", ")
        self.container_states = {name: state for state, name in _STATE.findall(observation)}

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
            # Off the route, or the thing is taken: what was heard no longer helps.
            self.route, self.sought = [], None

    def summary(self) -> str:
        """Return in a sentence or two what is remembered."""
        parts = [f"Seen: {', '.join(self.rooms_seen)}."]
        if self.sought:
            parts.append(f"Route to the {self.sought}: {', '.join(self.route) or 'arrived'}.")
        if self.key_needed:
            held = "have it" if self.key_needed in self.keys_held else "don't have it"
            parts.append(f"Need the {self.key_needed}, {held}.")
        return " ".join(parts)


def features_of(command: str, memory: Memory) -> list[str]:
    """Return the features of a command in the present situation."""
    verb, _, argument = command.partition(" ")
    situation = _situation(memory)
    tried = min(memory.tried[memory.room, command], 2)
    in_sight = "target in sight" if memory.target in memory.observation else "target not in sight"
    features = [f"{situation}, {in_sight}", f"tried {tried}x"]
    if verb == "go":
        way = "no route" if not memory.route else "on the route" if memory.route[0] == argument else "off the route"
        features += [way, f"{way}, {situation}", f"{way}, tried {tried}x", f"door {argument}"]
    elif verb == "take":
        likeness = _likeness(argument, memory)
        features += [likeness, f"{likeness}, {situation}"]
    elif verb == "search_map":
        what = "target" if argument == memory.target else "key"
        features += [f"{what} {tried}x", f"{what}, {situation}"]
    elif verb == "look":
        floor = "unseen things" if "Something lies" in memory.observation else "nothing unseen"
        features += [floor, f"{floor}, {situation}"]
    else:
        name, _, key = argument.partition(" with ")
        state = memory.container_states[name]
        features += [state, f"{state} {tried}x", f"{state}, {situation}", f"thing {name}"]
        if key:
            features.append("needed key" if key == memory.key_needed else "other key")
    return [f"{verb}: {feature}" for feature in features]


def _situation(memory: Memory) -> str:
    """Return what the agent is after and whether it lacks a key."""
    what = "target" if memory.sought == memory.target else "key"
    goal = f"on the way to the {what}" if memory.route else f"where the {what} is"
    has_key = "key held" if memory.key_needed in memory.keys_held else "key missing"
    return f"{goal if memory.sought else 'seeking'}, {has_key if memory.key_needed else 'no lock'}"


def _likeness(item: str, memory: Memory) -> str:
    if item == memory.target:
        return "the target"
    if item in KEYS:
        return "the needed key" if item == memory.key_needed else "some key"
    return "like the target" if set(item.split()) & set(memory.target.split()) else "unlike the target"


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
        """Return the reasons for a decision: the features with the largest weights, and the runner-up."""
        weights = {name: self.weights.get(name, 0.0) for name in decision.features[decision.chosen]}
        reasons = sorted(weights, key=lambda name: -abs(weights[name]))[:2]
        ranked = sorted(zip(decision.probabilities, decision.commands, strict=True), reverse=True)
        probability, other = next(pair for pair in ranked if pair[1] != decision.command)
        return (
            f"{decision.command} ({decision.probabilities[decision.chosen]:.0%}) because "
            f"{', '.join(f'{name} ({weights[name]:+.2f})' for name in reasons)}; otherwise {other} ({probability:.0%})."
        )

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
