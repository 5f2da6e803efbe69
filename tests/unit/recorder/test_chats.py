"""Of a chat and of a prompt that are given whole each time, only what is new is stored, and all of it comes back."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openmanus_rl.managers.chats import MessagePool
from openmanus_rl.recorder.chats import Conversation, TokenHistory

Chat = list[dict[str, Any]]

# Few texts, so that they repeat; some are short, some worth naming again.
TEXTS = st.sampled_from(["yes", "continue", "a" * 80, "b" * 200, "", "ünï"])
MESSAGES = st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), TEXTS)


@st.composite
def chats(draw: st.DrawFn) -> list[Chat]:
    """A chat as it is given turn by turn: it grows, and is at times cut, edited, or turned round."""
    given_chats: list[Chat] = []
    chat: Chat = []
    for _ in range(draw(st.integers(1, 8))):
        chat = chat + draw(st.lists(MESSAGES, max_size=3))
        change = draw(st.sampled_from(["none", "none", "none", "window", "edit", "turn round", "other"]))
        if change == "window":
            chat = chat[:1] + chat[draw(st.integers(1, len(chat) + 1)) :]
        elif change == "edit" and chat:
            place = draw(st.integers(0, len(chat) - 1))
            chat = [*chat[:place], draw(MESSAGES), *chat[place + 1 :]]
        elif change == "turn round":
            chat = chat[::-1]
        elif change == "other":
            chat = draw(st.lists(MESSAGES, max_size=4))
        given_chats.append(chat)
    return given_chats


def stored(turns: list[Chat]) -> list[dict[str, Any]]:
    conversation = Conversation()
    rows = [json.loads(json.dumps(conversation.add(chat))) for chat in turns]
    return [{"chat": None, **row} for row in rows]


@given(chats())
def test_every_chat_comes_back_as_it_was_given(turns: list[Chat]) -> None:
    pool = MessagePool()
    for turn, chat in zip(stored(turns), turns, strict=True):
        pool.add(turn)
        assert pool.chat_of(turn) == chat


def test_a_chat_that_only_grows_costs_no_more_than_what_is_new() -> None:
    chat: Chat = [{"role": "system", "content": "s"}]
    turns = []
    for number in range(50):
        # The same words again and again are still new each time.
        chat = [*chat, {"role": "user", "content": "continue" * 20}, {"role": "assistant", "content": f"step {number}"}]
        turns.append(chat)
    rows = stored(turns)
    assert [len(row["messages"]) for row in rows] == [3, *[2] * 49]
    assert all(row["chat"] is None for row in rows)


def test_a_message_changed_in_place_is_noticed() -> None:
    chat: Chat = [{"role": "user", "content": "a picture"}, {"role": "assistant", "content": "seen"}]
    conversation = Conversation()
    conversation.add(chat)
    chat[0]["content"] = "(picture left out)"
    again = conversation.add(chat)
    assert again["messages"] == [{"role": "user", "content": "(picture left out)"}]
    assert again["chat"] == [2, 3, 1, 2]


def test_two_chats_in_turns_store_each_message_once() -> None:
    one: Chat = [{"role": "user", "content": "of the first agent " * 10}]
    other: Chat = [{"role": "user", "content": "of the second agent " * 10}]
    turns = []
    for number in range(10):
        one = [*one, {"role": "assistant", "content": f"first agent, answer {number} " * 10}]
        other = [*other, {"role": "assistant", "content": f"second agent, answer {number} " * 10}]
        turns += [one, other]
    assert sum(len(row["messages"]) for row in stored(turns)) == 22


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 12), st.lists(st.integers(0, 3)))))
def test_every_prompt_comes_back_as_it_was_given(turns: list[tuple[list[int], int, list[int]]]) -> None:
    history = TokenHistory()
    places: dict[int, int] = {}
    prompt: list[int] = []
    for new, kept, completion in turns:
        prompt = prompt[:kept] + new if kept < 10 else prompt + new
        row = json.loads(json.dumps(history.add({"prompt_ids": prompt, "completion_ids": completion})))
        for offset, token in enumerate(row["prompt_ids"] + row["completion_ids"]):
            places[row["tokens_from"] + offset] = token
        stretches = row.get("prompt", [0, row["tokens_from"] + len(row["prompt_ids"])])
        found = [
            places[place]
            for start, end in zip(stretches[::2], stretches[1::2], strict=True)
            for place in range(start, end)
        ]
        assert found == prompt
        assert row["completion_ids"] == completion
        prompt = prompt + completion


def test_a_prompt_that_goes_on_from_the_last_answer_costs_no_more_than_what_is_new() -> None:
    history = TokenHistory()
    prompt = list(range(1000))
    sizes = []
    for turn in range(5):
        row = history.add({"prompt_ids": prompt, "completion_ids": [7, 8, 9]})
        sizes.append(len(row["prompt_ids"]))
        assert "prompt" not in row
        prompt = [*prompt, 7, 8, 9, turn]
    assert sizes == [1000, 1, 1, 1, 1]


def test_tokens_that_are_none_are_left_for_the_database_to_refuse() -> None:
    history = TokenHistory()
    for odd in ("abc", [1, None], [2**40], 3.5, {"a": 1}):
        row = history.add({"prompt_ids": odd, "completion_ids": [1]})
        assert row["prompt_ids"] == odd
        assert "tokens_from" not in row


def test_masks_and_advantages_take_the_form_of_the_table() -> None:
    row = TokenHistory().add(
        {"completion_ids": [1, 2], "mask": [1, 0], "advantage": 0.5, "logprobs": [-0.5, float("-inf")]}
    )
    assert (row["mask"], row["advantages"], row["logprobs"]) == ([True, False], [0.5], [-0.5, "-Infinity"])
