"""Gemini's `generateContent` with the Computer Use tool.

Spoken as JSON over the same client as the other models, so that time limits, retries and the masking of keys are the
same for all. Tests compare it with what Google's own library sends and reads.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from openmanus_rl.agents.base import AgentError
from openmanus_rl.agents.models.endpoints import ModelOptions, cost_of, open_server
from openmanus_rl.agents.models.http import events_in, read_object
from openmanus_rl.agents.models.replies import Call, Outcome, Reply, parse_arguments
from openmanus_rl.errors import BadResponse, ServerError

__all__ = ["GeminiConversation"]

_BAD_CALL = "MALFORMED_FUNCTION_CALL"


class GeminiConversation:
    """A chat with a Gemini model that operates a browser."""

    def __init__(
        self,
        model: str,
        options: ModelOptions,
        *,
        system: str,
        functions: Sequence[Mapping[str, Any]],
        images_kept: int,
    ) -> None:
        self.model = model
        self._options = options
        self._server = open_server(options, default_endpoint="gemini")
        self._system = system
        self._functions = list(functions)
        self._images_kept = images_kept
        self._contents: list[dict[str, Any]] = []

    @property
    def messages(self) -> list[Any]:
        """Return the system prompt and the contents as they are sent: of the screenshots, only the last ones."""
        return [{"role": "system", "parts": [{"text": self._system}]}, *self._sent()]

    def start(self, text: str, *, image: bytes | None = None) -> None:
        """Add the task."""
        parts: list[dict[str, Any]] = [{"text": text}]
        if image is not None:
            parts.append(_picture(image))
        self._contents.append({"role": "user", "parts": parts})

    def say(self, text: str) -> None:
        """Add a message of the user."""
        self._contents.append({"role": "user", "parts": [{"text": text}]})

    def add_outcomes(self, calls: Sequence[Call], outcomes: Sequence[Outcome]) -> None:
        """Answer the function calls, each with the address and the screenshot after it."""
        parts = []
        for call, outcome in zip(calls, outcomes, strict=True):
            response: dict[str, Any] = {"url": outcome.url, "output": outcome.output}
            if outcome.error is not None:
                response["error"] = outcome.error
            function_response: dict[str, Any] = {"name": call.name, "response": response}
            if call.id:
                function_response["id"] = call.id
            if outcome.image is not None:
                function_response["parts"] = [_picture(outcome.image)]
            parts.append({"functionResponse": function_response})
        self._contents.append({"role": "user", "parts": parts})

    def ask(self, *, timeout_seconds: float | None) -> Reply:
        """Return the model's reply, and add it to the chat as it came, with the signatures of its thoughts."""
        method = "streamGenerateContent?alt=sse" if self._options.stream else "generateContent"
        response = self._server.post(
            f"models/{quote(self.model.removeprefix('models/'), safe='')}:{method}",
            self._body(),
            read=_read_stream if self._options.stream else _read_whole,
            timeout_seconds=timeout_seconds,
        )
        candidate = _candidate(response)
        parts = [part for part in candidate["content"]["parts"] if isinstance(part, Mapping)]
        if not parts and candidate.get("finishReason") not in (_BAD_CALL, "MAX_TOKENS", "STOP"):
            raise AgentError(f"the model gave no answer: {candidate.get('finishReason')}", code="no_answer")
        # A turn without parts is refused when it is sent back.
        self._contents.append({"role": "model", "parts": parts or [{"text": "(no answer)"}]})
        return _as_reply(response, candidate, parts)

    def cost_usd(self, reply: Reply) -> float | None:
        """Return what a reply cost, None if unknown."""
        return cost_of(reply, self._options)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _body(self) -> dict[str, Any]:
        options = self._options
        config = {
            "temperature": options.temperature,
            "topP": options.top_p,
            "maxOutputTokens": options.max_output_tokens,
            "thinkingConfig": {"includeThoughts": True},
        }
        tools: list[dict[str, Any]] = [{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}]
        if self._functions:
            tools.append({"functionDeclarations": self._functions})
        return {
            "contents": self._sent(),
            "systemInstruction": {"parts": [{"text": self._system}]},
            "tools": tools,
            "generationConfig": {name: value for name, value in config.items() if value is not None},
            **options.extra_body,
        }

    def _sent(self) -> list[dict[str, Any]]:
        pictured = [place for place, content in enumerate(self._contents) if _has_picture(content)]
        old = set(pictured[: -self._images_kept])
        return [_unpictured(content) if place in old else content for place, content in enumerate(self._contents)]


