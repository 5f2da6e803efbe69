"""What a validator is given, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["Case", "Finding", "Outcome", "ValidatorSpec", "Verdict", "status_of"]

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

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ValidatorSpec:
        """Return the validator of a row of `validators`."""
        return cls(
            kind=row["kind"],
            spec=row.get("spec") or {},
            name=row.get("external_id") or "default",
            id=row.get("id"),
            version=row.get("version"),
        )


@dataclass(frozen=True)
class Case:
    """What is verified: an answer, what was expected, and the environment that the agent left."""

    answer: Any
    """A text, any JSON value, or None for no answer."""
    expected_answer: str | None = None
    sandbox: Sandbox | None = None
    """None if the environment is gone."""
    task_files: Path | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What a validator found."""

    outcome: Outcome
    score: float | None = None
    expected: str | None = None
    actual: str | None = None
    message: str | None = None
    details: Mapping[str, Any] | None = None


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


def status_of(verdicts: Sequence[Verdict]) -> Literal["success", "failed", "error", "completed"]:
    """Return the status that verdicts give a rollout whose agent has finished; without any, it is unverified."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if not outcomes:
        return "completed"
    # One validator that refutes the answer is enough, whatever became of the others.
    return "failed" if "fail" in outcomes else "error" if "error" in outcomes else "success"
