"""The object that `openmanus_rl.init` returns."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from openmanus_rl.media.blobs import checkpoint_records
from openmanus_rl.recorder.blocks import Block, Evaluation, Rollout, Step
from openmanus_rl.recorder.columns import WholeRollout
from openmanus_rl.recorder.exits import how_it_ended, how_it_ends, watch_exit
from openmanus_rl.recorder.fields import prepared, whole
from openmanus_rl.recorder.membership import retract_run, worker_environment
from openmanus_rl.recorder.recording import Recording, Stats
from openmanus_rl.recorder.values import metric_record
from openmanus_rl.records.ids import checkpoint_id, creation_change_id, new_id, step_id

__all__ = ["Run"]


class Run(Block):
    """A training run; everything that belongs to it is recorded with its methods.

    It can be pickled. A process that unpickles it, such as a Ray actor, records to the same run.
    """

    _kind = "training_runs"

    def __init__(
        self,
        recording: Recording,
        *,
        create: Mapping[str, Any] | None,
        again: Mapping[str, Any] | None = None,
        is_owner: bool = True,
        resumed_by: str | None = None,
        next_step: int = 0,
        next_episode: int | None = 0,
    ) -> None:
        assert recording.run_id is not None, "only workers record without a run"
        self.id, self._recording = recording.run_id, recording
        self.is_passed_on = False
        """Whether environment variables name this run to child processes."""
        self._lock = threading.Lock()
        # Higher than all earlier numbers. `spread` then makes them differ between the processes of a job.
        self._episodes = None if next_episode is None else -(-next_episode // recording.processes)
        self.next_step = next_step
        """The step to continue with: 0 for a new run, the one after the last completed step for a resumed run."""
        self._resumed_by = resumed_by
        begun_by = creation_change_id(self.id)
        if create is not None:
            super().__init__(recording, self.id, change_id=begun_by, **create)
        # If another process owns the run, this one never changes its status.
        self._ended = not is_owner
        if not is_owner:
            if create is not None:
                # A change without a status: the run is not to be marked as interrupted when this process ends.
                self._change(status_change_id=begun_by)
            return
        if again is not None:
            # A separate record: if the run exists, the database ignores the one that creates it.
            self._change(**again)
        if resumed_by is not None:
            self._change(status="running", status_change_id=resumed_by)
        recording.at_exit = self._end_at_exit
        watch_exit()

    def __reduce__(self) -> tuple[Any, ...]:
        from openmanus_rl.recorder.init import join

        return partial(join, mode=self._recording.mode), (self.id, tuple(self.rewinds))

    def worker_env(self, *, include_keys: bool = False) -> dict[str, str]:
        """Return the environment variables with which another process joins this run by `openmanus_rl.init()`.

        For processes that do not inherit this environment: ray.init(runtime_env={"env_vars": run.worker_env()}), srun,
        ssh. Keys are included only with `include_keys`, because launchers tend to log such variables.
        """
        return worker_environment(self.id, rewinds=self.rewinds, mode=self._recording.mode, include_keys=include_keys)

    @property
    def is_closed(self) -> bool:
        """Return whether this object is closed."""
        return self._recording.is_closed

    @property
    def stats(self) -> Stats:
        """Return how many records of this process are queued, delivered, rejected and lost."""
        return self._recording.stats

    @property
    def rewinds(self) -> Sequence[int]:
        """Return the steps to which the run was rewound, oldest first."""
        return self._recording.rewinds

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record a value of each metric. None is skipped; a value that is not a number is refused and reported."""
        self._recording.append_metrics(metric_record(self.id, step, values))

    def step(self, number: int, **fields: Any) -> Step:
        """Start a training step."""
        number = whole(number, "step")
        step = Step(
            self._recording,
            step_id(self.id, number, rewinds=self.rewinds),
            number=number,
            make_rollout=self.rollout,
            training_run_id=self.id,
            again_by=self._resumed_by if number >= self.next_step else None,
        )
        if fields:
            # A separate record: if another process has started the step, the database ignores the one that creates it.
            step.log(**fields)
        return step

    def rollout(self, *, whole: bool = False, **fields: Any) -> Rollout:
        """Start a rollout; `step` sets the training step of a rollout outside of a group.

        Episodes are numbered in order, and no number is used twice in a run: ranks use different numbers, and workers
        and forked children, which do not know each other, use none unless given. A `whole` rollout is written in one
        line when it ends, for loops in which every microsecond counts.
        """
        if "episode_number" not in fields:
            fields["episode_number"] = self._next_episode()
        return (WholeRollout if whole else Rollout)(self._recording, training_run_id=self.id, **fields)

    def evaluation(self, *, kind: str = "eval", step: int | None = None, **fields: Any) -> Evaluation:
        """Start an evaluation, or a baseline with kind="baseline"."""
        return Evaluation(
            self._recording,
            new_id(),
            make_rollout=self.rollout,
            training_run_id=self.id,
            kind=kind,
            step=step,
            **fields,
        )

    def log_checkpoint(
        self, number: int, *, step: int | None = None, file: str | os.PathLike[str] | None = None, **fields: Any
    ) -> str:
        """Record a checkpoint and return its id. Its file is copied to the spool and uploaded from there."""
        number, step = whole(number, "checkpoint_number"), None if step is None else whole(step, "step")
        row_id = checkpoint_id(self.id, number, step=step, rewinds=self.rewinds)
        record = {"id": row_id, "training_run_id": self.id, "checkpoint_number": number, "step": step, **fields}
        records = [prepared("model_checkpoints", record)]
        if file is not None and self._recording.mode != "disabled":
            records = checkpoint_records(self._recording.blobs, records[0], file, timeline=len(self.rewinds))
        for one in records:
            self._recording.append("model_checkpoints", one)
        return row_id

    def log_media(self, data: Any, *, kind: str | None = None, **fields: Any) -> str | None:
        """Record media of the run as a whole, as `Rollout.log_media` does."""
        record, path = self._recording.keep_media(data, kind=kind, **fields)
        self._recording.append_media(record)
        return path

    def update(self, **fields: Any) -> None:
        """Set fields of the run: summary, progress, current_step, tags, description, metadata; None clears one."""
        self._recording.append(self._kind, {"id": self.id, **prepared(self._kind, fields, clears=True)})

    def flush(self, *, timeout_seconds: float = 30.0) -> bool:
        """Wait until everything recorded is in the database; False if it is not, and `stats` says why.

        Does not wait in mode "offline".
        """
        return self._recording.flush(0.0 if self._recording.mode == "offline" else timeout_seconds)

    @property
    def gatherers(self) -> set[Callable[[], None]]:
        """Functions that write buffered records; called before a flush and before the run is closed."""
        return self._recording.gatherers

    def finish(
        self, status: str = "completed", *, message: str | None = None, summary: Mapping[str, Any] | None = None
    ) -> None:
        """End the run. Queued records are delivered in the background, also after this process has ended."""
        self._recording.write_gathered()
        self._end(status, message=message, summary=summary)
        self._recording.close()
        if self.is_passed_on:
            self.is_passed_on = False
            retract_run(self.id)

    def leave(self) -> None:
        """Close this object without ending the run, which another process records now."""
        self._ended = True
        self.finish()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status, message = how_it_ended(error)
        self.finish(status, message=message)

    def _next_episode(self) -> int | None:
        # Before taking the lock: in a forked child, it may be held by a thread that does not exist.
        if self._episodes is None or self._recording.is_forked:
            return None
        with self._lock:
            number, self._episodes = self._episodes, self._episodes + 1
        return self._recording.spread(number)

    def _end_at_exit(self) -> None:
        """End a run that was not finished, with a status that tells how the process ends."""
        status, message = how_it_ends()
        self._end(status, message=message)
