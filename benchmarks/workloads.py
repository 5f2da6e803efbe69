"""The data that every writer gets alike: rows of metrics, rollouts of turns, and chats that grow."""

from __future__ import annotations

import itertools
import random
from typing import Any

from openmanus_rl.records.ids import new_id

SCALARS = 20
TURNS = 20
# Of a turn: these make a rollout of 20 turns about 36 KB of JSON, and one of 200 KB where observations are long.
OBSERVATION_CHARACTERS = 900
LONG_OBSERVATION_CHARACTERS = 9_400

LARGEST_OBSERVATION_CHARACTERS = 5_000_000
# Powers of ten: from 100 B on, and up to the largest.
_SMALL, _LARGE = (2.0, 4.3), (4.3, 6.7)

Rollout = dict[str, Any]
Batch = dict[str, list[dict[str, Any]]]
Messages = list[dict[str, str]]

_words = ["".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=7)) for seed in range(2000)]


# Some words are more frequent than others, so far that it compresses like dense technical prose, the worst of what
# agents read: code, HTML and JSON compress better.
_prose_weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(len(_words))))


def text(size: int, chance: random.Random, *, prose: bool = False) -> str:
    """Return about `size` characters of words, all as frequent, which hardly compress, or as frequent as in prose."""
    weights = _prose_weights if prose else None
    return " ".join(chance.choices(_words, cum_weights=weights, k=max(1, size // 8)))


def make_metric_rows(count: int, *, seed: int = 0) -> list[dict[str, float]]:
    """Return rows of 20 scalars, as a training loop logs them."""
    chance = random.Random(seed)
    names = [f"{part}/{name}" for part in ("actor", "critic", "reward", "timing") for name in "abcde"]
    return [{name: chance.gauss(0, 1) for name in names[:SCALARS]} for _ in range(count)]


def make_rollouts(
    count: int,
    *,
    turns: int = TURNS,
    observation_characters: int = OBSERVATION_CHARACTERS,
    prose: bool = False,
    seed: int = 0,
) -> list[Rollout]:
    """Return rollouts whose turns are the arguments of `log_turn`: each with a tool call and a reward."""
    chance = random.Random(seed)
    return [
        {
            "task_description": text(80, chance),
            "turns": [_make_turn(chance, observation_characters, prose) for _ in range(turns)],
        }
        for _ in range(count)
    ]


def make_mixed_rollouts(count: int, *, seed: int = 0) -> list[Rollout]:
    """Return rollouts of one turn whose observations have 100 B to 5 MB, most of them below 20 KB; one has 5 MB."""
    chance = random.Random(seed)
    sizes = [int(10 ** chance.uniform(*(_LARGE if number % 7 == 0 else _SMALL))) for number in range(count)]
    sizes[0] = LARGEST_OBSERVATION_CHARACTERS
    return [{"task_description": text(80, chance), "turns": [_make_turn(chance, size, prose=False)]} for size in sizes]


def _make_turn(chance: random.Random, observation_characters: int, prose: bool) -> dict[str, Any]:
    return {
        "observation": text(observation_characters, chance, prose=prose),
        "action": text(160, chance),
        "thought": text(240, chance),
        "reward": chance.random(),
        "tool_calls": [
            {
                "tool_name": "search",
                "tool_input": {"query": text(40, chance)},
                "tool_output": text(200, chance),
                "success": True,
                "execution_time_ms": 12.5,
            }
        ],
    }


def make_chats(count: int, *, turns: int, seed: int = 0) -> list[list[Messages]]:
    """Return chats as an agent sees them: for each turn the whole conversation so far."""
    chance = random.Random(seed)
    return [_make_chat(chance, turns) for _ in range(count)]


def _make_chat(chance: random.Random, turns: int) -> list[Messages]:
    said: Messages = [{"role": "system", "content": text(400, chance)}]
    states = []
    for _ in range(turns):
        said = [
            *said,
            {"role": "user", "content": text(OBSERVATION_CHARACTERS, chance)},
            {"role": "assistant", "content": text(400, chance)},
        ]
        states.append(said)
    return states


def make_batch(run_id: str, *, rollouts: int, turns: int, seed: int = 0) -> Batch:
    """Return rollouts of about 36 KB for 20 turns as records for `ingest`."""
    return as_batch(run_id, make_rollouts(rollouts, turns=turns, seed=seed))


def as_batch(run_id: str, rollouts: list[Rollout]) -> Batch:
    """Return finished rollouts as records for `ingest`."""
    batch: Batch = {"rollouts": [], "agent_states": []}
    for episode, rollout in enumerate(rollouts):
        rollout_id = new_id()
        batch["rollouts"].append({
            "id": rollout_id, "training_run_id": run_id, "environment": "bench", "episode_number": episode,
            "task_description": rollout["task_description"], "status": "success",
            "total_reward": sum(turn["reward"] for turn in rollout["turns"]), "step_count": len(rollout["turns"]),
        })  # fmt: skip
        batch["agent_states"] += [
            {
                "id": new_id(), "rollout_id": rollout_id, "step_number": number,
                **{name: turn[name] for name in ("observation", "action", "thought")},
                "tool_calls": [{"id": new_id(), **call} for call in turn["tool_calls"]],
                "rewards": [{"id": new_id(), "reward": turn["reward"]}],
            }
            for number, turn in enumerate(rollout["turns"])
        ]  # fmt: skip
    return batch


def flatten(batch: Batch) -> Batch:
    """Take the tool calls and rewards out of the turns: the rows as they lie in the tables."""
    rows: Batch = {"rollouts": batch["rollouts"], "agent_states": [], "tool_calls": [], "rewards": []}
    run_id = batch["rollouts"][0]["training_run_id"]
    for turn in batch["agent_states"]:
        parent = {"training_run_id": run_id}
        rows["agent_states"].append({k: v for k, v in turn.items() if not isinstance(v, list)} | parent)
        rows["tool_calls"] += [{**call, "agent_state_id": turn["id"], **parent} for call in turn["tool_calls"]]
        rows["rewards"] += [
            {**reward, "rollout_id": turn["rollout_id"], "step_number": turn["step_number"], **parent}
            for reward in turn["rewards"]
        ]
    return rows
