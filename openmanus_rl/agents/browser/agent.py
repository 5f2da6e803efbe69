"""An agent that operates a browser: with Gemini Computer Use, or any vision model behind chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from openmanus_rl.agents.base import Recorder, Task
from openmanus_rl.agents.browser.actions import ACTION_NAMES, DECLARATIONS, Pointer
from openmanus_rl.agents.browser.session import BrowserOptions, BrowserSession
from openmanus_rl.agents.loop import Sight, check_cost_limit, work
from openmanus_rl.agents.models.gemini import GeminiConversation
from openmanus_rl.agents.models.openai import OpenAIConversation, OpenAIOptions
from openmanus_rl.agents.models.replies import Conversation, Outcome
from openmanus_rl.agents.options import parse_options
from openmanus_rl.agents.toolbox import declare, tool_error
from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["BrowserAgent", "BrowserAgentOptions", "BrowserTools"]

_SYSTEM = (
    "You are an agent that solves a task in a web browser. You see the page as a screenshot and act on it step by "
    "step. Only the pages of the environment can be opened. Nobody answers questions: decide yourself. When the task "
    "is done, call submit with the answer and nothing else in it, or with an empty answer if none is asked for."
)
_SUBMIT = declare("submit", "Submit the final answer. This ends the task.", {"answer": {"type": "string"}}, {})


class BrowserAgentOptions(BrowserOptions, OpenAIOptions):
    """Options of the browser agent."""

    provider: Literal["gemini", "openai"] | None = None
    system_prompt: str = _SYSTEM
    coordinates: Literal["pixels", "normalized"] = "pixels"
    screenshots_kept: int = Field(default=3, ge=1)


class BrowserAgent:
    """Lets a model operate a browser."""

    sees_solution = False

    def __init__(self, *, model: str | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._options = parse_options(BrowserAgentOptions, options, agent="browser")
        if not model:
            raise InvalidInput("agent browser: a model is needed, such as gemini-3.5-flash", field="model")
        self._model = model
        # Gemini is also served behind chat completions: then the base URL says so.
        is_gemini = model.removeprefix("models/").startswith("gemini") and self._options.base_url is None
        self._provider = self._options.provider or ("gemini" if is_gemini else "openai")

    def run(self, task: Task, environment: Sandbox, recorder: Recorder) -> Any:
        """Return what the model submits or says at the end."""
        conversation = self._converse()
        try:
            check_cost_limit(conversation, recorder)
            recorder.check_limits()
            with BrowserSession(environment, recorder, self._options) as session:
                is_normalized = self._provider == "gemini" or self._options.coordinates == "normalized"
                tools = BrowserTools(session, is_normalized=is_normalized)
                sight = tools.look([])
                image = sight.images[0] if sight.images else None
                conversation.start(f"{task.description}\n\nThe page is {session.url}", image=image)
                return work(conversation, tools, recorder, sight=sight)
        finally:
            conversation.close()

    def _converse(self) -> Conversation:
        options = self._options
        if self._provider == "gemini":
            return GeminiConversation(
                self._model,
                options,
                system=options.system_prompt,
                functions=[_SUBMIT["function"]],
                images_kept=options.screenshots_kept,
            )
        grid = "pixels" if options.coordinates == "pixels" else "a grid of 1000 by 1000 over the screenshot"
        size = f"{options.viewport_width} by {options.viewport_height} pixels"
        return OpenAIConversation(
            self._model,
            options,
            system=f"{options.system_prompt} The screenshot has {size}; coordinates are {grid}, from the top left.",
            tools=[*DECLARATIONS, _SUBMIT],
            images_kept=options.screenshots_kept,
        )


class BrowserTools:
    """Runs the calls of a model in a browser, and shows it the page after each."""

    reminder: str | None = None

    def __init__(self, session: BrowserSession, *, is_normalized: bool) -> None:
        self._session = session
        self._pointer = Pointer(session, is_normalized=is_normalized)

    def look(self, outcomes: Sequence[Outcome]) -> Sight:
        """Return the page as it is now; after an action, that is its screenshot."""
        session = self._session
        image = outcomes[-1].image if outcomes else session.screenshot()
        text = f"{session.title()}\n{session.url}".strip()
        if outcomes:
            text = "\n".join([*(outcome.output for outcome in outcomes), text])
        info = {"url": session.url, "video_seconds": session.video_seconds, **session.take_incidents()}
        return Sight(text, [image] if image is not None else [], info)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Perform an action; wrong ones are answered to the model."""
        if name == "submit":
            if "answer" not in arguments:
                return self._shown(tool_error("submit needs the argument answer"))
            info = self._session.take_incidents()
            return Outcome("submitted", ends=True, answer=arguments["answer"], info=info)
        if name not in ACTION_NAMES:
            return self._shown(tool_error(f"there is no action {name!r}"))
        try:
            self._pointer.perform(name, arguments)
        except (KeyError, TypeError, ValueError) as error:
            return self._shown(tool_error(f"{type(error).__name__}: {error}"))
        except self._session.errors as error:
            return self._shown(tool_error(str(error).strip().partition("\n")[0]))
        return self._shown(Outcome("done"))

    def _shown(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the page after it, and what the page did meanwhile."""
        incidents = self._session.take_incidents()
        told = [f"The page said: {dialog['message']}" for dialog in incidents.get("dialogs", [])]
        return Outcome(
            "\n".join([outcome.output, *told]),
            error=outcome.error,
            image=self._session.screenshot(),
            url=self._session.url,
            info=incidents,
        )
