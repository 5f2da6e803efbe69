"""Whether two numbers are close: exact for integers of any length, and for decimals as they are written."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from openmanus_rl.verification.values import Number

__all__ = ["are_close", "is_nan"]

# Exact fractions of numbers beyond this would take much memory: such numbers are equal or not.
_MAX_EXPONENT = 4000
# Far above the rounding errors of doubles: what is clear by more than this needs no exact arithmetic.
_MARGIN = 1e-12
_SMALLEST = 1e-290


def are_close(one: Number, other: Number, *, absolute: float = 0.0, relative: float = 0.0) -> bool:
    """Return whether two numbers are equal, or differ by at most `absolute` or `relative` times the larger one.

    NaN equals NaN, and an infinity only itself.
    """
    if one == other:
        return True
    if is_nan(one) or is_nan(other):
        return is_nan(one) and is_nan(other)
    if not absolute and not relative:
        return False
    is_clear = _at_a_glance(one, other, absolute, relative)
    return _exactly(one, other, absolute, relative) if is_clear is None else is_clear


def is_nan(number: Number) -> bool:
    """Return whether a number is NaN."""
    return isinstance(number, float) and math.isnan(number)


def _at_a_glance(one: Number, other: Number, absolute: float, relative: float) -> bool | None:
    """Return whether they are close if doubles can tell, else None."""
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        return None
    try:
        first, second = float(one), float(other)
    except OverflowError:
        return None
    size = max(abs(first), abs(second))
    # Below, doubles have fewer digits.
    if not _SMALLEST < size < math.inf:
        return None
    difference, allowed, margin = abs(first - second), max(absolute, relative * size), _MARGIN * size
    if difference + margin <= allowed:
        return True
    return False if difference - margin > allowed else None


def _exactly(one: Number, other: Number, absolute: float, relative: float) -> bool:
    first, second = _fraction(one), _fraction(other)
    if first is None or second is None:
        return False
    # As written: 1.1 is within 0.1 of 1, although the double nearest to 1.1 is not.
    allowed = max(Fraction(repr(absolute)), Fraction(repr(relative)) * max(abs(first), abs(second)))
    return abs(first - second) <= allowed


def _fraction(number: Number) -> Fraction | None:
    if isinstance(number, int):
        return Fraction(number)
    if isinstance(number, float):
        return Fraction(repr(number)) if math.isfinite(number) else None
    return Fraction(number) if isinstance(number, Decimal) and abs(number.adjusted()) < _MAX_EXPONENT else None
