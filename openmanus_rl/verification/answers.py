"""Validators that look at the answer alone: json, exact, regex, numeric."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from openmanus_rl import _child
from openmanus_rl.verification.base import Case, Finding
from openmanus_rl.verification.closeness import are_close
from openmanus_rl.verification.comparison import Rules, TooMuchWork, first_difference, normalized_text
from openmanus_rl.verification.specs import ExactSpec, JsonSpec, NumericSpec, RegexSpec, SqlSpec
from openmanus_rl.verification.values import (
    NotJson,
    Number,
    answer_value,
    as_answer_text,
    is_number,
    parse_json,
    shown,
)

__all__ = ["compared", "verify_exact", "verify_json", "verify_numeric", "verify_regex"]

_REGEX_CHILD = Path(__file__).with_name("_regex_child.py")
_NO_ANSWER = "no answer was given"


def verify_json(spec: JsonSpec, case: Case) -> Finding:
    """Compare the answer with what is expected by structure."""
    if not spec.has("expected") and case.expected_answer is None:
        return Finding("error", message="spec.expected: it is missing, and the task has no expected answer")
    expected = spec.expected if spec.has("expected") else answer_value(case.expected_answer)
    if case.answer is None:
        return _no_answer(expected)
    if isinstance(expected, str) and isinstance(case.answer, str):
        # A text that also reads as JSON, such as 42, is a text where one is expected.
        as_it_is = compared(expected, case.answer.strip(), spec)
        return as_it_is if as_it_is.outcome == "pass" else compared(expected, answer_value(case.answer), spec)
    return compared(expected, answer_value(case.answer), spec)


def compared(expected: Any, actual: Any, spec: JsonSpec | SqlSpec, *, root: str = "answer") -> Finding:
    """Return how two values compare by a spec's rules."""
    rules = Rules(
        absolute=spec.tolerance.absolute,
        relative=spec.tolerance.relative,
        unordered=spec.unordered,
        ignore_case=spec.ignore_case,
        ignore_whitespace=spec.ignore_whitespace,
        extra_keys=spec.extra_keys,
    )
    texts = {"expected": shown(expected), "actual": shown(actual)}
    try:
        difference = first_difference(expected, actual, rules, root=root)
    except TooMuchWork as error:
        return _error(str(error), **texts)
    except NotJson as error:
        return _error(f"expected: {error}", **texts)
    return _decided(difference is None, message=difference, **texts)


def verify_exact(spec: ExactSpec, case: Case) -> Finding:
    """Compare the answer with a text."""
    expected = spec.expected if spec.expected is not None else case.expected_answer
    if expected is None:
        return Finding("error", message="spec.expected: it is missing, and the task has no expected answer")
    if case.answer is None:
        return _no_answer(expected)
    actual = as_answer_text(case.answer)

    def seen(text: str) -> str:
        text = text.strip() if spec.trim else text
        return normalized_text(text, ignore_case=spec.ignore_case, ignore_whitespace=spec.ignore_whitespace)

    is_same = seen(expected) == seen(actual)
    message = None if is_same else "the answer is another text"
    return _decided(is_same, expected=shown(expected), actual=shown(actual), message=message)


def verify_regex(spec: RegexSpec, case: Case) -> Finding:
    """Match the answer's text against a pattern, within a time limit."""
    if case.answer is None:
        return _no_answer(spec.pattern)
    text = as_answer_text(case.answer)
    texts = {"expected": shown(spec.pattern), "actual": shown(text)}
    request = {"pattern": spec.pattern, "flags": spec.flags, "full": spec.full, "text": text}
    try:
        done = subprocess.run(
            _child.script(_REGEX_CHILD),
            input=json.dumps(request | {"seconds": spec.timeout_seconds}).encode(),
            capture_output=True,
            timeout=spec.timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _error(f"the pattern came to no decision within {spec.timeout_seconds:g} s", **texts)
    if done.stdout.strip() not in (b"0", b"1"):
        return _error(f"the match failed: {shown(done.stderr.decode(errors='replace')[-500:])}", **texts)
    matches = done.stdout.strip() == b"1"
    return _decided(matches, message=None if matches else "the answer does not match the pattern", **texts)


def verify_numeric(spec: NumericSpec, case: Case) -> Finding:
    """Compare the answer with a number."""
    expected: Number | None = spec.expected
    if expected is None:
        expected = None if case.expected_answer is None else _number(case.expected_answer, spec)
        if expected is None:
            message = "spec.expected: it is missing, and the task's expected answer is not a number"
            return Finding("error", message=message)
    if case.answer is None:
        return _no_answer(expected)
    actual = case.answer if is_number(case.answer) else None
    if isinstance(case.answer, str):
        actual = _number(case.answer, spec)
    texts = {"expected": shown(expected), "actual": shown(case.answer)}
    if actual is None:
        return _decided(False, message="the answer is not a number", **texts)
    is_close = are_close(expected, actual, absolute=spec.tolerance.absolute, relative=spec.tolerance.relative)
    return _decided(is_close, message=None if is_close else "the answer is another number", **texts)


def _number(text: str, spec: NumericSpec) -> Number | None:
    """Return the number that a text is, read as the spec says, or None."""
    text = text.strip()
    for unit in spec.units:
        if text.endswith(unit) or text.startswith(unit):
            text = (text.removesuffix(unit) if text.endswith(unit) else text.removeprefix(unit)).strip()
            break
    whole = r"\d+"
    if spec.thousands_separator is not None:
        whole = rf"(?:\d{{1,3}}(?:{re.escape(spec.thousands_separator)}\d{{3}})+|\d+)"
    point = re.escape(spec.decimal_separator)
    form = rf"(?a:([+-]?)({whole})?(?:{point}(\d*))?([eE][+-]?\d+)?)"
    found = re.fullmatch(form, text)
    if found is None or not (found[2] or found[3]):
        return None
    digits = (found[2] or "0").replace(spec.thousands_separator or ",", "").lstrip("0") or "0"
    written = f"{found[1].removeprefix('+')}{digits}{'.' + found[3] if found[3] else ''}{found[4] or ''}"
    try:
        number = parse_json(written)
    except NotJson:
        return None
    return number if is_number(number) else None


def _error(message: str, *, expected: str, actual: str) -> Finding:
    return Finding("error", expected=expected, actual=actual, message=message)


def _no_answer(expected: Any) -> Finding:
    return Finding("fail", score=0.0, expected=shown(expected), message=_NO_ANSWER)


def _decided(
    passes: bool, *, expected: str | None = None, actual: str | None = None, message: str | None = None
) -> Finding:
    return Finding("pass" if passes else "fail", score=float(passes), expected=expected, actual=actual, message=message)
