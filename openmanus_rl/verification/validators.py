"""Runs the validators of a task on an answer; each gives one verdict, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes.base import Sandbox
from openmanus_rl.verification.answers import verify_exact, verify_json, verify_numeric, verify_regex
from openmanus_rl.verification.base import Case, Finding, ValidatorSpec, Verdict
from openmanus_rl.verification.databases import verify_sql
from openmanus_rl.verification.functions import verify_python
from openmanus_rl.verification.scripts import verify_script
from openmanus_rl.verification.specs import check_spec
from openmanus_rl.verification.values import NotJson, is_number, parse_json, shown

__all__ = ["default_validator", "verify"]

_RUN: Mapping[str, Callable[[Any, Case], Finding]] = {
    "json": verify_json,
    "exact": verify_exact,
    "regex": verify_regex,
    "numeric": verify_numeric,
    "sql": verify_sql,
    "script": verify_script,
    "python": verify_python,
}


def verify(
    validators: Sequence[ValidatorSpec],
    *,
    answer: Any,
    expected_answer: str | None = None,
    sandbox: Sandbox | None = None,
    task_files: Path | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[Verdict]:
    """Return a verdict of each validator, or of the default one if the task only has an expected answer.

    With neither, there is none: the answer is unverified. Nothing that a validator meets is raised; it is an `error`.
    """
    if not validators:
        default = default_validator(expected_answer)
        validators = [] if default is None else [default]
    case = Case(answer, expected_answer, sandbox, task_files, metadata or {})
    return [_verdict(validator, case) for validator in validators]


def default_validator(expected_answer: str | None) -> ValidatorSpec | None:
    """Return the validator of a task that has none: by structure if JSON is expected, else as trimmed text."""
    if expected_answer is None or not expected_answer.strip():
        return None
    try:
        value = parse_json(expected_answer)
    except NotJson:
        return ValidatorSpec("exact")
    is_finite_number = is_number(value) and value - value == 0
    return ValidatorSpec("json" if isinstance(value, (dict, list, bool)) or is_finite_number else "exact")


def _verdict(validator: ValidatorSpec, case: Case) -> Verdict:
    try:
        spec = check_spec(validator.kind, validator.spec)
        finding = _RUN[validator.kind](spec, case)
    except InvalidInput as error:
        finding = Finding("error", message=shown(str(error)), details={"field": error.field} if error.field else None)
    except Exception as error:  # noqa: BLE001 - a validator that fails must not take the rollout with it
        finding = Finding("error", message=shown(f"{type(error).__name__}: {error}"))
    return Verdict(validator=validator, **vars(finding))
