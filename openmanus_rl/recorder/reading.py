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

    def _at_end_of_segment(self) -> bool:
        if not segment_path(self._folder, self._segment + 1).exists():
            return False
        return self._offset >= segment_path(self._folder, self._segment).stat().st_size

    def _lines(self, start: int, end: int) -> Iterator[bytes]:
        try:
            file = segment_path(self._folder, self._segment).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(start)
            while file.tell() < end:
                place = file.tell()
                line = file.readline()
                if not line.endswith(b"\n"):
                    # It is still being written, unless its writer, for want of room, went on in the next segment.
                    if not segment_path(self._folder, self._segment + 1).exists():
                        return
                    file.seek(place)
                    line = file.readline()
                    if not line:
                        return
                yield line

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
        self._open: dict[tuple[str, str], Record] = {}
        self._numbers: dict[tuple[str, str], int] = defaultdict(int)
        self._changed: dict[str, Record] = {}

    def add(self, run_id: str, step: int, when: str, values: dict[str, Any]) -> list[Record]:
        """Add a point to each metric and return a refusal for each value that is none."""
        refused = []
        for name, value in values.items():
            if value is None:
                continue
            reason = _reason_against(name, step, value)
            if reason is not None:
                refused.append({"kind": "metrics", "record": {"name": name, "step": step, "value": value},
                                "code": "OM400", "message": f"metric {name!r}: {reason}"})  # fmt: skip
                continue
            key = run_id, name
            chunk = self._open.get(key)
            if chunk is None or len(chunk["steps"]) >= _POINTS_PER_CHUNK:
                number = self._numbers[key]
                self._numbers[key] += 1
                chunk_id = str(uuid5(self._namespace, f"{run_id}:{number}:{name}"))
                chunk = {
                    "id": chunk_id,
                    "training_run_id": run_id,
                    "timeline": self._timeline,
                    "name": name,
                    "steps": [],
                    "values": [],
                    "times": [],
                }
                self._open[key] = chunk
            chunk["steps"].append(step)
            chunk["values"].append(value)
            chunk["times"].append(when)
            self._changed[chunk["id"]] = chunk
        return refused

    def take(self) -> list[Record]:
        """Return the chunks that have grown since they were last taken."""
        changed = [{**chunk} for chunk in self._changed.values()]
        self._changed.clear()
        return changed


def _reason_against(name: str, step: Any, value: Any) -> str | None:
    if not name or len(name) > 500:
        return "a name has 1 to 500 characters"
    if not isinstance(step, int) or not 0 <= step < 2**63:
        return f"step {step!r} is not a whole number from 0 on"
    if value.__class__ is float or value.__class__ is int or value in ("NaN", "Infinity", "-Infinity", True, False):
        return None
    return f"{value!r} is not a number"


def _add_record(kind: str, record: Record, when: str, records: dict[str, list[Record]], *, timeline: int) -> None:
    if kind == "agent_states":
        children = _children_of(record)
        record = {name: value for name, value in record.items() if name not in _OF_TURNS}
        record.setdefault("created_at", when)
        records[kind].append(record)
        for child_kind, found in children.items():
            records[child_kind] += found
        return
    # A record that says nothing but its id is a heartbeat.
    if kind in ("training_runs", "rollouts", "evaluations", "model_checkpoints", "media") and len(record) > 1:
        record.setdefault("created_at", when)
    if kind in _ON_TIMELINES:
        record.setdefault("timeline", timeline)
    records[kind].append(record)


def _children_of(turn: Record) -> dict[str, list[Record]]:
    children: dict[str, list[Record]] = {}
    for kind in _OF_TURNS:
        for position, given in enumerate(turn.get(kind, ())):
            child = dict(given)
            child.setdefault("id", str(uuid5(UUID(turn["id"]), f"{kind}:{position}")))
            if kind == "rewards":
                child |= {"rollout_id": turn["rollout_id"], "step_number": turn["step_number"]}
            else:
                child.setdefault("position", position)
                child["agent_state_id"] = turn["id"]
            children.setdefault(kind, []).append(child)
    return children


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
