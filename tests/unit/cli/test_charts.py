"""Curves in the terminal."""

from __future__ import annotations

import math

from openmanus_rl.cli.charts import plot, sparkline


def test_a_sparkline_goes_from_the_lowest_to_the_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"


def test_a_level_curve_is_level_and_no_curve_is_empty() -> None:
    assert set(sparkline([3.0] * 5)) == {"▅"}
    assert sparkline([]) == ""
    assert sparkline([math.nan]) == ""


def test_what_is_not_finite_is_a_gap() -> None:
    assert sparkline([0, math.nan, 1, math.inf]) == "▁ █ "


def test_a_long_series_is_averaged_into_the_width() -> None:
    drawn = sparkline([float(i) for i in range(1000)], width=8)
    assert drawn == "▁▂▃▄▅▆▇█"


def test_a_plot_has_its_scale_on_the_left_and_fills_up_to_the_value() -> None:
    lines = plot([0.0, 0.5, 1.0], low=0, high=1, height=4, as_percent=True)
    assert lines == [
        "100% ┤  █",
        "     ┤  █",
        " 50% ┤ ██",
        "     ┤ ██",
        "  0% └───",
    ]
