"""Chat completions, as OpenAI, vLLM, SGLang and many others serve them; as a stream or in one answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from openmanus_rl.agents.base import AgentError
from openmanus_rl.agents.models.endpoints import ModelOptions, cost_of, open_server
from openmanus_rl.agents.models.http import events_in, read_object
from openmanus_rl.agents.models.replies import Call, Outcome, Reply, parse_arguments
from openmanus_rl.errors import BadResponse, ServerError

__all__ = ["OpenAIConversation", "OpenAIOptions"]

# What vLLM and SGLang return token ids and logprobs for; others refuse or ignore it.
_TOKEN_FIELDS = {"logprobs": True, "return_token_ids": True}
_LONGEST_MALFORMED_CHARACTERS = 2000


class OpenAIOptions(ModelOptions):
    """Options of models behind chat completions."""

    token_ids: Literal["auto", "always", "never"] = "auto"
    policy_version: int | None = Field(default=None, ge=0)


class OpenAIConversation:
    """A chat with a model behind chat completions."""

    def __init__(
        self,
        model: str,
        options: OpenAIOptions,
        *,
        system: str,
        tools: Sequence[Mapping[str, Any]],
        images_kept: int | None = None,
    ) -> None:
        self.model = model
        self._options = options
        self._server = open_server(options)
        self._tools = list(tools)
        self._images_kept = images_kept
        self._chat: list[dict[str, Any]] = [{"role": "system", "content": system}]
        # None: to be found out by the first request.
        self._asks_for_tokens = {"auto": None, "always": True, "never": False}[options.token_ids]

    @property
    def messages(self) -> list[Any]:
        """Return the chat as it is sent: of the screenshots, only the last ones."""
        return _without_old_images(self._chat, kept=self._images_kept)

    def start(self, text: str, *, image: bytes | None = None) -> None:
        """Add the task."""
        self._chat.append({"role": "user", "content": _content(text, image)})

    def say(self, text: str) -> None:
        """Add a message of the user."""
        self._chat.append({"role": "user", "content": text})

    def add_outcomes(self, calls: Sequence[Call], outcomes: Sequence[Outcome]) -> None:
        """Answer the tool calls. Tool messages cannot contain images: the last one follows as the user's."""
        for call, outcome in zip(calls, outcomes, strict=True):
            self._chat.append({"role": "tool", "tool_call_id": call.id, "content": outcome.output})
        if outcomes and outcomes[-1].image is not None:
            self._chat.append({"role": "user", "content": _content("The page now:", outcomes[-1].image)})

    def ask(self, *, timeout_seconds: float | None) -> Reply:
        """Return the model's reply, and add it to the chat."""
        reply = self._complete(timeout_seconds)
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [_sent_back(call) for call in reply.calls]
        elif not reply.text:
            message["content"] = ""
        self._chat.append(message)
        return reply

    def cost_usd(self, reply: Reply) -> float | None:
        """Return what a reply cost, None if unknown."""
        return cost_of(reply, self._options)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _complete(self, timeout_seconds: float | None) -> Reply:
        if self._asks_for_tokens is None:
            try:
                reply = self._request(timeout_seconds, with_tokens=True)
            except AgentError as error:
                if error.status not in (400, 422):
                    raise
                # Perhaps for the fields of tokens. If it was something else, the same error comes again.
                self._asks_for_tokens = False
            else:
                self._asks_for_tokens = True
                return reply
        return self._request(timeout_seconds, with_tokens=self._asks_for_tokens)

    def _request(self, timeout_seconds: float | None, *, with_tokens: bool) -> Reply:
        options = self._options
        body: dict[str, Any] = {"model": self.model, "messages": self.messages}
        if self._tools:
            body["tools"] = self._tools
        for name, value in (
            ("temperature", options.temperature),
            ("top_p", options.top_p),
            ("max_tokens", options.max_output_tokens),
        ):
            if value is not None:
                body[name] = value
        if options.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= (_TOKEN_FIELDS if with_tokens else {}) | options.extra_body
        response = self._server.post(
            "chat/completions",
            body,
            read=_read_stream if options.stream else _read_whole,
            timeout_seconds=timeout_seconds,
        )
        return _as_reply(response, model=self.model, policy_version=options.policy_version)


def _read_whole(chunks: Iterator[bytes]) -> dict[str, Any]:
    response = read_object(b"".join(chunks))
    choices = response.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise BadResponse("its answer contains no choices")
    if not isinstance(choices[0].get("message"), dict):
        raise BadResponse("its answer contains no message")
    return response


def _read_stream(chunks: Iterator[bytes]) -> dict[str, Any]:
    """Return the response that a stream amounts to; `BadResponse` if it breaks off."""
    message: dict[str, Any] = {"role": "assistant"}
    choice: dict[str, Any] = {"message": message, "finish_reason": None}
    response: dict[str, Any] = {"choices": [choice]}
    for event in events_in(chunks):
        if isinstance(event.get("error"), (dict, str)):
            raise ServerError(f"its stream ended with an error: {str(event['error'])[:500]}")
        for name in ("id", "model", "usage", "prompt_token_ids"):
            if event.get(name) is not None:
                response[name] = event[name]
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            _add_delta(choice, choices[0])
    if choice["finish_reason"] is None:
        raise BadResponse("its stream broke off before the end of the answer")
    return response


