"""How far a run has come, as far as this machine knows: the database may not have all of it yet, or be away.

What is still in spools is read there; of what was delivered, the courier leaves a note.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.recorder.spool import segment_path
from openmanus_rl.recorder.spools import Spool, find_spools

__all__ = ["Reached", "note_progress", "reached_here"]

_STEP_LINE = b'["training_steps",'
_METRICS_LINE = b'["metrics",'


@dataclass(frozen=True)
class Reached:
    """The last steps of a run on a timeline: the last completed one, and the last one with a metric."""

    rewinds: tuple[int, ...] = ()
    step: int | None = None
    metric_step: int | None = None

    @property
    def next_step(self) -> int:
        """Return the step to go on with; only a run without steps is measured by its metrics."""
        last = self.metric_step if self.step is None else self.step
        return 0 if last is None else last + 1

    def joined(self, other: Reached) -> Reached:
        """Return the two as one; an earlier timeline says nothing of a later one."""
        if len(self.rewinds) != len(other.rewinds):
            return max(self, other, key=lambda one: len(one.rewinds))
        return Reached(self.rewinds, _later(self.step, other.step), _later(self.metric_step, other.metric_step))


def reached_here(root: Path, run_id: str) -> Reached:
    """Return how far a run has come as far as can be told without the database."""
    reached = _read_note(root, run_id)
    for spool in find_spools(root):
        meta = spool.meta()
        if meta is not None and meta["run_id"] == run_id:
            reached = reached.joined(_reached(_unread_lines(spool), tuple(meta.get("rewinds", ()))))
    return reached


def note_progress(root: Path, meta: Mapping[str, Any], records: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Leave a note of how far a run has come, which outlives its spools."""
    completed = [record.get("step") for record in records.get("training_steps", ()) if _is_completed(record)]
    metric_steps = [chunk["steps"][-1] for chunk in records.get("metric_chunks", ())]
    if not completed and not metric_steps:
        return
    before = _read_note(root, meta["run_id"])
    reached = before.joined(
        Reached(tuple(meta.get("rewinds", ())), _later(*completed) if completed else None, _later(*metric_steps))
    )
    if reached != before:
        path = _note_path(root, meta["run_id"])
        aside = path.with_suffix(f".{os.getpid()}.new")
        aside.write_bytes(orjson.dumps(asdict(reached)))
        aside.replace(path)


def _reached(lines: Iterable[bytes], rewinds: tuple[int, ...]) -> Reached:
    step: int | None = None
    metric_step: int | None = None
    for line in lines:
        if not line.startswith((_STEP_LINE, _METRICS_LINE)):
            continue
        try:
            kind, _, record = orjson.loads(line)
        except ValueError:
            continue  # It broke off, or is damaged.
        if kind == "metrics":
            metric_step = _later(metric_step, record["step"])
        elif _is_completed(record):
            step = _later(step, record.get("step"))
    return Reached(rewinds, step, metric_step)


def _unread_lines(spool: Spool) -> Iterator[bytes]:
    progress = spool.progress
    segment, offset = progress.segment, progress.offset
    while (path := segment_path(spool.folder, segment)).exists():
        with path.open("rb") as file:
            file.seek(offset)
            yield from file
        segment, offset = segment + 1, 0


def _read_note(root: Path, run_id: str) -> Reached:
    try:
        found = orjson.loads(_note_path(root, run_id).read_bytes())
        return Reached(tuple(found["rewinds"]), found["step"], found["metric_step"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Reached()


def _note_path(root: Path, run_id: str) -> Path:
    return root / f"{run_id}.reached.json"


def _is_completed(record: Mapping[str, Any]) -> bool:
    return record.get("status") == "completed"


def _later(*steps: Any) -> int | None:
    # What is no number was logged by mistake, and is refused elsewhere.
    return max((step for step in steps if isinstance(step, int)), default=None)
