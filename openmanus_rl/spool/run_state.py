"""What this machine knows about a run's progress, for when the database does not have it all, or does not answer.

Resuming a run has two sources. The database is asked first (`resume_run`). This module is the other one: it reads

- the lines of the run's spools that have not been delivered yet, and
- RUN_ID.run.json beside the spools, which outlives them:

      {"delivered": {"rewinds": [3], "step": 7, "metric_step": 7, "episode": 12},
       "launches": {LAUNCH_ID: [3]}}

`delivered` is written by whoever delivers, before it saves how far it delivered (`note_delivered`). So a kill at any
moment leaves each step in a spool, in the file, or in both. `launches` is written by processes that rewind a run
without the database (`rewind_locally`): all processes of one launch get the same answer. One lock guards all changes.

Only runs whose id follows from their name or job have a file: no other run can be resumed. Whether such a run has ended
does not matter, since it may be resumed at any time. So files are removed by age (`forget_old_runs`): those of runs
with no delivery on this machine for a year, beyond the newest 1,000. If such a run is resumed nevertheless, the
database says how far it has come; only if that cannot be reached, the run begins anew, as it would on another machine.
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
from openmanus_rl.records.ids import creation_change_id, is_derived
from openmanus_rl.spool.files import is_alive, lock_file, segment_path
from openmanus_rl.spool.spools import Spool, find_spools

__all__ = ["RunState", "forget_old_runs", "local_state", "note_delivered", "rewind_locally"]

_LINES_THAT_COUNT = (b'["training_steps",', b'["metrics",', b'["rollouts",', b'["training_runs",')
_LOCK_SECONDS = 2.0
_LAUNCHES_KEPT = 100
# Well beyond the time after which anyone resumes a run. The newest are kept in any case: a clock may be wrong.
_KEPT_SECONDS = 365 * 86400.0
_KEPT_RUNS = 1000
_DELIVERED_FIELDS = ("rewinds", "step", "metric_step", "episode")


@dataclass(frozen=True)
class RunState:
    """How far a run has come on its last timeline."""

    rewinds: tuple[int, ...] = ()
    """The steps to which it was rewound, oldest first. Their number is the timeline."""
    step: int | None = None
    """The last completed step."""
    metric_step: int | None = None
    """The last step with a metric."""
    episode: int | None = None
    """The highest episode number, on any timeline."""
    is_known: bool = False
    """Whether this machine has recorded the run at all."""
    is_left: bool = False
    """Whether it was recorded by a process of this machine that has ended."""
    changes: tuple[tuple[float, Mapping[str, Any]], ...] = ()
    """Records by which processes ended the run or went on with it, each with its time, that are not delivered."""

    @property
    def next_step(self) -> int:
        """Return the step to continue with. Metrics count only in a run without steps."""
        last = self.metric_step if self.step is None else self.step
        return 0 if last is None else last + 1

    @property
    def next_episode(self) -> int:
        """Return a number above those of all episodes."""
        return 0 if self.episode is None else self.episode + 1

    @property
    def may_go_on(self) -> bool:
        """Return whether the run was ended by what is not delivered, in a way that does not tell what comes after."""
        return bool(self.changes) and self.changes[-1][1]["status"] not in ("running", "completed")

    def joined(self, other: RunState) -> RunState:
        """Combine two states. Steps of the earlier timeline count up to where the later one was rewound to."""
        earlier, later = sorted((self, other), key=lambda one: len(one.rewinds))
        kept_to = min(later.rewinds[len(earlier.rewinds) :], default=None)
        return replace(
            later,
            step=_highest(later.step, _up_to(kept_to, earlier.step)),
            metric_step=_highest(later.metric_step, _up_to(kept_to, earlier.metric_step)),
            episode=_highest(self.episode, other.episode),
            is_known=self.is_known or other.is_known,
            is_left=self.is_left or other.is_left,
            changes=tuple(sorted((*self.changes, *other.changes), key=lambda change: change[0])),
        )


def local_state(root: Path, run_id: str, *, undelivered_only: bool = False) -> RunState:
    """Return a run's state as this machine knows it.

    With `undelivered_only`, only spools are read. Use this where the database answers for what was delivered: the run
    may have been deleted there.
    """
    state, is_written = RunState(), False
    for spool in find_spools(root):
        meta = spool.meta()
        if meta is not None and meta["run_id"] == run_id:
            is_written_now = _is_written(spool)
            is_written |= is_written_now
            found = _state_of(_undelivered_lines(spool), tuple(meta.get("rewinds", ())))
            state = state.joined(replace(found, is_known=True, is_left=not is_written_now))
    # After the spools: what is delivered in between is noted before it leaves them.
    noted = RunState() if undelivered_only else _delivered(_read(root, run_id))
    return replace(state.joined(noted), is_left=state.is_left or (noted.is_known and not is_written))


def rewind_locally(root: Path, run_id: str, to_step: int | None, *, launch_id: str) -> RunState:
    """Rewind a run without the database, once per launch; None rewinds to its last step."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _changing(root, run_id) as content:
        state = local_state(root, run_id)
        launches = content.setdefault("launches", {})
        launches.setdefault(launch_id, [*state.rewinds, state.next_step - 1 if to_step is None else to_step])
        content["launches"] = dict(list(launches.items())[-_LAUNCHES_KEPT:])
    rewinds = tuple(launches[launch_id])
    return replace(state, rewinds=rewinds, step=rewinds[-1], metric_step=None)