def _add_delta(choice: dict[str, Any], given: Mapping[str, Any]) -> None:
    message, delta = choice["message"], given.get("delta")
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
        if isinstance(delta, Mapping) and isinstance(delta.get(name), str):
            message[name] = message.get(name, "") + delta[name]
    for part in (delta.get("tool_calls") or []) if isinstance(delta, Mapping) else []:
        if isinstance(part, Mapping):
            _add_call_delta(message.setdefault("tool_calls", []), part)
    if isinstance(given.get("token_ids"), list):
        choice.setdefault("token_ids", []).extend(given["token_ids"])
    logprobs = given.get("logprobs")
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
        choice.setdefault("logprobs", {"content": []})["content"].extend(logprobs["content"])
    if given.get("finish_reason") is not None:
        choice["finish_reason"] = given["finish_reason"]


def _add_call_delta(calls: list[dict[str, Any]], part: Mapping[str, Any]) -> None:
    """Add a piece of a tool call; pieces of several calls may be mixed, told apart by their index."""
    index = part.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        # Some servers leave it out, and send each call whole.
        index = len(calls) if part.get("id") or not calls else calls[-1]["index"]
    call = next((one for one in calls if one["index"] == index), None)
    if call is None:
        call = {"index": index, "id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        calls.append(call)
    call["id"] = part.get("id") or call["id"]
    function = part.get("function")
    for name in ("name", "arguments"):
        if isinstance(function, Mapping) and isinstance(function.get(name), str):
            call["function"][name] += function[name]


def _as_reply(response: Mapping[str, Any], *, model: str, policy_version: int | None) -> Reply:
    choice = response["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls")
    usage = response.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    generation = _generation(response, choice, model=model, policy_version=policy_version)
    return Reply(
        text=_text_of(message.get("content")) or _text_of(message.get("refusal")),
        thought=_text_of(message.get("reasoning_content")) or _text_of(message.get("reasoning")) or None,
        calls=[_as_call(call, place) for place, call in enumerate(calls)] if isinstance(calls, list) else [],
        finish_reason=choice.get("finish_reason") if isinstance(choice.get("finish_reason"), str) else None,
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        generation=generation,
        response=_kept(response, choice),
    )


def _as_call(call: Any, place: int) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    function = function if isinstance(function, Mapping) else {}
    name = function.get("name")
    given_id = call.get("id") if isinstance(call, Mapping) else None
    call_id = given_id if isinstance(given_id, str) and given_id else f"call_{place}"
    if not isinstance(name, str) or not name:
        return Call(call_id, "unknown", problem="the call does not name a tool")
    arguments, problem = parse_arguments(function.get("arguments"))
    if problem is not None:
        problem += f"; given were: {str(function.get('arguments'))[:_LONGEST_MALFORMED_CHARACTERS]}"
    return Call(call_id, name, arguments, problem)


def _sent_back(call: Call) -> dict[str, Any]:
    # With arguments that are JSON, though the model's were not: vLLM's chat templates would fail on the whole chat.
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _generation(
    response: Mapping[str, Any], choice: Mapping[str, Any], *, model: str, policy_version: int | None
) -> dict[str, Any] | None:
    """Return the tokens as `log_turn` takes them; None without the completion's ids."""
    completion = _ids(choice.get("token_ids"))
    prompt = _ids(response.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids"))
    if not completion:
        return None
    generation = {"model": model, "completion_ids": completion, "finish_reason": choice.get("finish_reason")}
    if prompt:
        generation["prompt_ids"] = prompt
    logprobs = [entry.get("logprob") for entry in _logprob_entries(choice)]
    # One for each token, or none: the database refuses others.
    if len(logprobs) == len(completion) and all(isinstance(value, (int, float)) for value in logprobs):
        generation["logprobs"] = logprobs
    if policy_version is not None:
        generation["policy_version"] = policy_version
    return generation


def _kept(response: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: response[name] for name in ("id", "model", "usage") if response.get(name) is not None}
    chosen = {"message": choice["message"], "finish_reason": choice.get("finish_reason")}
    if entries := _logprob_entries(choice):
        # The texts of the tokens, which the dashboard shows; without the alternatives.
        content = [{"token": entry.get("token"), "logprob": entry.get("logprob")} for entry in entries]
        chosen["logprobs"] = {"content": content}
    return {**kept, "choices": [chosen]}


def _logprob_entries(choice: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return [entry for entry in content if isinstance(entry, Mapping)] if isinstance(content, list) else []


def _ids(value: Any) -> list[int] | None:
    if isinstance(value, list) and all(type(one) is int for one in value):
        return value
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _content(text: str, image: bytes | None) -> Any:
    if image is None:
        return text
    url = f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"
    return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]


def _without_old_images(chat: list[dict[str, Any]], *, kept: int | None) -> list[Any]:
    places = [place for place, message in enumerate(chat) if isinstance(message["content"], list)]
    old = set(places[:-kept] if kept else places) if kept is not None else set()
    return [
        {**message, "content": f"{message['content'][0]['text']} (an earlier screenshot)"} if place in old else message
        for place, message in enumerate(chat)
    ]
