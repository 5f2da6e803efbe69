"""From repeats to figures: medians, spreads, ratios and the exponent of growth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Figure", "Series", "exponent"]

Measured = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """The median of some repeats, and how far apart they were."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """Return the figure of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


class Series:
    """The repeats of one question, by writer."""

    def __init__(self, repeats: dict[str, list[Measured]]) -> None:
        self.writers = tuple(repeats)
        self.repeats = repeats

    def figure(self, writer: str, value: Callable[[Measured], float]) -> Figure:
        """Return a value's figure over a writer's repeats."""
        return Figure.of([value(measured) for measured in self.repeats[writer]])

    def call(self, writer: str, statistic: str, *, of: str = "call") -> Figure:
        """Return what a call cost, or with of="item" all calls of a rollout, in seconds."""
        return self.figure(writer, lambda measured: float(measured[of][statistic]))

    def rate(self, writer: str) -> Figure:
        """Return how many items became durable per second."""
        return self.figure(writer, lambda measured: measured["count"] / measured["durable_seconds"])

    def disk_bytes(self, writer: str) -> Figure:
        """Return the bytes on disk that an item cost."""
        return self.figure(writer, lambda measured: float(measured["disk_bytes_per_item"]))


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a line through points on logarithmic axes: 1 is proportional, 2 is quadratic."""
    xs, ys = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    return statistics.linear_regression(xs, ys).slope
