"""From the lines of a spool to batches of records, the same ones however often a spool is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import orjson

from openmanus_rl.recorder.blobs import BLOB_FIELD
from openmanus_rl.recorder.spool import Position, segment_path
from openmanus_rl.recorder.spools import Spool

__all__ = ["SpoolBatch", "SpoolReader"]

Record = dict[str, Any]

# Of turns, these are tables of their own.
_OF_TURNS = ("tool_calls", "observations", "generations", "rewards")
# What a rewind of the run hides, also if it comes to the database only afterwards.
_ON_TIMELINES = ("training_steps", "model_checkpoints", "evaluations", "rollouts")
_POINTS_PER_CHUNK = 256
_LONGEST_NAME = 500
_MOST_OF_A_KIND = 2**20
# Uploads take time: what was recorded after them should not wait for hundreds.
_FILES_PER_BATCH = 64
_FILE_MARK = f'"{BLOB_FIELD}":'.encode()


@dataclass
class SpoolBatch:
    """Records to be delivered together, and the place in the spool behind them."""

    end: Position
    lines: int = 0
    taken: int = 0
    """How many of the lines were whole records."""
    damaged: int = 0
    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    refused: list[Record] = field(default_factory=list)
    """What no database could take, in the form in which refusals are kept."""


class SpoolReader:
    """Reads a spool from a position on."""

    def __init__(self, folder: Path, start: Position) -> None:
        self._folder = folder
        self._segment = start.segment
        self._timeline = len((Spool(folder).meta() or {}).get("rewinds", ()))
        self._metrics = MetricChunks(folder.name, start.segment, self._timeline)
        self._offset = start.offset
        # The chunks that are open at this place hold points that lie before it.
        for line in self._lines(0, start.offset):
            self._add(line, SpoolBatch(start), only_metrics=True)
        self._metrics.take()

    def read(self, max_bytes: int) -> SpoolBatch | None:
        """Return what comes next, None at the end; the reader then stands behind it."""
        if self._at_end_of_segment():
            self._segment += 1
            self._offset = 0
            self._metrics = MetricChunks(self._folder.name, self._segment, self._timeline)
        batch = SpoolBatch(Position(self._segment, self._offset))
        files = 0
        for line in self._lines(self._offset, self._offset + max_bytes):
            if batch.lines and self._offset + len(line) > batch.end.offset + max_bytes:
                break  # A huge record goes alone: memory then holds one of them at a time.
            files += _FILE_MARK in line
            if files > _FILES_PER_BATCH:
                break
            self._add(line, batch)
            self._offset += len(line)
            batch.lines += 1
        if not batch.lines:
            return None
        batch.records["metric_chunks"] += self._metrics.take()
        batch.records = {kind: records for kind, records in batch.records.items() if records}
        batch.end = Position(self._segment, self._offset)
        return batch

    def has_waiting(self, size_bytes: int) -> bool:
        """Say whether so much more has been written to this segment; a look at one file, for it is asked often."""
        try:
            return segment_path(self._folder, self._segment).stat().st_size - self._offset >= size_bytes
        except FileNotFoundError:
            return False

    def _at_end_of_segment(self) -> bool:
        if not segment_path(self._folder, self._segment + 1).exists():
            return False
        return self._offset >= segment_path(self._folder, self._segment).stat().st_size

    def _lines(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the lines that begin between two places."""
        try:
            file = segment_path(self._folder, self._segment).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(start)
            block = file.read(end - start)
            if block and not block.endswith(b"\n"):
                block += file.readline()
        *lines, rest = block.split(b"\n")
        for line in lines:
            yield line + b"\n"
        # The rest is still being written, unless its writer, for want of room, went on in the next segment.
        if rest and segment_path(self._folder, self._segment + 1).exists():
            yield rest

    def _add(self, line: bytes, batch: SpoolBatch, *, only_metrics: bool = False) -> None:
        try:
            kind, when, record = orjson.loads(line)
            time = _time(when)
        except (ValueError, TypeError):
            batch.damaged += line != b"\n"
            return
        batch.taken += 1
        if kind == "metrics":
            batch.refused += self._metrics.add(record["run"], record["step"], time, record["values"])
        elif not only_metrics:
            try:
                _add_record(kind, record, time, batch.records, timeline=self._timeline)
            except (AttributeError, TypeError, ValueError) as error:
                message = f"{kind}: what hangs on it is not in the form of records: {error}"
                batch.refused.append({"kind": kind, "record": record, "code": "OM400", "message": message})


