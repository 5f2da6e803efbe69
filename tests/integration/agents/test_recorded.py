"""What agents do comes out right in the database: turns, chats, tokens, screenshots and the video."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.agents.base import Limits, Task
from openmanus_rl.agents.recording import LimitedRecorder
from openmanus_rl.agents.registry import make_agent

from ...support.agents import (
    LocalSandbox,
    ModelServer,
    answer_json,
    candidate,
    completion,
    function_call,
)
from ..conftest import Query


@pytest.fixture
def record(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that records a rollout of an agent in the session's stack, and returns its id."""
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path / "home"))

    def run(agent: str, sandbox: LocalSandbox, **options: Any) -> str:
        with openmanus_rl.init(name="agents") as recording:
            with recording.rollout(task_description="What is 6 times 7?") as rollout:
                recorder = LimitedRecorder(rollout, Limits())
                task = Task(id="t1", description="What is 6 times 7?")
                make_agent(agent, model="served", options=options).run(task, sandbox, recorder)
            assert recording.flush(timeout_seconds=60), recording.stats
            assert recording.stats.rejected == 0
        return rollout.id

    return run


def test_a_chat_is_stored_once_with_its_tokens(
    record: Callable[..., str], server: ModelServer, tmp_path: Path, query: Query
) -> None:
    def tokens(prompt: list[int], said: list[int]) -> dict[str, Any]:
        content = [{"token": str(one), "logprob": -0.5} for one in said]
        return {"choice": {"token_ids": said, "logprobs": {"content": content}}, "prompt_token_ids": prompt}

    server.answers += [
        answer_json(
            completion("Let me see.", calls=[("shell", {"command": "expr 6 '*' 7"})], **tokens([1, 2], [3, 4]))
        ),
        answer_json(completion(calls=[("submit", {"answer": "42"})], **tokens([1, 2, 3, 4, 5], [6]))),
    ]
    rollout_id = record("chat", LocalSandbox(tmp_path), policy_version=9)

    first, last = query(
        "select id, messages, messages_from, chat, action, thought, model_response from agent_states "
        "where rollout_id = %s order by step_number",
        rollout_id,
    )
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [message["role"] for message in last["messages"]] == ["assistant", "tool"]
    assert (last["messages_from"], last["chat"]) == (2, None)
    assert first["thought"] == "Let me see."
    assert first["model_response"]["choices"][0]["message"]["content"] == "Let me see."
    calls = query("select tool_name, tool_output, success from tool_calls where agent_state_id = %s", first["id"])
    assert calls == [{"tool_name": "shell", "tool_output": "exit code: 0\n42", "success": True}]
    generations = query(
        "select g.prompt_ids, g.completion_ids, g.logprobs, g.policy_version from generations g "
        "join agent_states a on a.id = g.agent_state_id where a.rollout_id = %s order by a.step_number",
        rollout_id,
    )
    # Of the second prompt, only what the first did not have.
    assert [one["prompt_ids"] for one in generations] == [[1, 2], [5]]
    assert [one["completion_ids"] for one in generations] == [[3, 4], [6]]
    assert [one["logprobs"] for one in generations] == [[-0.5, -0.5], [-0.5]]
    assert {one["policy_version"] for one in generations} == {9}


def test_a_browser_rollout_has_its_screenshots_and_its_video(
    record: Callable[..., str], server: ModelServer, sandbox: LocalSandbox, query: Query
) -> None:
    server.answers += [
        answer_json(candidate(function_call("navigate", url="/red"))),
        answer_json(candidate(function_call("navigate", url="https://example.com/"))),
        answer_json(candidate(function_call("submit", answer="42"))),
    ]
    rollout_id = record("browser", sandbox, provider="gemini", settle_seconds=0.1)

    turns = query("select id, info, messages from agent_states where rollout_id = %s order by step_number", rollout_id)
    offsets = [turn["info"]["video_seconds"] for turn in turns]
    assert offsets == sorted(offsets)
    assert turns[1]["info"]["blocked"] == [{"url": "https://example.com/", "how": "navigate"}]
    (rollout,) = query("select video_path from rollouts where id = %s", rollout_id)
    (video,) = query(
        "select path, content_type, duration_ms from media where rollout_id = %s and kind = 'video'", rollout_id
    )
    assert (video["path"], video["content_type"]) == (rollout["video_path"], "video/webm")
    assert video["duration_ms"] > offsets[-1] * 1000
    images = query("select agent_state_id from media where rollout_id = %s and kind = 'image'", rollout_id)
    # Each once, though it is also in the chat.
    assert sorted(str(image["agent_state_id"]) for image in images) == sorted(str(turn["id"]) for turn in turns)
    # Screenshots are references in the chat, not its text.
    assert "storage://media/" in str(turns[0]["messages"])
    assert len(str(turns[0]["messages"])) < 5000
