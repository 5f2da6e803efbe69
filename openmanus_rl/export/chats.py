"""Converts a rollout to a chat, the form in which models are trained.

If turns have the `messages` that the model was given, these are used. If the whole chat of each turn is known
(`messages_from`), the last turn's is used; otherwise messages that repeat the chat so far replace it, and others
continue it. A turn without messages is converted:

    system     the task description (`user` if the first turn observed nothing)
    user       the observation
    assistant  the thought, an empty line, the action
    tool       the output of each tool call, or its error message where it failed
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from openmanus_rl.transport.rest import Row

__all__ = ["chat_of"]

Message = dict[str, str]


def chat_of(rollout: Row, turns: Iterable[Row]) -> Row:
    """Return a rollout and its turns, in order and with their tool calls, as messages with a reward."""
    # The messages that the model was given, and those converted from later turns.
    given: list[Message] = []
    made: list[Message] = []
    number = 0
    for number, turn in enumerate(turns, start=1):
        messages = _given_messages(turn["messages"])
        is_whole = turn.get("messages_from") is not None
        if number == 1 and not messages:
            made += _opening(rollout, observed=bool(turn["observation"]))
        if not messages:
            made += [*_spoken("user", turn["observation"]), *_answer(turn), *_tool_outputs(turn)]
            continue
        if is_whole or (messages[: len(given)] == given and (given or not made)):
            given = messages
        else:
            # Messages that begin with the model's answer include the converted ones of the turn before.
            given += messages if messages[0]["role"] == "assistant" and given else [*made, *messages]
        answered = given[-1]["role"] == "assistant"
        made = _tool_outputs(turn) if answered else [*_answer(turn), *_tool_outputs(turn)]
    if number == 0:
        made = _opening(rollout, observed=False)
    return {
        "messages": given + made,
        "reward": rollout["total_reward"],
        "status": rollout["status"],
        "rollout_id": rollout["id"],
        "task_description": rollout["task_description"],
        "run_id": rollout["training_run_id"],
        "environment": rollout["environment"],
    }


def _opening(rollout: Row, *, observed: bool) -> list[Message]:
    # Chat templates require a user message before the first answer.
    return _spoken("system" if observed else "user", rollout["task_description"])


def _answer(turn: Row) -> list[Message]:
    return _spoken("assistant", "\n\n".join(part for part in (turn["thought"], turn["action"]) if part))


def _tool_outputs(turn: Row) -> list[Message]:
    outputs = []
    for call in turn["tool_calls"]:
        failed = call["success"] is False and call["error_message"]
        outputs.append({"role": "tool", "content": (call["error_message"] if failed else call["tool_output"]) or ""})
    return outputs


def _spoken(role: str, content: str | None) -> list[Message]:
    return [{"role": role, "content": content}] if content else []


def _given_messages(recorded: Any) -> list[Message]:
    """Return recorded messages with role and text; an empty list if they are not a chat."""
    if not isinstance(recorded, list):
        return []
    return [
        {"role": str(message["role"]), "content": _text_of(message)}
        for message in recorded
        if isinstance(message, dict) and message.get("role")
    ]


def _text_of(message: dict[str, Any]) -> str:
    """Return a message's text: text parts joined, and other content and tool calls as JSON."""
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and "text" in part for part in content):
        content = "".join(str(part["text"]) for part in content)
    texts = [content if isinstance(content, str) else _json(content)] if content else []
    if message.get("tool_calls"):
        texts.append(_json(message["tool_calls"]))
    return "\n".join(texts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
