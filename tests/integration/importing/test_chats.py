"""Conversations, as other programs write them and as `export` does."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]

WITH_TOOLS = {
    "id": "c-1",
    "messages": [
        {"role": "system", "content": "You can search."},
        {"role": "user", "content": [{"type": "text", "text": "Where is "}, {"type": "text", "text": "the ball?"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "I should look",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"q": "ball"}'}},
                {"id": "b", "type": "function", "function": {"name": "map", "arguments": "not JSON"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "a map"},
        {"role": "tool", "tool_call_id": "a", "content": "in the garden"},
        {"role": "assistant", "content": "<think>so it is there</think>In the garden.", "name": "finder"},
        {"role": "user", "content": "Thanks"},
    ],
    "reward": 0.75,
    "success": True,
    "question": "Where is the ball?",
    "model": "finder-1",
    "tools": [{"name": "search"}],
    "metadata": {"split": "train"},
}


def test_a_conversation_becomes_a_rollout_with_a_turn_for_each_answer(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    done = command("import", write([WITH_TOOLS]), "--run", run_name, "--json")

    assert done.code == 0, done.err
    assert (done.json["rollouts"], done.json["turns"]) == (1, 3)
    (rollout,) = rollouts(run_name)
    assert {name: rollout[name] for name in ("status", "total_reward", "step_count", "task_description", "model")} == {
        "status": "success",
        "total_reward": 0.75,
        "step_count": 2,
        "task_description": "Where is the ball?",
        "model": "finder-1",
    }
    assert (rollout["environment"], rollout["source"]) == ("chat", "import")
    assert rollout["metadata"] == {"id": "c-1", "split": "train", "tools": [{"name": "search"}]}
    asked, answered, thanked = rollout["turns"]
    assert (asked["observation"], asked["thought"], asked["action"]) == ("Where is the ball?", "I should look", None)
    assert [(call["tool_name"], call["tool_input"], call["tool_output"]) for call in asked["calls"]] == [
        ("search", {"q": "ball"}, "in the garden"),
        ("map", "not JSON", "a map"),
    ]
    assert answered["observation"] == "a map\n\nin the garden"
    assert (answered["thought"], answered["action"]) == ("so it is there", "In the garden.")
    assert (thanked["observation"], thanked["action"]) == ("Thanks", None)
    # What a turn holds is new in it; read, it is all that was said so far, untouched.
    assert [turn["messages_from"] for turn in rollout["turns"]] == [0, 3, 6]
    assert [turn["whole_chat"] for turn in rollout["turns"]] == [WITH_TOOLS["messages"][:end] for end in (3, 6, 7)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello", "weight": 1}]},
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello", "weight": 1}],
        ),
        (
            {"prompt": "hi", "completion": "hello"},
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        ),
        (
            {"prompt": [{"role": "user", "content": "hi"}], "completion": [{"role": "assistant", "content": "hello"}]},
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        ),
    ],
)
def test_other_forms_of_conversations_are_read(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]], line: Row, expected: list[Row]
) -> None:
    assert command("import", write([line]), "--run", run_name).code == 0

    (rollout,) = rollouts(run_name)
    assert (rollout["status"], rollout["total_reward"]) == ("completed", None)
    (turn,) = rollout["turns"]
    assert turn["whole_chat"] == expected
    assert (turn["observation"], turn["action"]) == ("hi", "hello")


def test_what_a_line_says_of_its_outcome_decides_and_nothing_is_dropped(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    lines = [
        {**chat, "passed": False, "score": 1, "status": "done"},
        {**chat, "status": "timeout", "environment": "webshop"},
        {**chat, "status": "running"},
        {**chat, "status": "who knows", "metadata": {"won": True, "model": "m", "environment": "alfworld"}},
        {**chat, "reward": None, "score": 0.5, "metadata": {"a": 1}, "a": 2},
    ]

    assert command("import", write(lines), "--run", run_name).code == 0

    found = rollouts(run_name)
    assert [(one["status"], one["total_reward"]) for one in found] == [
        ("failed", 1.0),
        ("timeout", None),
        ("interrupted", None),
        ("success", None),
        ("completed", 0.5),
    ]
    assert [one["environment"] for one in found] == ["chat", "webshop", "chat", "alfworld", "chat"]
    assert found[0]["metadata"] == {"status": "done"}
    assert found[3]["model"] == "m"
    assert found[3]["metadata"] == {"won": True, "model": "m", "environment": "alfworld", "status": "who knows"}
    assert found[4]["metadata"] == {"a": 2, "metadata": {"a": 1}}


def test_exported_chats_come_back_with_the_same_messages_and_reward(
    command: Any, write: Any, run_name: str, tmp_path: Path
) -> None:
    asked, answered = (
        {"role": "user", "content": "Grüße \u2028 世界\x85"},
        {"role": "assistant", "content": "und zurück"},
    )
    chats: list[Row] = [
        {"messages": [asked, answered, {"role": "user", "content": "more"}, {"role": "assistant", "content": "no"}]},
        {
            "messages": [{"role": "system", "content": "be brief"}, asked, answered, asked],
            "success": False,
            "reward": -1,
        },
        {"messages": [answered, {"role": "tool", "content": "<think>x</think>"}, answered], "score": 0.25},
        {"messages": [asked], "reward": float("inf"), "status": "timeout", "environment": "webshop"},
    ]
    command("import", write(chats), "--run", run_name)
    first, second = f"{run_name}-1.jsonl", f"{run_name}-2.jsonl"

    assert command("export", "chats", first, "--run", run_name).code == 0
    assert command("import", first, "--run", f"{run_name}-back").code == 0
    assert command("export", "chats", second, "--run", f"{run_name}-back").code == 0

    def told(name: str) -> list[str]:
        rows = map(json.loads, (tmp_path / name).read_text().splitlines())
        return sorted(json.dumps([row["messages"], row["reward"], row["status"], row["environment"]]) for row in rows)

    assert told(first) == sorted(
        json.dumps([chats[number]["messages"], *further])
        for number, further in enumerate(
            [
                (None, "completed", "chat"),
                (-1.0, "failed", "chat"),
                (0.25, "completed", "chat"),
                (float("inf"), "timeout", "webshop"),
            ]
        )
    )
    assert told(second) == told(first)


def test_the_same_lines_bring_nothing_twice_under_any_name_or_packing(
    command: Any, write: Any, run_name: str, tmp_path: Path, stack: Any
) -> None:
    # A line that stands there twice is two conversations.
    lines = [WITH_TOOLS, {"prompt": "p", "completion": "c"}, {"prompt": "p", "completion": "c"}]
    path = write(lines)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress((tmp_path / path).read_bytes()))

    first = command("import", path, "--run", run_name, "--json")
    packed = command("import", "packed.jsonl.gz", "--run", run_name, "--json")
    piped = subprocess.run(
        [sys.executable, "-m", "openmanus_rl", "import", "-", "--run", run_name, "--json"],
        env=stack.env,
        cwd=stack.home,
        input=(tmp_path / path).read_bytes(),
        capture_output=True,
        check=False,
    )

    assert (first.json["new_rollouts"], packed.json["new_rollouts"]) == (3, 0)
    assert piped.returncode == 0, piped.stderr
    assert json.loads(piped.stdout)["new_rollouts"] == 0
    assert json.loads(piped.stdout)["rollouts"] == 3


def test_bad_lines_are_named_and_mended_ones_join_the_others(
    command: Any, write: Any, run_name: str, rollouts: Callable[[str], list[Row]]
) -> None:
    good = [{"prompt": str(number), "completion": "c"} for number in range(2)]
    answer = {"role": "assistant", "content": "a"}
    bad: dict[str, Any] = {
        "it is not JSON": '{"messages": [',
        "an object is expected, not a list": "[]",
        "there is no conversation in it": {"text": "hi"},
        "messages: there are no messages in it": {"messages": []},
        "messages: a list of messages is expected, not text": {"messages": "hi"},
        "messages[1]: an object is expected, not text": {"messages": [answer, "hi"]},
        "messages[0]: it does not say whose message it is": {"messages": [{"content": "hi"}]},
        "messages[0].role: text is expected, not a number": {"messages": [{"role": 1}]},
        "messages[0].tool_calls[0]: it does not name the tool": {"messages": [{**answer, "tool_calls": [{}]}]},
        "reward: a number is expected, not an object": {**good[0], "reward": {}},
        "success: true or false is expected, not text": {**good[0], "success": "yes"},
    }

    done = command("import", write([good[0], *bad.values(), good[1]]), "--run", run_name, "--json")
    mended = command(
        "import", write([good[0], {"prompt": "new", "completion": "c"}, good[1]]), "--run", run_name, "--json"
    )

    assert done.code == 1
    refusals = done.json["files"][0]["refusals"]
    assert [refusal["line"] for refusal in refusals] == list(range(2, 2 + len(bad)))
    for refusal, reason in zip(refusals, bad, strict=True):
        assert reason in refusal["reason"]
    assert done.json["new_rollouts"] == 2
    assert mended.code == 0
    assert mended.json["new_rollouts"] == 1
    assert len(rollouts(run_name)) == 3


def test_a_chat_dump_of_the_rollout_script_is_read_whole(
    command: Any, run_name: str, tmp_path: Path, rollouts: Callable[[str], list[Row]]
) -> None:
    dump = {
        "messages": [{"role": "user", "content": "see"}, {"role": "assistant", "content": "do"}],
        "metadata": {"env_id": 4, "model": "gpt-4o", "won": False, "environment": "webshop"},
    }
    (tmp_path / "chat_b000.json").write_text(json.dumps(dump, indent=2))

    assert command("import", "chat_b000.json", "--run", run_name).code == 0

    (rollout,) = rollouts(run_name)
    assert (rollout["status"], rollout["environment"], rollout["model"]) == ("failed", "webshop", "gpt-4o")
