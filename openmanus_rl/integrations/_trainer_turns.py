"""Convert the prompts and completions of a trainer to turns with their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

__all__ = ["Tokens", "Turn", "text_of", "tokens_by_turn", "turns_of"]

Prompt = str | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn: the input of the model, and its output."""

    observation: str
    action: str
    messages: list[Mapping[str, Any]] | None = None
    thought: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A prompt and its completion; `mask` marks the trained tokens, `own` those that the model generated."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[bool]
    own: list[bool]
    advantages: list[float]
    logprobs: list[float] | None = None
    finish_reason: str | None = None

    def as_generation(self, *, policy_version: int) -> dict[str, Any]:
        """Return the tokens as a generation of a turn."""
        return {
            "prompt_ids": self.prompt_ids,
            "completion_ids": self.completion_ids,
            "mask": self.mask,
            "advantages": self.advantages,
            "logprobs": self.logprobs,
            "finish_reason": self.finish_reason,
            "policy_version": policy_version,
        }

    def part(self, start: int, end: int) -> Tokens:
        """Return a part of the completion; its prompt is everything before it."""
        per_token = len(self.advantages) == len(self.completion_ids)
        is_last = end == len(self.completion_ids)
        return replace(
            self,
            prompt_ids=self.prompt_ids + self.completion_ids[:start],
            completion_ids=self.completion_ids[start:end],
            mask=self.mask[start:end],
            own=self.own[start:end],
            advantages=self.advantages[start:end] if per_token else self.advantages,
            logprobs=None if self.logprobs is None else self.logprobs[start:end],
            finish_reason=self.finish_reason if is_last else "tool_calls",
        )


def turns_of(prompt: Prompt, completion: Prompt) -> list[Turn]:
    """Return a turn for each message of the model: one for a plain text, several if tools were called."""
    if isinstance(completion, str):
        return [Turn(observation=text_of(prompt), action=completion)]
    chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    turns = []
    for place, message in enumerate(completion):
        if message.get("role") == "assistant":
            given = [*chat, *completion[:place]]
            turns.append(
                Turn(
                    observation=text_of(given[-1:]),
                    action=text_of([message]),
                    messages=given,
                    thought=message.get("reasoning_content"),
                    tool_calls=_tool_calls(message, completion[place + 1 :]),
                )
            )
    return turns


def tokens_by_turn(tokens: Tokens, *, turn_count: int) -> list[Tokens | None]:
    """Return the tokens of each turn; if they cannot be separated, the last turn has all of them."""
    parts = []
    end = 0
    for is_own, stretch in groupby(tokens.own):
        start, end = end, end + len(list(stretch))
        if is_own:
            parts.append((start, end))
    if len(parts) == turn_count:
        return [tokens.part(start, end) for start, end in parts]
    return [None] * (turn_count - 1) + [tokens] if turn_count else []


def text_of(prompt: Prompt) -> str:
    """Return the text of a prompt; of a chat, the text of its last message."""
    if isinstance(prompt, str):
        return prompt
    content = prompt[-1].get("content") if prompt else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)


def _tool_calls(message: Mapping[str, Any], following: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    calls = message.get("tool_calls") or []
    answers: list[str | None] = []
    for answer in following:
        if answer.get("role") != "tool":
            break
        answers.append(text_of([answer]))
    # The last call of an aborted episode has no result.
    answers += [None] * (len(calls) - len(answers))
    found = []
    for call, answer_text in zip(calls, answers, strict=False):
        function = call.get("function", call)
        found.append(
            {
                "tool_name": function.get("name") or "unknown",
                "tool_input": function.get("arguments"),
                "tool_output": answer_text,
            }
        )
    return found or None