def _read_whole(chunks: Iterator[bytes]) -> dict[str, Any]:
    response = read_object(b"".join(chunks))
    _candidate(response)
    return response


def _read_stream(chunks: Iterator[bytes]) -> dict[str, Any]:
    """Return the response that a stream amounts to; `BadResponse` if it breaks off."""
    parts: list[Any] = []
    response: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    for event in events_in(chunks):
        if "error" in event:
            raise ServerError(f"its stream ended with an error: {str(event['error'])[:500]}")
        response |= {name: value for name, value in event.items() if name != "candidates"}
        if isinstance(event.get("candidates"), list) and event["candidates"]:
            given = _candidate(event)
            parts += given["content"]["parts"]
            candidate |= given
    if candidate.get("finishReason") is None and "promptFeedback" not in response:
        raise BadResponse("its stream broke off before the end of the answer")
    return {**response, "candidates": [{**candidate, "content": {"parts": parts}}] if candidate else []}


def _candidate(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first candidate, with a content and parts; an error if the prompt was blocked or there is none."""
    candidates = response.get("candidates")
    if not (isinstance(candidates, list) and candidates and isinstance(candidates[0], dict)):
        feedback = response.get("promptFeedback")
        if isinstance(feedback, Mapping):
            raise AgentError(f"the prompt was blocked: {feedback.get('blockReason')}", code="blocked")
        raise BadResponse("its answer contains no candidates")
    candidate = candidates[0]
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return {**candidate, "content": {"role": "model", "parts": parts if isinstance(parts, list) else []}}


def _as_reply(response: Mapping[str, Any], candidate: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Reply:
    usage = response.get("usageMetadata")
    usage = usage if isinstance(usage, Mapping) else {}
    calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), Mapping)]
    texts = [part for part in parts if isinstance(part.get("text"), str)]
    kept = {name: response[name] for name in ("responseId", "modelVersion", "usageMetadata") if name in response}
    return Reply(
        text="".join(part["text"] for part in texts if not part.get("thought")),
        thought="".join(part["text"] for part in texts if part.get("thought")) or None,
        calls=[_as_call(call) for call in calls],
        finish_reason=candidate.get("finishReason"),
        input_tokens=_sum(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        # Thoughts are charged as output, and not among the candidates' tokens.
        output_tokens=_sum(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        response={**kept, "candidates": [candidate]},
    )


def _as_call(call: Mapping[str, Any]) -> Call:
    name, given_id = call.get("name"), call.get("id")
    call_id = given_id if isinstance(given_id, str) else ""
    if not isinstance(name, str) or not name:
        return Call(call_id, "unknown", problem="the call does not name a function")
    arguments, problem = parse_arguments(call.get("args"))
    return Call(call_id, name, arguments, problem)


def _sum(usage: Mapping[str, Any], *names: str) -> int | None:
    counts = [usage[name] for name in names if type(usage.get(name)) is int]
    return sum(counts) if counts else None


def _picture(image: bytes) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(image).decode("ascii")}}


def _has_picture(content: Mapping[str, Any]) -> bool:
    return content["role"] == "user" and any(
        "inlineData" in part or part.get("functionResponse", {}).get("parts") for part in content["parts"]
    )


def _unpictured(content: Mapping[str, Any]) -> dict[str, Any]:
    parts = []
    for part in content["parts"]:
        if "functionResponse" in part:
            response = {name: value for name, value in part["functionResponse"].items() if name != "parts"}
            parts.append({"functionResponse": response})
        elif "inlineData" not in part:
            parts.append(part)
    return {**content, "parts": parts}
