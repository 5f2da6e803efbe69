"""Answers as JSON values: exact numbers, JSON within text, and short texts of what was compared."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from openmanus_rl.records.plain import as_text, encode_other

__all__ = [
    "MAX_DEPTH",
    "NotJson",
    "Number",
    "answer_value",
    "as_answer_text",
    "is_number",
    "parse_json",
    "plain",
    "shown",
]

Number = int | float | Decimal

MAX_DEPTH = 200
SHOWN_CHARACTERS = 2000
# Python itself refuses to read longer integers, since that takes time in the square of their length.
_MAX_INT_DIGITS = 4000
_MAX_ENCODINGS = 10
_FENCE = "```"


class NotJson(ValueError):
    """A text is not JSON; the message says why."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text, integers of any length exactly; raise `NotJson` if it is none.

    NaN and infinities are read as Python's `json` writes them.
    """
    try:
        return json.loads(text, parse_int=_read_int, parse_float=_read_float)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except InvalidOperation:
        raise NotJson("it has a number beyond all range") from None


def answer_value(answer: Any) -> Any:
    """Return the JSON value of an answer: that of its text or of its last fenced block that is JSON, else the text."""
    if not isinstance(answer, str):
        return answer
    for text in (answer, *reversed(_fenced_blocks(answer))):
        try:
            return parse_json(text)
        except NotJson:
            continue
    return answer.strip()


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value made of dict, list, str, bool, None and numbers alone; raise `NotJson` if it is too deep."""
    if depth > MAX_DEPTH:
        raise NotJson(f"it is nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Decimal):
        return _from_decimal(value)
    if isinstance(value, Mapping):
        return {as_text(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [plain(item, depth + 1) for item in value]
    # Arrays, dates, ids and whatever else an agent of a user's own returns.
    return plain(encode_other(value), depth + MAX_DEPTH // _MAX_ENCODINGS)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; true and false are none."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def as_answer_text(answer: Any) -> str:
    """Return an answer as text: text as it is, all else as JSON."""
    return answer if isinstance(answer, str) else as_text(answer)


def shown(value: Any, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Return the beginning of a value as text, with its length if it is cut."""
    text = value if isinstance(value, str) else _written(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def _written(value: Any) -> str:
    if is_number(value):
        # Not as JSON, which would have another form for long integers.
        return str(value) if not isinstance(value, int) or value.bit_length() < 8192 else "(a very long integer)"
    return as_text(value)


def _fenced_blocks(text: str) -> list[str]:
    """Return what stands between ``` and ```, each alone on its line but for a language after the first."""
    blocks: list[str] = []
    lines: list[str] | None = None
    # Line by line, not by a regular expression: an answer may have a million fences.
    for line in text.splitlines() if _FENCE in text else ():
        if lines is None:
            lines = [] if line.lstrip().startswith(_FENCE) else None
        elif line.strip() == _FENCE:
            blocks.append("\n".join(lines))
            lines = None
        else:
            lines.append(line)
    return blocks


def _read_int(digits: str) -> Number:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else Decimal(digits)


def _from_decimal(value: Decimal) -> Number:
    """Return the number that JSON with the same digits is read as."""
    if not value.is_finite():
        return math.nan if value.is_nan() else math.copysign(math.inf, value)
    if value.adjusted() < _MAX_INT_DIGITS and value == value.to_integral_value():
        return int(value)
    return _read_float(str(value))


def _read_float(digits: str) -> Number:
    number = float(digits)
    # Beyond the range of a double, different numbers would all be infinite or zero.
    return Decimal(digits) if number == 0 or math.isinf(number) else number
