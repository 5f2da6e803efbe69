"""From whatever training code hands over to a line of JSON that Postgres can hold; it never raises."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson

__all__ = ["dump_bytes", "dump_line", "dump_text"]

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
_LARGEST_DEPTH = 100
_LARGEST_INT = 2**63


def dump_line(kind: str, record: Any) -> bytes:
    """Return a record as a line of a spool.

    What has no place in JSON or in Postgres is not dropped and not guessed, but replaced by something that shows:
    a NUL character by its picture (U+2400), half a surrogate pair by U+FFFD, an integer beyond 64 bits by its digits as
    text (in metrics by the nearest float), what contains itself or lies too deep by "(nested too deeply)", any other
    object by its text.
    """
    when = time.time()
    try:
        line = orjson.dumps((kind, when, record), default=_encode, option=_OPTIONS)
    except TypeError:
        pass
    else:
        # A backslash of the text itself may look like this too; then the way round costs time, and changes nothing.
        if b"\\u0000" not in line:
            return line + b"\n"
    return orjson.dumps((kind, when, _clean(record, 0, exact=kind != "metrics"))) + b"\n"


def dump_bytes(value: Any) -> bytes:
    """Return a value as JSON, by the same rules."""
    try:
        return orjson.dumps(value, default=_encode, option=_OPTIONS)
    except TypeError:
        return orjson.dumps(_clean(value, 0, exact=True))


def dump_text(value: Any) -> str:
    """Return a value as JSON text, by the same rules."""
    return dump_bytes(value).decode()


def _encode(value: Any) -> Any:
    """Make JSON of tensors, arrays, sets, paths; anything else becomes its text."""
    for method in ("item", "tolist"):
        if hasattr(value, method):
            try:
                return getattr(value, method)()
            except Exception:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
                continue
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=_text)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return _text(value)


def _clean(value: Any, depth: int, *, exact: bool) -> Any:
    if depth > _LARGEST_DEPTH:
        return "(nested too deeply)"
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST_INT <= value < _LARGEST_INT else _large(value, exact=exact)
    if isinstance(value, Mapping):
        return {_storable(_text(key)): _clean(item, depth + 1, exact=exact) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_clean(item, depth + 1, exact=exact) for item in value]
    try:
        # Dates, ids, dataclasses and arrays that orjson knows itself.
        return _clean(orjson.loads(orjson.dumps(value, option=_OPTIONS)), depth + 1, exact=exact)
    except TypeError:
        return _clean(_encode(value), depth + 1, exact=exact)


def _large(value: int, *, exact: bool) -> float | str:
    try:
        return str(value) if exact else float(value)
    except (OverflowError, ValueError):
        # Python itself writes no more than some thousands of digits.
        return hex(value)


def _storable(text: str) -> str:
    return text.replace("\0", "\u2400").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
        return f"<{type(value).__name__}>"
