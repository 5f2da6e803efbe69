"""A training run, as its training loop sees it."""

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
    """A training run, and the way everything else of it is recorded.

    It can be pickled: what another process unpickles, such as a Ray actor, is a way to record to the same run.
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
        self.id, self._recording = recording.run_id, recording
        self.is_passed_on = False
        """Whether the environment names this run to the processes that this one starts, until it is finished."""
        self._lock = threading.Lock()
        # Beyond every number that was given before; the processes of a job then number theirs apart.
        self._episodes = None if next_episode is None else -(-next_episode // recording.processes)
        self.next_step = next_step
        """The step to go on with: 0 for a new run, the one after the last that was completed for a resumed one."""
        self._resumed_by = resumed_by
        begun_by = creation_change_id(recording.run_id)
        if create is not None:
            super().__init__(recording, recording.run_id, change_id=begun_by, **create)
        # Else another process ends the run: this one says nothing of its status.
        self._ended = not is_owner
        if not is_owner:
            if create is not None:
                # The change by which it began, without a status: this process leaves nothing open when it ends.
                self._change(status_change_id=begun_by)
            return
        if again is not None:
            # Where the run is there already, its beginning is known and passed over whole.
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

        For processes that do not inherit this one's: ray.init(runtime_env={"env_vars": run.worker_env()}), srun, ssh.
        They name the Supabase too; its keys are left out unless asked for, since launchers show and log such variables.
        """
        return worker_environment(self.id, rewinds=self.rewinds, mode=self._recording.mode, include_keys=include_keys)

    @property
    def is_closed(self) -> bool:
        """Say whether this way to record to the run has ended."""
        return self._recording.is_closed

    @property
    def stats(self) -> Stats:
        """Return how much of what this process recorded is queued, delivered, rejected and lost."""
        return self._recording.stats

    @property
    def rewinds(self) -> Sequence[int]:
        """Return the steps to which the run was rewound so far, the oldest first."""
        return self._recording.rewinds

    def log(self, values: Mapping[str, float], *, step: int) -> None:
        """Record a point of each metric; nothing waits. None is unknown and left out; what is no number is refused."""
        self._recording.append_metrics(metric_record(self.id, step, values))

    def step(self, number: int, **fields: Any) -> Step:
        """Begin a step of training."""
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
            # Apart: where another process began the step already, its beginning is known and passed over whole.
            step.log(**fields)
        return step

    def rollout(self, *, whole: bool = False, **fields: Any) -> Rollout:
        """Begin a rollout; outside a group, `step` may say at which step of training it was made.

        Episodes are numbered as they begin, and no number is given twice in a run: ranks number theirs apart, and those
        of workers and forked children, which know nothing of each other, have no number unless one is given. A `whole`
        one is written down when it ends, in one line: for loops that have no time for more.
        """
        if "episode_number" not in fields:
            fields["episode_number"] = self._next_episode()
        return (WholeRollout if whole else Rollout)(self._recording, training_run_id=self.id, **fields)

    def evaluation(self, *, kind: str = "eval", step: int | None = None, **fields: Any) -> Evaluation:
        """Begin an evaluation, or with kind="baseline" a baseline."""
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
        """Record a checkpoint and return its id; its file is copied to the spool, and goes to storage from there."""
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
        """Record bytes that belong to the run as a whole; as `Rollout.log_media` does."""
        record, path = self._recording.keep_media(data, kind=kind, **fields)
        self._recording.append_media(record)
        return path

    def update(self, **fields: Any) -> None:
        """Change fields of the run: summary, progress, current_step, tags, description, metadata; None clears one."""
        self._recording.append(self._kind, {"id": self.id, **prepared(self._kind, fields, clears=True)})

    def flush(self, *, timeout_seconds: float = 30.0) -> bool:
        """Wait until all that was recorded is in the database; False if it is not, and `stats` says why.

        Offline nobody delivers, and nothing is waited for.
        """
        return self._recording.flush(0.0 if self._recording.mode == "offline" else timeout_seconds)

    @property
    def gatherers(self) -> set[Callable[[], None]]:
        """Those who gather records and write many at once: called before a flush and before the run is closed."""
        return self._recording.gatherers

    def finish(
        self, status: str = "completed", *, message: str | None = None, summary: Mapping[str, Any] | None = None
    ) -> None:
        """End the run; what is still queued is delivered in the background, also after this process has ended."""
        self._recording.write_gathered()
        self._end(status, message=message, summary=summary)
        self._recording.close()
        if self.is_passed_on:
            self.is_passed_on = False
            retract_run(self.id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status, message = how_it_ended(error)
        self.finish(status, message=message)

    def _next_episode(self) -> int | None:
        # Before the lock: in a child it may be held by a thread that is not there.
        if self._episodes is None or self._recording.is_forked:
            return None
        with self._lock:
            number, self._episodes = self._episodes, self._episodes + 1
        return self._recording.spread(number)

    def _end_at_exit(self) -> None:
        """Say of a run that nobody ended how the process did."""
        status, message = how_it_ends()
        self._end(status, message=message)
