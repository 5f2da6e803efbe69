"""The chat agent solves tasks with tools in a sandbox; whatever its model does is answered and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.agents.base import AgentError, LimitReached, Limits, SafetyStop, Task
from openmanus_rl.agents.recording import LimitedRecorder
from openmanus_rl.agents.registry import make_agent
from openmanus_rl.sandboxes.base import SandboxError

from ...support.agents import Countdown, LocalSandbox, ModelServer, Remembered, answer_json, completion, hang

TASK = Task(id="t1", description="What is in the file?")
PRICES = {"input_usd_per_million_tokens": 1.0, "output_usd_per_million_tokens": 1.0}


class Played:
    """What came of a rollout."""

    def __init__(self, sandbox: LocalSandbox, limits: Limits, *, options: dict[str, Any] | None = None) -> None:
        self.rollout = Remembered()
        self.recorder = LimitedRecorder(self.rollout, limits)
        self._sandbox = sandbox
        self._options = options or {}

    def run(self) -> Any:
        return make_agent("chat", model="served", options=self._options).run(TASK, self._sandbox, self.recorder)

    @property
    def turns(self) -> list[dict[str, Any]]:
        return self.rollout.turns


@pytest.fixture
def sandbox(tmp_path: Path) -> LocalSandbox:
    (tmp_path / "file").write_text("a secret\n")
    return LocalSandbox(tmp_path)


def play(sandbox: LocalSandbox, limits: Limits | None = None, **options: Any) -> Played:
    return Played(sandbox, limits or Limits(), options=options)


def test_a_model_looks_and_answers(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [
        answer_json(completion("I look.", calls=[("shell", {"command": "cat file"})])),
        answer_json(completion(calls=[("submit", {"answer": {"text": "a secret"}})])),
    ]
    played = play(sandbox, **PRICES)

    assert played.run() == {"text": "a secret"}
    first, last = played.turns
    assert first["observation"].startswith("What is in the file?")
    assert first["thought"] == "I look."
    assert first["action"] == [{"tool": "shell", "input": {"command": "cat file"}}]
    (call,) = first["tool_calls"]
    assert (call["tool_name"], call["success"], call["tool_output"]) == ("shell", True, "exit code: 0\na secret")
    assert last["observation"] == "exit code: 0\na secret"
    assert [message["role"] for message in last["messages"]] == ["system", "user", "assistant", "tool"]
    assert last["messages"][: len(first["messages"])] == first["messages"]
    assert (played.recorder.usage.input_tokens, played.recorder.usage.output_tokens) == (20, 10)
    assert played.recorder.usage.cost_usd == pytest.approx(30e-6)
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == ["shell", "http_request", "submit"]


def test_text_without_a_call_is_the_answer(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers.append(answer_json(completion("42")))
    played = play(sandbox)
    assert played.run() == "42"
    assert played.turns[0]["action"] == "42"
    assert played.recorder.usage.cost_usd is None


def test_parallel_calls_are_all_answered_in_their_order(server: ModelServer, sandbox: LocalSandbox) -> None:
    calls = [("shell", {"command": f"echo {number}"}) for number in range(3)]
    server.answers += [answer_json(completion(calls=calls)), answer_json(completion("done"))]
    played = play(sandbox)

    assert played.run() == "done"
    answered = [message for message in server.requests[1]["messages"] if message["role"] == "tool"]
    assert [(one["tool_call_id"], one["content"][-1]) for one in answered] == [
        ("id-0", "0"),
        ("id-1", "1"),
        ("id-2", "2"),
    ]
    assert len(played.turns[0]["tool_calls"]) == 3


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("shell", '{"command": "ls', "not valid JSON"),
        ("shell", "[]", "must be a JSON object"),
        ("shell", {}, "bad arguments of shell: KeyError"),
        ("shell", {"command": ["ls"]}, "command must be a text"),
        ("shell", {"command": "ls", "timeout_seconds": "soon"}, "bad arguments"),
        ("shell", {"command": "ls", "timeout_seconds": -5}, "must be positive"),
        ("sudo", {"command": "ls"}, "there is no tool 'sudo'; the tools are shell, http_request, submit"),
        ("step", {"action": 1}, "there is no tool 'step'"),
        ("submit", {}, "bad arguments of submit"),
        ("http_request", {"method": "GET", "url": "http://example.com/"}, "is not of this environment"),
        ("http_request", {"method": "GET", "url": 5}, "url must be a text"),
    ],
)
def test_a_wrong_call_is_answered_to_the_model_which_goes_on(
    server: ModelServer, sandbox: LocalSandbox, name: str, arguments: Any, told: str
) -> None:
    server.answers += [answer_json(completion(calls=[(name, arguments)])), answer_json(completion("sorry"))]
    played = play(sandbox)

    assert played.run() == "sorry"
    assert told in server.requests[1]["messages"][-1]["content"]
    (call,) = played.turns[0]["tool_calls"]
    assert call["success"] is False
    assert told in call["error_message"]


def test_commands_that_fail_print_much_or_never_end_are_told(server: ModelServer, sandbox: LocalSandbox) -> None:
    commands = ["exit 3", "yes | head -c 100000", "sleep 60"]
    server.answers += [
        answer_json(completion(calls=[("shell", {"command": command, "timeout_seconds": 1})])) for command in commands
    ]
    server.answers.append(answer_json(completion("done")))
    played = play(sandbox, max_tool_output_characters=1000)
    played.run()

    outputs = [turn["tool_calls"][0]["tool_output"] for turn in played.turns[:3]]
    assert outputs[0].startswith("exit code: 3")
    assert len(outputs[1]) < 1100
    assert "characters left out" in outputs[1]
    assert outputs[2].startswith("stopped after 1 s")
    assert [turn["tool_calls"][0]["success"] for turn in played.turns[:3]] == [False, True, False]


def test_a_dead_sandbox_ends_the_rollout_with_its_turn_recorded(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers.append(answer_json(completion("I look.", calls=[("shell", {"command": "ls"})])))
    sandbox.is_dead = True
    played = play(sandbox)

    with pytest.raises(SandboxError, match="has died"):
        played.run()
    assert [turn["thought"] for turn in played.turns] == ["I look."]


def test_an_agent_that_never_stops_is_cut_off_at_its_steps(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [answer_json(completion(calls=[("shell", {"command": "true"})]))] * 10
    played = play(sandbox, Limits(max_steps=3))

    with pytest.raises(LimitReached) as reached:
        played.run()
    assert reached.value.kind == "steps"
    assert len(played.turns) == 3
    # No call of the model is made that could not be recorded.
    assert len(server.requests) == 3


def test_the_reply_that_passes_the_limit_of_tokens_is_recorded_but_not_acted_on(
    server: ModelServer, sandbox: LocalSandbox, tmp_path: Path
) -> None:
    server.answers += [answer_json(completion(calls=[("shell", {"command": "touch acted"})]))] * 2
    played = play(sandbox, Limits(max_tokens=14))

    with pytest.raises(LimitReached) as reached:
        played.run()
    assert reached.value.kind == "tokens"
    assert [turn["action"] for turn in played.turns] == [[{"tool": "shell", "input": {"command": "touch acted"}}]]
    assert not (tmp_path / "acted").exists()


def test_the_cost_limit_ends_it(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [answer_json(completion(calls=[("shell", {"command": "true"})]))] * 9
    with pytest.raises(LimitReached) as reached:
        play(sandbox, Limits(max_cost_usd=40e-6), **PRICES).run()
    assert reached.value.kind == "cost"
    assert len(server.requests) == 3


def test_a_cost_limit_without_prices_is_refused_before_anything_is_spent(
    server: ModelServer, sandbox: LocalSandbox
) -> None:
    with pytest.raises(AgentError, match="prices of served are unknown"):
        play(sandbox, Limits(max_cost_usd=1.0)).run()
    assert server.requests == []


def test_the_time_limit_ends_a_model_that_hangs(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [hang] * 9
    with pytest.raises(LimitReached) as reached:
        play(sandbox, Limits(max_seconds=0.5)).run()
    assert reached.value.kind == "seconds"


def test_the_time_limit_ends_a_command_that_hangs(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [answer_json(completion(calls=[("shell", {"command": "sleep 100"})]))] * 2
    played = play(sandbox, Limits(max_seconds=1.5))
    with pytest.raises(LimitReached) as reached:
        played.run()
    assert reached.value.kind == "seconds"
    assert len(played.turns) == 1


def test_an_answer_that_was_cut_off_is_asked_for_again(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [answer_json(completion("the answer is", finish_reason="length")), answer_json(completion("42"))]
    played = play(sandbox)
    assert played.run() == "42"
    assert "cut off" in server.requests[1]["messages"][-1]["content"]


def test_an_empty_answer_is_asked_for_again(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [answer_json(completion("")), answer_json(completion("42"))]
    assert play(sandbox).run() == "42"


def test_a_safety_prompt_ends_the_rollout_before_anything_is_done(
    server: ModelServer, sandbox: LocalSandbox, tmp_path: Path
) -> None:
    asks = {"command": "touch acted", "safety_decision": {"decision": "require_confirmation", "explanation": "risky"}}
    server.answers.append(answer_json(completion(calls=[("shell", {"command": "touch acted"}), ("shell", asks)])))
    played = play(sandbox)

    with pytest.raises(SafetyStop, match="risky"):
        played.run()
    assert len(played.turns) == 1
    assert not (tmp_path / "acted").exists()


def test_an_episode_is_played_step_by_step_with_its_rewards(server: ModelServer, tmp_path: Path) -> None:
    moves: list[Any] = [
        completion("I think."),
        completion(calls=[("step", {"action": "down"}), ("step", {"action": "down"})]),
        completion(calls=[("step", {"action": "sideways"})]),
        completion(calls=[("step", {"action": "down"}), ("step", {"action": "down"})]),
    ]
    server.answers += [answer_json(move) for move in moves]
    played = play(LocalSandbox(tmp_path, episode=Countdown(3)))

    assert played.run() is None
    assert "counter at 3" in played.turns[0]["observation"]
    assert [turn.get("reward") for turn in played.turns] == [None, 1.0, None, 0.5]
    assert played.turns[-1]["info"] == {"terminated": True, "truncated": False}
    # Nothing is played beyond the end.
    assert len(played.turns[-1]["tool_calls"]) == 1
    (tool,) = server.requests[0]["tools"]
    assert tool["function"]["parameters"]["properties"]["action"] == {"type": "string", "enum": ["down", "wait"]}


def test_tokens_are_recorded_with_their_turn(server: ModelServer, sandbox: LocalSandbox) -> None:
    choice = {
        "token_ids": [3, 4],
        "logprobs": {"content": [{"token": "4", "logprob": -1}, {"token": "2", "logprob": 0}]},
    }
    server.answers.append(answer_json(completion("42", choice=choice, prompt_token_ids=[1, 2])))
    played = play(sandbox, policy_version=3)
    played.run()
    generation = played.turns[0]["generations"]
    assert (generation["prompt_ids"], generation["completion_ids"]) == ([1, 2], [3, 4])
    assert (generation["logprobs"], generation["policy_version"]) == ([-1, 0], 3)


def test_the_key_is_in_no_turn(server: ModelServer, sandbox: LocalSandbox) -> None:
    server.answers += [answer_json(completion(calls=[("shell", {"command": "ls"})])), answer_json(completion("42"))]
    played = play(sandbox)
    played.run()
    assert "sk-very-secret" not in str(played.turns)
