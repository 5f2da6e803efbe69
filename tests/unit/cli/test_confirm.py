"""What can't be undone needs a typed word, or --yes."""

from __future__ import annotations

import sys

import pytest
import typer

from openmanus_rl.cli import backup
from openmanus_rl.errors import InvalidInput


def type_in(monkeypatch: pytest.MonkeyPatch, typed: str, *, terminal: bool = True) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: typed)


def test_the_word_itself_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, " reset ")
    backup._confirm("reset", "This removes all.", yes=False)


@pytest.mark.parametrize("typed", ["", "y", "yes", "RESET", "restore"])
def test_anything_else_stops(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    type_in(monkeypatch, typed)
    with pytest.raises(typer.Abort):
        backup._confirm("reset", "This removes all.", yes=False)


def test_a_script_is_told_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, "reset", terminal=False)
    with pytest.raises(InvalidInput, match="This removes all") as refused:
        backup._confirm("reset", "This removes all.", yes=False)
    assert "--yes" in str(refused.value.hint)
    backup._confirm("reset", "This removes all.", yes=True)
