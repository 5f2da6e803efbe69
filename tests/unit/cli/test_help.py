"""Every command's help reads as it was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from openmanus_rl.cli.app import app


def loaded(command: Any, name: str = "openmanus-rl") -> Iterator[tuple[str, Any]]:
    yield name, command
    if hasattr(command, "list_commands"):
        for part in command.list_commands(None):
            yield from loaded(command.get_command(None, part), f"{name} {part}")


def test_help_keeps_the_marks_of_its_layout_to_itself() -> None:
    found = list(loaded(typer.main.get_command(app)))
    assert "openmanus-rl backup" in dict(found)
    assert [name for name, command in found if not command.help or "\\" in command.help] == []
