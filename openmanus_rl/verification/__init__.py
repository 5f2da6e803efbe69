"""Verification of answers: deterministic validators, and scoring again with a new version of one."""

from openmanus_rl.verification.base import Case, ValidatorSpec, Verdict, status_of
from openmanus_rl.verification.functions import Context
from openmanus_rl.verification.specs import check_spec, needs_sandbox
from openmanus_rl.verification.validators import default_validator, verify

__all__ = [
    "Case",
    "Context",
    "ValidatorSpec",
    "Verdict",
    "check_spec",
    "default_validator",
    "needs_sandbox",
    "status_of",
    "verify",
]
