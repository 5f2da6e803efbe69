"""From whatever training code hands over to JSON that Postgres can hold; it never raises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson

from openmanus_rl.records.numbers import NotANumber, to_number

__all__ = ["OPTIONS", "as_text", "clean", "dump_bytes", "dump_text", "encode_other", "says_all"]

OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
_LARGEST_DEPTH = 100
_LARGEST_INT = 2**63
_PLAIN = (str, int, bool, type(None))


def dump_bytes(value: Any) -> bytes:
    """Return a value as JSON; what JSON or Postgres cannot hold is replaced by something that shows.

    A NUL character by its picture (U+2400), half a surrogate pair by U+FFFD, an integer beyond 64 bits by its digits as
    text, a number that is not finite by its name, what contains itself or lies too deep by "(nested too deeply)", any
    other object by its text.
    """
    try:
        text = orjson.dumps(value, default=encode_other, option=OPTIONS)
    except TypeError:
        pass
    else:
        if says_all(text, value):
            return text
    return orjson.dumps(clean(value, 0, exact=True))


def dump_text(value: Any) -> str:
    """Return a value as JSON text, by the same rules."""
    return dump_bytes(value).decode()


def as_text(value: Any) -> str:
    """Return what a column of text holds of a value: text as it is, all else as JSON, by the same rules."""
    if value.__class__ is str:
        return value
    text = dump_text(value)
    # Paths, times, bytes: what JSON has only text for needs no quotes.
    return str(orjson.loads(text)) if text.startswith('"') else text


def says_all(text: bytes, value: Any) -> bool:
    """Say whether the JSON that orjson wrote says all that the value does: Postgres holds no NUL, and NaN became null.

    A text that itself says \\u0000 or null only costs the time of a closer look.
    """
    # Every log call comes here, and searching its line is a good part of its work. One byte is found far faster than
    # several; and in the text with which most records begin, which is most of their bytes, no null stands for a NaN.
    if b"\\" in text and b"\\u0000" in text:
        return False
    start = 0
    if value.__class__ is dict:
        for item in value.values():
            if item.__class__ is str:
                # In JSON it has at least as many bytes as characters.
                start += len(item)
            elif item.__class__ is not int:
                break
    return text.find(b"null", start) < 0 or not _may_hold_nan(value, 0)


def _may_hold_nan(value: Any, depth: int) -> bool:
    """Say whether a null may stand for a number that is not finite, for which JSON has no word."""
    kind = value.__class__
    if kind in _PLAIN:
        return False
    if kind is float:
        return not math.isfinite(value)
    if depth > _LARGEST_DEPTH:
        return True
    if kind is dict:
        return any(_may_hold_nan(item, depth + 1) for item in value.values())
    if kind is list or kind is tuple:
        return any(_may_hold_nan(item, depth + 1) for item in value)
    return True


def encode_other(value: Any) -> Any:
    """Make JSON of tensors, arrays, sets, decimals, models; anything else becomes its text."""
    for method in ("item", "tolist", "model_dump"):
        if callable(getattr(value, method, None)):
            try:
                return getattr(value, method)()
            except Exception:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
                continue
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=_text)
    if isinstance(value, (bytes, bytearray)):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Sequence) and not isinstance(value, (str, memoryview)):
        return list(value)
    try:
        return to_number(value)
    except NotANumber:
        return _text(value)


def clean(value: Any, depth: int, *, exact: bool) -> Any:
    """Return a value made of what JSON and Postgres can hold; large integers as text if they must be `exact`."""
    if depth > _LARGEST_DEPTH:
        return "(nested too deeply)"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _name(value)
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST_INT <= value < _LARGEST_INT else _large(value, exact=exact)
    if isinstance(value, Mapping):
        return {_storable(_key(key)): clean(item, depth + 1, exact=exact) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [clean(item, depth + 1, exact=exact) for item in value]
    try:
        # Dates, ids, dataclasses and arrays that orjson knows itself.
        known = value.tolist() if callable(getattr(value, "tolist", None)) else orjson.loads(orjson.dumps(value))
        return clean(known, depth + 1, exact=exact)
    except Exception:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
        return clean(encode_other(value), depth + 1, exact=exact)


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _large(value: int, *, exact: bool) -> float | str:
    try:
        return str(value) if exact else float(value)
    except (OverflowError, ValueError):
        # Python itself writes no more than some thousands of digits.
        return hex(value)


def _storable(text: str) -> str:
    return text.replace("\0", "\u2400").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _key(key: Any) -> str:
    """Return a key as the quick way writes it."""
    try:
        (name,) = orjson.loads(orjson.dumps({key: None}, option=OPTIONS))
    except (TypeError, ValueError):
        return _text(key)
    return str(name)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
        return f"<{type(value).__name__}>"
