"""Taking apart what a model said."""

from __future__ import annotations

import pytest

from openmanus_rl.importing.answers import split_action, split_thought


@pytest.mark.parametrize(
    ("said", "thought", "action"),
    [
        ("<think>look\naround</think>\n<action>go north</action>", "look\naround", "go north"),
        ("look around</think><action>go north</action>", "look around", "go north"),
        ("<action>first</action> no, <action>go north</action>", "<action>first</action> no,", "go north"),
        ("<plan>p</plan><action>a</action> and more", "<plan>p</plan>", "a"),
        ("<memory>m</memory><think>t</think><action>a</action>", "<memory>m</memory><think>t</think>", "a"),
        ("<think>t</think>go north", "t", "go north"),
        ("go north", None, "go north"),
        ("", None, ""),
        ("<think>never closed <action>a", None, "<think>never closed <action>a"),
    ],
)
def test_thought_and_action_are_told_apart_by_their_tags(said: str, thought: str | None, action: str) -> None:
    assert split_action(said) == (thought, action)


def test_a_think_block_in_the_middle_of_an_answer_is_part_of_it() -> None:
    assert split_thought("The tag <think>x</think> is for thoughts") == (
        None,
        "The tag <think>x</think> is for thoughts",
    )
