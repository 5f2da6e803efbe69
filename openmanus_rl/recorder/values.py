"""From what training code hands over to fields of records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from openmanus_rl.recorder.plain import dump_text

__all__ = ["as_number", "as_numbers", "as_reward", "as_tool_call", "describe", "known"]

_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_NO_NUMBER = (TypeError, ValueError, OverflowError, RuntimeError)


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}


def as_numbers(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return metrics as JSON can carry them; most are finite numbers, which one addition shows."""
    try:
        if math.isfinite(sum(values.values())):
            return values
    except _NO_NUMBER:
        pass  # Something is no number: that one is refused later, not here, where it would stop training.
    return {name: as_number(value) for name, value in values.items()}


def as_number(value: Any) -> Any:
    """Return a number as JSON can carry it: not finite ones by name, as Postgres reads them."""
    if isinstance(value, (str, type(None))):
        return value
    try:
        number = float(value)
    except _NO_NUMBER:
        return str(value)
    if math.isfinite(number):
        return number
    return _NOT_FINITE.get(number, "NaN")


def as_reward(value: Any) -> float | None:
    """Return what a reward adds to the total, None if it is no number."""
    try:
        return float(value)
    except _NO_NUMBER:
        return None


def as_tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call whose output is text."""
    output = call.get("tool_output")
    if output is None or isinstance(output, str):
        return call if call.__class__ is dict else dict(call)
    return {**call, "tool_output": dump_text(output)}


def describe(error: BaseException) -> str:
    """Return an exception in one line."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
