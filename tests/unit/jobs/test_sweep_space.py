"""Spaces of sweeps: what is refused, by the name of its field, and the values that parameters get."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmanus_rl.errors import InvalidInput
from openmanus_rl.jobs.sweeps.space import MAX_POINTS, Range, count_points, point_of, read_space
from tests.support.sweep_spaces import BAD, BAD_GRIDS, CONFIG, GOOD


@pytest.mark.parametrize("name", GOOD)
def test_a_good_space_is_read(name: str) -> None:
    space = read_space(GOOD[name], CONFIG)

    assert list(space) == sorted(GOOD[name])
    for parameter in space.values():
        assert parameter.draw(Random(1)) == parameter.draw(Random(1))


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_space_is_said_by_its_field(name: str) -> None:
    space, field = BAD[name]

    with pytest.raises(InvalidInput) as caught:
        read_space(space, CONFIG)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["min", "max", "step", "values"])
def test_what_json_has_no_number_for_is_refused(field: str, number: float) -> None:
    given: dict[str, Any] = {"values": [number]} if field == "values" else {"min": 0, "max": 1, field: number}

    with pytest.raises(InvalidInput) as caught:
        read_space({"lr": given})
    assert caught.value.field == f"space.lr.{field}"


@pytest.mark.parametrize("name", BAD_GRIDS)
def test_a_grid_needs_an_end(name: str) -> None:
    _, space, field = BAD_GRIDS[name]

    with pytest.raises(InvalidInput) as caught:
        count_points(read_space(space))
    assert caught.value.field == field


def test_a_grid_of_the_largest_size_is_possible() -> None:
    assert count_points(read_space({"n": {"min": 1, "max": MAX_POINTS, "integer": True}})) == MAX_POINTS


def test_the_points_of_a_grid_are_all_combinations_each_once() -> None:
    space = read_space(
        {
            "b": {"values": ["x", None]},
            "a": {"min": 0.1, "max": 0.35, "step": 0.1},
            "c": {"min": 2, "max": 7, "step": 3, "integer": True},
        }
    )

    points = [point_of(space, index) for index in range(count_points(space))]

    assert points[:3] == [
        {"a": 0.1, "b": "x", "c": 2},
        {"a": 0.1, "b": "x", "c": 5},
        {"a": 0.1, "b": None, "c": 2},
    ]
    assert [{p["a"] for p in points}, {p["c"] for p in points}] == [{0.1, 0.2, 0.3}, {2, 5}]
    assert len({str(point) for point in points}) == len(points) == 12


@given(
    low=st.floats(1e-10, 1e10),
    factor=st.floats(1, 1e10),
    log=st.booleans(),
    seed=st.integers(),
)
def test_a_drawn_number_is_in_its_range(low: float, factor: float, log: bool, seed: int) -> None:
    drawn = Range(min=low, max=low * factor, log=log).draw(Random(seed))

    assert low <= drawn <= low * factor


@given(
    low=st.integers(1, 10**6),
    width=st.integers(0, 10**6),
    log=st.booleans(),
    step=st.one_of(st.none(), st.integers(1, 1000)),
    seed=st.integers(),
)
def test_a_drawn_integer_is_in_its_range_and_on_its_step(
    low: int, width: int, log: bool, step: int | None, seed: int
) -> None:
    steps = {} if log or step is None else {"step": step}
    drawn = Range(min=low, max=low + width, log=log, integer=True, **steps).draw(Random(seed))

    assert isinstance(drawn, int)
    assert low <= drawn <= low + width
    assert (drawn - low) % steps.get("step", 1) == 0


@given(low=st.integers(-1000, 1000), step=st.integers(1, 997), index=st.integers(0, 50))
def test_a_value_on_a_step_is_found_again_by_its_place(low: int, step: int, index: int) -> None:
    parameter = Range(min=low / 100, max=low / 100 + step, step=step / 1000)

    assert parameter.index_of(parameter.at(index)) == index
