"""The validator `python`: calls a function that is named by its import path."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.records.numbers import NotANumber, to_number
from openmanus_rl.records.plain import dump_bytes
from openmanus_rl.sandboxes.base import Sandbox
from openmanus_rl.verification.base import Case, Finding
from openmanus_rl.verification.calls import Call, CallFailed, Description, call
from openmanus_rl.verification.specs import PythonSpec
from openmanus_rl.verification.values import shown

__all__ = ["Context", "finding_of", "verify_python"]

_FIELDS = {"passed", "score", "message", "details"}
_DETAILS_CHARACTERS = 20_000


class _BadResult(Exception):
    """What the function returned is no verdict."""


@dataclass(frozen=True)
class Context:
    """What a function gets beside the answer and the expected answer."""

    sandbox: Sandbox | None = None
    task_files: Path | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The validator's own, from its spec."""


def verify_python(spec: PythonSpec, case: Case) -> Finding:
    """Call the function and return what it decided; whatever it raises is an error, never a pass."""
    if spec.uses_sandbox and case.sandbox is None:
        return Finding("error", message="the environment is gone, which the function uses")
    request = Call(
        function=spec.function,
        answer=case.answer,
        expected_answer=case.expected_answer,
        task_files=case.task_files,
        metadata=dict(case.metadata),
        options=spec.options,
        pass_at=spec.pass_at,
        sandbox=None if case.sandbox is None else _describe(case.sandbox),
        import_paths=sys.path,
    )
    try:
        found: Finding = call(request, sandbox=case.sandbox, timeout_seconds=spec.timeout_seconds)
    except CallFailed as error:
        found = Finding("error", message=shown(f"{spec.function} {error}"))
    return replace(
        found,
        expected=None if case.expected_answer is None else shown(case.expected_answer),
        actual=None if case.answer is None else shown(case.answer),
    )


def _describe(sandbox: Sandbox) -> Description:
    return Description(sandbox.kind, sandbox.url, dict(sandbox.services), sandbox.episode is not None)


def finding_of(function: Callable[[], Any], *, name: str, pass_at: float) -> Finding:
    """Return what a function decides, in the process in which it runs."""
    try:
        return _finding(function(), pass_at)
    except _BadResult as error:
        return Finding("error", message=shown(f"{name} returned {error}"))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is the function's
        return Finding("error", message=shown(f"{name} raised {type(error).__name__}: {error}"))


def _finding(result: Any, pass_at: float) -> Finding:
    given = result if isinstance(result, Mapping) else {"score": result}
    if unknown := set(given) - _FIELDS:
        raise _BadResult(
            f"an object with {', '.join(sorted(map(repr, unknown)))}; known are {', '.join(sorted(_FIELDS))}"
        )
    passed, score = given.get("passed"), given.get("score")
    if passed is None and score is None:
        raise _BadResult(f"{shown(result, limit=100)}, which is no verdict" if result is not None else "nothing")
    if passed is not None and not isinstance(passed, bool):
        raise _BadResult("`passed` that is neither true nor false")
    number = float(bool(passed)) if score is None else _score(score)
    passes = number >= pass_at if passed is None else passed
    message, details = given.get("message"), given.get("details")
    return Finding(
        "pass" if passes else "fail",
        score=number,
        message=None if message is None else shown(message),
        details=_bounded(details),
    )


def _score(value: Any) -> float:
    try:
        number = float(to_number(value))
    except NotANumber as error:
        raise _BadResult(f"a score that is no number: {error}") from None
    if not math.isfinite(number):
        raise _BadResult("a score that is not finite")
    return number


def _bounded(details: Any) -> Mapping[str, Any] | None:
    """Return details as an object that is not too large to be stored with each verdict."""
    if details is None:
        return None
    text = shown(details, limit=_DETAILS_CHARACTERS)
    is_whole = isinstance(details, Mapping) and not text.endswith(" characters)")
    # As it is stored: it goes to another process.
    return orjson.loads(dump_bytes(details)) if is_whole else {"text": text}
