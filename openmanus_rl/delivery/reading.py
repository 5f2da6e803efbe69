"""Reads the lines of a spool as batches of records; reading them again yields the same records."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.delivery.metric_chunks import MetricChunks, refusal_of
from openmanus_rl.delivery.turns import turns_of
from openmanus_rl.media.blobs import BLOB_FIELD
from openmanus_rl.spool.files import LEASE_FIELD, Position, segment_path
from openmanus_rl.spool.segments import Segments
from openmanus_rl.spool.spools import Spool

__all__ = ["SpoolBatch", "SpoolReader"]

_logger = logging.getLogger(__name__)

Record = dict[str, Any]

# Parts of turns that have tables of their own.
_OF_TURNS = ("tool_calls", "observations", "generations", "rewards")
# Kinds that a rewind of the run hides, even if they are delivered after it.
_ON_TIMELINES = ("training_steps", "model_checkpoints", "evaluations", "rollouts", "media")
_DATED = ("training_runs", "training_steps", "rollouts", "evaluations", "model_checkpoints", "media")
_MOST_OF_A_KIND = 2**20
_BYTES_PER_SEGMENT = 2**40
# Uploads take time: later records should not wait for hundreds of them.
_FILES_PER_BATCH = 64
# A line may hold all turns of a rollout, which are several times as large as rows.
_TURNS_PER_BATCH = 20_000
_FILE_MARK = f'"{BLOB_FIELD}":'.encode()


@dataclass
class SpoolBatch:
    """Records to be delivered together, and the position in the spool after them."""

    end: Position
    lines: int = 0
    taken: int = 0
    """How many of the lines were whole records."""
    damaged: int = 0
    damage: dict[int, str] = field(default_factory=dict)
    """What is damaged, by segment."""
    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    places: dict[str, list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    """By kind, for each record, the places of the lines that it was made of."""
    refused: list[Record] = field(default_factory=list)
    """Records that are invalid by themselves, in the form in which refusals are kept."""
    refused_metrics: dict[str, Record] = field(default_factory=dict)
    """Refusals of metrics by message; added to `refused` once the batch is read."""


class SpoolReader:
    """Reads a spool from a position on; the package `spool` describes the format."""

    def __init__(self, folder: Path, start: Position, segments: Segments | None = None) -> None:
        self._folder = folder
        self._segments = segments or Segments(folder)
        self._segment = start.segment
        meta = Spool(folder).meta() or {}
        # A worker does not know the timelines of the runs that its rollouts belong to.
        self._timeline = None if meta.get("run_id") is None else len(meta.get("rewinds", ()))
        # From the metadata, because a copy may be in a folder with another name.
        self._spool_id = meta.get("spool_id", folder.name)
        self._metrics = MetricChunks(self._spool_id, start.segment)
        self._offset = start.offset
        # Chunks that are open at this position also hold earlier points of the segment.
        place = 0
        for line in self._segments.read(start.segment, 0, start.offset).split(b"\n"):
            self._add(line, SpoolBatch(start), place, only_metrics=True)
            place += len(line) + 1
        self._metrics.take()

    def read(self, max_bytes: int) -> SpoolBatch | None:
        """Return the next batch and advance past it, or None at the end."""
        batch = SpoolBatch(Position(self._segment, self._offset))
        is_unfinished = False
        while True:
            block, is_written, successor = self._look(max_bytes)
            if b"\n" in block:
                self._take(block, batch, max_bytes)
                break
            is_final = successor is not None or not is_written
            if block and is_final:
                is_unfinished = True
                self._pass_over(block, batch, is_damaged=successor is not None or b"\0" in block)
            elif not block and self._has_shrunk(may_be_done=successor is None and not is_written):
                self._go_back(batch)
            elif not block and successor is not None:
                self._go_to(successor, batch)
            else:
                break
        if not (batch.lines or batch.damaged or is_unfinished):
            return None
        for chunks in self._metrics.take():
            records, places = chunks.as_records(self._timeline or 0), chunks.places[:]
            batch.records["metric_chunks"] += records
            batch.places["metric_chunks"] += [places] * len(records)
        batch.records = {kind: records for kind, records in batch.records.items() if records}
        batch.refused += batch.refused_metrics.values()
        batch.end = Position(self._segment, self._offset)
        return batch

    def has_waiting(self, size_bytes: int) -> bool:
        """Return whether this many bytes are unread in this segment and the next; called often, so it only looks."""
        unread = self._segments.size_bytes(self._segment) - self._offset
        return unread >= size_bytes or unread + self._segments.size_bytes(self._segment + 1) >= size_bytes

    def _look(self, max_bytes: int) -> tuple[bytes, bool, int | None]:
        """Return the bytes at this position, whether a process still writes, and the number of the next segment."""
        # In this order, because the writer may write or die between the calls: the bytes are read last, so they
        # include everything that was there when the segment was found to be final.
        is_written = self._segments.is_written()
        successor = self._segments.successor(self._segment)
        return self._segments.read(self._segment, self._offset, max_bytes), is_written, successor

    def _take(self, block: bytes, batch: SpoolBatch, max_bytes: int) -> None:
        """Add the complete lines of a block; an incomplete last line is left for the next read."""
        end = self._offset + max_bytes
        files, may_hold_files = 0, _FILE_MARK in block
        for line in block.split(b"\n")[:-1]:
            if batch.lines and self._offset + len(line) >= end:
                break  # A huge record is sent alone, so that memory holds only one at a time.
            files += may_hold_files and _FILE_MARK in line
            if files > _FILES_PER_BATCH or len(batch.records["agent_states"]) >= _TURNS_PER_BATCH:
                break
            self._add(line, batch, self._offset)
            self._offset += len(line) + 1
            batch.lines += 1

    def _pass_over(self, block: bytes, batch: SpoolBatch, *, is_damaged: bool) -> None:
        """Skip an incomplete line that will not be completed."""
        if is_damaged:
            self._note_damage(batch, "ends in the middle of a line")
        else:
            _logger.warning("%s ends in a record that its process did not finish writing", self._path)
        self._offset += len(block)

    def _has_shrunk(self, *, may_be_done: bool) -> bool:
        """Return whether the segment is shorter than what was read; a finished spool that is kept has no segments."""
        if self._offset <= self._segments.size_bytes(self._segment):
            return False
        return not may_be_done or self._segments.exists(self._segment)

    def _go_back(self, batch: SpoolBatch) -> None:
        self._note_damage(batch, f"is shorter than the {self._offset} bytes that were delivered of it")
        self._offset = self._segments.size_bytes(self._segment)

    def _go_to(self, successor: int, batch: SpoolBatch) -> None:
        # At the very start without a first segment, progress.json was lost: the missing segments had been delivered.
        is_lost = (self._segment, self._offset) == (1, 0) and not self._segments.exists(1)
        if successor > self._segment + 1 and not is_lost:
            batch.damaged += successor - self._segment - 2
            self._segment += 1
            self._note_damage(batch, f"is missing, though there is {segment_path(self._folder, successor).name}")
        self._segment, self._offset = successor, 0
        self._metrics = MetricChunks(self._spool_id, self._segment)

    @property
    def _path(self) -> Path:
        return segment_path(self._folder, self._segment)

    def _note_damage(self, batch: SpoolBatch, what: str) -> None:
        batch.damaged += 1
        batch.damage.setdefault(self._segment, f"{self._path} {what}")

    def _add(self, line: bytes, batch: SpoolBatch, offset: int, *, only_metrics: bool = False) -> None:
        try:
            kind, when, record = orjson.loads(line)
            time = _time(when)
        except (ValueError, TypeError, OverflowError, OSError):
            if line:
                self._note_damage(batch, f"has a line at byte {offset} that cannot be read")
            return
        place = self._segment * _BYTES_PER_SEGMENT + offset
        if kind == "metrics":
            try:
                refused = self._metrics.add(record["run"], record["step"], time, record["values"], place)
                if "refused" in record:
                    known_before = record["refused"].items()
                    refused += [refusal_of(name, record["step"], reason) for name, reason in known_before]
            except (AttributeError, KeyError, TypeError):
                self._note_damage(batch, f"has metrics at byte {offset} that are in no known form")
                return
            for entry in refused:
                # One refusal per metric and batch: it may be invalid at every step of a long run.
                same = batch.refused_metrics.setdefault(entry["message"], {**entry, "places": []})
                same["places"].append(place)
        elif not only_metrics:
            try:
                for added in _add_record(kind, record, time, batch.records, timeline=self._timeline):
                    batch.places[added].append([place])
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                message = f"{kind}: its parts are not in the form of records: {error}"
                entry = {"kind": kind, "record": record, "code": "OM400", "message": message}
                batch.refused.append({**entry, "places": [place]})
        batch.taken += 1


def _add_record(
    kind: str, record: Record, when: str, records: dict[str, list[Record]], *, timeline: int | None
) -> list[str]:
    """Add a record and the records nested in it, and return the kind of each."""
    if kind == "agent_states":
        found = [(part, _children(part, record[part], record)) for part in _OF_TURNS if part in record]
        for part, children in found:
            del record[part]
            records[part] += children
        record.setdefault("created_at", when)
        records[kind].append(record)
        return [kind, *(part for part, children in found for _ in children)]
    added: list[str] = []
    if kind == "rollouts" and "turns" in record:
        turns = turns_of(record["id"], record["turns"])
        del record["turns"]
        # Insert the key before the turns': if the batch is sent in parts, parents go first.
        records[kind] += ()
        for turn in turns:
            added += _add_record("agent_states", turn, when, records, timeline=timeline)
        if len(record) == 1:
            return added
    # A record with nothing but an id is a heartbeat.
    if kind in _DATED and len(record) > 1:
        record.setdefault("created_at", when)
    # The time of recording: the record may be delivered much later.
    if record.get("status", "running") not in ("pending", "running"):
        record.setdefault("finished_at", when)
    if kind in _ON_TIMELINES and timeline is not None:
        record.setdefault("timeline", timeline)
    records[kind].append(record)
    return [*added, kind]


def _children(kind: str, given: list[Record], turn: Record) -> list[Record]:
    """Return the parts of a turn as separate records, except the reward that the turn itself holds."""
    turn_id = turn["id"]
    first = 0
    if kind == "rewards" and "reward" not in turn and _is_plain_reward(given):
        turn["reward"] = given[0]["reward"]
        first = 1
    for position, child in enumerate(given[first:], start=first):
        child.setdefault("id", _child_id(turn_id, kind, position))
        if LEASE_FIELD in turn:
            child[LEASE_FIELD] = turn[LEASE_FIELD]
        if kind == "rewards":
            child["rollout_id"] = turn["rollout_id"]
            child["step_number"] = turn["step_number"]
        else:
            child.setdefault("position", position)
            child["agent_state_id"] = turn_id
    return given[first:]


def _is_plain_reward(rewards: list[Record]) -> bool:
    """Return whether the first reward is only a number of type `step`, as `internal.reward_of_turn` does."""
    if not rewards:
        return False
    value = rewards[0].get("reward")
    if value.__class__ not in (float, int) and value not in ("NaN", "Infinity", "-Infinity"):
        return False
    return rewards[0].keys() <= {"reward", "reward_type"} and rewards[0].get("reward_type") in (None, "step")


def _child_id(turn_id: str, kind: str, position: int) -> str:
    """Return the id of a part of a turn, as `internal.part_id` does: the turn's id plus an offset."""
    place = _OF_TURNS.index(kind) * _MOST_OF_A_KIND + position + 1
    return f"{turn_id[:24]}{(int(turn_id[24:], 16) + place) % 2**48:012x}"


def _time(seconds: float) -> str:
    whole, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_second(whole)}.{microseconds:06}+00:00"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """Return whole seconds as ISO 8601 without the zone; cached, since many records share a second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
