"""Checks the types of values in lines; a `LineError` names the field with another type."""

from __future__ import annotations

import math
from typing import Any

from openmanus_rl.importing.lines import LineError, describe

__all__ = ["read_flag", "read_number", "read_text", "read_whole_number"]

_NAMED_NUMBERS = ("NaN", "Infinity", "-Infinity")
_LARGEST = 2**31 - 1


def read_number(value: Any, name: str) -> float | str | None:
    """Return a number as in records, with NaN and infinities as their names; None means unknown."""
    if value is None or value in _NAMED_NUMBERS:
        return value  # type: ignore[no-any-return]
    if not isinstance(value, (int, float)):
        raise LineError(f"{name}: a number is expected, not {describe(value)}")
    return float(value)


def read_whole_number(value: Any, name: str) -> int:
    """Return a whole number from 0 that fits a database integer."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LineError(f"{name}: a whole number is expected, not {describe(value)}")
    if not math.isfinite(value) or value != int(value) or not 0 <= value <= _LARGEST:
        raise LineError(f"{name}: a whole number from 0 to {_LARGEST} is expected, not {value}")
    return int(value)


def read_flag(value: Any, name: str) -> bool | None:
    """Return a boolean; None means unknown."""
    if value is None or isinstance(value, bool):
        return value
    # As pandas and SQLite write them.
    if value in (0, 1):
        return bool(value)
    raise LineError(f"{name}: true or false is expected, not {describe(value)}")


def read_text(value: Any, name: str) -> str | None:
    """Return text; None means unknown."""
    if value is None or isinstance(value, str):
        return value
    raise LineError(f"{name}: text is expected, not {describe(value)}")
