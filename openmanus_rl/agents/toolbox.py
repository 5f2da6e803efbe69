"""The tools of the chat agent: a shell and HTTP inside the sandbox, steps of an episode, and the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openmanus_rl.agents.base import Recorder
from openmanus_rl.agents.loop import Sight
from openmanus_rl.agents.models.replies import Outcome
from openmanus_rl.records.plain import as_text
from openmanus_rl.sandboxes.base import CommandResult, Sandbox, SandboxError, StepResult

__all__ = ["TOOL_NAMES", "SandboxTools", "declare", "described", "tool_error"]

_STEP_REMINDER = "The episode is not over: call the tool step with your next action."


def declare(name: str, description: str, required: Mapping[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's declaration for chat completions."""
    parameters = {"type": "object", "properties": {**required, **optional}, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TEXT = {"type": "string"}
_ANSWER = {"description": "The answer: text, or any JSON value that the task asks for."}
_TOOLS = {
    "shell": declare(
        "shell",
        "Run a command with sh in the environment; returns its exit code and what it printed.",
        {"command": _TEXT},
        {"timeout_seconds": {"type": "number", "description": "At most the agent's own limit."}},
    ),
    "http_request": declare(
        "http_request",
        "Make an HTTP request to a service of the environment; other hosts cannot be reached.",
        {"method": _TEXT, "url": {"type": "string", "description": "An absolute URL."}},
        {"headers": {"type": "object", "additionalProperties": _TEXT}, "body": _TEXT},
    ),
    "submit": declare("submit", "Submit the final answer. This ends the task.", {"answer": _ANSWER}, {}),
}
TOOL_NAMES = (*_TOOLS, "step")


class SandboxTools:
    """Runs tool calls in a sandbox. Outputs are cut in the middle, so that they fit the model's context."""

    def __init__(
        self,
        environment: Sandbox,
        recorder: Recorder,
        *,
        names: Sequence[str] | None,
        timeout_seconds: float,
        max_output_characters: int,
    ) -> None:
        self._environment = environment
        self._recorder = recorder
        self._timeout_seconds = timeout_seconds
        self._max_output_characters = max_output_characters
        self._names = list(names) if names is not None else _default_names(environment)
        self._calls: dict[str, Callable[[Mapping[str, Any]], Outcome]] = {
            "shell": self._shell,
            "http_request": self._request,
            "submit": self._submit,
            "step": self._step,
        }
        self.reminder = _STEP_REMINDER if "step" in self._names else None

    @property
    def declarations(self) -> list[dict[str, Any]]:
        """Return the tools in the format of chat completions."""
        return [_step_declaration(self._environment) if name == "step" else _TOOLS[name] for name in self._names]

    def look(self, outcomes: Sequence[Outcome]) -> Sight:
        """Return the outputs of the last turn, and a picture of the episode."""
        return Sight("\n\n".join(outcome.output for outcome in outcomes), self._pictures())

    def first_look(self, text: str) -> Sight:
        """Return what is seen at the beginning."""
        return Sight(text, self._pictures())

    def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool; wrong names and arguments are answered to the model."""
        if name not in self._names:
            return tool_error(f"there is no tool {name!r}; the tools are {', '.join(self._names)}")
        try:
            return self._calls[name](arguments)
        except (KeyError, TypeError, ValueError) as error:
            return tool_error(f"bad arguments of {name}: {type(error).__name__}: {error}")
        except SandboxError as error:
            # Raises if the environment is dead; otherwise it refused this one call.
            self._environment.check()
            return tool_error(str(error))

    def _shell(self, arguments: Mapping[str, Any]) -> Outcome:
        wished = float(arguments.get("timeout_seconds") or self._timeout_seconds)
        if not wished > 0:
            raise ValueError("timeout_seconds must be positive")
        seconds = self._seconds_left(min(wished, self._timeout_seconds))
        result = self._environment.run(_required_text(arguments, "command"), timeout_seconds=seconds)
        text = self._cut(described(result, seconds))
        return Outcome(text, error=None if result.exit_code == 0 else text.partition("\n")[0])

    def _request(self, arguments: Mapping[str, Any]) -> Outcome:
        headers, body = arguments.get("headers") or {}, arguments.get("body")
        if not isinstance(headers, Mapping):
            raise TypeError("headers must be an object")
        content = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        response = self._environment.request(
            str(arguments.get("method") or "GET").upper(),
            _required_text(arguments, "url"),
            headers={str(name): str(value) for name, value in headers.items()},
            body=content,
            timeout_seconds=self._seconds_left(self._timeout_seconds),
        )
        lines = [f"status: {response.status}", *(f"{name}: {value}" for name, value in response.headers.items())]
        text = "\n".join(lines) + "\n\n" + response.body.decode(errors="replace")
        return Outcome(self._cut(text + ("\n(cut off)" if response.is_truncated else "")))

    def _submit(self, arguments: Mapping[str, Any]) -> Outcome:
        answer = arguments["answer"]
        return Outcome("submitted", ends=True, answer=answer)

    def _step(self, arguments: Mapping[str, Any]) -> Outcome:
        episode = self._environment.episode
        if episode is None:
            return tool_error("this environment has no episode")
        result = episode.step(arguments["action"])
        return Outcome(
            self._cut(_described_step(result)), reward=result.reward, ends=result.is_done, info=_step_info(result)
        )

    def _pictures(self) -> list[Any]:
        episode = self._environment.episode
        picture = episode.render() if episode is not None else None
        return [] if picture is None else [picture]

    def _seconds_left(self, seconds: float) -> float:
        self._recorder.check_limits()
        left = self._recorder.remaining_seconds
        return seconds if left is None else max(0.1, min(seconds, left))

    def _cut(self, text: str) -> str:
        return cut_in_the_middle(text, self._max_output_characters)


def tool_error(message: str) -> Outcome:
    """Return an outcome that tells the model what it did wrong."""
    return Outcome(f"Error: {message}", error=message)


def described(result: CommandResult, seconds: float) -> str:
    """Return what a command did, as text."""
    ended = f"stopped after {seconds:g} s" if result.timed_out else f"exit code: {result.exit_code}"
    parts = [ended, result.stdout.decode(errors="replace")]
    if result.stderr:
        parts.append("stderr:\n" + result.stderr.decode(errors="replace"))
    if result.is_truncated:
        parts.append("(more was printed, and dropped)")
    return "\n".join(part.rstrip("\n") for part in parts if part)


def cut_in_the_middle(text: str, limit: int) -> str:
    """Return a text that is at most about `limit` characters long, with its beginning and its end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[len(text) - half :]}"


def _default_names(environment: Sandbox) -> list[str]:
    if environment.episode is not None:
        return ["step"]
    return ["submit"] if environment.kind == "none" else ["shell", "http_request", "submit"]


def _step_declaration(environment: Sandbox) -> dict[str, Any]:
    space = environment.episode.action_space if environment.episode is not None else None
    is_schema = isinstance(space, Mapping) and bool({"type", "properties", "anyOf", "enum", "oneOf"} & space.keys())
    action = dict(space) if is_schema and isinstance(space, Mapping) else {"description": f"One of: {as_text(space)}"}
    if space is None:
        action = {"description": "The next action."}
    return declare("step", "Act in the environment; returns what is observed then.", {"action": action}, {})


def _described_step(result: StepResult) -> str:
    text = as_text(result.observation)
    if result.reward is not None:
        text += f"\nreward: {result.reward:g}"
    return f"{text}\nThe episode is over." if result.is_done else text


def _step_info(result: StepResult) -> dict[str, Any]:
    ended = {"terminated": result.terminated, "truncated": result.truncated} if result.is_done else {}
    return {**dict(result.info), **ended}


def _required_text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments[name]
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{name} must be a text")
    return value
