"""Validations: the verdicts of validators on rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, Manager, OneOrMany, Paging, matching, of_ids
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.records.ids import Id, as_id, as_optional_id, validation_id
from openmanus_rl.records.rows import Rollout, Validation, ValidationOverride
from openmanus_rl.records.statuses import OverrideVerdict, Verdict
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["ValidationManager"]


class _OverrideManager(Manager[ValidationOverride]):
    """Reads the verdicts of people on rollouts."""

    table = "validation_overrides"
    noun = "override"


class ValidationManager(EditableManager[Validation]):
    """Records and reads verdicts; validating again replaces the earlier verdict of the same validator."""

    table = "validations"
    noun = "validation"

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
    ) -> Validation:
        """Record a verdict on a rollout and return it."""
        rollout = as_id(rollout_id, field="rollout_id")
        validator = as_optional_id(validator_id, field="validator_id")
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
    def get_validation(cls, validation: Id) -> Validation:
        """Return a verdict; an unknown id raises `NotFoundError`."""
        return cls._get(validation, field="validation_id")

    @classmethod
    def list_validations(
        cls,
        *,
        rollout_id: Id | None = None,
        training_run_id: Id | None = None,
        validator_id: Id | None = None,
        verdict: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Validation]:
        """Return a page of verdicts, newest first."""
        parents = of_ids(rollout_id=rollout_id, training_run_id=training_run_id, validator_id=validator_id)
        return cls._page(*parents, *matching(verdict=verdict), **paging)

    @classmethod
    def override(
        cls,
        rollout_id: Id,
        verdict: OverrideVerdict | None,
        reason: str,
        *,
        validation_id: Id | None = None,
    ) -> Rollout:
        """Override the verdict on a completed rollout and return it; None withdraws the override.

        The status becomes success or failed, and all totals are updated. Until it is withdrawn, the override takes
        precedence over the recorder. `validation_id` names the verdict that it is about.
        """
        params = {
            "rollout_id": as_id(rollout_id, field="rollout_id"),
            "verdict": verdict,
            "reason": reason,
            "validation_id": as_optional_id(validation_id, field="validation_id"),
        }
        return cls._sibling(RolloutManager)._checked(cls._client().rpc("override_validation", params)["rollout"])

    @classmethod
    def list_overrides(cls, rollout_id: Id, **paging: Unpack[Paging]) -> Page[ValidationOverride]:
        """Return a page of the overrides of a rollout, newest first, with who made them, when and why."""
        of_rollout = Filter.eq("rollout_id", as_id(rollout_id, field="rollout_id"))
        return cls._sibling(_OverrideManager)._page(of_rollout, **paging)
