"""Validations: what a validator said of a rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.managers.base import EditableManager, OneOrMany, matching
from openmanus_rl.records import Validation
from openmanus_rl.records.ids import Id, as_id, validation_id
from openmanus_rl.records.statuses import OverrideVerdict, Verdict
from openmanus_rl.transport.filters import Filter, Order, Page
from openmanus_rl.transport.rest import Row

__all__ = ["ValidationManager"]


class ValidationManager(EditableManager):
    """Records and reads verdicts; validating again replaces the earlier verdict of the same validator."""

    table = "validations"
    noun = "validation"
    model = Validation

    @classmethod
    def log_validation(
        cls,
        rollout_id: Id,
        verdict: Verdict,
        *,
        validator_id: Id | None = None,
        validator_name: str = "default",
        score: float | None = None,
        expected: str | None = None,
        actual: str | None = None,
        message: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Row:
        """Record a verdict on a rollout and return it."""
        rollout = as_id(rollout_id, field="rollout_id")
        validator = None if validator_id is None else as_id(validator_id, field="validator_id")
        return cls._create(
            validation_id(rollout, validator, validator_name),
            rollout_id=rollout,
            verdict=verdict,
            validator_id=validator,
            validator_name=validator_name,
            score=score,
            expected=expected,
            actual=actual,
            message=message,
            details=details,
        )

    @classmethod
    def get_validation(cls, validation: Id) -> Row:
        """Return a verdict; an unknown id is a `NotFoundError`."""
        return cls._get(validation, field="validation_id")

    @classmethod
    def list_validations(
        cls,
        *,
        rollout_id: Id | None = None,
        training_run_id: Id | None = None,
        validator_id: Id | None = None,
        verdict: OneOrMany | None = None,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = "-created_at",
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of verdicts, newest first."""
        conditions = matching(
            rollout_id=rollout_id, training_run_id=training_run_id, validator_id=validator_id, verdict=verdict
        )
        return cls._page([*conditions, *filters], order_by=order_by, limit=limit, offset=offset, count=count)

    @classmethod
    def override(
        cls,
        rollout_id: Id,
        verdict: OverrideVerdict | None,
        reason: str,
        *,
        validation_id: Id | None = None,
    ) -> Row:
        """Judge a completed rollout as a person and return it; None withdraws what was said before.

        Its status becomes success or failed, and all totals follow. Until it is withdrawn, it stands above what the
        recorder says. With `validation_id` it is kept as said of that verdict.
        """
        params = {
            "rollout_id": as_id(rollout_id, field="rollout_id"),
            "verdict": verdict,
            "reason": reason,
            "validation_id": None if validation_id is None else as_id(validation_id, field="validation_id"),
        }
        return dict(cls._client().rpc("override_validation", params)["rollout"])

    @classmethod
    def list_overrides(cls, rollout_id: Id, *, limit: int = 100, offset: int = 0, count: bool = False) -> Page[Row]:
        """Return a page of what persons said of a rollout, newest first: who, when and why."""
        return cls._client().select(
            "validation_overrides",
            filters=[Filter.eq("rollout_id", as_id(rollout_id, field="rollout_id"))],
            order=[Order("created_at", descending=True), Order("id")],
            limit=limit,
            offset=offset,
            count=count,
        )
