"""Splits messages into turns: the messages since the model's last answer, and its next answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openmanus_rl.importing.answers import split_thought
from openmanus_rl.importing.fields import read_text
from openmanus_rl.importing.lines import LineError, describe, storable

__all__ = ["ChatTurn", "read_messages", "split_turns"]

Message = dict[str, Any]

_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "function_call": "assistant",
    "function_response": "tool",
    "observation": "tool",
}
# Roles whose messages are not observations.
_SYSTEM_ROLES = ("system", "developer")
_TOOL_ROLES = ("tool", "function")
_REASONING = ("reasoning_content", "reasoning", "thinking")


@dataclass(frozen=True)
class ChatTurn:
    """One turn, with its messages and their position in the conversation."""

    messages_from: int
    messages: list[Message]
    observation: str | None
    thought: str | None
    action: str | None
    tool_calls: list[dict[str, Any]]


def read_messages(given: Any, name: str) -> list[Message]:
    """Return messages with `role` and `content`, also from `from` and `value`; other fields are kept."""
    if not isinstance(given, list):
        raise LineError(f"{name}: a list of messages is expected, not {describe(given)}")
    if not given:
        raise LineError(f"{name}: there are no messages in it")
    return [_read_message(message, f"{name}[{number}]") for number, message in enumerate(given)]


def split_turns(messages: Sequence[Message], name: str) -> list[ChatTurn]:
    """Return a turn for each answer, and one for any messages after the last."""
    ends = [number + 1 for number, message in enumerate(messages) if message["role"] == "assistant"]
    if not ends or ends[-1] < len(messages):
        ends.append(len(messages))
    turns = []
    start = 0
    for place, end in enumerate(ends):
        following = messages[end : ends[place + 1]] if place + 1 < len(ends) else []
        turns.append(_turn(messages, start, end, following, f"{name}[{end - 1}]"))
        start = end
    return turns


def _read_message(given: Any, name: str) -> Message:
    if not isinstance(given, dict):
        raise LineError(f"{name}: an object is expected, not {describe(given)}")
    said = "role" if "role" in given else "from"
    role = read_text(given.get(said), f"{name}.{said}")
    if not role:
        raise LineError(f"{name}: it does not say whose message it is; give role (or from)")
    if said == "role":
        return given
    message = {field: value for field, value in given.items() if field not in ("from", "value")}
    content = given["value"] if "value" in given else given.get("content")
    return {"role": _ROLES.get(role, role), "content": content, **message}


def _turn(messages: Sequence[Message], start: int, end: int, following: Sequence[Message], name: str) -> ChatTurn:
    own = list(messages[start:end])
    answer = own[-1] if own[-1]["role"] == "assistant" else None
    told = own[:-1] if answer is not None else own
    texts = [
        text for message in told if message["role"] not in _SYSTEM_ROLES and (text := _text_of(message.get("content")))
    ]
    thought, action = _said(answer) if answer is not None else (None, None)
    return ChatTurn(
        messages_from=start,
        messages=own,
        observation="\n\n".join(texts) or None,
        thought=thought,
        action=action,
        tool_calls=_tool_calls(answer, following, name) if answer is not None else [],
    )


def _said(answer: Message) -> tuple[str | None, str | None]:
    text = _text_of(answer.get("content"))
    reasoning = next((said for field in _REASONING if isinstance(said := answer.get(field), str) and said), None)
    if reasoning is not None:
        return reasoning, text or None
    thought, action = split_thought(text)
    return thought, action or None


def _tool_calls(answer: Message, following: Sequence[Message], name: str) -> list[dict[str, Any]]:
    given = answer.get("tool_calls")
    if given is None and isinstance(answer.get("function_call"), dict):
        given = [{"function": answer["function_call"]}]
    if not isinstance(given or [], list):
        raise LineError(f"{name}.tool_calls: a list is expected, not {describe(given)}")
    outputs = [message for message in following if message["role"] in _TOOL_ROLES]
    calls = []
    for position, call in enumerate(given or []):
        calls.append(_tool_call(call, outputs, f"{name}.tool_calls[{position}]"))
    return calls


def _tool_call(call: Any, outputs: list[Message], name: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise LineError(f"{name}: an object is expected, not {describe(call)}")
    called = call["function"] if isinstance(call.get("function"), dict) else call
    tool_name = read_text(called.get("name"), f"{name}.name")
    if not tool_name:
        raise LineError(f"{name}: it does not name the tool")
    output = _take_output(call.get("id"), outputs)
    return {
        "tool_name": tool_name,
        "tool_input": _arguments(called.get("arguments")),
        "tool_output": None if output is None else _text_of(output.get("content")),
    }


def _take_output(call_id: Any, outputs: list[Message]) -> Message | None:
    """Remove and return the output of a call: the message with its id, else the first without an id."""
    for wanted in (call_id, None):
        for place, message in enumerate(outputs):
            if message.get("tool_call_id") == wanted:
                return outputs.pop(place)
    return None


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        # Models don't always write valid JSON; then it is kept as text.
        return storable(json.loads(given, parse_constant=str))
    except (ValueError, RecursionError):
        return given


def _text_of(content: Any) -> str:
    """Return a message's text: its text parts, or other content as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "".join(part for part in parts if isinstance(part, str))
    return json.dumps(content, ensure_ascii=False)
