"""How far a run has come, as far as this machine knows: the database may not have all of it yet, or be away.

What is still in spools is read there; of what was delivered, the courier leaves a note. Where the database can't be
asked, the processes of one launch agree here on how they rewind a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.errors import LocalFileError
from openmanus_rl.spool.files import is_alive, lock_file, segment_path
from openmanus_rl.spool.spools import Spool, find_spools

__all__ = ["Reached", "note_progress", "reached_here", "rewind_here"]

_STEP_LINE = b'["training_steps",'
_METRICS_LINE = b'["metrics",'
_ROLLOUT_LINE = b'["rollouts",'
_LOCK_SECONDS = 2.0
_LAUNCHES_KEPT = 100


@dataclass(frozen=True)
class Reached:
    """The last steps of a run on a timeline: the last completed one, and the last one with a metric."""

    rewinds: tuple[int, ...] = ()
    step: int | None = None
    metric_step: int | None = None
    episode: int | None = None
    """The highest number of an episode, on any timeline."""
    is_known: bool = False
    """Whether this machine knows the run at all."""
    is_left: bool = False
    """Whether a process of this machine that is gone recorded it."""

    @property
    def next_step(self) -> int:
        """Return the step to go on with; only a run without steps is measured by its metrics."""
        last = self.metric_step if self.step is None else self.step
        return 0 if last is None else last + 1

    def joined(self, other: Reached) -> Reached:
        """Return the two as one; of an earlier timeline that counts which the rewinds after it left."""
        earlier, later = sorted((self, other), key=lambda one: len(one.rewinds))
        kept_to = min(later.rewinds[len(earlier.rewinds) :], default=None)
        return replace(
            later,
            step=_later(later.step, _up_to(kept_to, earlier.step)),
            metric_step=_later(later.metric_step, _up_to(kept_to, earlier.metric_step)),
            episode=_later(self.episode, other.episode),
            is_known=self.is_known or other.is_known,
            is_left=self.is_left or other.is_left,
        )


def reached_here(root: Path, run_id: str, *, undelivered_only: bool = False) -> Reached:
    """Return how far a run has come as far as can be told without the database.

    What was delivered is the database's to tell, where it answers: the run may have been deleted since.
    """
    reached = Reached() if undelivered_only else _read_note(root, run_id)
    is_noted, is_written = reached.is_known, False
    for spool in find_spools(root):
        meta = spool.meta()
        if meta is not None and meta["run_id"] == run_id:
            is_written_now = _is_written(spool)
            is_written |= is_written_now
            found = _reached(_unread_lines(spool), tuple(meta.get("rewinds", ())))
            reached = reached.joined(replace(found, is_known=True, is_left=not is_written_now))
    return replace(reached, is_left=reached.is_left or (is_noted and not is_written))


def rewind_here(root: Path, run_id: str, rewind_to: int | None, *, launch_id: str) -> Reached:
    """Rewind a run by what this machine knows, to its last step if None is given, once for each launch."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = root / f"{run_id}.launches.json"
    with _locked(path.with_suffix(".lock")):
        here = reached_here(root, run_id)
        launches = _read_json(path)
        if launch_id not in launches:
            launches[launch_id] = [*here.rewinds, here.next_step - 1 if rewind_to is None else rewind_to]
            _write_aside(path, dict(list(launches.items())[-_LAUNCHES_KEPT:]))
    rewinds = tuple(launches[launch_id])
    return replace(here, rewinds=rewinds, step=rewinds[-1], metric_step=None)


def note_progress(root: Path, meta: Mapping[str, Any], records: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Leave a note of how far a run has come, which outlives its spools."""
    completed = [record.get("step") for record in records.get("training_steps", ()) if _is_completed(record)]
    metric_steps = [chunk["steps"][-1] for chunk in records.get("metric_chunks", ()) if "steps" in chunk]
    episodes = [record.get("episode_number") for record in records.get("rollouts", ())]
    is_named = any("run_name" in record for record in records.get("training_runs", ()))
    if not (completed or metric_steps or episodes or is_named):
        return
    before = _read_note(root, meta["run_id"])
    reached = before.joined(
        Reached(tuple(meta.get("rewinds", ())), _later(*completed), _later(*metric_steps), _later(*episodes))
    )
    if reached != before or not before.is_known:
        fields = ("rewinds", "step", "metric_step", "episode")
        _write_aside(_note_path(root, meta["run_id"]), {name: getattr(reached, name) for name in fields})


def _reached(lines: Iterable[bytes], rewinds: tuple[int, ...]) -> Reached:
    step: int | None = None
    metric_step: int | None = None
    episode: int | None = None
    for line in lines:
        if not line.startswith((_STEP_LINE, _METRICS_LINE, _ROLLOUT_LINE)):
            continue
        try:
            kind, _, record = orjson.loads(line)
        except ValueError:
            continue  # It broke off, or is damaged.
        if kind == "metrics":
            metric_step = _later(metric_step, record["step"])
        elif kind == "rollouts":
            episode = _later(episode, record.get("episode_number"))
        elif _is_completed(record):
            step = _later(step, record.get("step"))
    return Reached(rewinds, step, metric_step, episode)


def _unread_lines(spool: Spool) -> Iterator[bytes]:
    progress = spool.progress
    segment, offset = progress.segment, progress.offset
    while (path := segment_path(spool.folder, segment)).exists():
        with path.open("rb") as file:
            file.seek(offset)
            yield from file
        segment, offset = segment + 1, 0


def _read_note(root: Path, run_id: str) -> Reached:
    found = _read_json(_note_path(root, run_id))
    try:
        rewinds = tuple(found["rewinds"])
        return Reached(rewinds, found["step"], found["metric_step"], found.get("episode"), is_known=True)
    except (KeyError, TypeError):
        return Reached()


def _note_path(root: Path, run_id: str) -> Path:
    return root / f"{run_id}.reached.json"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_aside(path: Path, content: dict[str, Any]) -> None:
    aside = path.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(orjson.dumps(content))
    aside.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock = lock_file(path)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LocalFileError(f"{path} stays locked by another process of the run", path=str(path)) from None
            time.sleep(0.01)
    try:
        yield
    finally:
        os.close(lock)


def _is_written(spool: Spool) -> bool:
    # It may be cleared away at this moment, all of it delivered.
    with suppress(OSError):
        return is_alive(spool.folder)
    return False


def _is_completed(record: Mapping[str, Any]) -> bool:
    return record.get("status") == "completed"


def _up_to(limit: int | None, step: int | None) -> int | None:
    return step if limit is None or step is None else min(limit, step)


def _later(*steps: Any) -> int | None:
    # What is no number was logged by mistake, and is refused elsewhere.
    return max((step for step in steps if isinstance(step, int)), default=None)
