"""Metric series of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from openmanus_rl.errors import BadResponse, InvalidInput
from openmanus_rl.managers.base import Manager
from openmanus_rl.managers.batches import write_batch
from openmanus_rl.records.ids import Id, as_id, new_id
from openmanus_rl.records.numbers import NotANumber, as_json_number, as_step
from openmanus_rl.records.rows import MetricChunk
from openmanus_rl.transport.rest import Row

__all__ = ["MetricManager", "MetricPoint"]


@dataclass(frozen=True)
class MetricPoint:
    """One value of a metric, which may be NaN or infinite."""

    step: int
    value: float
    recorded_at: str | None = None


class MetricManager(Manager[MetricChunk]):
    """Appends to metric series and reads them, downsampled on the server without losing spikes."""

    table = "metric_chunks"
    noun = "metric"

    @classmethod
    def log(
        cls, training_run_id: Id, values: Mapping[str, float], *, step: int, recorded_at: datetime | None = None
    ) -> None:
        """Append one point to each of several metrics, all or none."""
        cls.append(
            training_run_id,
            {name: [(step, value)] for name, value in values.items()},
            recorded_at=recorded_at,
        )

    @classmethod
    def append(
        cls,
        training_run_id: Id,
        series: Mapping[str, Sequence[tuple[int, float]]],
        *,
        recorded_at: datetime | None = None,
    ) -> None:
        """Append points, as (step, value), to metrics by name, all or none; use few calls with many points."""
        run = as_id(training_run_id, field="training_run_id")
        when = (recorded_at or datetime.now(UTC)).isoformat()
        chunks = [_chunk(run, name, points, when) for name, points in series.items() if len(points) > 0]
        if chunks:
            write_batch({cls.table: chunks}, all_or_nothing=True, client=cls._client())

    @classmethod
    def get_series(
        cls,
        training_run_id: Id,
        names: Sequence[str] | None = None,
        *,
        max_points: int = 1000,
        from_step: int | None = None,
        to_step: int | None = None,
        timeline: int | None = None,
    ) -> dict[str, list[MetricPoint]]:
        """Return series by name, each downsampled to `max_points` that keep the extremes of every range of steps.

        For a run that was rewound, `timeline` selects its course: 0 as it was before the first rewind, and so on.
        """
        params = {
            "training_run_id": as_id(training_run_id, field="training_run_id"),
            "names": None if names is None else list(names),
            "max_points": max_points,
            "from_step": from_step,
            "to_step": to_step,
            "timeline": timeline,
        }
        answer = cls._client().rpc("metric_series", params)
        try:
            return {
                name: [
                    MetricPoint(int(step), _number(value), when)
                    for step, value, when in zip(found["steps"], found["values"], found["times"], strict=True)
                ]
                for name, found in answer.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadResponse(f"read metrics of run {training_run_id}: the answer holds no series") from error

    @classmethod
    def list_names(cls, training_run_id: Id) -> list[str]:
        """Return the names of a run's metrics, in alphabetical order."""
        names = cls._client().rpc("metric_names", {"training_run_id": as_id(training_run_id, field="training_run_id")})
        return [str(name) for name in names]


def _chunk(run: str, name: str, points: Iterable[tuple[int, float]], when: str) -> Row:
    steps, values = [], []
    for step, value in points:
        try:
            steps.append(as_step(step))
            values.append(as_json_number(value))
        except NotANumber as error:
            is_text = isinstance(value, str) and len(steps) > len(values)
            reason = f"{value!r} is not a number" if is_text else str(error)
            raise InvalidInput(f"metric {name}: {reason}", field=name) from error
    return {
        "id": new_id(),
        "training_run_id": run,
        "name": name,
        "steps": steps,
        "values": values,
        "times": [when] * len(steps),
    }


def _number(value: Any) -> float:
    # NaN and infinities are given as their names, or by some servers as null.
    return math.nan if value is None else float(value)
