"""How a rollout becomes a chat."""

from __future__ import annotations

from typing import Any

from openmanus_rl.export.chats import chat_of

ROLLOUT = {
    "id": "r",
    "training_run_id": None,
    "environment": "e",
    "task_description": "find it",
    "status": "success",
    "total_reward": 1.0,
}


def turn(messages: Any = None, **fields: Any) -> dict[str, Any]:
    empty = {"observation": None, "thought": None, "action": None, "tool_calls": []}
    return {**empty, "messages": messages, **fields}


def said(*messages: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]


def messages_of(*turns: dict[str, Any], **rollout: Any) -> list[dict[str, str]]:
    found: list[dict[str, str]] = chat_of({**ROLLOUT, **rollout}, turns)["messages"]
    return found


def test_the_task_is_the_users_where_nothing_was_observed() -> None:
    assert messages_of(turn(action="go")) == said(("user", "find it"), ("assistant", "go"))
    seen = messages_of(turn(observation="a room", action="go"))
    assert seen == said(("system", "find it"), ("user", "a room"), ("assistant", "go"))


def test_what_is_missing_makes_no_empty_message() -> None:
    assert messages_of(turn(), task_description=None) == []
    assert messages_of(turn(thought="hm"), task_description=None) == said(("assistant", "hm"))


def test_a_failed_tool_tells_its_error() -> None:
    calls = [
        {"success": False, "error_message": "no signal", "tool_output": None},
        {"success": None, "error_message": None, "tool_output": None},
    ]
    assert messages_of(turn(action="call", tool_calls=calls))[2:] == said(("tool", "no signal"), ("tool", ""))


def test_a_chat_that_is_repeated_by_each_turn_is_told_once() -> None:
    first = said(("system", "s"), ("user", "u1"))
    second = [*first, *said(("assistant", "raw a1"), ("user", "u2"))]
    found = messages_of(turn(first, observation="u1", action="a1"), turn(second, observation="u2", action="a2"))
    assert found == [*second, *said(("assistant", "a2"))]


def test_turns_that_hold_only_what_is_new_continue_the_chat() -> None:
    found = messages_of(
        turn(said(("system", "s"), ("user", "u1")), action="a1"),
        turn(said(("user", "u2")), action="a2"),
        turn(said(("assistant", "raw a2"), ("user", "u3")), action="a3"),
    )
    assert found == said(
        ("system", "s"),
        ("user", "u1"),
        ("assistant", "a1"),
        ("user", "u2"),
        ("assistant", "raw a2"),
        ("user", "u3"),
        ("assistant", "a3"),
    )


def test_an_answer_among_the_messages_is_not_repeated() -> None:
    whole = said(("user", "u"), ("assistant", "raw"))
    assert messages_of(turn(whole, thought="t", action="a")) == whole


def test_parts_become_text_and_tool_calls_their_json() -> None:
    recorded = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"name": "größe"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]},
        {"role": "assistant", "content": "done"},
        "no message",
    ]
    assert messages_of(turn(recorded)) == said(
        ("user", "ab"),
        ("assistant", '[{"name": "größe"}]'),
        ("user", '[{"type": "image_url", "image_url": "x"}]'),
        ("assistant", "done"),
    )


def test_messages_that_are_no_chat_are_left_out() -> None:
    assert messages_of(turn({"not": "a list"}, action="go")) == said(("user", "find it"), ("assistant", "go"))


def test_a_chat_that_is_known_whole_is_what_the_last_turn_was_given() -> None:
    calls = [{"success": True, "error_message": None, "tool_output": "found"}]
    hello = said(("user", "hi"), ("assistant", "hello"))
    told = [*hello, *hello, *said(("tool", "found"), ("user", "in short"))]

    assert messages_of(turn(hello, messages_from=0, tool_calls=calls), turn(told, messages_from=2, action="b")) == [
        *told,
        *said(("assistant", "b")),
    ]
