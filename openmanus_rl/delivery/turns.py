"""Makes records of turns that were written as columns in the line of their rollout; see `columns.py`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from openmanus_rl.spool.lines import dump_text

__all__ = ["turns_of"]

# The parts of a turn have ids between those of the turn and the next one.
_IDS_PER_TURN = 2**24


def turns_of(rollout_id: str, columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the turns; the same columns always yield the same ids."""
    first, infos = columns["first"], columns.get("infos", {})
    prefix, base = rollout_id[:24], int(rollout_id[24:], 16)
    turns: list[dict[str, Any]] = []
    for place, when in enumerate(columns["times"]):
        number = first + place
        turn: dict[str, Any] = {
            "id": f"{prefix}{(base + (number + 1) * _IDS_PER_TURN) % 2**48:012x}",
            "rollout_id": rollout_id,
            "step_number": number,
            "observation": _text(columns["observations"][place]),
            "action": _text(columns["actions"][place]),
            "rewards": [{"reward_type": "step", "reward": columns["rewards"][place]}],
            "created_at": datetime.fromtimestamp(when, UTC).isoformat(),
        }
        if (info := infos.get(str(place))) is not None:
            turn["info"] = info
        turns.append(turn)
    if turns and "final" in columns:
        turns[-1]["observations"] = [{"kind": "final", "text": _text(columns["final"])}]
    return turns


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dump_text(value)