def note_delivered(root: Path, meta: Mapping[str, Any], records: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Note the progress that delivered records show; call this before their lines count as delivered."""
    if not is_derived(meta["run_id"]):
        return
    completed = [record.get("step") for record in records.get("training_steps", ()) if _is_completed(record)]
    metric_steps = [chunk["steps"][-1] for chunk in records.get("metric_chunks", ()) if "steps" in chunk]
    episodes = [record.get("episode_number") for record in records.get("rollouts", ())]
    is_named = any("run_name" in record for record in records.get("training_runs", ()))
    if not (completed or metric_steps or episodes or is_named):
        return
    rewinds = tuple(meta.get("rewinds", ()))
    found = RunState(rewinds, _highest(*completed), _highest(*metric_steps), _highest(*episodes))
    with _changing(root, meta["run_id"]) as content:
        state = _delivered(content).joined(found)
        content["delivered"] = {name: getattr(state, name) for name in _DELIVERED_FIELDS}


def forget_old_runs(root: Path) -> None:
    """Remove the files of runs without a delivery for a year, but not the newest, nor those of runs with a spool."""
    if len(list(root.glob("*.run.json"))) <= _KEPT_RUNS:
        return
    with _locked(root / "runs.lock"):
        newest_first = sorted(((path.stat().st_mtime, path) for path in root.glob("*.run.json")), reverse=True)
        old = [path for at, path in newest_first[_KEPT_RUNS:] if at < time.time() - _KEPT_SECONDS]
        if old:
            spooled = {_path(root, meta["run_id"]) for spool in find_spools(root) if (meta := spool.meta())}
            for path in old:
                if path not in spooled:
                    path.unlink()


def _state_of(lines: Iterable[bytes], rewinds: tuple[int, ...]) -> RunState:
    step: int | None = None
    metric_step: int | None = None
    episode: int | None = None
    changes: list[tuple[float, Mapping[str, Any]]] = []
    for line in lines:
        if not line.startswith(_LINES_THAT_COUNT):
            continue
        try:
            kind, at, record = orjson.loads(line)
        except ValueError:
            continue  # Half a line, or a damaged one.
        if kind == "metrics":
            metric_step = _highest(metric_step, record["step"])
        elif kind == "rollouts":
            episode = _highest(episode, record.get("episode_number"))
        elif kind == "training_runs":
            if "status" in record and record.get("status_change_id") != creation_change_id(record["id"]):
                changes.append((at, record))
        elif _is_completed(record):
            step = _highest(step, record.get("step"))
    return RunState(rewinds, step, metric_step, episode, changes=tuple(changes))


def _undelivered_lines(spool: Spool) -> Iterator[bytes]:
    progress = spool.progress
    segment, offset = progress.segment, progress.offset
    while True:
        try:
            with segment_path(spool.folder, segment).open("rb") as file:
                file.seek(offset)
                yield from file
            segment, offset = segment + 1, 0
        except FileNotFoundError:
            # The end, unless it was delivered and deleted since the progress was read.
            progress = spool.progress
            if progress.segment <= segment:
                return
            segment, offset = progress.segment, progress.offset


def _path(root: Path, run_id: str) -> Path:
    return root / f"{run_id}.run.json"


def _read(root: Path, run_id: str) -> dict[str, Any]:
    try:
        found = orjson.loads(_path(root, run_id).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _delivered(content: Mapping[str, Any]) -> RunState:
    try:
        rewinds, step, metric_step, episode = (content["delivered"][name] for name in _DELIVERED_FIELDS)
        return RunState(tuple(rewinds), step, metric_step, episode, is_known=True)
    except (KeyError, TypeError):
        return RunState()


@contextmanager
def _changing(root: Path, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield the content of a run's file and write it back if it was changed; nobody else changes it meanwhile."""
    path = _path(root, run_id)
    with _locked(root / "runs.lock"):
        content = _read(root, run_id)
        before = orjson.dumps(content)
        yield content
        after = orjson.dumps(content)
        if after != before:
            aside = path.with_suffix(f".{os.getpid()}.new")
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(after)
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
                raise LocalFileError(f"{path} stays locked by another process", path=str(path)) from None
            time.sleep(0.01)
    try:
        yield
    finally:
        os.close(lock)


def _is_written(spool: Spool) -> bool:
    # It may be removed at this moment, because all of it was delivered.
    with suppress(OSError):
        return is_alive(spool.folder)
    return False


def _is_completed(record: Mapping[str, Any]) -> bool:
    return record.get("status") == "completed"


def _up_to(limit: int | None, step: int | None) -> int | None:
    return step if limit is None or step is None else min(limit, step)


def _highest(*steps: Any) -> int | None:
    # A step that is not a number was logged by mistake; the database refuses it.
    return max((step for step in steps if isinstance(step, int)), default=None)
