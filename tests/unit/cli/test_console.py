"""Whatever a text holds, a terminal shows it and does not obey it."""

from __future__ import annotations

import io
import re
import sys
import unicodedata

import pytest
from rich.markup import escape
from rich.progress import Progress, TextColumn
from rich.text import Text

from openmanus_rl.cli import console
from openmanus_rl.cli.console import SafeConsole, harmless
from openmanus_rl.cli.rendering import new_table

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\x1b]8;;http://evil\x1b\\link\r\b\x7f\u202egnp\u2066 [red]loud[/] \\"


def commands_in(text: str) -> list[str]:
    """Return what a terminal would obey, apart from line ends, tabs and plain colours."""
    without_colours = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [c for c in without_colours if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_in_a_text_reaches_the_terminal_as_a_command(is_terminal: bool) -> None:
    written = io.StringIO()
    safe = SafeConsole(file=written, force_terminal=is_terminal, color_system="truecolor", width=200)
    table = new_table("name", escape(HOSTILE))
    table.add_row("hostile", escape(HOSTILE))
    safe.print(table)
    safe.print(f"[bold]{escape(HOSTILE)}[/]")
    safe.print(HOSTILE, Text(HOSTILE), markup=False)
    assert commands_in(written.getvalue()) == []
    assert "[red]loud[/]" in written.getvalue()


def test_progress_bars_show_names_without_obeying_them() -> None:
    written = io.StringIO()
    safe = SafeConsole(file=written, force_terminal=False, width=200)
    with Progress(TextColumn("{task.description}"), console=safe) as progress:
        progress.add_task(escape(HOSTILE), total=1)
    assert commands_in(written.getvalue()) == []


def test_lines_tabs_and_every_script_stay_as_they_are() -> None:
    text = "a\n\tb é 漢字 👩‍🔬 עברית ∑"
    assert harmless(text) == text


def test_an_error_that_nobody_expected_is_printed_without_obeying_it(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError:
        console.print_uncaught(*sys.exc_info())  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert commands_in(said) == []
    assert "\x1b" not in said
