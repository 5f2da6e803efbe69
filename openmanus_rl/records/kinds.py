# Written by scripts/generate_types from the migrations. Do not edit.
# ruff: noqa
# fmt: off
"""The kinds of records that `ingest` takes; each is a table."""

from typing import Literal

__all__ = ["RECORD_KINDS", "RecordKind"]

RecordKind = Literal["environments", "tasks", "validators", "training_runs", "training_steps", "model_checkpoints", "evaluations", "evaluation_results", "rollout_groups", "rollouts", "agent_states", "observations", "generations", "tool_calls", "rewards", "validations", "media", "metric_chunks"]

RECORD_KINDS: tuple[RecordKind, ...] = ("environments", "tasks", "validators", "training_runs", "training_steps", "model_checkpoints", "evaluations", "evaluation_results", "rollout_groups", "rollouts", "agent_states", "observations", "generations", "tool_calls", "rewards", "validations", "media", "metric_chunks")
"""In the order in which they are written: parents before children."""
