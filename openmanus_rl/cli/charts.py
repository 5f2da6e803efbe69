"""Curves in the terminal: a sparkline in a table's cell, and a plot with axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["plot", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], *, width: int = 24) -> str:
    """Return a curve of at most `width` characters; values that are not finite numbers are gaps."""
    points = _resample(values, width)
    known = [point for point in points if math.isfinite(point)]
    if not known:
        return ""
    low, high = min(known), max(known)
    spread = high - low
    bars = []
    for point in points:
        if not math.isfinite(point):
            bars.append(" ")
        elif spread == 0:
            bars.append(_BARS[len(_BARS) // 2])
        else:
            bars.append(_BARS[round((point - low) / spread * (len(_BARS) - 1))])
    return "".join(bars)


def plot(
    values: Sequence[float], *, low: float, high: float, width: int = 60, height: int = 8, as_percent: bool = False
) -> list[str]:
    """Return the lines of a bar plot from `low` to `high`, with the scale on the left."""
    points = _resample(values, width)
    # A full bar in a line reaches the value of its label.
    labels = [_label(low + (high - low) * (row + 1) / height, as_percent) for row in range(height)]
    bottom = _label(low, as_percent)
    label_width = max(len(label) for label in (*labels, bottom))
    lines = []
    for row in reversed(range(height)):
        cells = "".join(_cell((point - low) / (high - low) * height - row) for point in points)
        # A label on every other line is enough.
        label = labels[row] if (height - row) % 2 == 1 else ""
        lines.append(f"{label:>{label_width}} ┤{cells}")
    lines.append(f"{bottom:>{label_width}} └{'─' * len(points)}")
    return lines


def _cell(filled: float) -> str:
    """Return the block character for the part of a bar in one line."""
    if not math.isfinite(filled) or filled <= 0:
        return " "
    return _BARS[min(math.ceil(filled * len(_BARS)), len(_BARS)) - 1]


def _label(value: float, as_percent: bool) -> str:
    return f"{value:.0%}" if as_percent else f"{value:.3g}"


def _resample(values: Sequence[float], width: int) -> list[float]:
    """Average neighbouring values so that at most `width` remain."""
    if len(values) <= width:
        return list(values)
    points = []
    for column in range(width):
        start, end = column * len(values) // width, (column + 1) * len(values) // width
        stretch = [value for value in values[start:end] if math.isfinite(value)]
        points.append(sum(stretch) / len(stretch) if stretch else math.nan)
    return points
