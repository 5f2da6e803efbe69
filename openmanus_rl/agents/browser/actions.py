"""What a model can do with a page: the actions of both generations of Gemini Computer Use, and for other models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from openmanus_rl.agents.browser.session import BrowserSession
from openmanus_rl.agents.toolbox import declare

__all__ = ["ACTION_NAMES", "DECLARATIONS", "Pointer"]

_LONGEST_WAIT_SECONDS = 30.0
_LONGEST_TEXT_CHARACTERS = 20_000
# Each key takes its time; longer texts are put in as if they were pasted.
_LONGEST_TYPED_CHARACTERS = 500
_KEYS = {
    "alt": "Alt",
    "arrowdown": "ArrowDown",
    "arrowleft": "ArrowLeft",
    "arrowright": "ArrowRight",
    "arrowup": "ArrowUp",
    "backspace": "Backspace",
    "cmd": "Meta",
    "command": "Meta",
    "control": "Control",
    "ctrl": "Control",
    "del": "Delete",
    "delete": "Delete",
    "down": "ArrowDown",
    "end": "End",
    "enter": "Enter",
    "esc": "Escape",
    "escape": "Escape",
    "home": "Home",
    "insert": "Insert",
    "left": "ArrowLeft",
    "meta": "Meta",
    "option": "Alt",
    "pagedown": "PageDown",
    "pageup": "PageUp",
    "return": "Enter",
    "right": "ArrowRight",
    "shift": "Shift",
    "space": "Space",
    "super": "Meta",
    "tab": "Tab",
    "up": "ArrowUp",
}
_DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}

Arguments = Mapping[str, Any]


class Pointer:
    """Performs actions on a page. Coordinates are pixels, or of a grid of 1000 by 1000 (`is_normalized`)."""

    def __init__(self, session: BrowserSession, *, is_normalized: bool) -> None:
        self._session = session
        self._is_normalized = is_normalized
        self._do = session.do

    def perform(self, name: str, arguments: Arguments) -> None:
        """Perform an action and wait for its effect. Bad arguments are a KeyError, TypeError or ValueError."""
        _ACTIONS[name](self, arguments)
        self._session.settle()

    def click(self, arguments: Arguments, *, count: int = 1, button: str = "left") -> None:
        """Click at a point."""
        x, y = self._point(arguments)
        self._do(lambda page: page.mouse.click(x, y, click_count=count, button=button))

    def move(self, arguments: Arguments) -> None:
        """Move the mouse to a point."""
        x, y = self._point(arguments)
        self._do(lambda page: page.mouse.move(x, y))

    def press_button(self, arguments: Arguments, *, is_down: bool) -> None:
        """Press or release the mouse's button, at a point if one is given."""
        if "x" in arguments:
            self.move(arguments)
        self._do(lambda page: page.mouse.down() if is_down else page.mouse.up())

    def drag(self, arguments: Arguments) -> None:
        """Drag from one point to another."""
        x, y = self._point(arguments, "destination_x", "destination_y")
        self.move(arguments)
        self._do(lambda page: page.mouse.down())
        self._do(lambda page: page.mouse.move(x, y, steps=10))
        self._do(lambda page: page.mouse.up())

    def type_text(self, arguments: Arguments, *, clears: bool) -> None:
        """Type a text, at a point if one is given; `clears` says whether that replaces what is there."""
        text = arguments["text"]
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT_CHARACTERS:
            raise TypeError(f"text must be a text of at most {_LONGEST_TEXT_CHARACTERS} characters")
        if "x" in arguments:
            self.click(arguments)
        if arguments.get("clear_before_typing", clears):
            self.press("ControlOrMeta+a")
            self.press("Delete")
        if len(text) <= _LONGEST_TYPED_CHARACTERS:
            self._do(lambda page: page.keyboard.type(text))
        else:
            self._do(lambda page: page.keyboard.insert_text(text))
        if arguments.get("press_enter", False):
            self.press("Enter")

    def press(self, keys: Any) -> None:
        """Press keys together: "ctrl+a", or a list."""
        names = keys if isinstance(keys, list) else ["+"] if keys == "+" else str(keys).split("+")
        combination = "+".join(_key(name) for name in names)
        self._do(lambda page: page.keyboard.press(combination))

    def hold(self, arguments: Arguments, *, is_down: bool) -> None:
        """Press a key down, or let it go."""
        key = _key(arguments["key"])
        self._do(lambda page: page.keyboard.down(key) if is_down else page.keyboard.up(key))

    def scroll(self, arguments: Arguments) -> None:
        """Scroll by a distance, with the mouse at a point; by default half a screen in the middle."""
        options = self._session.options
        across, along = _direction(arguments)
        if "x" in arguments:
            self.move(arguments)
        else:
            self._do(lambda page: page.mouse.move(options.viewport_width // 2, options.viewport_height // 2))
        size = options.viewport_width if across else options.viewport_height
        distance = size / 2
        if (given := arguments.get("magnitude")) is not None:
            distance = _number(given, "magnitude") * (size / 1000 if self._is_normalized else 1)
        self._do(lambda page: page.mouse.wheel(across * distance, along * distance))

    def wait(self, seconds: Any) -> None:
        """Wait, for at most half a minute."""
        wished = max(0.0, min(_number(seconds, "seconds"), _LONGEST_WAIT_SECONDS))
        self._session.wait(wished)

    def navigate(self, arguments: Arguments) -> None:
        """Open a page of the environment."""
        url = arguments["url"]
        if not isinstance(url, str):
            raise TypeError("url must be a text")
        self._session.goto(url)

    def travel(self, *, is_back: bool) -> None:
        """Go back or forward."""
        until = "domcontentloaded"
        self._do(lambda page: page.go_back(wait_until=until) if is_back else page.go_forward(wait_until=until))

    def go_home(self) -> None:
        """Open the environment's first page: there is no search engine inside."""
        self._session.goto(self._session.home)

    def _point(self, arguments: Arguments, x_name: str = "x", y_name: str = "y") -> tuple[float, float]:
        options = self._session.options
        return (
            self._pixel(arguments[x_name], x_name, options.viewport_width),
            self._pixel(arguments[y_name], y_name, options.viewport_height),
        )

    def _pixel(self, value: Any, name: str, size: int) -> float:
        number = _number(value, name)
        return min(max(number * size / 1000 if self._is_normalized else number, 0), size - 1)


_ACTIONS: dict[str, Callable[[Pointer, Arguments], None]] = {
    "click": Pointer.click,
    "double_click": lambda pointer, given: pointer.click(given, count=2),
    "triple_click": lambda pointer, given: pointer.click(given, count=3),
    "middle_click": lambda pointer, given: pointer.click(given, button="middle"),
    "right_click": lambda pointer, given: pointer.click(given, button="right"),
    "mouse_down": lambda pointer, given: pointer.press_button(given, is_down=True),
    "mouse_up": lambda pointer, given: pointer.press_button(given, is_down=False),
    "move": Pointer.move,
    "drag_and_drop": Pointer.drag,
    "type": lambda pointer, given: pointer.type_text(given, clears=False),
    "press_key": lambda pointer, given: pointer.press(given["key"]),
    "hotkey": lambda pointer, given: pointer.press(given["keys"]),
    "key_down": lambda pointer, given: pointer.hold(given, is_down=True),
    "key_up": lambda pointer, given: pointer.hold(given, is_down=False),
    "scroll": Pointer.scroll,
    "wait": lambda pointer, given: pointer.wait(given.get("seconds", 1)),
    "take_screenshot": lambda _, __: None,
    "navigate": Pointer.navigate,
    "go_back": lambda pointer, _: pointer.travel(is_back=True),
    "go_forward": lambda pointer, _: pointer.travel(is_back=False),
    # The names that gemini-2.5-computer-use knows.
    "open_web_browser": lambda _, __: None,
    "search": lambda pointer, _: pointer.go_home(),
    "click_at": Pointer.click,
    "hover_at": Pointer.move,
    "type_text_at": lambda pointer, given: pointer.type_text(given, clears=True),
    "scroll_document": Pointer.scroll,
    "scroll_at": lambda pointer, given: pointer.scroll({"magnitude": 800, **given}),
    "wait_5_seconds": lambda pointer, _: pointer.wait(5),
    "key_combination": lambda pointer, given: pointer.press(given["keys"]),
}
ACTION_NAMES = frozenset(_ACTIONS)

_TEXT, _FLAG, _NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "number"}
_POINT = {"x": _NUMBER, "y": _NUMBER}
_TARGET = {"destination_x": _NUMBER, "destination_y": _NUMBER}
_DIRECTION = {"type": "string", "enum": list(_DIRECTIONS)}
# The few that other vision models are offered.
DECLARATIONS = [
    declare("click", "Click at a point of the screenshot.", _POINT, {}),
    declare("double_click", "Double-click at a point.", _POINT, {}),
    declare("move", "Move the mouse to a point.", _POINT, {}),
    declare(
        "type",
        "Type a text into the focused field, or into the one at x, y.",
        {"text": _TEXT},
        {**_POINT, "clear_before_typing": _FLAG, "press_enter": _FLAG},
    ),
    declare("hotkey", "Press keys, such as Enter or Control+A.", {"keys": _TEXT}, {}),
    declare(
        "scroll", "Scroll the page, or what is at x, y.", {"direction": _DIRECTION}, {**_POINT, "magnitude": _NUMBER}
    ),
    declare("drag_and_drop", "Drag from one point to another.", {**_POINT, **_TARGET}, {}),
    declare("navigate", "Open a URL or a path of the environment.", {"url": _TEXT}, {}),
    declare("go_back", "Go back to the last page.", {}, {}),
    declare("wait", "Wait.", {"seconds": _NUMBER}, {}),
]


def _key(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise TypeError("a key must be a text")
    return _KEYS.get(name.strip().lower(), name.strip())


def _direction(arguments: Arguments) -> tuple[int, int]:
    found = _DIRECTIONS.get(str(arguments["direction"]).lower())
    if found is None:
        raise ValueError(f"direction must be one of {', '.join(_DIRECTIONS)}")
    return found


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{name} must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number")
    return number
