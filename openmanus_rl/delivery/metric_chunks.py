"""Gathers metric points in chunks whose ids follow from their place in a spool."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID, uuid5

__all__ = ["MetricChunks", "refusal_of"]

Record = dict[str, Any]

_POINTS_PER_CHUNK = 256
_LONGEST_NAME = 500


class MetricChunks:
    """The metric points of one segment, in chunks whose ids follow from their place: so no point is stored twice."""

    def __init__(self, spool_id: str, segment: int) -> None:
        self._namespace = uuid5(UUID(spool_id), f"metrics:{segment}")
        # By run, then by name.
        self._open: dict[str, dict[str, _Chunk]] = defaultdict(dict)
        self._changed: list[_Chunk] = []

    def add(self, run_id: str, step: int, when: str, values: dict[str, Any], place: int) -> list[Record]:
        """Add a point to each metric and return a refusal for each value that is none."""
        chunks = self._open[run_id]
        is_step = isinstance(step, int) and 0 <= step < 2**63
        refused = []
        for name, value in values.items():
            kind = value.__class__
            if not is_step or (kind is not float and kind is not int):
                if value is None:
                    continue
                if not is_step or not _is_number(value):
                    reason = f"a {kind.__name__} is not a number" if is_step else _no_step(step)
                    refused.append(refusal_of(name, step, reason))
                    continue
                # JSON over HTTP takes true for no number, and would refuse the whole chunk.
                value = int(value) if kind is bool else value
            chunk = chunks.get(name)
            if chunk is None or len(chunk.steps) >= _POINTS_PER_CHUNK:
                if not 0 < len(name) <= _LONGEST_NAME:
                    refused.append(refusal_of(name, step, f"a name has 1 to {_LONGEST_NAME} characters"))
                    continue
                chunk = chunks[name] = self._next(run_id, name, chunk)
            chunk.steps.append(step)
            chunk.values.append(value)
            chunk.times.append(when)
            chunk.places.append(place)
            if not chunk.has_changed:
                chunk.has_changed = True
                self._changed.append(chunk)
        return refused

    def take(self) -> list[_Chunk]:
        """Return the chunks that have grown since they were last taken."""
        taken, self._changed = self._changed, []
        for chunk in taken:
            chunk.has_changed = False
        return taken

    def _next(self, run_id: str, name: str, last: _Chunk | None) -> _Chunk:
        number = 0 if last is None else last.number + 1
        return _Chunk(str(uuid5(self._namespace, f"{run_id}:{number}:{name}")), run_id, name, number)


class _Chunk:
    """Points of one metric; not a dataclass, for the speed of it."""

    __slots__ = ("has_changed", "id", "name", "number", "places", "run_id", "steps", "times", "values")

    def __init__(self, chunk_id: str, run_id: str, name: str, number: int) -> None:
        self.id, self.run_id, self.name, self.number = chunk_id, run_id, name, number
        self.steps: list[int] = []
        self.values: list[Any] = []
        self.times: list[str] = []
        self.places: list[int] = []
        self.has_changed = False

    def as_record(self, timeline: int) -> Record:
        """Return the chunk as it is now; it may go on growing."""
        return {
            "id": self.id,
            "training_run_id": self.run_id,
            "timeline": timeline,
            "name": self.name,
            "steps": self.steps[:],
            "values": self.values[:],
            "times": self.times[:],
        }


def refusal_of(name: str, step: Any, reason: str) -> Record:
    """Return the refusal of a value, which is not in it: it could not be sent again, and is nobody else's business."""
    record = {"name": name, "step": step}
    message = f"metric {name!r}: {reason}"
    return {"kind": "metrics", "record": record, "code": "OM400", "field": name, "message": message}


def _no_step(step: Any) -> str:
    return f"step {step!r} is not a whole number from 0 on"


def _is_number(value: Any) -> bool:
    return value.__class__ is float or value.__class__ is int or value in ("NaN", "Infinity", "-Infinity", True, False)
