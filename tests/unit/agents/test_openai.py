"""The client of chat completions, against a server that speaks the format and everything that can go wrong with it."""

from __future__ import annotations

import logging
import time
import traceback
from typing import Any

import pytest

from openmanus_rl.agents.base import AgentError
from openmanus_rl.agents.models import http
from openmanus_rl.agents.models.openai import OpenAIConversation, OpenAIOptions
from openmanus_rl.agents.models.replies import Call, Outcome, Reply

from ...support.agents import (
    ModelServer,
    answer_bytes,
    answer_json,
    answer_stream,
    completion,
    delta,
    hang,
    reset,
    trickle,
)

USAGE = {"prompt_tokens": 7, "completion_tokens": 3}


def ask(server: ModelServer, *answers: Any, timeout_seconds: float | None = 30, **options: Any) -> Reply:
    server.answers += answers
    return converse(**options).ask(timeout_seconds=timeout_seconds)


def converse(**options: Any) -> OpenAIConversation:
    conversation = OpenAIConversation(
        "served", OpenAIOptions(**{"token_ids": "never", **options}), system="Be brief.", tools=[]
    )
    conversation.start("What is 6 times 7?")
    return conversation


def test_a_reply_has_its_text_thought_calls_and_usage(server: ModelServer) -> None:
    said = completion("Let me see.", calls=[("shell", {"command": "ls"})], message={"reasoning_content": "hm"})
    reply = ask(server, answer_json(said), temperature=0.5, max_output_tokens=9, extra_body={"seed": 4})

    assert (reply.text, reply.thought, reply.finish_reason) == ("Let me see.", "hm", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [("id-0", "shell", {"command": "ls"})]
    assert (reply.input_tokens, reply.output_tokens) == (10, 5)
    (sent,) = server.requests
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 6 times 7?"},
    ]
    assert (sent["model"], sent["temperature"], sent["max_tokens"], sent["seed"]) == ("served", 0.5, 9, 4)
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == "Bearer sk-very-secret"


