"""Turns of a rollout (agent states)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from openmanus_rl.managers.base import Manager, Paging, between, known
from openmanus_rl.managers.chats import fill_chats
from openmanus_rl.records.columns import with_numbers
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.plain import as_text
from openmanus_rl.records.rows import ROW_TYPES, AgentState
from openmanus_rl.transport.filters import Filter, Page, asc
from openmanus_rl.transport.rest import Row

__all__ = ["TurnManager"]

Records = Sequence[Mapping[str, Any]]


class TurnManager(Manager[AgentState]):
    """Records and reads turns, with their tool calls, observations, generations and rewards."""

    table = "agent_states"
    noun = "turn"
    order_by = "step_number"

    @classmethod
    def log_turn(
        cls,
        rollout_id: Id,
        step_number: int,
        *,
        observation: Any = None,
        action: Any = None,
        thought: str | None = None,
        memory_summary: str | None = None,
        messages: Any = None,
        model_response: Any = None,
        info: Any = None,
        duration_ms: float | None = None,
        model_duration_ms: float | None = None,
        environment_duration_ms: float | None = None,
        tool_calls: Records | None = None,
        observations: Records | None = None,
        generations: Records | None = None,
        rewards: Records | None = None,
        turn_id: Id | None = None,
    ) -> AgentState:
        """Record a turn with its parts, all or nothing, and return it; a rollout has one turn per step number.

        Observations and actions that are not text, such as dicts and lists, are stored as JSON.
        """
        return cls._create(
            turn_id,
            rollout_id=as_id(rollout_id, field="rollout_id"),
            step_number=step_number,
            observation=_text(observation),
            action=_text(action),
            thought=_text(thought),
            memory_summary=_text(memory_summary),
            messages=messages,
            model_response=model_response,
            info=info,
            duration_ms=duration_ms,
            model_duration_ms=model_duration_ms,
            environment_duration_ms=environment_duration_ms,
            **_nested(tool_calls=tool_calls, observations=observations, generations=generations, rewards=rewards),
        )

    @classmethod
    def get_turn(cls, turn: Id) -> AgentState:
        """Return a turn, with the whole chat as its `messages`; an unknown id raises `NotFoundError`."""
        return cls._with_chat(cls._get(turn, field="agent_state_id"))

    @classmethod
    def get_by_step_number(cls, rollout_id: Id, step_number: int) -> AgentState:
        """Return a rollout's turn by its number; an unknown one raises `NotFoundError`."""
        rollout = as_id(rollout_id, field="rollout_id")
        of_number = Filter.eq("rollout_id", rollout), Filter.eq("step_number", step_number)
        what = f"{step_number} of rollout {rollout}"
        return cls._with_chat(cls._require(*of_number, what=what, field="step_number"))

    @classmethod
    def list_turns(
        cls,
        rollout_id: Id,
        *,
        from_step_number: int | None = None,
        to_step_number: int | None = None,
        **paging: Unpack[Paging],
    ) -> Page[AgentState]:
        """Return a page of a rollout's turns in order, each with the whole chat as its `messages`."""
        of_rollout = Filter.eq("rollout_id", as_id(rollout_id, field="rollout_id"))
        page = cls._page(of_rollout, *between("step_number", from_step_number, to_step_number), **paging)
        if any(turn["messages_from"] is not None for turn in page):
            pool = cls._client().select_all(
                cls.table,
                columns="messages,messages_from",
                filters=[of_rollout, Filter.not_null("messages_from")],
                order=[asc("step_number")],
            )
            fill_chats(page.rows, pool=pool)
        return page

    @classmethod
    def _with_chat(cls, turn: AgentState) -> AgentState:
        if turn["messages_from"] is not None:
            turn["messages"] = cls._client().rpc("turn_chat", {"agent_state_id": turn["id"]})
        return turn


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def _nested(**records: Records | None) -> Row:
    return {
        kind: [known(**with_numbers(ROW_TYPES[kind], record)) for record in found]
        for kind, found in records.items()
        if found
    }
