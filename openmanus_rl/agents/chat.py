"""A tool-calling agent for any endpoint with chat completions, such as a model that vLLM serves during training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from openmanus_rl.agents.base import Recorder, Task
from openmanus_rl.agents.loop import check_cost_limit, work
from openmanus_rl.agents.models.openai import OpenAIConversation, OpenAIOptions
from openmanus_rl.agents.options import parse_options
from openmanus_rl.agents.toolbox import SandboxTools
from openmanus_rl.errors import InvalidInput
from openmanus_rl.records.plain import as_text
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["ChatAgent", "ChatOptions"]

_SYSTEM = (
    "You are an agent that solves a task in an environment, with the tools that you are given. Work step by step and "
    "look at the results before you go on. Nobody answers questions: decide yourself."
)


class ChatOptions(OpenAIOptions):
    """Options of the chat agent."""

    system_prompt: str = _SYSTEM
    tools: list[Literal["shell", "http_request", "submit", "step"]] | None = None
    tool_timeout_seconds: float = Field(default=120.0, gt=0)
    max_tool_output_characters: int = Field(default=16_000, ge=100)


class ChatAgent:
    """Lets a model solve the task with tools."""

    sees_solution = False

    def __init__(self, *, model: str | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._options = parse_options(ChatOptions, options, agent="chat")
        if not model:
            raise InvalidInput("agent chat: a model is needed, as its server names it", field="model")
        self._model = model

    def run(self, task: Task, environment: Sandbox, recorder: Recorder) -> Any:
        """Return what the model submits or says at the end."""
        options = self._options
        tools = SandboxTools(
            environment,
            recorder,
            names=options.tools,
            timeout_seconds=options.tool_timeout_seconds,
            max_output_characters=options.max_tool_output_characters,
        )
        conversation = OpenAIConversation(self._model, options, system=options.system_prompt, tools=tools.declarations)
        try:
            check_cost_limit(conversation, recorder)
            prompt = _prompt(task, environment)
            conversation.start(prompt)
            return work(conversation, tools, recorder, sight=tools.first_look(prompt))
        finally:
            conversation.close()


def _prompt(task: Task, environment: Sandbox) -> str:
    parts = [task.description]
    if environment.url is not None:
        parts.append(f"The environment's address is {environment.url}")
    if environment.episode is not None:
        parts.append(as_text(environment.episode.reset().observation))
    return "\n\n".join(parts)
