"""Chat transcripts, with one conversation per line.

The conversation is `messages` (role, content), `conversations` (from, value), or a `prompt` and its `completion`. A
rollout also takes `reward` or `score`, `success`, `won` or `passed`, `status`, `task`, `environment` and `model` from
the line, or else from its `metadata`; all other fields of the line become metadata.
"""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID, uuid5

from openmanus_rl.importing.chat_turns import ChatTurn, Message, read_messages, split_turns
from openmanus_rl.importing.fields import read_flag, read_number
from openmanus_rl.importing.identity import Naming, digest_of
from openmanus_rl.importing.lines import Line, LineError
from openmanus_rl.importing.writing import BatchWriter
from openmanus_rl.records.ids import creation_change_id
from openmanus_rl.records.statuses import RolloutStatus

__all__ = ["ChatLines"]

_CHATS = ("messages", "conversations", "conversation")
_COMPLETIONS = ("completion", "response")
_REWARDS = ("reward", "total_reward", "score")
_SUCCESSES = ("success", "won", "passed")
_TASKS = ("task_description", "task", "question", "prompt", "instruction")
_NOT_ENDED = ("pending", "running")
_NO_ENVIRONMENT = "chat"


class ChatLines:
    """Converts conversations to rollouts."""

    name = "chat"

    def __init__(
        self, writer: BatchWriter, *, run_id: str, naming: Naming, file_number: int, environment: str | None
    ) -> None:
        self.environments: set[str] = set()
        self._writer = writer
        self._run_id = run_id
        self._naming = naming
        self._file_number = file_number
        self._environment = environment
        self._conversations = 0

    @staticmethod
    def recognises(value: dict[str, Any]) -> bool:
        """Return whether a line looks like a conversation."""
        paired = "prompt" in value and any(name in value for name in _COMPLETIONS)
        return paired or any(name in value for name in _CHATS)

    def add(self, line: Line) -> None:
        """Add a line; raise a `LineError` with the reason if it is invalid."""
        said = dict(line.value)
        name, messages = _take_messages(said)
        turns = split_turns(messages, name)
        rollout = self._rollout(said, turns)
        # Only after the whole line was read: an invalid line writes nothing.
        digest = digest_of(line.text)
        rollout_id = self._naming.rollout_id(digest, file_number=self._file_number, line_number=line.number)
        made = {"id": str(rollout_id), "status_change_id": creation_change_id(rollout_id), **rollout}
        self._writer.add("rollouts", made, line_number=line.number)
        for number, turn in enumerate(turns):
            self._write_turn(rollout_id, number, turn, line.number)
        self.environments.add(rollout["environment"])
        self._conversations += 1

    def finish(self) -> None:
        """Do nothing: a conversation ends with its line."""

    def _rollout(self, said: dict[str, Any], turns: list[ChatTurn]) -> dict[str, Any]:
        given = said.get("metadata")
        further = given if isinstance(given, dict) else {}
        environment = _take_text(said, ("environment",), further)
        reward_name, reward = _take(said, _REWARDS)
        rollout = {
            "training_run_id": self._run_id,
            "source": "import",
            "environment": self._environment or environment or _NO_ENVIRONMENT,
            "episode_number": self._conversations,
            "status": _take_status(said, further),
            "task_description": _take_text(said, _TASKS, further),
            "model": _take_text(said, ("model",), further),
            "total_reward": read_number(reward, reward_name),
            "step_count": sum(turn.messages[-1]["role"] == "assistant" for turn in turns),
        }
        if environment and environment != rollout["environment"]:
            said["environment"] = environment
        rollout["metadata"] = _metadata(said)
        return rollout

    def _write_turn(self, rollout_id: UUID, number: int, turn: ChatTurn, line_number: int) -> None:
        turn_id = uuid5(rollout_id, f"turn:{number}")
        record = {
            "id": str(turn_id),
            "rollout_id": str(rollout_id),
            "step_number": number,
            "observation": turn.observation,
            "thought": turn.thought,
            "action": turn.action,
            "messages": turn.messages,
            "messages_from": turn.messages_from,
        }
        self._writer.add("agent_states", record, line_number=line_number)
        for position, call in enumerate(turn.tool_calls):
            given = {
                "id": str(uuid5(turn_id, f"tool_calls:{position}")),
                "agent_state_id": str(turn_id),
                "position": position,
                **call,
            }
            self._writer.add("tool_calls", given, line_number=line_number)


def _take_messages(said: dict[str, Any]) -> tuple[str, list[Message]]:
    """Remove the conversation from the fields of a line; return its field name and messages."""
    for name in _CHATS:
        if said.get(name) is not None:
            return name, read_messages(said.pop(name), name)
    for name in _COMPLETIONS:
        if "prompt" in said and said.get(name) is not None:
            asked, answered = said.pop("prompt"), said.pop(name)
            return name, _as_messages(asked, "prompt", "user") + _as_messages(answered, name, "assistant")
    raise LineError("there is no conversation in it: neither messages, nor conversations, nor prompt and completion")


def _as_messages(given: Any, name: str, role: str) -> list[Message]:
    return [{"role": role, "content": given}] if isinstance(given, str) else read_messages(given, name)


def _take(said: dict[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    """Remove and return the first of these fields that is not null, with its name."""
    name = next((name for name in names if said.get(name) is not None), names[0])
    return name, said.pop(name, None)


def _take_text(said: dict[str, Any], names: tuple[str, ...], further: dict[str, Any]) -> str | None:
    """Remove and return the first of these fields that is text, else look in the metadata; other types are left."""
    for name in names:
        if isinstance(said.get(name), str) and said[name]:
            return str(said.pop(name))
    return next((found for name in names if isinstance(found := further.get(name), str) and found), None)


def _take_status(said: dict[str, Any], further: dict[str, Any]) -> str:
    name, flag = _take(said, _SUCCESSES)
    success = read_flag(flag, name)
    if success is None:
        success = next((found for name in _SUCCESSES if isinstance(found := further.get(name), bool)), None)
    status = said.get("status")
    if success is not None:
        verdict = "success" if success else "failed"
        if status == verdict:
            del said["status"]
        return verdict
    if status in get_args(RolloutStatus):
        del said["status"]
        return "interrupted" if status in _NOT_ENDED else str(status)
    return "completed"


def _metadata(said: dict[str, Any]) -> dict[str, Any]:
    """Return the line's metadata together with all remaining fields."""
    rest = {name: value for name, value in said.items() if name != "metadata" and value is not None}
    given = said.get("metadata")
    if isinstance(given, dict) and not given.keys() & rest.keys():
        return {**given, **rest}
    return rest if given is None else {**rest, "metadata": given}