class MetricChunks:
    """The metric points of one segment, in chunks whose ids follow from their place: so no point is stored twice."""

    def __init__(self, spool_id: str, segment: int, timeline: int) -> None:
        self._timeline = timeline
        self._namespace = uuid5(UUID(spool_id), f"metrics:{segment}")
        # By run, then by name.
        self._open: dict[str, dict[str, _Chunk]] = defaultdict(dict)
        self._changed: list[_Chunk] = []

    def add(self, run_id: str, step: int, when: str, values: dict[str, Any]) -> list[Record]:
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
                    refused.append(_refusal(name, step, value, is_step=is_step))
                    continue
            chunk = chunks.get(name)
            if chunk is None or len(chunk.steps) >= _POINTS_PER_CHUNK:
                if not 0 < len(name) <= _LONGEST_NAME:
                    refused.append(_refusal(name, step, value, is_step=True))
                    continue
                chunk = chunks[name] = self._next(run_id, name, chunk)
            chunk.steps.append(step)
            chunk.values.append(value)
            chunk.times.append(when)
            if not chunk.has_changed:
                chunk.has_changed = True
                self._changed.append(chunk)
        return refused

    def take(self) -> list[Record]:
        """Return the chunks that have grown since they were last taken."""
        taken = [chunk.as_record(self._timeline) for chunk in self._changed]
        for chunk in self._changed:
            chunk.has_changed = False
        self._changed.clear()
        return taken

    def _next(self, run_id: str, name: str, last: _Chunk | None) -> _Chunk:
        number = 0 if last is None else last.number + 1
        return _Chunk(str(uuid5(self._namespace, f"{run_id}:{number}:{name}")), run_id, name, number)


class _Chunk:
    """Points of one metric; not a dataclass, for the speed of it."""

    __slots__ = ("has_changed", "id", "name", "number", "run_id", "steps", "times", "values")

    def __init__(self, chunk_id: str, run_id: str, name: str, number: int) -> None:
        self.id, self.run_id, self.name, self.number = chunk_id, run_id, name, number
        self.steps: list[int] = []
        self.values: list[Any] = []
        self.times: list[str] = []
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


def _refusal(name: str, step: Any, value: Any, *, is_step: bool) -> Record:
    if not 0 < len(name) <= _LONGEST_NAME:
        reason = f"a name has 1 to {_LONGEST_NAME} characters"
    elif not is_step:
        reason = f"step {step!r} is not a whole number from 0 on"
    else:
        reason = f"{value!r} is not a number"
    record = {"name": name, "step": step, "value": value}
    return {"kind": "metrics", "record": record, "code": "OM400", "message": f"metric {name!r}: {reason}"}


def _is_number(value: Any) -> bool:
    return value.__class__ is float or value.__class__ is int or value in ("NaN", "Infinity", "-Infinity", True, False)


def _add_record(kind: str, record: Record, when: str, records: dict[str, list[Record]], *, timeline: int) -> None:
    if kind == "agent_states":
        found = [(part, _children(part, record[part], record)) for part in _OF_TURNS if part in record]
        for part, children in found:
            del record[part]
            records[part] += children
        record.setdefault("created_at", when)
        records[kind].append(record)
        return
    # A record that says nothing but its id is a heartbeat.
    if kind in ("training_runs", "rollouts", "evaluations", "model_checkpoints", "media") and len(record) > 1:
        record.setdefault("created_at", when)
    if kind in _ON_TIMELINES:
        record.setdefault("timeline", timeline)
    records[kind].append(record)


def _children(kind: str, given: list[Record], turn: Record) -> list[Record]:
    """Return what stands in a turn as records of their own."""
    turn_id = turn["id"]
    for position, child in enumerate(given):
        child.setdefault("id", _child_id(turn_id, kind, position))
        if kind == "rewards":
            child["rollout_id"] = turn["rollout_id"]
            child["step_number"] = turn["step_number"]
        else:
            child.setdefault("position", position)
            child["agent_state_id"] = turn_id
    return given


def _child_id(turn_id: str, kind: str, position: int) -> str:
    """Return the id of what stands in a turn: a little behind the turn's own, as good indexes like it."""
    place = _OF_TURNS.index(kind) * _MOST_OF_A_KIND + position + 1
    return f"{turn_id[:24]}{(int(turn_id[24:], 16) + place) % 2**48:012x}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
