# Written by scripts/generate_types from the migrations. Do not edit.
# ruff: noqa
# fmt: off
"""Statuses, where each may go, and the other words that columns take; the database enforces them."""

from typing import Literal

__all__ = ["COMPLETED_ROLLOUT_STATUSES", "NEXT_STATUSES", "ActorKind", "ArchiveStatus", "EvaluationKind", "EvaluationStatus", "JobBackend", "JobStatus", "MediaKind", "MemberRole", "OrchestratorState", "OverrideVerdict", "RolloutSource", "RolloutStatus", "RunStatus", "StepPhase", "StepStatus", "SweepDirection", "SweepMethod", "SweepStatus", "Verdict", "Visibility", "WorkerState"]

RunStatus = Literal["pending", "running", "completed", "failed", "cancelled", "interrupted"]
StepStatus = Literal["pending", "running", "completed", "failed", "interrupted"]
EvaluationStatus = Literal["pending", "running", "completed", "failed", "cancelled", "interrupted"]
RolloutStatus = Literal["pending", "provisioning", "running", "success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"]
JobStatus = Literal["pending", "launching", "queued", "running", "succeeded", "failed", "cancelled"]
JobBackend = Literal["local", "skypilot"]
OrchestratorState = Literal["active", "stopped"]
SweepStatus = Literal["pending", "running", "completed", "failed", "cancelled"]
SweepMethod = Literal["grid", "random", "bayesian", "seeds"]
SweepDirection = Literal["maximize", "minimize"]
WorkerState = Literal["active", "draining", "stopped"]
StepPhase = Literal["rollout", "training"]
EvaluationKind = Literal["eval", "baseline"]
RolloutSource = Literal["training", "evaluation", "baseline", "manual", "import"]
MediaKind = Literal["frame", "screenshot", "image", "video", "audio", "file"]
Verdict = Literal["pass", "fail", "error"]
OverrideVerdict = Literal["pass", "fail"]
Visibility = Literal["private", "public"]
ArchiveStatus = Literal["writing", "archived"]
MemberRole = Literal["viewer", "editor", "admin"]
ActorKind = Literal["member", "key", "secret_key", "system"]

COMPLETED_ROLLOUT_STATUSES: frozenset[str] = frozenset({"success", "failed", "completed", "truncated", "timeout", "error"})
"""The statuses that count as completed in success rates and averages."""

NEXT_STATUSES: dict[str, dict[str, frozenset[str]]] = {
    "training_runs": {
        "pending": frozenset({"running", "completed", "failed", "cancelled", "interrupted"}),
        "running": frozenset({"completed", "failed", "cancelled", "interrupted"}),
        "completed": frozenset(),
        "failed": frozenset({"running", "cancelled"}),
        "cancelled": frozenset({"running"}),
        "interrupted": frozenset({"running", "completed", "failed", "cancelled"}),
    },
    "training_steps": {
        "pending": frozenset({"running", "completed", "failed", "interrupted"}),
        "running": frozenset({"completed", "failed", "interrupted"}),
        "completed": frozenset(),
        "failed": frozenset({"running", "completed"}),
        "interrupted": frozenset({"running", "completed", "failed"}),
    },
    "evaluations": {
        "pending": frozenset({"running", "completed", "failed", "cancelled", "interrupted"}),
        "running": frozenset({"completed", "failed", "cancelled", "interrupted"}),
        "completed": frozenset(),
        "failed": frozenset({"running", "completed"}),
        "cancelled": frozenset({"running"}),
        "interrupted": frozenset({"running", "completed", "failed", "cancelled"}),
    },
    "rollouts": {
        "pending": frozenset({"provisioning", "running", "success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"}),
        "provisioning": frozenset({"pending", "running", "success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"}),
        "running": frozenset({"pending", "success", "failed", "completed", "truncated", "timeout", "error", "cancelled", "interrupted"}),
        "success": frozenset({"failed", "completed", "truncated", "timeout"}),
        "failed": frozenset({"success", "completed", "truncated", "timeout"}),
        "completed": frozenset({"success", "failed", "truncated", "timeout"}),
        "truncated": frozenset({"success", "failed", "completed", "timeout"}),
        "timeout": frozenset({"success", "failed", "completed", "truncated"}),
        "error": frozenset({"pending", "success", "failed", "completed"}),
        "cancelled": frozenset({"pending"}),
        "interrupted": frozenset({"pending", "running", "success", "failed", "completed", "truncated", "timeout", "error", "cancelled"}),
    },
    "jobs": {
        "pending": frozenset({"launching", "cancelled"}),
        "launching": frozenset({"pending", "queued", "running", "succeeded", "failed", "cancelled"}),
        "queued": frozenset({"launching", "running", "succeeded", "failed", "cancelled"}),
        "running": frozenset({"launching", "queued", "succeeded", "failed", "cancelled"}),
        "succeeded": frozenset(),
        "failed": frozenset({"pending"}),
        "cancelled": frozenset({"pending"}),
    },
    "sweeps": {
        "pending": frozenset({"running", "completed", "failed", "cancelled"}),
        "running": frozenset({"completed", "failed", "cancelled"}),
        "completed": frozenset(),
        "failed": frozenset({"running"}),
        "cancelled": frozenset({"running"}),
    },
}
"""By table: from each status, those that may follow; none may follow a final one."""
