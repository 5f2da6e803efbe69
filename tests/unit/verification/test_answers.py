"""Validators that look at the answer alone, and what their specs may say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmanus_rl.errors import InvalidInput
from openmanus_rl.verification import ValidatorSpec, Verdict, check_spec, needs_sandbox, status_of, verify
from openmanus_rl.verification.specs import KINDS
from tests.support.validator_specs import RIGHT_SPECS, WRONG_SPECS


def outcome(kind: str, spec: dict[str, Any], answer: Any, expected: str | None = None) -> str:
    (verdict,) = verify([ValidatorSpec(kind, spec)], answer=answer, expected_answer=expected)
    assert (verdict.score is None) == (verdict.outcome == "error")
    assert verdict.outcome == "pass" or verdict.message
    return verdict.outcome


def test_without_validators_and_expected_answer_nothing_is_verified() -> None:
    assert verify([], answer="anything") == []
    assert verify([], answer="anything", expected_answer="  ") == []
    assert status_of([]) == "completed"


@pytest.mark.parametrize(
    ("expected", "answer", "found"),
    [
        ("Paris", " Paris\n", "pass"),
        ("Paris", "paris", "fail"),
        ("42", "42.0", "pass"),
        ("42", 42, "pass"),
        ("42", "42 apples", "fail"),
        ("true", True, "pass"),
        ("true", 1, "fail"),
        ("007", "7", "fail"),
        ("NaN", "nan", "fail"),
        ("NaN", "NaN", "pass"),
        ("null", "null", "pass"),
        ('"Paris"', '"Paris"', "pass"),
        ('{"a": [1, 2]}', '```json\n{"a": [1.0, 2]}\n```', "pass"),
        ('{"a": [1, 2]}', {"a": [2, 1]}, "fail"),
        ("[" * 300 + "]" * 300, "[]", "error"),
        ("[]", "[" * 300 + "]" * 300, "fail"),
        ("1e999", "1e998", "fail"),
        ("Paris", None, "fail"),
        ("{}", None, "fail"),
    ],
)
def test_an_expected_answer_alone_is_compared_by_structure_or_as_text(expected: str, answer: Any, found: str) -> None:
    (verdict,) = verify([], answer=answer, expected_answer=expected)

    assert verdict.outcome == found
    assert verdict.validator.id is None


@pytest.mark.parametrize(
    ("kind", "spec", "answer", "found"),
    [
        ("json", {"expected": {"a": 1}, "tolerance": 0.5}, '{"a": 1.5}', "pass"),
        ("json", {"expected": {"a": 1}, "tolerance": {"relative": 0.1}}, '{"a": 1.5}', "fail"),
        ("json", {"expected": ["A", "b"], "unordered": True, "ignore_case": True}, ["B", "a"], "pass"),
        ("json", {"expected": {"a": 1}, "extra_keys": True}, {"a": 1, "b": 2}, "pass"),
        ("json", {"expected": "42"}, "42", "pass"),
        ("json", {"expected": "42"}, '"42"', "pass"),
        ("json", {"expected": None}, "null", "pass"),
        ("json", {"expected": None}, None, "fail"),
        ("json", {}, "1", "error"),
        ("exact", {"expected": "a b"}, " a b ", "pass"),
        ("exact", {"expected": "a b", "trim": False}, " a b ", "fail"),
        ("exact", {"expected": "A b", "ignore_case": True, "ignore_whitespace": True}, "a\tB", "pass"),
        ("exact", {"expected": '{"a":1}'}, {"a": 1}, "pass"),
        ("exact", {}, "x", "error"),
        ("regex", {"pattern": r"\d+ km"}, "about 12 km away", "pass"),
        ("regex", {"pattern": r"\d+ km", "full": True}, "about 12 km away", "fail"),
        ("regex", {"pattern": "^b.c$", "multiline": True, "dot_all": True, "ignore_case": True}, "a\nB\nC", "pass"),
        ("regex", {"pattern": "x"}, "\ud800x", "pass"),
        ("regex", {"pattern": "x"}, None, "fail"),
        ("numeric", {"expected": 1234.5, "thousands_separator": ","}, "1,234.5", "pass"),
        ("numeric", {"expected": 1234.5, "thousands_separator": ".", "decimal_separator": ","}, "1.234,5", "pass"),
        ("numeric", {"expected": 1234.5}, "1,234.5", "fail"),
        ("numeric", {"expected": 1234, "thousands_separator": ","}, "12,34", "fail"),
        ("numeric", {"expected": 5, "units": ["km", "€"]}, "€ 5", "pass"),
        ("numeric", {"expected": 5, "units": ["km", "€"]}, "5km", "pass"),
        ("numeric", {"expected": 5, "units": ["km"]}, "5 miles", "fail"),
        ("numeric", {"expected": -0.5, "tolerance": {"absolute": 0.01}}, "-.505", "pass"),
        ("numeric", {"expected": 5}, 5.0, "pass"),
        ("numeric", {"expected": 1}, True, "fail"),
        ("numeric", {"expected": 0}, "", "fail"),
        ("numeric", {"expected": 0}, ".", "fail"),
        ("numeric", {"expected": 5}, "٥", "fail"),
        ("numeric", {"expected": 5}, "nan", "fail"),
        ("numeric", {"expected": 5, "tolerance": 1e300}, math.nan, "fail"),
        ("numeric", {"expected": 5}, [5], "fail"),
        ("numeric", {"expected": 5}, "1e" + "9" * 40, "fail"),
        ("numeric", {}, "5", "error"),
        ("script", {}, "x", "error"),
        ("sql", {"query": "select 1", "expected": [[1]]}, "x", "error"),
        ("nonsense", {}, "x", "error"),
        ("json", {"expected": 1, "tolerance": -1}, "1", "error"),
    ],
)
def test_each_kind_decides_by_its_spec(kind: str, spec: dict[str, Any], answer: Any, found: str) -> None:
    assert outcome(kind, spec, answer) == found


def test_a_number_is_expected_as_the_tasks_answer_is_written() -> None:
    assert outcome("numeric", {"units": ["%"], "tolerance": 0.5}, "12.4", "12 %") == "pass"
    assert outcome("numeric", {}, "12", "twelve") == "error"


@given(number=st.integers(), tolerance=st.floats(0, 1e6))
def test_a_number_passes_as_itself_however_it_is_written(number: int, tolerance: float) -> None:
    spec = {"tolerance": tolerance, "thousands_separator": ","}

    assert outcome("numeric", spec, f"{number:,}", str(number)) == "pass"
    assert outcome("numeric", {}, str(number + 1), str(number)) == "fail"


def test_a_pattern_that_backtracks_without_end_is_an_error() -> None:
    spec = {"pattern": "(a+)+$", "timeout_seconds": 0.5}

    assert outcome("regex", spec, "a" * 40 + "b") == "error"


@pytest.mark.parametrize(("kind", "spec", "field"), WRONG_SPECS)
def test_a_wrong_spec_is_refused_by_its_field(kind: Any, spec: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_spec(kind, spec)

    assert caught.value.field == field


@pytest.mark.parametrize(("kind", "spec"), RIGHT_SPECS)
def test_a_right_spec_is_taken(kind: str, spec: dict[str, Any]) -> None:
    assert check_spec(kind, spec).model_fields_set == set(spec)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    kind=st.sampled_from([*(kind for kind in KINDS if kind not in ("python", "regex")), "?"]),
    spec=st.dictionaries(
        st.sampled_from(sorted({name for model in KINDS.values() for name in model.model_fields})), JSON
    ),
    answer=JSON,
    expected=st.none() | st.text(),
)
def test_whatever_a_validator_is_given_there_is_one_verdict(
    kind: str, spec: dict[str, Any], answer: Any, expected: str | None
) -> None:
    validator = ValidatorSpec(kind, spec)
    (verdict,) = verify([validator], answer=answer, expected_answer=expected)

    assert verdict.validator is validator
    assert verdict.outcome != "pass" or verdict.score == 1.0


def test_a_large_answer_is_not_kept_whole_in_each_verdict() -> None:
    answer = "x" * 10_000_000
    validators = [ValidatorSpec("exact", {"expected": answer + "y"}), ValidatorSpec("json", {"expected": [answer]})]
    validators += [ValidatorSpec("regex", {"pattern": "y"}), ValidatorSpec("numeric", {"expected": 1})]

    for verdict in verify(validators, answer=answer):
        assert verdict.outcome == "fail"
        kept = (verdict.expected, verdict.actual, verdict.message)
        assert sum(len(text or "") for text in kept) < 10_000
        assert "10,000,000 characters" in (verdict.actual or "")


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (["pass"], "success"),
        (["pass", "fail"], "failed"),
        (["pass", "error"], "error"),
        (["error", "fail"], "failed"),
    ],
)
def test_the_status_follows_from_all_verdicts(outcomes: list[Any], status: str) -> None:
    assert status_of([Verdict(ValidatorSpec("exact"), each) for each in outcomes]) == status


def test_what_needs_the_environment_is_known_beforehand() -> None:
    assert needs_sandbox("sql", {})
    assert needs_sandbox("script", {})
    assert not needs_sandbox("json", {})
    assert not needs_sandbox("python", {})
    assert needs_sandbox("python", {"uses_sandbox": True})
