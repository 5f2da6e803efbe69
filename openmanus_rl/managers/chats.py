"""Assembles whole chats from turns that hold only their new messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openmanus_rl.records.rows import AgentState

__all__ = ["MessagePool", "fill_chats"]


class MessagePool:
    """The messages of a rollout by position, collected from its turns."""

    def __init__(self) -> None:
        self._messages: list[Any] = []

    def add(self, turn: Mapping[str, Any]) -> None:
        """Add the messages of a turn."""
        start, messages = turn["messages_from"], turn["messages"]
        if start is None or not isinstance(messages, list):
            return
        # A message whose turn is missing stays None, so that the gap is visible.
        self._messages += [None] * (start + len(messages) - len(self._messages))
        self._messages[start : start + len(messages)] = messages

    def chat_of(self, turn: Mapping[str, Any]) -> Any:
        """Return the chat of a turn; the turns that hold its messages must have been added."""
        start = turn["messages_from"]
        if start is None:
            return turn["messages"]
        stretches: Sequence[int] = turn["chat"] if turn["chat"] is not None else (0, start + len(turn["messages"]))
        chat: list[Any] = []
        for first, end in zip(stretches[::2], stretches[1::2], strict=True):
            known = self._messages[first:end]
            chat += known + [None] * (end - first - len(known))
        return chat


def fill_chats(turns: Sequence[AgentState], *, pool: Iterable[Mapping[str, Any]]) -> None:
    """Set the `messages` of turns to their whole chats, assembled from the turns of `pool`."""
    messages = MessagePool()
    for turn in pool:
        messages.add(turn)
    # After reading the pool, which may be the same turns.
    for turn, chat in [(turn, messages.chat_of(turn)) for turn in turns]:
        turn["messages"] = chat
