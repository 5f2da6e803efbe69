"""What the demo's agent is asked: fetch something in a house it has never seen."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

__all__ = ["ENVIRONMENT", "Hiding", "HouseTask", "held_out_tasks", "training_tasks"]

ENVIRONMENT = "demo-house"

Split = Literal["train", "test"]
Hiding = Literal["container", "floor", "locked"]

COLOURS = ("red", "blue", "green", "yellow", "white", "purple")
NOUNS = ("ball", "book", "mug", "lamp", "scarf", "vase")
# Half the tasks are plain; a thing on the floor is on no map, and a locked container wants its key first.
_HIDINGS: tuple[Hiding, ...] = ("container", "floor", "container", "locked")
# Never asked for in training: whoever finds these has learned how to search, not what to grab.
_HELD_OUT_NOUNS = ("lamp", "vase")


@dataclass(frozen=True)
class HouseTask:
    """One thing to fetch in one house; the seed builds the house."""

    number: int
    split: Split
    target: str
    hiding: Hiding
    seed: int

    @property
    def external_id(self) -> str:
        """The name that stays the same between runs, so that importing again updates."""
        return f"{self.split}-{self.seed}-{self.number:03d}"

    @property
    def description(self) -> str:
        """What the agent is told."""
        return f"Find the {self.target} and take it."


def training_tasks(seed: int, *, count: int = 64) -> list[HouseTask]:
    """Return the houses to learn in."""
    nouns = [noun for noun in NOUNS if noun not in _HELD_OUT_NOUNS]
    return _tasks(seed, "train", nouns, count)


def held_out_tasks(seed: int, *, count: int = 32) -> list[HouseTask]:
    """Return the houses to be examined in: other houses and other things than in training."""
    return _tasks(seed, "test", list(_HELD_OUT_NOUNS), count)


def _tasks(seed: int, split: Split, nouns: list[str], count: int) -> list[HouseTask]:
    choose = random.Random(f"tasks:{split}:{seed}")
    return [
        HouseTask(
            number=number,
            split=split,
            target=f"{choose.choice(COLOURS)} {choose.choice(nouns)}",
            hiding=_HIDINGS[number % len(_HIDINGS)],
            seed=seed,
        )
        for number in range(count)
    ]
