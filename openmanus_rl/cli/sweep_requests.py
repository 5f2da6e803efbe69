"""What `sweeps new` asks for: a file, options, or both."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from openmanus_rl.cli.options import read_json_or_text
from openmanus_rl.cli.references import find_run
from openmanus_rl.errors import InvalidInput, LocalFileError

__all__ = ["read_parameters", "read_request", "template_of"]

_FIELDS = ("name", "run", "template", "space", "method", "metric", "direction", "max_trials", "max_concurrent", "seed",
           "early_stopping", "job_config")  # fmt: skip
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"(?P<min>{_NUMBER})\.\.(?P<max>{_NUMBER})(?P<marks>(?::[^:]*)*)")


def read_request(file: Path) -> dict[str, Any]:
    """Return the request in a file of TOML or JSON; `run` in it names a run instead of a template."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LocalFileError(f"{file}: it can't be read: {error}", path=str(file)) from error
    try:
        asked = tomllib.loads(text) if file.suffix.lower() == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file}: it is not JSON or TOML: {error}", field="file") from error
    if not isinstance(asked, dict):
        raise InvalidInput(f"{file}: an object with a space is expected", field="file")
    if stray := sorted(set(asked) - set(_FIELDS)):
        raise InvalidInput(f"{stray[0]}: a sweep has {', '.join(_FIELDS)}", field=stray[0])
    if not isinstance(asked.get("space", {}), dict):
        raise InvalidInput("space: an object of parameters and their values is expected", field="space")
    return asked


def template_of(reference: str) -> dict[str, Any]:
    """Return a run as the template of a sweep."""
    run = find_run(reference)
    return {name: run[name] for name in ("name", "algorithm", "environment", "config")}


def read_parameters(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the space of parameters such as `lr=1e-5..1e-2:log` and `net=small,large`."""
    space: dict[str, dict[str, Any]] = {}
    for text in given:
        path, mark, values = text.partition("=")
        if not path or not mark or not values:
            raise typer.BadParameter(f"{text!r}: PATH=VALUES or PATH=MIN..MAX is expected", param_hint="--param")
        if path in space:
            raise typer.BadParameter(f"{path} is given twice", param_hint="--param")
        found = _RANGE.fullmatch(values)
        space[path] = _read_range(text, found.groupdict()) if found else {"values": _read_values(values)}
    return space


def _read_range(text: str, found: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {end: _number(found[end]) for end in ("min", "max")}
    for mark in found["marks"].split(":")[1:]:
        if mark in ("log", "integer"):
            given[mark] = True
        elif re.fullmatch(rf"step={_NUMBER}", mark):
            given["step"] = _number(mark.removeprefix("step="))
        else:
            raise typer.BadParameter(
                f"{text!r}: log, integer or step=NUMBER is expected after the colon, not {mark!r}", param_hint="--param"
            )
    return given


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _read_values(text: str) -> list[Any]:
    """Return the values of a JSON list, or of texts and numbers between commas."""
    listed = read_json_or_text(text)
    return listed if isinstance(listed, list) else [read_json_or_text(part) for part in text.split(",")]
