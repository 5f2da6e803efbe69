"""Options that several commands share, and their checks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

__all__ = [
    "EnvironmentOption",
    "JsonOption",
    "LimitOption",
    "OffsetOption",
    "RewoundOption",
    "check_choice",
    "order_from",
    "read_expiry",
    "read_json_or_text",
    "read_pair",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of rows to show.")]
OffsetOption = Annotated[int, typer.Option("--offset", min=0, help="Number of rows to skip.")]
EnvironmentOption = Annotated[str | None, typer.Option("--environment", help="Only this environment.")]
RewoundOption = Annotated[bool, typer.Option("--include-rewound", help="Include rollouts hidden by a rewind.")]


def check_choice(option: str, value: str | None, choices: Sequence[str]) -> None:
    """Raise `BadParameter` unless the value is one of the choices."""
    if value is not None and value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}", param_hint=option)


def order_from(sort: str, columns: Mapping[str, str]) -> str:
    """Return the sort key of a manager for the value of `--sort`; a leading minus sorts in descending order."""
    name = sort.removeprefix("-")
    check_choice("--sort", name, list(columns))
    return f"-{columns[name]}" if sort.startswith("-") else columns[name]


_DURATION = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_expiry(option: str, text: str, *, may_be_never: bool = False) -> datetime | None:
    """Return the time that is 30m, 12h, 7d or 2w from now; None for `never`."""
    if may_be_never and text == "never":
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        also = " or never" if may_be_never else ""
        raise typer.BadParameter(f"{text!r} is not a duration such as 12h, 7d{also}", param_hint=option)
    return datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})


def read_pair(option: str, text: str) -> tuple[str, Any]:
    """Return the name and value of NAME=VALUE; what is no JSON is text."""
    name, mark, value = text.partition("=")
    if not name or not mark:
        raise typer.BadParameter(f"{text!r}: NAME=VALUE is expected", param_hint=option)
    return name, read_json_or_text(value)


def read_json_or_text(text: str) -> Any:
    """Return the value of a JSON text; of any other text, the text itself."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
