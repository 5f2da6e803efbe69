"""What a model answers, and the conversation that it is part of, whichever server it runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

__all__ = ["Call", "Conversation", "Outcome", "Reply", "parse_arguments"]


@dataclass(frozen=True)
class Call:
    """A tool call of a model. With a `problem` it is malformed, and is answered with that."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class Reply:
    """A complete answer of a model."""

    text: str = ""
    thought: str | None = None
    calls: Sequence[Call] = ()
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    generation: Mapping[str, Any] | None = None
    """The token ids and logprobs, as `log_turn` takes them, if the server gave them."""
    response: Mapping[str, Any] = field(default_factory=dict)
    """The answer in the server's format, without its token ids."""

    @property
    def is_cut_off(self) -> bool:
        """Return whether the model stopped at its limit of output tokens."""
        return self.finish_reason in ("length", "MAX_TOKENS")


@dataclass(frozen=True)
class Outcome:
    """What a tool call led to."""

    output: str
    error: str | None = None
    reward: float | None = None
    ends: bool = False
    """Whether the agent is done: it submitted an answer, or the episode is over."""
    answer: Any = None
    image: bytes | None = None
    """What the screen shows afterwards, as PNG."""
    url: str = ""
    """The address of the page afterwards."""
    info: Mapping[str, Any] = field(default_factory=dict)


class Conversation(Protocol):
    """A chat with a model. It grows by what `start`, `add_outcomes`, `say` and the model's own replies add."""

    model: str

    @property
    def messages(self) -> list[Any]:
        """Return what the model is given, in the server's format."""

    def start(self, text: str, *, image: bytes | None = None) -> None: ...
    def say(self, text: str) -> None: ...
    def ask(self, *, timeout_seconds: float | None) -> Reply:
        """Return the model's next reply; `AgentError` if there is none within the time."""

    def add_outcomes(self, calls: Sequence[Call], outcomes: Sequence[Outcome]) -> None: ...
    def cost_usd(self, reply: Reply) -> float | None: ...
    def close(self) -> None: ...


def parse_arguments(given: Any) -> tuple[Mapping[str, Any], str | None]:
    """Return the arguments of a call, and what is wrong with them, from JSON text or an object."""
    if isinstance(given, Mapping):
        return given, None
    if given is None or given == "":
        return {}, None
    try:
        parsed = orjson.loads(given)
    except (ValueError, TypeError) as error:
        return {}, f"the arguments are not valid JSON: {error}"
    if not isinstance(parsed, dict):
        return {}, f"the arguments must be a JSON object, not {type(parsed).__name__}"
    return parsed, None
