"""A batch of records on its way to the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Batch", "Load"]

Batch = dict[str, list[dict[str, Any]]]
"""Records by kind."""
Load = Callable[[Batch], list[dict[str, Any]]]
"""Writes a batch in one transaction, and returns what was refused."""
