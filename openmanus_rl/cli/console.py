"""Output of commands: text for people, JSON on stdout for programs."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

# Control characters are shown as symbols; characters that reverse, break or hide text as U+FFFD.
_HARMLESS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_HARMLESS |= dict.fromkeys(
    (
        *range(0x80, 0xA0),
        0x061C,
        *range(0x200E, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
        *range(0xD800, 0xE000),
        *range(0xE0000, 0xE0080),
    ),
    0xFFFD,
)


def harmless(text: str) -> str:
    """Return a text without terminal escape sequences and control characters; line breaks are kept."""
    return text.translate(_HARMLESS)


class SafeConsole(Console):
    """A console that prints no control characters from data: only our own styles produce escape sequences."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Parse markup after escaping, so that the text is as wide as measured."""
        return super().render_str(harmless(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with control characters escaped."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(harmless(text), style)


# Never wrap paths and URLs, which users copy. No emoji codes: the text of agents is printed as it is.
output = SafeConsole(soft_wrap=True, highlight=False, emoji=False)
messages = SafeConsole(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error, whose message may contain control characters."""
    sys.stderr.write(harmless("".join(traceback.format_exception(kind, error, trace))))


def print_json(content: Any) -> None:
    """Print one JSON document and nothing else to stdout."""
    json.dump(content, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def print_error(message: str) -> None:
    """Print an error message to stderr."""
    messages.print(f"[bold red]error:[/] {escape(message)}")


def print_facts(facts: dict[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        output.print(f"  [dim]{escape(f'{name:<{width}}')}[/]  {escape(value)}")


class PhaseDisplay:
    """Shows the phases of a long task: a spinner on a terminal, plain lines elsewhere."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self.notes: list[str] = []

    def phase(self, text: str) -> None:
        """Show the current phase."""
        if messages.is_terminal:
            self._status.update(f"{escape(text)} …")
        else:
            messages.print(f"{escape(text)} …")

    def note(self, text: str) -> None:
        """Print a line that stays on the screen."""
        self.notes.append(text)
        messages.print(f"[dim]{escape(text)}[/]")

    def stop(self) -> None:
        """Remove the spinner."""
        self._status.stop()


@contextmanager
def phases(first: str) -> Iterator[PhaseDisplay]:
    """Show phases on stderr while the block runs."""
    status = messages.status(f"{first} …", spinner="dots")
    if messages.is_terminal:
        status.start()
    try:
        yield PhaseDisplay(status)
    finally:
        status.stop()
