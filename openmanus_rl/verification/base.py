"""What a validator is given, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Outcome", "ValidatorSpec", "Verdict"]

Outcome = Literal["pass", "fail", "error"]


@dataclass(frozen=True)
class ValidatorSpec:
    """How a task's outcome is checked: a row of `validators`."""

    kind: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    name: str = "default"
    id: str | None = None
    """None for the validator that is made from the task's expected answer."""
    version: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The outcome of a validator: a record of `validations` without its ids."""

    validator: ValidatorSpec
    outcome: Outcome
    score: float | None = None
    expected: str | None = None
    actual: str | None = None
    message: str | None = None
    details: Mapping[str, Any] | None = None
