"""Select the numbers among the values that trainers report; only numbers are metrics."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

__all__ = ["numbers_of"]


def numbers_of(values: Mapping[str, Any], *, prefix: str = "") -> dict[str, float]:
    """Return the numbers among values by name; nested ones are named `outer/inner`."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= numbers_of(value, prefix=f"{prefix}{name}/")
        elif (number := _number(value)) is not None:
            found[f"{prefix}{name}"] = number
    return found


def _number(value: Any) -> float | None:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Real):
        return float(value)
    # A tensor or an array with a single number.
    if getattr(value, "shape", None) in ((), (1,)) and hasattr(value, "item"):
        number = value.item()
        return number if isinstance(number, (bool, int, float)) else None
    return None
