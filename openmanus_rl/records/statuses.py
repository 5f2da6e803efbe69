"""Statuses and where each may go; the database enforces them, a test keeps this page equal to it."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = [
    "COMPLETED_ROLLOUT_STATUSES",
    "NEXT_STATUSES",
    "EvaluationKind",
    "EvaluationStatus",
    "JobStatus",
    "MemberRole",
    "RolloutSource",
    "RolloutStatus",
    "RunStatus",
    "StepPhase",
    "StepStatus",
    "Verdict",
    "Visibility",
]

RunStatus = Literal["pending", "running", "completed", "failed", "cancelled", "interrupted"]
StepStatus = Literal["pending", "running", "completed", "failed", "interrupted"]
EvaluationStatus = Literal["pending", "running", "completed", "failed", "cancelled", "interrupted"]
RolloutStatus = Literal[
    "pending",
    "running",
    "success",
    "failed",
    "completed",
    "truncated",
    "timeout",
    "error",
    "cancelled",
    "interrupted",
]
JobStatus = Literal["pending", "queued", "running", "succeeded", "failed", "cancelled"]
StepPhase = Literal["rollout", "training"]
EvaluationKind = Literal["eval", "baseline"]
RolloutSource = Literal["training", "evaluation", "baseline", "manual", "import"]
Verdict = Literal["pass", "fail", "error"]
Visibility = Literal["private", "public"]
MemberRole = Literal["viewer", "editor", "admin"]

# Judged: these may be judged anew, but never run again.
_JUDGED: tuple[str, ...] = ("success", "failed", "completed", "truncated", "timeout")

COMPLETED_ROLLOUT_STATUSES: frozenset[str] = frozenset({*_JUDGED, "error"})
"""The statuses that count as completed in success rates and averages."""

NEXT_STATUSES: dict[str, dict[str, frozenset[str]]] = {
    "training_runs": {
        "pending": frozenset({"running", "completed", "failed", "cancelled", "interrupted"}),
        "running": frozenset({"completed", "failed", "cancelled", "interrupted"}),
        "interrupted": frozenset({"running", "completed", "failed", "cancelled"}),
        "failed": frozenset({"running", "cancelled"}),
        "cancelled": frozenset({"running"}),
        "completed": frozenset(),
    },
    "training_steps": {
        "pending": frozenset({"running", "completed", "failed", "interrupted"}),
        "running": frozenset({"completed", "failed", "interrupted"}),
        "interrupted": frozenset({"running", "completed", "failed"}),
        "failed": frozenset({"running", "completed"}),
        "completed": frozenset(),
    },
    "evaluations": {
        "pending": frozenset({"running", "completed", "failed", "cancelled", "interrupted"}),
        "running": frozenset({"completed", "failed", "cancelled", "interrupted"}),
        "interrupted": frozenset({"running", "completed", "failed", "cancelled"}),
        "failed": frozenset({"running", "completed"}),
        "cancelled": frozenset({"running"}),
        "completed": frozenset(),
    },
    "rollouts": {
        "pending": frozenset(get_args(RolloutStatus)) - {"pending"},
        "running": frozenset(get_args(RolloutStatus)) - {"running"},
        "interrupted": frozenset(get_args(RolloutStatus)) - {"interrupted"},
        "error": frozenset({"pending"}),
        "cancelled": frozenset({"pending"}),
        **{status: frozenset(_JUDGED) - {status} for status in _JUDGED},
    },
    "jobs": {
        "pending": frozenset({"queued", "running", "succeeded", "failed", "cancelled"}),
        "queued": frozenset({"pending", "running", "succeeded", "failed", "cancelled"}),
        "running": frozenset({"queued", "succeeded", "failed", "cancelled"}),
        "succeeded": frozenset(),
        "failed": frozenset(),
        "cancelled": frozenset(),
    },
}
