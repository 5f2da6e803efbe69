"""The client of Gemini's generateContent, against a server that speaks it, and beside Google's own library."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google import genai
from google.genai import types

from openmanus_rl.agents.base import AgentError
from openmanus_rl.agents.models.endpoints import ModelOptions
from openmanus_rl.agents.models.gemini import GeminiConversation
from openmanus_rl.agents.models.replies import Outcome

from ...support.agents import (
    ModelServer,
    answer_bytes,
    answer_json,
    answer_stream,
    candidate,
    function_call,
    hang,
    reset,
)

IMAGE = b"\x89PNG\r\n\x1a\n and so on"
SUBMIT = {
    "name": "submit",
    "description": "Submit.",
    "parameters": {"type": "object", "properties": {"answer": {"type": "string"}}},
}
SIGNATURE = base64.b64encode(b"\xff\x00signature").decode()


def converse(**options: Any) -> GeminiConversation:
    conversation = GeminiConversation(
        "gemini-3.5-flash", ModelOptions(**options), system="Operate it.", functions=[SUBMIT], images_kept=2
    )
    conversation.start("Buy nothing.", image=IMAGE)
    return conversation


def test_we_send_what_googles_own_library_sends(server: ModelServer) -> None:
    click = candidate(
        {"text": "hm", "thought": True}, {**function_call("click", x=5, y=6), "thoughtSignature": SIGNATURE}
    )
    server.answers += [answer_json(click), answer_json(candidate({"text": "done"}))] * 2
    conversation = converse(temperature=0.5)
    reply = conversation.ask(timeout_seconds=9)
    conversation.add_outcomes(reply.calls, [Outcome("done", image=IMAGE, url="http://shop/")])
    assert conversation.ask(timeout_seconds=9).text == "done"

    client = genai.Client(
        api_key="AIza-very-secret",
        http_options=types.HttpOptions(base_url=server.url.removesuffix("/v1"), api_version="v1"),
    )
    config = types.GenerateContentConfig(
        temperature=0.5,
        system_instruction=types.Content(parts=[types.Part(text="Operate it.")]),
        tools=[
            types.Tool(computer_use=types.ComputerUse(environment=types.Environment.ENVIRONMENT_BROWSER)),
            types.Tool(function_declarations=[types.FunctionDeclaration(**SUBMIT)]),
        ],
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    first = types.Content(
        role="user", parts=[types.Part(text="Buy nothing."), types.Part.from_bytes(data=IMAGE, mime_type="image/png")]
    )
    theirs = client.models.generate_content(model="gemini-3.5-flash", contents=[first], config=config)
    assert theirs.candidates
    assert theirs.candidates[0].content
    answer = types.FunctionResponse(
        name="click",
        response={"url": "http://shop/", "output": "done"},
        parts=[types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=IMAGE))],
    )
    client.models.generate_content(
        model="gemini-3.5-flash",
        contents=[
            first,
            theirs.candidates[0].content,
            types.Content(role="user", parts=[types.Part(function_response=answer)]),
        ],
        config=config,
    )

    ours, library = server.requests[:2], server.requests[2:]
    assert [_plain(request) for request in ours] == [_plain(request) for request in library]
    assert {path.partition("?")[0] for path in server.paths} == {"/v1/models/gemini-3.5-flash:generateContent"}
    assert {headers["x-goog-api-key"] for headers in server.headers} == {"AIza-very-secret"}
    # And the library reads the server's answers as we do, which shows that the server speaks the format.
    call = theirs.candidates[0].content.parts[1].function_call  # type: ignore[index]
    assert call is not None
    assert (call.name, call.args) == (reply.calls[0].name, dict(reply.calls[0].arguments))


def _plain(value: Any) -> Any:
    """Return a request without the freedoms of the format: names with _, upper case types, kinds of base64, nulls."""
    if isinstance(value, dict):
        return {_camel(name): _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        text = value.replace("-", "+").replace("_", "/").rstrip("=")
        return text.lower() if value in ("OBJECT", "STRING") else text
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def test_a_reply_has_its_text_thought_calls_and_usage(server: ModelServer) -> None:
    server.answers.append(
        answer_json(
            candidate({"text": "why", "thought": True}, {"text": "I click."}, function_call("click_at", x=1, y=2))
        )
    )
    reply = converse().ask(timeout_seconds=9)

    assert (reply.text, reply.thought, reply.finish_reason) == ("I click.", "why", "STOP")
    assert [(call.name, call.arguments) for call in reply.calls] == [("click_at", {"x": 1, "y": 2})]
    # Thoughts are charged as output.
    assert (reply.input_tokens, reply.output_tokens) == (100, 25)


def test_a_stream_amounts_to_the_same_reply(server: ModelServer) -> None:
    first = candidate({"text": "I "}, finish_reason="")
    del first["candidates"][0]["finishReason"]
    server.answers.append(
        answer_stream([first, candidate({"text": "click."}, function_call("go_back"))], is_done=False)
    )
    reply = converse(stream=True).ask(timeout_seconds=9)

    assert (reply.text, [call.name for call in reply.calls], reply.finish_reason) == ("I click.", ["go_back"], "STOP")
    assert server.paths == ["/v1/models/gemini-3.5-flash:streamGenerateContent?alt=sse"]


@pytest.mark.parametrize(
    ("fault", "is_stream"),
    [
        (answer_json({"error": {"message": "busy"}}, status=429), False),
        (answer_json({"error": {"message": "busy"}}, status=503), False),
        (answer_bytes(b'{"candidates": ['), False),
        (answer_json({}), False),
        (reset, False),
        (answer_stream([{"candidates": [{"content": {"parts": [{"text": "half"}]}}]}]), True),
        (answer_stream([candidate({"text": "x" * 100})], cut=60), True),
        (answer_stream([{"error": {"message": "oops"}}]), True),
    ],
)
def test_passing_failures_are_retried(server: ModelServer, fault: Any, is_stream: bool) -> None:
    whole = candidate({"text": "42"})
    server.answers += [fault, answer_stream([whole], is_done=False) if is_stream else answer_json(whole)]
    assert converse(stream=is_stream).ask(timeout_seconds=30).text == "42"
    assert len(server.requests) == 2


def test_a_wrong_key_is_not_retried_and_not_repeated(server: ModelServer) -> None:
    server.answers.append(answer_json({"error": {"message": "bad key AIza-very-secret"}}, status=403))
    with pytest.raises(AgentError, match="GEMINI_API_KEY") as error:
        converse().ask(timeout_seconds=9)
    assert "AIza-very-secret" not in f"{error.value} {error.value.__cause__!r}"
    assert len(server.requests) == 1


def test_the_time_limit_ends_a_call_that_hangs(server: ModelServer) -> None:
    server.answers += [hang] * 9
    with pytest.raises(AgentError) as error:
        converse().ask(timeout_seconds=0.4)
    assert error.value.code == "timeout"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "blocked"),
        (candidate(finish_reason="SAFETY"), "no_answer"),
    ],
)
def test_an_answer_that_is_withheld_is_an_error_with_its_reason(server: ModelServer, answer: Any, code: str) -> None:
    server.answers.append(answer_json(answer))
    with pytest.raises(AgentError) as error:
        converse().ask(timeout_seconds=9)
    assert error.value.code == code
    assert len(server.requests) == 1


def test_a_malformed_function_call_can_be_followed_by_another_try(server: ModelServer) -> None:
    server.answers += [
        answer_json(candidate(finish_reason="MALFORMED_FUNCTION_CALL")),
        answer_json(candidate({"text": "42"})),
    ]
    conversation = converse()
    assert conversation.ask(timeout_seconds=9).calls == []
    conversation.say("Again, please.")
    assert conversation.ask(timeout_seconds=9).text == "42"
    assert all(content["parts"] for content in server.requests[1]["contents"])


def test_calls_that_are_none_are_answered_as_such(server: ModelServer) -> None:
    strange = [{"functionCall": {"args": {}}}, {"functionCall": {"name": "click", "args": [1]}}, {"functionCall": 5}, 7]
    server.answers.append(answer_json(candidate(*strange)))  # type: ignore[arg-type]
    reply = converse().ask(timeout_seconds=9)
    assert [bool(call.problem) for call in reply.calls] == [True, True]


def test_only_the_last_screenshots_are_sent(server: ModelServer) -> None:
    conversation = converse()
    for _ in range(3):
        server.answers.append(answer_json(candidate(function_call("go_back"))))
        reply = conversation.ask(timeout_seconds=9)
        conversation.add_outcomes(reply.calls, [Outcome("done", image=IMAGE)])
    sent = [str(content).count("inlineData") for content in conversation.messages if content["role"] == "user"]
    assert sent == [0, 0, 1, 1]
