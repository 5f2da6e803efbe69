"""Chats and prompts that grow from turn to turn: stored once, read whole, by every way of reading."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.export import Selection, export_to_file
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.turn_parts import GenerationManager
from openmanus_rl.managers.turns import TurnManager

from .conftest import Query

pytestmark = pytest.mark.usefixtures("recorder_env")


def start() -> openmanus_rl.recorder.Run:
    return openmanus_rl.init(name="chats", environment="e")


def grow(turns: int) -> list[list[dict[str, Any]]]:
    """Return a chat as it is given at each of so many turns, with its image of the first turn."""
    chat: list[dict[str, Any]] = [{"role": "system", "content": "You find things."}]
    given = []
    for number in range(turns):
        chat = [*chat, {"role": "user", "content": f"You are in room {number}. There are doors to the north and east."}]
        given.append(chat)
        chat = [*chat, {"role": "assistant", "content": f"I take the door to the north for the {number}th time."}]
    return given


def test_a_turn_gives_back_the_whole_chat_by_every_way_of_reading(query: Query, tmp_path: Path) -> None:
    chats = grow(12)
    # Midway the window moves: what lay in the middle is no longer given.
    chats[8:] = [[chat[0], *chat[9:]] for chat in chats[8:]]
    with start() as run:
        rollout = run.rollout(task_description="find it")
        turns = [rollout.log_turn(messages=chat, action="go") for chat in chats]
        rollout.complete("success", total_reward=1.0)
        assert run.flush(timeout_seconds=30)

    assert [TurnManager.get_turn(turn)["messages"] for turn in turns] == chats
    assert TurnManager.get_by_step_number(rollout.id, 10)["messages"] == chats[10]
    page = TurnManager.list_turns(rollout.id, from_step_number=5, limit=4)
    assert [turn["messages"] for turn in page] == chats[5:9]
    trajectory = RolloutManager.get_trajectory(rollout.id)
    assert [turn["messages"] for turn in trajectory["turns"]] == chats
    export_to_file("chats", str(tmp_path / "chats.jsonl"), selection=Selection(run_ids=[run.id]))
    (exported,) = [json.loads(line) for line in (tmp_path / "chats.jsonl").read_text().splitlines()]
    assert exported["messages"] == [*chats[-1], {"role": "assistant", "content": "go"}]
    (stored,) = query(
        "select sum(jsonb_array_length(messages)) as messages from agent_states where rollout_id = %s", rollout.id
    )
    assert stored["messages"] == 1 + 12 + 11


def test_what_chats_cost_grows_with_the_conversation_and_not_with_its_square(query: Query) -> None:
    sizes = {}
    with start() as run:
        for length in (10, 160):
            rollout = run.rollout()
            for chat in grow(length):
                rollout.log_turn(messages=chat)
            rollout.complete()
            assert run.flush(timeout_seconds=60)
            rows = query("select sum(pg_column_size(t)) as size from agent_states t where rollout_id = %s", rollout.id)
            sizes[length] = int(rows[0]["size"])
    assert math.log(sizes[160] / sizes[10]) / math.log(16) <= 1.05


def test_the_tokens_of_a_turn_come_back_exactly(query: Query) -> None:
    prompt = list(range(1000))
    prompts = []
    with start() as run:
        rollout = run.rollout()
        for number in range(5):
            prompts.append(list(prompt))
            rollout.log_turn(
                action="go",
                generations=[{"prompt_ids": prompt, "completion_ids": [5, 6, 7], "logprobs": [-0.5, -1.25, 0.0],
                              "mask": [1, 1, 0], "advantages": [0.5], "policy_version": number}],
            )  # fmt: skip
            prompt = [*prompt, 5, 6, 7, 100 + number]
        rollout.complete()
        assert run.flush(timeout_seconds=30)
    rows = query(
        "select g.* from generations g join agent_states a on a.id = g.agent_state_id where a.rollout_id = %s"
        " order by a.step_number",
        rollout.id,
    )
    assert [row["policy_version"] for row in rows] == list(range(5))
    assert [GenerationManager.get_prompt_ids(row["id"]) for row in rows] == prompts
    assert sum(len(row["prompt_ids"]) for row in rows) == 1004
    assert all(row["logprobs"] == [-0.5, -1.25, 0.0] and row["mask"] == [True, True, False] for row in rows)
    assert all(row["advantages"] == [0.5] and row["completion_ids"] == [5, 6, 7] for row in rows)


def test_a_chat_whose_turn_is_gone_shows_that_something_is_missing(query: Query) -> None:
    chats = grow(3)
    with start() as run:
        rollout = run.rollout()
        turns = [rollout.log_turn(messages=chat) for chat in chats]
        assert run.flush(timeout_seconds=30)
    query("delete from agent_states where id = %s returning 1", turns[1])
    expected = [*chats[0], None, None, *chats[2][-2:]]
    assert TurnManager.get_turn(turns[2])["messages"] == expected
    assert RolloutManager.get_trajectory(rollout.id)["turns"][-1]["messages"] == expected


def test_messages_that_are_no_list_are_kept_as_they_are() -> None:
    with start() as run:
        rollout = run.rollout()
        turn = rollout.log_turn(messages="system: find it")  # type: ignore[arg-type]
        assert run.flush(timeout_seconds=30)
    assert TurnManager.get_turn(turn)["messages"] == "system: find it"
