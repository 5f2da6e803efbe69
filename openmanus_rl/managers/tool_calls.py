"""Tool calls of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, matching, of_ids
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.rows import ToolCall
from openmanus_rl.transport.filters import Page

__all__ = ["ToolCallManager"]


class ToolCallManager(Manager[ToolCall]):
    """Records and reads the tools that were called in a turn."""

    table = "tool_calls"
    noun = "tool call"
    order_by = ("agent_state_id", "position")

    @classmethod
    def log_tool_call(
        cls,
        agent_state_id: Id,
        tool_name: str,
        *,
        tool_input: Any = None,
        tool_output: Any = None,
        success: bool | None = None,
        execution_time_ms: float | None = None,
        error_message: str | None = None,
        position: int | None = None,
        tool_call_id: Id | None = None,
    ) -> ToolCall:
        """Record a call and return it; its position defaults to the last of the turn."""
        turn = as_id(agent_state_id, field="agent_state_id")
        return cls._append(
            tool_call_id,
            agent_state_id=turn,
            position=position,
            tool_name=tool_name,
            tool_input=tool_input,
            tool_output=tool_output,
            success=success,
            execution_time_ms=execution_time_ms,
            error_message=error_message,
        )

    @classmethod
    def get_tool_call(cls, tool_call: Id) -> ToolCall:
        """Return a call; an unknown id raises `NotFoundError`."""
        return cls._get(tool_call, field="tool_call_id")

    @classmethod
    def list_tool_calls(
        cls,
        *,
        agent_state_id: Id | Sequence[Id] | None = None,
        training_run_id: Id | None = None,
        tool_name: OneOrMany | None = None,
        success: bool | None = None,
        **paging: Unpack[Paging],
    ) -> Page[ToolCall]:
        """Return a page of calls, turn by turn."""
        parents = of_ids(agent_state_id=agent_state_id, training_run_id=training_run_id)
        return cls._page(*parents, *matching(tool_name=tool_name, success=success), **paging)
