"""JSON values are compared by structure: what is equal, what is close, and how long it may take."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openmanus_rl.verification.closeness import are_close
from openmanus_rl.verification.comparison import Rules, TooMuchWork, first_difference
from openmanus_rl.verification.matching import unmatched
from openmanus_rl.verification.values import NotJson, answer_value, parse_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)
RULES = st.builds(
    Rules,
    absolute=st.sampled_from([0.0, 0.5, 3.0]),
    relative=st.sampled_from([0.0, 0.01, 0.9]),
    unordered=st.booleans(),
    ignore_case=st.booleans(),
    ignore_whitespace=st.booleans(),
    extra_keys=st.booleans(),
)


def shuffled(value: Any, draw: Any) -> Any:
    """Return a value with the elements of all its lists, and the keys of its objects, in another order."""
    if isinstance(value, list):
        return draw(st.permutations([shuffled(item, draw) for item in value]))
    if isinstance(value, dict):
        return {key: shuffled(value[key], draw) for key in draw(st.permutations(list(value)))}
    return value


@given(value=VALUES, rules=RULES)
def test_every_value_equals_itself_under_all_rules(value: Any, rules: Rules) -> None:
    assert first_difference(value, value, rules) is None


@given(one=VALUES, other=VALUES, rules=RULES)
def test_which_of_two_values_is_expected_makes_no_difference(one: Any, other: Any, rules: Rules) -> None:
    assume(not rules.extra_keys)
    assert (first_difference(one, other, rules) is None) == (first_difference(other, one, rules) is None)


@given(value=VALUES, rules=RULES, data=st.data())
def test_a_permutation_is_equal_where_the_order_does_not_count(value: Any, rules: Rules, data: Any) -> None:
    assume(rules.unordered)
    assert first_difference(value, shuffled(value, data.draw), rules) is None


@given(value=VALUES, rules=RULES)
def test_a_value_equals_what_its_json_text_says(value: Any, rules: Rules) -> None:
    assert first_difference(value, parse_json(json.dumps(value)), rules) is None


@given(one=st.lists(SCALARS, max_size=5), other=st.lists(SCALARS, max_size=5), rules=RULES)
def test_unordered_lists_are_equal_if_and_only_if_some_permutation_is(
    one: list[Any], other: list[Any], rules: Rules
) -> None:
    assume(rules.unordered)
    by_trial = any(
        len(one) == len(order) and all(first_difference(*pair, rules) is None for pair in zip(one, order, strict=True))
        for order in itertools.permutations(other)
    )
    assert (first_difference(one, other, rules) is None) == by_trial


NEAR = st.sampled_from([0, 1, 2, 3, 1.5, 2.5])


@given(
    one=st.lists(st.fixed_dictionaries({"a": NEAR}, optional={"b": NEAR}), max_size=5),
    other=st.lists(st.fixed_dictionaries({"a": NEAR}, optional={"b": NEAR}), max_size=5),
    extra_keys=st.booleans(),
)
def test_partners_are_found_although_closeness_is_not_transitive(one: Any, other: Any, extra_keys: bool) -> None:
    ordered = Rules(absolute=1.0, extra_keys=extra_keys)
    by_trial = any(first_difference(one, list(order), ordered) is None for order in itertools.permutations(other))

    rules = Rules(absolute=1.0, extra_keys=extra_keys, unordered=True)
    assert (first_difference(one, other, rules) is None) == by_trial


@given(st.integers(1, 6), st.data())
def test_elements_find_partners_whenever_that_is_possible(count: int, data: Any) -> None:
    pairs = data.draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    possible = any(
        all((one, other) in pairs for one, other in enumerate(order)) for order in itertools.permutations(range(count))
    )
    known = [place for place in range(count) if (place, place) in pairs]
    for given_pairs in ([], known):
        left = unmatched(count, lambda one, other: (one, other) in pairs, pairs=given_pairs)
        assert (left is None) == possible


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (True, 1),
        (0, False),
        (None, False),
        ("1", 1),
        ([], {}),
        ([1, 1, 2], [1, 2, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": None}, {}),
        (10**30, 10**30 + 1),
        (2**53, 2**53 + 1),
        (math.nan, 0),
        (math.inf, -math.inf),
        ("a b", "ab"),
        ("a", "A"),
    ],
)
def test_these_are_never_equal(expected: Any, actual: Any) -> None:
    assert first_difference(expected, actual) is not None
    assert first_difference([expected], [actual], Rules(unordered=True)) is not None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("1e400", "1e500"),
        ("1e-400", "1e-500"),
        ("1" + "0" * 5000, "1" + "0" * 4999 + "1"),
        ("1e999999999", "1e999999998"),
    ],
)
def test_numbers_beyond_a_doubles_range_are_told_apart(text: str, other: str) -> None:
    assert first_difference(parse_json(text), parse_json(text)) is None
    assert first_difference(parse_json(text), parse_json(other)) is not None
    assert first_difference(parse_json(text), parse_json(other), Rules(relative=1e-9, unordered=True)) is not None


def test_the_rules_of_texts_ignore_what_they_say() -> None:
    assert first_difference(["New York"], ["new  york\n"], Rules(ignore_case=True, ignore_whitespace=True)) is None
    assert first_difference(["STRASSE"], ["straße"], Rules(ignore_case=True)) is None
    assert first_difference(["a"], ["A"], Rules(ignore_whitespace=True)) is not None
    assert first_difference({"a": 1}, {"A": 1}, Rules(ignore_case=True)) is not None


def test_extra_keys_are_allowed_in_the_answer_only() -> None:
    rules = Rules(extra_keys=True)

    assert first_difference({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}, rules) is None
    assert first_difference({"a": 1, "d": 3}, {"a": 1}, rules) is not None


def test_a_tolerance_is_that_of_the_written_numbers() -> None:
    # As doubles, 1.1 - 1.0 is more than 0.1.
    assert are_close(1.0, 1.1, absolute=0.1)
    assert not are_close(1.0, 1.1000001, absolute=0.1)
    assert are_close(100, 101, relative=0.01)
    assert not are_close(100, 102, relative=0.01)
    assert are_close(10**30, 10**30 + 1, absolute=1)
    assert not are_close(10**30, 10**30 + 2, absolute=1)
    assert not are_close(1e308, Decimal("1e400"), absolute=1.0, relative=0.9)


@given(one=st.floats(), other=st.floats(), absolute=st.floats(0, 1e6), relative=st.floats(0, 0.99))
def test_closeness_is_symmetric_and_no_narrower_than_equality(
    one: float, other: float, absolute: float, relative: float
) -> None:
    assert are_close(one, one, absolute=absolute, relative=relative)
    is_close = are_close(one, other, absolute=absolute, relative=relative)
    assert is_close == are_close(other, one, absolute=absolute, relative=relative)
    assert is_close or not are_close(one, other)


def test_a_difference_names_its_place() -> None:
    expected = {"items": [{"price": 1}, {"price": 2}]}

    assert first_difference(expected, {"items": [{"price": 1}, {"price": 3}]}) == (
        "answer.items[1].price: 2 is expected, not 3"
    )
    assert first_difference(expected, {"items": []}) == "answer.items: 2 elements are expected, not 0"
    assert first_difference(expected, {}) == "answer: the key 'items' is missing"
    missing = first_difference([1, 1], [1, 2], Rules(unordered=True))
    assert missing == "answer: 1 is missing, or not there as often as expected"


def test_a_difference_is_told_briefly_whatever_the_values_are() -> None:
    huge = "x" * 1_000_000
    found = first_difference({huge: [huge]}, {huge: [huge + "y"]})

    assert found is not None
    assert len(found) < 1000


def test_long_unordered_lists_are_compared_without_trying_all_pairs() -> None:
    numbers = list(range(50_000))
    objects = [{"id": number, "price": number / 7} for number in range(10_000)]

    assert first_difference(numbers, numbers[::-1], Rules(unordered=True)) is None
    assert first_difference(numbers, [0.4, *numbers[:0:-1]], Rules(unordered=True, absolute=0.5)) is None
    assert first_difference(objects, objects[::-1], Rules(unordered=True, absolute=0.001)) is None
    assert first_difference(objects, [*objects[1:], {"id": 0, "price": 1}], Rules(unordered=True)) is not None


def test_lists_that_would_take_too_long_are_refused() -> None:
    # One is left over, and all ways in which the others could make room for it would have to be tried.
    expected = [{"a": 0}] * 1500 + [{"b": 0}] * 1500
    actual = [{"a": 0}] * 1501 + [{"b": 0}] * 1499

    with pytest.raises(TooMuchWork):
        first_difference(expected, actual, Rules(unordered=True, extra_keys=True))
    nested = [[[number, other] for other in range(300)] for number in range(300)]
    with pytest.raises(TooMuchWork):
        first_difference(nested, [[[999, 0]] * 300, *nested[1:]], Rules(unordered=True, absolute=0.5))


def test_what_lies_too_deep_is_not_compared() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]

    assert "nested" in (first_difference([], deep) or "")
    with pytest.raises(NotJson):
        first_difference(deep, [])


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("  [1, 2]\r\n", [1, 2]),
        ('Here it is:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
        ("```\n[1]\n```", [1]),
        ("```json\r\n[1]\r\n```\r\n", [1]),
        ("```python\nx = 1\n```\n```json\n[1]\n```\n```json\n[2]\n```\n```\nnot json\n```", [2]),
        ("Paris ", "Paris"),
        ("007", "007"),
        ("[" * 100_000, "[" * 100_000),
        ("1e" + "9" * 30, "1e" + "9" * 30),
        ("```x\n" * 200_000, ("```x\n" * 200_000).strip()),
        ({"a": 1}, {"a": 1}),
    ],
    ids=range(12),
)
def test_json_is_found_in_the_text_of_an_answer(answer: Any, value: Any) -> None:
    assert answer_value(answer) == value


@given(st.text())
def test_any_text_has_a_value(text: str) -> None:
    answer_value(text)
    answer_value(f"```json\n{text}\n```")
