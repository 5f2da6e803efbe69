"""Rendering for the terminal: tables, statuses, durations and numbers."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from openmanus_rl.cli.console import SafeConsole, output

__all__ = [
    "ago",
    "duration",
    "figure",
    "headline",
    "new_table",
    "percent",
    "print_table",
    "shortened",
    "status_text",
]

_STATUS_STYLES = {
    "running": "bold cyan",
    "provisioning": "cyan",
    "launching": "cyan",
    "queued": "cyan",
    "succeeded": "green",
    "completed": "green",
    "success": "green",
    "pass": "green",
    "failed": "red",
    "fail": "red",
    "error": "red",
    "timeout": "yellow",
    "truncated": "yellow",
    "stalled": "bold yellow",
    "interrupted": "yellow",
    "cancelled": "dim",
    "pending": "dim",
}
_UNKNOWN = "–"


def new_table(*columns: str, right: tuple[str, ...] = (), title: str | None = None) -> Table:
    """Return an empty table; columns named in `right` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """Print a table as wide as its content, because users copy ids from it."""
    unbounded = SafeConsole(width=10_000)
    width = Measurement.get(unbounded, unbounded.options, table).maximum
    SafeConsole(width=max(width, output.width), soft_wrap=True, highlight=False, emoji=False).print(table)


def headline(text: str) -> None:
    """Print the title of a section."""
    output.print(f"\n[bold]{escape(text)}[/]")


def status_text(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=_STATUS_STYLES.get(status, ""))


def percent(value: float | None) -> str:
    """Return a share as percent."""
    return _UNKNOWN if value is None else f"{value:.0%}"


def figure(value: float | None, *, digits: int = 2) -> str:
    """Return a number with a fixed number of digits, or a dash if it is unknown."""
    return _UNKNOWN if value is None else f"{value:.{digits}f}"


def ago(timestamp: str | None) -> str:
    """Return how long ago a timestamp was."""
    return _UNKNOWN if timestamp is None else f"{duration(timestamp, None)} ago"


def duration(start: str | None, end: str | None) -> str:
    """Return how long something took, or has taken so far."""
    if start is None:
        return _UNKNOWN
    until = datetime.now(UTC) if end is None else datetime.fromisoformat(end)
    return seconds_text((until - datetime.fromisoformat(start)).total_seconds())


def seconds_text(exact: float) -> str:
    """Return a number of seconds as people say it."""
    if exact < 1:
        return f"{exact * 1000:.0f} ms" if exact >= 0.001 else "< 1 ms"
    seconds = int(exact)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def shortened(text: str | None, limit: int) -> str:
    """Return a text on one line, truncated with an ellipsis if it is longer than the limit."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