def test_a_stream_amounts_to_the_same_reply(server: ModelServer) -> None:
    events = [
        delta({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2, 3]),
        delta({"reasoning_content": "hm "}),
        delta(
            {"content": "Grüße 👋 "},
            choice={"token_ids": [4], "logprobs": {"content": [{"token": "G", "logprob": -0.1}]}},
        ),
        delta({"content": "da"}, choice={"token_ids": [5, 6]}),
        # Two calls whose pieces are mixed.
        delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "shell", "arguments": '{"comm'}}]}),
        delta({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "submit", "arguments": '{"answer"'}}]}),
        delta({"tool_calls": [{"index": 0, "function": {"arguments": 'and": "ls"}'}}]}),
        delta({"tool_calls": [{"index": 1, "function": {"arguments": ": 1}"}}]}),
        delta(finish_reason="tool_calls"),
        {"choices": [], "usage": USAGE},
    ]
    reply = ask(server, answer_stream(events), stream=True, token_ids="always")

    assert (reply.text, reply.thought) == ("Grüße 👋 da", "hm ")
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("a", "shell", {"command": "ls"}),
        ("b", "submit", {"answer": 1}),
    ]
    assert (reply.input_tokens, reply.output_tokens) == (7, 3)
    assert reply.generation is not None
    assert reply.generation["prompt_ids"] == [1, 2, 3]
    assert reply.generation["completion_ids"] == [4, 5, 6]
    # One logprob for three tokens is none.
    assert "logprobs" not in reply.generation
    assert server.requests[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("is_stream", [False, True])
def test_token_ids_and_logprobs_are_kept_where_the_server_gives_them(server: ModelServer, is_stream: bool) -> None:
    logprobs = {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": []}, {"token": "2", "logprob": -0.2}]}
    if is_stream:
        answer = answer_stream(
            [
                delta(
                    {"content": "4"},
                    prompt_token_ids=[1, 2],
                    choice={"token_ids": [3], "logprobs": {"content": logprobs["content"][:1]}},
                ),
                delta({"content": "2"}, choice={"token_ids": [4], "logprobs": {"content": logprobs["content"][1:]}}),
                delta(finish_reason="stop"),
            ]
        )
    else:
        choice = {"token_ids": [3, 4], "logprobs": logprobs}
        answer = answer_json(completion("42", choice=choice, prompt_token_ids=[1, 2]))
    reply = ask(server, answer, token_ids="auto", stream=is_stream, policy_version=7)

    assert server.requests[0]["return_token_ids"] is True
    assert server.requests[0]["logprobs"] is True
    assert reply.generation == {
        "model": "served",
        "prompt_ids": [1, 2],
        "completion_ids": [3, 4],
        "logprobs": [-0.1, -0.2],
        "finish_reason": "stop",
        "policy_version": 7,
    }
    tokens = reply.response["choices"][0]["logprobs"]["content"]
    assert tokens == [{"token": "4", "logprob": -0.1}, {"token": "2", "logprob": -0.2}]
    assert "token_ids" not in str(reply.response)


def test_a_server_that_refuses_to_give_token_ids_is_asked_without_from_then_on(server: ModelServer) -> None:
    refusal = answer_json({"error": {"message": "Unrecognized request argument: return_token_ids"}}, status=400)
    server.answers += [refusal, answer_json(completion("one")), answer_json(completion("two"))]
    conversation = converse(token_ids="auto")

    assert conversation.ask(timeout_seconds=9).text == "one"
    assert conversation.ask(timeout_seconds=9).text == "two"
    assert ["return_token_ids" in request for request in server.requests] == [True, False, False]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_passing_failures_are_retried(server: ModelServer, status: int) -> None:
    failure = answer_json({"error": {"message": "busy"}}, status=status)
    assert ask(server, failure, answer_json(completion("42"))).text == "42"
    assert len(server.requests) == 2


def test_a_server_that_says_when_to_come_back_is_obeyed(server: ModelServer) -> None:
    failure = answer_json({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "1"})
    assert ask(server, failure, answer_json(completion("42"))).text == "42"
    assert server.times[1] - server.times[0] >= 1


def test_a_pause_that_would_outlast_the_time_limit_is_not_waited_for(server: ModelServer) -> None:
    failure = answer_json({"error": {"message": "tomorrow"}}, status=429, headers={"Retry-After": "86400"})
    with pytest.raises(AgentError, match="tomorrow") as error:
        ask(server, failure)
    assert (error.value.code, error.value.status) == ("rate_limited", 429)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(reset, id="reset"),
        pytest.param(answer_bytes(b'{"choices": [', length=None), id="torn JSON"),
        pytest.param(answer_bytes(b'{"choices": [', length=1000), id="broken body"),
        pytest.param(answer_bytes(b"<html>proxy</html>"), id="HTML"),
        pytest.param(answer_bytes(b"[" * 100_000), id="deep JSON"),
        pytest.param(answer_json([1]), id="a list"),
        pytest.param(answer_json({"choices": []}), id="no choices"),
        pytest.param(answer_json({"choices": [{"text": "x"}]}), id="no message"),
        pytest.param(answer_bytes(b"\xff\xfe"), id="no text"),
    ],
)
def test_answers_that_are_none_are_retried(server: ModelServer, fault: Any) -> None:
    assert ask(server, fault, answer_json(completion("42"))).text == "42"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(answer_stream([delta({"content": "half"})], is_done=False), id="ends early"),
        pytest.param(answer_stream([delta({"content": "half"})]), id="done without an end"),
        pytest.param(answer_stream([delta({"content": "x" * 100}), delta(finish_reason="stop")], cut=120), id="cut"),
        pytest.param(answer_stream([b'{"choices": [{"del']), id="torn JSON"),
        pytest.param(answer_stream([delta({"content": "x"}), {"error": {"message": "out of memory"}}]), id="error"),
        pytest.param(answer_stream([], is_done=False), id="empty"),
        pytest.param(reset, id="reset"),
    ],
)
def test_a_stream_that_breaks_off_is_retried_and_never_taken_for_an_answer(server: ModelServer, fault: Any) -> None:
    whole = answer_stream([delta({"content": "42"}), delta(finish_reason="stop")])
    assert ask(server, fault, whole, stream=True).text == "42"
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_is_not_retried_and_not_repeated(
    server: ModelServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = answer_json({"error": {"message": "Incorrect API key provided: sk-very-secret"}}, status=status)
    with pytest.raises(AgentError, match="OPENAI_API_KEY") as error:
        ask(server, echo)
    assert len(server.requests) == 1
    told = "".join(traceback.format_exception(error.value)) + repr(error.value.__cause__) + caplog.text
    assert "sk-very-secret" not in told


@pytest.mark.parametrize(("status", "code"), [(400, "invalid_input"), (404, "not_found"), (302, "invalid_input")])
def test_what_will_not_pass_is_told_at_once_in_the_servers_words(server: ModelServer, status: int, code: str) -> None:
    answer = answer_json({"error": {"message": "context too long"}}, status=status, headers={"Location": "http://x/"})
    with pytest.raises(AgentError, match="context too long") as error:
        ask(server, answer)
    assert error.value.code == code
    assert len(server.requests) == 1


def test_a_key_is_sent_only_to_the_address_it_belongs_to(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever queues a rollout chooses base_url, and must not learn the worker's key by it.
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(AgentError, match="no key was sent"):
        ask(server, answer_json({}, status=401), base_url=server.url)
    assert "authorization" not in server.headers[0]

    monkeypatch.setenv("MINE_BASE_URL", server.url)
    monkeypatch.setenv("MINE_API_KEY", "mine")
    assert ask(server, answer_json(completion("42")), endpoint="mine").text == "42"
    assert server.headers[1]["authorization"] == "Bearer mine"


def test_another_variable_cannot_be_had_as_a_key(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "sb_secret_x")
    with pytest.raises(AgentError):
        ask(server, answer_json({}, status=401), base_url=server.url, endpoint="supabase_service_role")
    assert "sb_secret_x" not in str(server.headers)


def test_without_a_key_openai_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(AgentError, match="OPENAI_API_KEY is missing"):
        converse()


@pytest.mark.parametrize("fault", [hang, trickle])
def test_the_time_limit_ends_a_call_that_never_ends(server: ModelServer, fault: Any) -> None:
    started = time.monotonic()
    with pytest.raises(AgentError) as error:
        ask(server, *[fault] * 20, timeout_seconds=0.6)
    assert error.value.code == "timeout"
    # Far from the 300 s of a single request; not an exact measure.
    assert time.monotonic() - started < 30


def test_a_single_request_that_hangs_is_ended_and_tried_again(server: ModelServer) -> None:
    assert ask(server, hang, answer_json(completion("42")), request_timeout_seconds=0.3).text == "42"


def test_nobody_listens(server: ModelServer) -> None:
    with pytest.raises(AgentError) as error:
        ask(server, base_url="http://127.0.0.1:9/v1", retry_limit_seconds=0.1)
    assert error.value.code == "connection_failed"


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_very_long_answer_arrives_whole(server: ModelServer, is_stream: bool) -> None:
    text = "äbc" * 300_000
    if is_stream:
        parts = [delta({"content": text[start : start + 50_000]}) for start in range(0, len(text), 50_000)]
        reply = ask(server, answer_stream([*parts, delta(finish_reason="length")]), stream=True)
        assert reply.is_cut_off
    else:
        reply = ask(server, answer_json(completion(text)))
    assert reply.text == text


def test_an_endless_answer_is_refused(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_ANSWER_BYTES", 1000)
    with pytest.raises(AgentError) as error:
        ask(server, answer_json(completion("x" * 2000)))
    assert error.value.code == "too_large"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({"id": "a", "function": {"name": "shell", "arguments": '{"command": '}}, "not valid JSON"),
        ({"id": "a", "function": {"name": "shell", "arguments": "[1]"}}, "must be a JSON object"),
        ({"id": "a", "function": {"arguments": "{}"}}, "does not name a tool"),
        ({"id": None, "function": None}, "does not name a tool"),
        ("what", "does not name a tool"),
    ],
)
def test_a_malformed_call_is_kept_with_what_is_wrong_and_sent_back_as_valid_json(
    server: ModelServer, call: Any, problem: str
) -> None:
    server.answers += [answer_json(completion(message={"tool_calls": [call]})), answer_json(completion("sorry"))]
    conversation = converse()
    reply = conversation.ask(timeout_seconds=9)
    assert problem in str(reply.calls[0].problem)

    conversation.add_outcomes(reply.calls, [Outcome("Error: …")])
    assert conversation.ask(timeout_seconds=9).text == "sorry"
    assistant, tool = server.requests[1]["messages"][-2:]
    (sent,) = assistant["tool_calls"]
    assert sent["function"]["arguments"] == "{}"
    assert tool == {"role": "tool", "tool_call_id": sent["id"], "content": "Error: …"}


def test_text_that_is_no_unicode_does_not_stop_the_chat(server: ModelServer) -> None:
    torn = b'{"choices": [{"message": {"role": "assistant", "content": "half \\ud83d"}, "finish_reason": "stop"}]}'
    server.answers += [answer_bytes(torn), answer_json(completion("go on"))]
    conversation = converse()
    conversation.ask(timeout_seconds=9)
    conversation.say("?")
    assert conversation.ask(timeout_seconds=9).text == "go on"


@pytest.mark.usefixtures("server")
def test_only_the_last_screenshots_are_sent() -> None:
    conversation = OpenAIConversation("m", OpenAIOptions(), system="s", tools=[], images_kept=2)
    conversation.start("task", image=b"one")
    for image in (b"two", b"three"):
        conversation.add_outcomes([Call("a", "click")], [Outcome("done", image=image)])
    contents = [message["content"] for message in conversation.messages]
    assert contents[1] == "task (an earlier screenshot)"
    urls = [content[1]["image_url"]["url"] for content in contents if isinstance(content, list)]
    assert urls == ["data:image/png;base64,dHdv", "data:image/png;base64,dGhyZWU="]


@pytest.mark.usefixtures("server")
def test_costs_are_counted_from_prices_and_unknown_without_them() -> None:
    prices = {"input_usd_per_million_tokens": 2.0, "output_usd_per_million_tokens": 10.0}
    conversation = converse(**prices)
    assert conversation.cost_usd(Reply(input_tokens=1_000_000, output_tokens=100_000)) == pytest.approx(3.0)
    assert conversation.cost_usd(Reply(input_tokens=None, output_tokens=5)) is None
    assert converse(input_usd_per_million_tokens=2.0).cost_usd(Reply(input_tokens=1, output_tokens=1)) is None
    assert converse(**dict.fromkeys(prices, 0.0)).cost_usd(Reply(input_tokens=1, output_tokens=1)) == 0.0
