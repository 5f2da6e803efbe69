"""Rewards by component, and what tells the turns of two rollouts apart."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from .writing import Connection, Record, acting_as, new_id, new_rollout, new_run, write

TURN: Record = {"observation": "a room", "thought": "look", "action": "go", "tool_calls": [{"tool_name": "map"}]}


def call(db: Connection, function: str, rollout_id: str) -> Any:
    answer = db.execute(f"select public.{function}(%s) as answer", [rollout_id]).fetchone()
    assert answer is not None
    return answer["answer"]


def rollout_with(db: Connection, *turns: Record) -> str:
    rollout = new_rollout(db, new_run(db))
    rows = [{"id": new_id(), "rollout_id": rollout, "step_number": n, **turn} for n, turn in enumerate(turns)]
    write(db, {"agent_states": rows})
    return rollout


def fingerprint(db: Connection, turn: Record) -> str:
    return str(call(db, "turn_fingerprints", rollout_with(db, turn))["fingerprints"][0])


def test_rewards_are_added_up_by_component_with_those_of_the_whole_rollout(db: Connection) -> None:
    rollout = rollout_with(
        db,
        {"rewards": [{"reward_type": "format", "reward": 1}, {"reward_type": "progress", "reward": -0.5}]},
        {"rewards": [{"reward_type": "progress", "reward": 2}]},
    )
    write(db, {"rewards": [{"id": new_id(), "rollout_id": rollout, "reward_type": "outcome", "reward": 3}]})
    assert call(db, "rollout_rewards", rollout) == [
        {"reward_type": "format", "sum": 1, "count": 1, "min": 1, "max": 1},
        {"reward_type": "outcome", "sum": 3, "count": 1, "min": 3, "max": 3},
        {"reward_type": "progress", "sum": 1.5, "count": 2, "min": -0.5, "max": 2},
    ]
    assert call(db, "rollout_rewards", new_rollout(db, None)) == []


def test_equal_turns_of_two_rollouts_have_equal_fingerprints(db: Connection) -> None:
    one, other = rollout_with(db, TURN, {}, TURN), rollout_with(db, TURN, {"action": "stay"}, TURN)
    prints = [call(db, "turn_fingerprints", rollout) for rollout in (one, other)]
    assert prints[0]["step_numbers"] == prints[1]["step_numbers"] == [0, 1, 2]
    first, second = (found["fingerprints"] for found in prints)
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, True]


@pytest.mark.parametrize(
    "change",
    [
        {"observation": "a hall"},
        {"thought": None},
        {"thought": ""},
        # A text that moves from one part to the next is a difference.
        {"thought": None, "action": "look"},
        {"tool_calls": [{"tool_name": "map", "tool_output": "a plan"}]},
        {"tool_calls": [{"tool_name": "map", "success": False}]},
        {"tool_calls": []},
    ],
    ids=["observation", "no thought", "empty thought", "moved text", "tool output", "tool failure", "no tool"],
)
def test_any_difference_of_a_turn_changes_its_fingerprint(db: Connection, change: Record) -> None:
    assert fingerprint(db, TURN) == fingerprint(db, dict(TURN))
    assert fingerprint(db, TURN) != fingerprint(db, TURN | change)


@pytest.mark.parametrize("function", ["rollout_rewards", "turn_fingerprints"])
def test_who_may_not_see_a_rollout_learns_nothing_of_it(db: Connection, function: str) -> None:
    rollout = rollout_with(db, TURN)
    with acting_as(db, role="anon"), pytest.raises(psycopg.Error) as caught, db.transaction():
        call(db, function, rollout)
    assert caught.value.sqlstate == "OM404"
