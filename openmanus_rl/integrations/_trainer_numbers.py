"""What trainers report beside numbers is left out here: a metric is a number, everything else is no metric."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

__all__ = ["numbers_of"]


def numbers_of(values: Mapping[str, Any], *, prefix: str = "") -> dict[str, float]:
    """Return the numbers among values by name, those of nested ones as `outer/inner`."""
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
    # A tensor or an array of one number; of many there is no telling which was meant.
    if getattr(value, "shape", None) in ((), (1,)) and hasattr(value, "item"):
        number = value.item()
        return number if isinstance(number, (bool, int, float)) else None
    return None
