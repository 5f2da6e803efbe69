"""The data that every writer gets alike: rows of metrics, rollouts of turns, and chats that grow."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

SCALARS = 20
TURNS = 20
# Of a turn: with these a rollout of 20 turns is about 36 KB of JSON, or 200 KB with long observations.
OBSERVATION_CHARACTERS = 900
LONG_OBSERVATION_CHARACTERS = 9_400
LARGEST_OBSERVATION_CHARACTERS = 5_000_000
# Powers of ten: from 100 B on, and up to the largest.
_SMALL, _LARGE = (2.0, 4.3), (4.3, 6.7)

Rollout = dict[str, Any]

_words = ["".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=7)) for seed in range(2000)]
# With these frequencies it compresses like dense technical prose. Code, HTML and JSON, which agents read as well,
# compress better.
_prose_weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(len(_words))))


def text(size: int, chance: random.Random, *, prose: bool = False) -> str:
    """Return about `size` characters of words, equally frequent (it hardly compresses) or as frequent as in prose."""
    weights = _prose_weights if prose else None
    return " ".join(chance.choices(_words, cum_weights=weights, k=max(1, size // 8)))


def make_metric_rows(count: int, *, seed: int = 0) -> Iterator[dict[str, float]]:
    """Yield rows of 20 scalars, as a training loop logs them."""
    chance = random.Random(seed)
    names = [f"{part}/{name}" for part in ("actor", "critic", "reward", "timing") for name in "abcde"]
    for _ in range(count):
        yield {name: chance.gauss(0, 1) for name in names}


def make_rollouts(
    count: int,
    *,
    turns: int = TURNS,
    observation_characters: int = OBSERVATION_CHARACTERS,
    prose: bool = False,
    seed: int = 0,
) -> Iterator[Rollout]:
    """Yield rollouts whose turns are the arguments of `log_turn`: each with a tool call and a reward."""
    chance = random.Random(seed)
    for _ in range(count):
        yield _make_rollout(chance, [observation_characters] * turns, prose=prose)


def make_mixed_rollouts(count: int, *, seed: int = 0) -> Iterator[Rollout]:
    """Yield rollouts of one turn with observations of 100 B to 5 MB, most of them below 20 KB; the first has 5 MB."""
    chance = random.Random(seed)
    yield _make_rollout(chance, [LARGEST_OBSERVATION_CHARACTERS])
    for number in range(1, count):
        yield _make_rollout(chance, [int(10 ** chance.uniform(*(_LARGE if number % 7 == 0 else _SMALL)))])


def make_chats(count: int, *, turns: int, seed: int = 0) -> Iterator[Rollout]:
    """Yield rollouts each of whose turns carries the whole conversation so far, as an agent sees it."""
    chance = random.Random(seed)
    for _ in range(count):
        messages = [{"role": "system", "content": text(400, chance)}]
        states = []
        for _ in range(turns):
            said = (("user", OBSERVATION_CHARACTERS), ("assistant", 400))
            messages = messages + [{"role": role, "content": text(size, chance)} for role, size in said]
            states.append({"messages": messages, "reward": 1.0})
        yield {"task_description": "", "turns": states}


def _make_rollout(chance: random.Random, sizes: list[int], *, prose: bool = False) -> Rollout:
    return {"task_description": text(80, chance), "turns": [_make_turn(chance, size, prose) for size in sizes]}


def _make_turn(chance: random.Random, observation_characters: int, prose: bool) -> dict[str, Any]:
    call = {
        "tool_name": "search",
        "tool_input": {"query": text(40, chance)},
        "tool_output": text(200, chance),
        "success": True,
        "execution_time_ms": 12.5,
    }
    return {
        "observation": text(observation_characters, chance, prose=prose),
        "action": text(160, chance),
        "thought": text(240, chance),
        "reward": chance.random(),
        "tool_calls": [call],
    }
