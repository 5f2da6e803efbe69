"""What counts as a number: whatever training code calls one, without importing the libraries that made it."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["NotANumber", "as_json_number", "as_step", "to_number"]

_LARGEST_INT = 2**63
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


class NotANumber(ValueError):
    """A value that is no number; the message says why, by its type and never by the value."""


def to_number(value: Any) -> float | int:
    """Return a value as a plain number, else raise `NotANumber`.

    Numbers are booleans (0 and 1), ints, floats and their subclasses, `Decimal`, `Fraction`, and scalars, arrays and
    tensors of one element of numpy, torch and the like. Text is none, whatever it says.
    """
    kind = value.__class__
    if kind is float:
        return value  # type: ignore[no-any-return]
    try:
        if isinstance(value, int):
            return int(value) if -_LARGEST_INT <= value < _LARGEST_INT else float(value)
        if isinstance(value, float):
            return float(value)
        if callable(getattr(value, "item", None)):
            return _from_array(value)
        # Asked for by name: float() would also read text.
        if hasattr(kind, "__float__") or hasattr(kind, "__index__"):
            return _checked(float(value), value)
    except NotANumber:
        raise
    except OverflowError:
        raise NotANumber(f"{_a(kind)} is beyond the range of a double") from None
    except Exception as error:
        # Nothing that somebody's own class raises may stop training.
        raise NotANumber(f"{_a(kind)} is not a number") from error
    raise NotANumber(f"{_a(kind)} is not a number")


def as_json_number(value: Any) -> float | int | str:
    """Return a number as JSON can carry it, what is not finite by its name in Postgres, else raise `NotANumber`."""
    number = to_number(value)
    return number if math.isfinite(number) else _NOT_FINITE.get(number, "NaN")


def as_step(value: Any) -> int:
    """Return a step, such as 5, 5.0 or an array of one whole number, else raise `NotANumber`."""
    try:
        number = to_number(value)
    except NotANumber as error:
        raise NotANumber(f"step: {error}; it must be a whole number from 0 on") from None
    if not 0 <= number < _LARGEST_INT or number != math.floor(number):
        raise NotANumber(f"step {number!r} is not a whole number from 0 on")
    return int(number)


def _from_array(value: Any) -> float | int:
    size = getattr(value, "size", None)
    count = size() if callable(size) else size
    if getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M"):
        raise NotANumber(f"{_a(value.__class__)} is a time, not a number")
    try:
        item = value.item()
    except Exception as error:
        # Each library has an error of its own.
        held = f" of {count} values" if isinstance(count, int) else " of several values"
        raise NotANumber(f"{_a(value.__class__)}{held} is not one number") from error
    if isinstance(item, (int, float)):
        return to_number(item)
    # Some, such as long doubles, give themselves.
    return _checked(float(item), item) if hasattr(type(item), "__float__") else _refuse(item)


def _refuse(item: Any) -> float:
    raise NotANumber(f"{_a(item.__class__)} is not a number")


def _checked(number: float, value: Any) -> float:
    """Return a number, unless a finite one became infinite on its way."""
    if math.isinf(number) and value not in (math.inf, -math.inf):
        raise OverflowError
    return number


def _a(kind: type) -> str:
    name = kind.__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
