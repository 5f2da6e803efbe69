"""Whatever training code calls a number is one, and what is none says so by its type."""

from __future__ import annotations

import enum
import math
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from openmanus_rl.records.numbers import NotANumber, as_json_number, as_step, to_number


class Level(enum.IntEnum):
    HIGH = 3


class Spiteful:
    def __float__(self) -> float:
        raise KeyError("no")


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (True, 1),
        (0.5, 0.5),
        (2**63 - 1, 2**63 - 1),
        (2**63, 2.0**63),
        (10**30, 1e30),
        (Level.HIGH, 3),
        (np.float16(1.5), 1.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), 1),
        (np.int64(4), 4),
        (np.longdouble(1.5), 1.5),
        (np.array(3), 3),
        (np.array([[3.5]]), 3.5),
        (torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
        (torch.tensor([2.0], requires_grad=True), 2.0),
        (torch.tensor(True), 1),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 4), 0.25),
        (Decimal("Infinity"), math.inf),
    ],
)
def test_what_is_a_number_is_taken_for_it(given: Any, number: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = to_number(given)
    assert found == number
    assert type(found) in (int, float)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("5", "a str is not a number"),
        (b"5", "a bytes is not a number"),
        ([1], "a list is not a number"),
        (1j, "a complex is not a number"),
        (object(), "an object is not a number"),
        (Spiteful(), "a Spiteful is not a number"),
        (10**400, "an int is beyond the range of a double"),
        pytest.param(10**5000, "an int is beyond the range of a double", id="more digits than Python writes"),
        (Decimal("1e400"), "a Decimal is beyond the range of a double"),
        (Decimal("sNaN"), "a Decimal is not a number"),
        (np.array([1, 2]), "of 2 values is not one number"),
        (np.array([]), "of 0 values is not one number"),
        (np.array(["a"]), "a str is not a number"),
        (np.datetime64("2026-01-01T00:00:00.000000001"), "is a time, not a number"),
        (torch.tensor([1, 2]), "of several values is not one number"),
    ],
)
def test_what_is_no_number_says_why_and_not_what_it_is(given: Any, reason: str) -> None:
    with pytest.raises(NotANumber, match=reason):
        to_number(given)


@pytest.mark.parametrize(
    ("given", "name"), [(math.nan, "NaN"), (np.float32("inf"), "Infinity"), (torch.tensor(-math.inf), "-Infinity")]
)
def test_what_is_not_finite_goes_by_its_name(given: Any, name: str) -> None:
    assert as_json_number(given) == name


@pytest.mark.parametrize("given", [5, 5.0, np.int64(5), np.float32(5), torch.tensor([5]), Decimal(5)])
def test_a_whole_number_of_any_type_is_a_step(given: Any) -> None:
    assert (as_step(given), type(as_step(given))) == (5, int)


@pytest.mark.parametrize("given", [-1, 5.5, None, math.nan, math.inf, "5", 2**63, 2.0**63, np.array([1, 2]), {}])
def test_what_is_no_step_is_refused(given: Any) -> None:
    with pytest.raises(NotANumber, match="whole number from 0 on"):
        as_step(given)
