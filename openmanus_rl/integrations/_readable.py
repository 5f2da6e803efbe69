"""Convert observations, actions and infos to text and JSON; large arrays are summarized."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from openmanus_rl.spool.lines import dump_text

__all__ = ["as_info", "as_plain", "as_text"]

# Larger arrays are images or feature maps, which are not readable as numbers.
_LARGEST_ARRAY = 64
_LARGEST_LIST = 1024
_LARGEST_DEPTH = 8
_NUMBERS = "biuf"


def as_text(value: Any) -> str:
    """Return an observation or an action as text: strings unchanged, numbers as JSON, large arrays summarized."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray) and _is_small(value) and not _is_finite(value):
        # In text, unquoted NaN and Infinity are more readable than quoted ones.
        return json.dumps(value.tolist())
    plain = as_plain(value)
    return plain if isinstance(plain, str) else dump_text(plain)


def as_info(info: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an info as JSON values; None if it is empty."""
    return {str(key): as_plain(value) for key, value in info.items()} if info else None


def as_plain(value: Any, *, depth: int = 0) -> Any:
    """Return a value that can be serialized as JSON; what cannot is replaced by a description."""
    if value is None or isinstance(value, (str, bool, int, np.integer, np.bool_)):
        return value
    if isinstance(value, (float, np.floating)):
        return value if math.isfinite(value) else _named(float(value))
    if depth >= _LARGEST_DEPTH:
        return "(nested too deeply)"
    if isinstance(value, np.ndarray):
        return _plain_array(value, depth)
    if isinstance(value, Mapping):
        return {str(key): as_plain(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > _LARGEST_LIST:
            return f"{type(value).__name__} of {len(value)} items"
        return [as_plain(item, depth=depth + 1) for item in value]
    if isinstance(value, Enum):
        return as_plain(value.value, depth=depth + 1)
    if hasattr(value, "detach"):
        return as_plain(value.detach().cpu().numpy(), depth=depth + 1)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return f"<{type(value).__name__}>"


def _plain_array(array: np.ndarray[Any, Any], depth: int) -> Any:
    if not _is_small(array):
        return _summary(array)
    if array.dtype.kind not in _NUMBERS or array.ndim == 0 or not _is_finite(array):
        return as_plain(array.tolist(), depth=depth + 1)
    # Keep the array: it is serialized with its own precision, as 0.1 and not as 0.10000000149011612.
    return np.ascontiguousarray(array)


def _is_small(array: np.ndarray[Any, Any]) -> bool:
    return array.size <= _LARGEST_ARRAY


def _is_finite(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _summary(array: np.ndarray[Any, Any]) -> str:
    text = f"{array.dtype} array of shape {array.shape}"
    if array.dtype.kind in _NUMBERS:
        text += f", from {array.min():.6g} to {array.max():.6g}, mean {array.mean():.6g}"
    return text


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
