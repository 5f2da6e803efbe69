"""Encodes request bodies as JSON, and names the field that cannot be encoded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from openmanus_rl.errors import InvalidInput

__all__ = ["encode"]


def encode(body: Any) -> bytes:
    """Return the body as JSON; raise an `InvalidInput` that names a field without a JSON form."""
    try:
        text = json.dumps(body, default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        field, reason = _culprit(body) or ("", str(error))
        raise InvalidInput(
            f"{field or 'the request'} can't be sent as JSON: {reason}",
            field=field or None,
            hint="give text, finite numbers, booleans, None, lists and dicts with text keys",
        ) from error


def _plain(value: Any) -> Any:
    """Return the JSON form of a type that JSON does not have."""
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, PurePath)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Set, Sequence)) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    # numpy and torch scalars and arrays, without importing either.
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _culprit(value: Any, path: str = "", depth: int = 0) -> tuple[str, str] | None:
    """Find the first value that has no JSON form, as (path, reason)."""
    if depth > 100:
        return path, "it is nested too deeply or contains itself"
    if isinstance(value, float) and not math.isfinite(value):
        return path, f"{value} is not a finite number"
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return path, "the text holds half of a surrogate pair"
        return None
    if value is None or isinstance(value, (bool, int, float)):
        return None
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key is not None and not isinstance(key, (str, int, float, bool)):
                return path, f"the key {key!r} is not text"
            if found := _culprit(item, f"{path}.{key}" if path else str(key), depth + 1):
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            if found := _culprit(item, f"{path}[{index}]", depth + 1):
                return found
        return None
    try:
        plain = _plain(value)
    except TypeError as error:
        return path, str(error)
    return None if plain is value else _culprit(plain, path, depth + 1)
