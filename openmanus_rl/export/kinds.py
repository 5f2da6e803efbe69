"""The kinds of export and their columns, which do not depend on the rows.

A type is "text", "json" (any value as JSON text), "integer", "number", "boolean", "time", the plural of one of these
for a list, or a tuple of fields for a list of records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from openmanus_rl.errors import BadResponse
from openmanus_rl.transport.rest import Row

__all__ = ["KINDS", "Fields", "columns_of", "shaped"]

FieldType = str | tuple[tuple[str, Any], ...]
Fields = tuple[tuple[str, FieldType], ...]


def _fields(**types: FieldType) -> Fields:
    return tuple(types.items())


_RUN = _fields(
    id="text",
    name="text",
    run_name="text",
    algorithm="text",
    environment="text",
    description="text",
    config="json",
    summary="json",
    metadata="json",
    tags="texts",
    status="text",
    status_message="text",
    current_step="integer",
    total_steps="integer",
    progress="number",
    heartbeat_at="time",
    visibility="text",
    owner_id="text",
    started_at="time",
    finished_at="time",
    created_at="time",
    updated_at="time",
)

_REWARD = _fields(id="text", reward_type="text", reward="number", details="json", created_at="time")

_ROLLOUT = _fields(
    id="text",
    training_run_id="text",
    group_id="text",
    task_id="text",
    source="text",
    environment="text",
    episode_number="integer",
    task_description="text",
    status="text",
    status_message="text",
    total_reward="number",
    step_count="integer",
    result="json",
    error="text",
    model="text",
    policy_version="integer",
    seed="integer",
    video_path="text",
    metadata="json",
    worker_id="text",
    attempt="integer",
    step="integer",
    timeline="integer",
    rewound_at="time",
    owner_id="text",
    started_at="time",
    finished_at="time",
    created_at="time",
    updated_at="time",
    rewards=_REWARD,
)

_TOOL_CALL = _fields(
    id="text",
    position="integer",
    tool_name="text",
    tool_input="json",
    tool_output="text",
    success="boolean",
    error_message="text",
    execution_time_ms="number",
    created_at="time",
)

# The prompt as it is stored: its new tokens, and their position among the rollout's tokens.
_GENERATION = _fields(
    id="text",
    position="integer",
    model="text",
    policy_version="integer",
    prompt_ids="integers",
    completion_ids="integers",
    logprobs="numbers",
    mask="booleans",
    advantages="numbers",
    finish_reason="text",
    tokens_from="integer",
    prompt="integers",
)

_TURN = _fields(
    id="text",
    rollout_id="text",
    training_run_id="text",
    step_number="integer",
    observation="text",
    thought="text",
    action="text",
    memory_summary="text",
    messages="json",
    messages_from="integer",
    chat="integers",
    model_response="json",
    info="json",
    duration_ms="number",
    model_duration_ms="number",
    environment_duration_ms="number",
    created_at="time",
    tool_calls=_TOOL_CALL,
    generations=_GENERATION,
    rewards=_REWARD,
)

_METRIC = _fields(training_run_id="text", name="text", step="integer", value="number", recorded_at="time")

_CHAT = _fields(
    messages=_fields(role="text", content="text"),
    reward="number",
    status="text",
    rollout_id="text",
    task_description="text",
    run_id="text",
    environment="text",
)

KINDS: dict[str, Fields] = {
    "runs": _RUN,
    "rollouts": _ROLLOUT,
    "turns": _TURN,
    "metrics": _METRIC,
    "chats": _CHAT,
}
"""What can be exported, and the columns of each."""


def columns_of(fields: Fields) -> str:
    """Return the columns to select: all but nested records, which are in other tables."""
    return ",".join(name for name, kind in fields if isinstance(kind, str))


def shaped(row: Mapping[str, Any], fields: Fields) -> Row:
    """Return the row with exactly these fields, each of its type or None."""
    return {name: _value(row.get(name), kind, name) for name, kind in fields}


def _value(value: Any, kind: FieldType, name: str) -> Any:
    if not isinstance(kind, str):
        return [shaped(record, kind) for record in value or ()]
    if value is None:
        return None
    try:
        return _READERS[kind](value)
    except (TypeError, ValueError) as error:
        raise BadResponse(f"export: the database answered {value!r:.80} for {name}, which is no {kind}") from error


def _time(value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.astimezone(UTC)


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_READERS: dict[str, Callable[[Any], Any]] = {
    "text": str,
    "json": _json_text,
    "integer": int,
    # NaN and infinities are given as their names, since JSON has no numbers for them.
    "number": float,
    "boolean": bool,
    "time": _time,
    "texts": list,
    "integers": list,
    "numbers": lambda values: [None if value is None else float(value) for value in values],
    "booleans": list,
}
