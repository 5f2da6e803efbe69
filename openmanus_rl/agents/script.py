"""Scripts: lists of actions that are played in a sandbox, in the browser, the shell or an episode."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from openmanus_rl.agents.base import AgentError, Recorder
from openmanus_rl.agents.browser.session import BrowserOptions, BrowserSession
from openmanus_rl.agents.toolbox import described
from openmanus_rl.errors import InvalidInput
from openmanus_rl.records.plain import as_text
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["ScriptPlayer", "check_script"]

_BROWSER_ACTIONS = ("goto", "click", "fill", "press", "wait_for", "read")
ACTION_NAMES = (*_BROWSER_ACTIONS, "shell", "step", "sleep", "answer")
_NAME = re.compile(r"\{(\w+)\}")
_SHELL_SECONDS = 600.0


def check_script(script: Any, *, field: str) -> list[tuple[str, Any]]:
    """Return the actions of a script as pairs; `InvalidInput` says which one is wrong, and what exists."""
    if not isinstance(script, Sequence) or isinstance(script, (str, bytes)):
        raise InvalidInput(f"{field}: a list of actions is expected, not {type(script).__name__}", field=field)
    return [_checked(action, f"{field}[{place}]") for place, action in enumerate(script)]


def _checked(action: Any, place: str) -> tuple[str, Any]:
    if not isinstance(action, Mapping) or len(action) != 1:
        raise InvalidInput(f'{place}: an object with one action is expected, such as {{"goto": "/"}}', field=place)
    ((name, value),) = action.items()
    if name not in ACTION_NAMES:
        raise InvalidInput(f"{place}: there is no action {name!r}; there are {', '.join(ACTION_NAMES)}", field=place)
    if name in ("goto", "click", "press", "wait_for", "shell") and not isinstance(value, str):
        raise InvalidInput(f"{place}: {name} takes a text", field=place)
    if name in ("fill", "read") and not (
        isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
    ):
        raise InvalidInput(f"{place}: {name} takes an object of texts", field=place)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "sleep" and not (is_number and 0 <= value <= 3600):
        raise InvalidInput(f"{place}: sleep takes a number of seconds", field=place)
    return name, value


class ScriptPlayer:
    """Plays a script; each action is a turn. What it reads can be used in later texts, as `{name}`."""

    def __init__(
        self, environment: Sandbox, recorder: Recorder, *, options: BrowserOptions, pause_seconds: float = 0.0
    ) -> None:
        self._environment = environment
        self._recorder = recorder
        self._options = options
        self._pause_seconds = pause_seconds
        self._names: dict[str, Any] = {}
        self._session: BrowserSession | None = None
        self._seen = ""
        self._plays: dict[str, Callable[[Any], tuple[Any, float | None]]] = {
            "shell": self._shell,
            "step": self._step,
            "sleep": self._sleep,
            "answer": lambda value: (as_text(value), None),
        }

    def play(self, script: Sequence[tuple[str, Any]]) -> Any:
        """Play all actions and return the last answer, None if there is none."""
        answer: Any = None
        with ExitStack() as stack:
            if any(name in _BROWSER_ACTIONS for name, _ in script):
                self._recorder.check_limits()
                self._session = stack.enter_context(BrowserSession(self._environment, self._recorder, self._options))
            elif any(name == "step" for name, _ in script):
                self._seen = as_text(self._require_episode().reset().observation)
            for place, (name, value) in enumerate(script):
                self._recorder.check_limits()
                filled = self._filled(value)
                self._turn(place, name, filled)
                if name == "answer":
                    answer = filled
        return answer

    def _turn(self, place: int, name: str, value: Any) -> None:
        """Play an action and record it as a turn, with what was seen before it."""
        sight = self._look()
        started = time.perf_counter()
        output, reward, problem = None, None, None
        try:
            output, reward = self._in_browser(name, value) if name in _BROWSER_ACTIONS else self._plays[name](value)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            if self._session is not None and isinstance(error, (self._session.errors, ValueError)):
                raise AgentError(f"script[{place}]: {name}: {problem}", code="script") from error
            raise
        finally:
            elapsed_ms = (time.perf_counter() - started) * 1000
            if self._session is not None:
                sight["info"] |= self._session.take_incidents()
            call = {"tool_name": name, "tool_input": value, "success": problem is None, "execution_time_ms": elapsed_ms}
            if output is not None:
                call["tool_output"] = as_text(output)
            if problem is not None:
                call["error_message"] = problem
            self._recorder.log_turn(
                action={name: value},
                reward=reward,
                tool_calls=[call],
                environment_duration_ms=elapsed_ms,
                duration_ms=elapsed_ms,
                **sight,
            )
        if output is not None:
            self._seen = as_text(output)

    def _look(self) -> dict[str, Any]:
        if self._session is None:
            episode = self._environment.episode
            picture = episode.render() if episode is not None else None
            return {"observation": self._seen or None, "images": None if picture is None else [picture], "info": {}}
        session = self._session
        if self._pause_seconds:
            session.wait(self._pause_seconds)
        info = {"url": session.url, "video_seconds": session.video_seconds, **session.take_incidents()}
        image = session.screenshot()
        return {
            "observation": f"{session.title()}\n{session.url}".strip(),
            "images": None if image is None else [image],
            "info": info,
        }

    def _in_browser(self, name: str, value: Any) -> tuple[Any, None]:
        assert self._session is not None
        do, read = self._session.do, {}
        if name == "goto":
            self._session.goto(value)
        elif name == "wait_for":
            do(lambda page: page.wait_for_selector(value))
        elif name == "click":
            do(lambda page: page.click(value))
        elif name == "press":
            do(lambda page: page.keyboard.press(value))
        elif name == "fill":
            for selector, text in value.items():
                do(partial(_fill, selector, text))
        else:
            read = {known: do(partial(_text_of, selector)) for known, selector in value.items()}
            self._names |= read
        if name in ("click", "press"):
            self._session.settle()
        return read or None, None

    def _shell(self, command: str) -> tuple[str, None]:
        left = self._recorder.remaining_seconds
        seconds = _SHELL_SECONDS if left is None else max(0.1, min(_SHELL_SECONDS, left))
        result = self._environment.run(command, timeout_seconds=seconds)
        self._names["stdout"] = result.stdout.decode(errors="replace").strip()
        return described(result, seconds), None

    def _step(self, action: Any) -> tuple[str, float | None]:
        result = self._require_episode().step(action)
        self._names |= {"observation": result.observation, "reward": result.reward}
        return as_text(result.observation), result.reward

    def _sleep(self, seconds: float) -> tuple[None, None]:
        left = self._recorder.remaining_seconds
        seconds = seconds if left is None else min(seconds, left)
        if self._session is not None:
            self._session.wait(seconds)
        else:
            time.sleep(seconds)
        return None, None

    def _require_episode(self) -> Any:
        if self._environment.episode is None:
            raise AgentError("the script has steps, but the environment has no episode", code="script")
        return self._environment.episode

    def _filled(self, value: Any) -> Any:
        """Return a value with what was read in place of `{name}`; a text that is one name becomes its value."""
        if isinstance(value, str):
            whole = _NAME.fullmatch(value)
            if whole and whole[1] in self._names:
                return self._names[whole[1]]
            return _NAME.sub(lambda found: as_text(self._names.get(found[1], found[0])), value)
        if isinstance(value, Mapping):
            return {name: self._filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return value


async def _fill(selector: str, text: str, page: Any) -> None:
    await page.fill(selector, text)


async def _text_of(selector: str, page: Any) -> str:
    """Return the text of an element, or the value of a field."""
    element = page.locator(selector).first
    is_field = await element.evaluate("element => ['INPUT', 'TEXTAREA', 'SELECT'].includes(element.tagName)")
    return str(await (element.input_value() if is_field else element.inner_text())).strip()
