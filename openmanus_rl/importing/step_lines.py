"""The JSONL of OpenManus-RL's rollout scripts: one step per line, with the lines of many episodes interleaved.

An episode is identified by `batch_idx`, `test_idx`, `attempt_idx` or `retry_idx`, and `env_id`. It ends with the line
that has `done`; without one, or if its steps start over because a script appended to an existing file, it is truncated.
Only a few numbers of an open episode are kept in memory; its turns are written as they are read.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import orjson

from openmanus_rl.errors import InvalidInput
from openmanus_rl.importing.answers import split_action
from openmanus_rl.importing.fields import read_flag, read_number, read_text, read_whole_number
from openmanus_rl.importing.identity import Naming, digest_of
from openmanus_rl.importing.lines import Line, LineError
from openmanus_rl.importing.writing import BatchWriter
from openmanus_rl.records.ids import creation_change_id

__all__ = ["StepLines"]

_KEY = ("batch_idx", "test_idx", "attempt_idx", "retry_idx", "env_id")
_REQUIRED = ("env_id", "step", "action")
# Fields that are the same in every line of an episode.
_OF_EPISODE = (*_KEY, "gamefile", "pid", "provider", "temperature")
# Fields that are columns of turns.
_OF_TURN = ("step", "prompt", "action", "reward")
_ENVIRONMENTS = ("environment", "env_type", "env_name")
# Fields that only one environment has: the rollout script does not record the environment itself.
_SIGNS = {"gamefile": "alfworld", "task_score": "webshop", "pid": "gaia"}
_TASKS = (re.compile(r"Your task is to:[ \t]*(\S.*)"), re.compile(r"^Task:[ \t]*(\S.*?)\s*(?:\n\s*\n|\Z)", re.M | re.S))
_TASK_WITHIN = 20_000
_MOST_OPEN_EPISODES = 100_000


@dataclass
class _Episode:
    rollout_id: UUID
    said: dict[str, Any]
    """Fields that are stored with the rollout, and not repeated in its turns."""
    last_step: int = -1
    last_line: int = 0
    turns: int = 0
    total_reward: float | None = None
    won: bool | None = None
    done: bool = False

    def status(self) -> str:
        """Return how the episode ended, according to its lines."""
        if self.won:
            return "success"
        if not self.done:
            return "truncated"
        return "completed" if self.won is None else "failed"


class StepLines:
    """Converts steps to rollouts."""

    name = "openmanus-rl"

    def __init__(
        self, writer: BatchWriter, *, run_id: str, naming: Naming, file_number: int, environment: str | None
    ) -> None:
        self.environments: set[str] = set()
        self._writer = writer
        self._run_id = run_id
        self._naming = naming
        self._file_number = file_number
        self._environment = environment
        self._file_digest = b""
        self._open: OrderedDict[bytes, _Episode] = OrderedDict()
        self._episodes = 0

    @staticmethod
    def recognises(value: dict[str, Any]) -> bool:
        """Return whether a line looks like a step."""
        return all(name in value for name in _REQUIRED)

    def add(self, line: Line) -> None:
        """Add a line; raise a `LineError` with the reason if it is invalid."""
        # Files of the same tasks number their episodes alike: the first line distinguishes the files.
        self._file_digest = self._file_digest or digest_of(line.text)
        step, turn = _turn_of(line.value)
        done, won = read_flag(line.value.get("done"), "done"), read_flag(line.value.get("won"), "won")
        key = orjson.dumps([line.value.get(name) for name in _KEY])
        episode = self._open.get(key)
        if episode is not None and step <= episode.last_step:
            self._end(key)
            episode = None
        episode = episode or self._begin(key, line)
        self._open.move_to_end(key)
        episode.last_step, episode.last_line = step, line.number
        episode.won, episode.done = won, bool(done)
        self._write_turn(episode, turn, line)
        if episode.done:
            self._end(key)

    def finish(self) -> None:
        """End the episodes that have no last line."""
        for key in list(self._open):
            self._end(key)

    def _begin(self, key: bytes, line: Line) -> _Episode:
        model = read_text(line.value.get("model"), "model")
        environment = self._environment or _environment_of(line.value)
        if environment is None:
            raise InvalidInput(
                f"line {line.number} does not say in which environment it was played",
                field="environment",
                hint="say it with --environment",
            )
        rollout_id = self._naming.rollout_id(
            digest_of(self._file_digest, key), file_number=self._file_number, line_number=line.number
        )
        facts = {name: line.value[name] for name in _OF_EPISODE if line.value.get(name) is not None}
        episode = _Episode(rollout_id, {**facts, "model": model, **dict.fromkeys(_ENVIRONMENTS, environment)})
        record = {
            "id": str(rollout_id),
            "training_run_id": self._run_id,
            "source": "import",
            "environment": environment,
            "episode_number": self._episodes,
            "task_description": _task_of(line.value),
            "model": model,
            "metadata": facts,
            # Until its last line is read: the import may be interrupted before.
            "status": "interrupted",
            "status_change_id": creation_change_id(rollout_id),
        }
        self._writer.add("rollouts", record, line_number=line.number)
        self.environments.add(environment)
        self._episodes += 1
        self._open[key] = episode
        if len(self._open) > _MOST_OPEN_EPISODES:
            self._end(next(iter(self._open)))
        return episode

    def _write_turn(self, episode: _Episode, turn: dict[str, Any], line: Line) -> None:
        # The id depends on the content, so that a different line for the same step is refused, not ignored.
        turn_id = uuid5(episode.rollout_id, f"turn:{turn['step_number']}:{digest_of(line.text).hex()}")
        info = {
            name: value
            for name, value in line.value.items()
            if name not in _OF_TURN and not (name in episode.said and episode.said[name] == value)
        }
        if info.get("observation") == turn["observation"]:
            info.pop("observation", None)
        record = {"id": str(turn_id), "rollout_id": str(episode.rollout_id), **turn, "info": info or None}
        self._writer.add("agent_states", record, line_number=line.number)
        episode.turns += 1
        reward = read_number(line.value.get("reward"), "reward")
        if reward is not None:
            episode.total_reward = (episode.total_reward or 0.0) + float(reward)
            given = {
                "id": str(uuid5(turn_id, "reward")),
                "rollout_id": str(episode.rollout_id),
                "step_number": turn["step_number"],
                "reward_type": "step",
                "reward": reward,
            }
            self._writer.add("rewards", given, line_number=line.number)

    def _end(self, key: bytes) -> None:
        episode = self._open.pop(key)
        status = episode.status()
        # As text: JSON has no NaN, and Postgres reads what Python writes.
        total_reward = None if episode.total_reward is None else repr(episode.total_reward)
        # Derived from the result: the same result is the same change, and that of a grown file is a new one.
        change_id = uuid5(episode.rollout_id, f"ended:{status}:{episode.turns}:{total_reward}")
        record = {
            "id": str(episode.rollout_id),
            "status": status,
            "status_change_id": str(change_id),
            "total_reward": total_reward,
            "step_count": episode.turns,
        }
        self._writer.add("rollouts", record, line_number=episode.last_line, counted=False)


def _turn_of(value: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    missing = [name for name in _REQUIRED if name not in value]
    if missing:
        raise LineError(f"{', '.join(missing)}: missing; a step has {', '.join(_REQUIRED)}")
    step = read_whole_number(value["step"], "step")
    prompt = read_text(value.get("prompt"), "prompt")
    observed = read_text(value.get("observation"), "observation")
    said = read_text(value["action"], "action")
    read_number(value.get("reward"), "reward")
    thought, action = split_action(said) if said is not None else (None, None)
    turn = {
        "step_number": step,
        "observation": observed if prompt is None else prompt,
        "thought": thought,
        "action": action,
        "model_response": said if action != said else None,
    }
    return step, turn


def _environment_of(value: dict[str, Any]) -> str | None:
    for name in _ENVIRONMENTS:
        if said := read_text(value.get(name), name):
            return said
    return next((environment for name, environment in _SIGNS.items() if value.get(name) is not None), None)


def _task_of(value: dict[str, Any]) -> str | None:
    """Return the task from the prompt, as these environments write it."""
    prompt = (value.get("prompt") or "")[:_TASK_WITHIN]
    return next((found[1].strip() for pattern in _TASKS if (found := pattern.search(prompt))), None)
