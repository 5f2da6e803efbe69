"""Groups metric points into chunks whose ids derive from their place in a spool."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import Any
from uuid import UUID, uuid5

from openmanus_rl.records.numbers import as_json_number

__all__ = ["MetricChunks", "refusal_of"]

Record = dict[str, Any]

# An array of this size fills two TOAST rows, four of which fill a page of Postgres.
_POINTS_PER_CHUNK = 496
_LONGEST_NAME = 500
# Metrics that are logged together share their steps and times. Limited, because if each call logs different metrics,
# such as those of the environments that ended at a step, each chunk would hold one point.
_SHARED_AXES_PER_RUN = 16


class MetricChunks:
    """The metric points of one segment, in chunks; their ids derive from their place, so no point is stored twice."""

    def __init__(self, spool_id: str, segment: int) -> None:
        self._namespace = uuid5(UUID(spool_id), f"metrics:{segment}")
        # Keyed by run id and the names that are logged together.
        self._open: dict[tuple[str, ...], _Chunks] = {}
        self._shared: Counter[str] = Counter()
        self._made = 0
        self._changed: list[_Chunks] = []

    def add(self, run_id: str, step: int, when: str, values: dict[str, Any], place: int) -> list[Record]:
        """Add a point to each metric and return a refusal for each value that is not a number."""
        is_step = isinstance(step, int) and 0 <= step < 2**63
        chunks = self._open.get((run_id, *values))
        if chunks is not None and is_step:
            try:
                self._append(chunks, step, when, list(values.values()), place)
            except TypeError:
                pass  # Some values are not numbers.
            else:
                return []
        points, refused = _sort_out(values, step, is_step=is_step)
        key = (run_id, *points)
        if len(points) > 1 and key not in self._open:
            if self._shared[run_id] >= _SHARED_AXES_PER_RUN:
                for name, value in points.items():
                    self._append(self._opened((run_id, name)), step, when, [value], place)
                return refused
            self._shared[run_id] += 1
        if points:
            self._append(self._opened(key), step, when, list(points.values()), place)
        return refused

    def take(self) -> list[_Chunks]:
        """Return the chunks that have grown since they were last taken."""
        taken, self._changed = self._changed, []
        for chunks in taken:
            chunks.has_changed = False
        return taken

    def _append(self, chunks: _Chunks, step: int, when: str, values: list[float], place: int) -> None:
        if len(chunks.steps) >= _POINTS_PER_CHUNK:
            chunks = self._open_next(chunks.key)
        # First, because it adds all values or raises.
        chunks.values.fromlist(values)
        chunks.steps.append(step)
        chunks.times.append(when)
        chunks.places.append(place)
        if not chunks.has_changed:
            chunks.has_changed = True
            self._changed.append(chunks)

    def _opened(self, key: tuple[str, ...]) -> _Chunks:
        return self._open.get(key) or self._open_next(key)

    def _open_next(self, key: tuple[str, ...]) -> _Chunks:
        self._made += 1
        chunks = self._open[key] = _Chunks(self._namespace, self._made, key)
        return chunks


class _Chunks:
    """Points of metrics that are logged together, a chunk for each; not a dataclass, for speed."""

    __slots__ = ("axis_id", "has_changed", "ids", "key", "places", "steps", "times", "values")

    def __init__(self, namespace: UUID, number: int, key: tuple[str, ...]) -> None:
        self.key = key
        run_id, *names = key
        self.ids = [str(uuid5(namespace, f"{run_id}:{number}:{name}")) for name in names]
        self.axis_id = str(uuid5(namespace, f"{run_id}:{number}")) if len(names) > 1 else None
        self.steps: list[int] = []
        self.times: list[str] = []
        # Interleaved: the first value of each metric, then the second of each.
        self.values = array("d")
        self.places: list[int] = []
        self.has_changed = False

    def as_records(self, timeline: int) -> list[Record]:
        """Return the chunks as they are now; later points may extend them."""
        run_id, *names = self.key
        shared: Record = {"training_run_id": run_id, "timeline": timeline}
        if self.axis_id is not None:
            shared["axis_id"] = self.axis_id
        records = [
            {"id": chunk_id, **shared, "name": name, "values": _plain(self.values[place :: len(names)])}
            for place, (chunk_id, name) in enumerate(zip(self.ids, names, strict=True))
        ]
        # The first record carries the steps and times of all.
        records[0] |= {"steps": self.steps[:], "times": self.times[:]}
        return records


def _plain(values: array[float]) -> list[Any]:
    """Return values for JSON, with NaN and infinities as their names."""
    if math.isfinite(sum(values)):
        return values.tolist()
    return [as_json_number(value) for value in values]


def refusal_of(name: str, step: Any, reason: str) -> Record:
    """Return the refusal of a value, without the value itself: it cannot be sent again, and may be private."""
    record = {"name": name, "step": step}
    message = f"metric {name!r}: {reason}"
    return {"kind": "metrics", "record": record, "code": "OM400", "field": name, "message": message}


def _sort_out(values: dict[str, Any], step: Any, *, is_step: bool) -> tuple[dict[str, float], list[Record]]:
    """Split values into points and refusals."""
    points: dict[str, float] = {}
    refused = []
    for name, value in values.items():
        if value is None:
            continue
        if not is_step:
            reason = f"step {step!r} is not a whole number from 0 on"
        elif not _is_number(value):
            reason = f"a {value.__class__.__name__} is not a number"
        elif not 0 < len(name) <= _LONGEST_NAME:
            reason = f"a name has 1 to {_LONGEST_NAME} characters"
        else:
            points[name] = float(value)
            continue
        refused.append(refusal_of(name, step, reason))
    return points, refused


def _is_number(value: Any) -> bool:
    return value.__class__ is float or value.__class__ is int or value in ("NaN", "Infinity", "-Infinity", True, False)
