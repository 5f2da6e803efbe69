"""How commands speak: people on a terminal, programs through JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

# Paths and URLs are to be copied: never break them.
output = Console(soft_wrap=True, highlight=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False)


def print_json(content: Any) -> None:
    """Print one JSON document and nothing else to stdout."""
    json.dump(content, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def print_error(message: str) -> None:
    """Print what went wrong to stderr."""
    messages.print(f"[bold red]error:[/] {escape(message)}")


def print_facts(facts: dict[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        output.print(f"  [dim]{name:<{width}}[/]  {escape(value)}")


class PhaseDisplay:
    """Shows the phases of a long task: a spinner on a terminal, plain lines elsewhere."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self.notes: list[str] = []

    def phase(self, text: str) -> None:
        """Show what is being done now."""
        if messages.is_terminal:
            self._status.update(f"{text} …")
        else:
            messages.print(f"{text} …")

    def note(self, text: str) -> None:
        """Show something that stays on the screen."""
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
