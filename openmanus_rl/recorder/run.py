"""A training run, as its training loop sees it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from openmanus_rl.recorder.blobs import checkpoint_records
from openmanus_rl.recorder.blocks import Block, Evaluation, Rollout, Step
from openmanus_rl.recorder.recording import Recording, Stats
from openmanus_rl.recorder.values import as_numbers, describe, known
from openmanus_rl.records.ids import checkpoint_id, creation_change_id, new_id, step_id

__all__ = ["Run"]


class Run(Block):
    """A training run, and the way everything else of it is recorded."""

    _kind = "training_runs"

    def __init__(
        self,
        recording: Recording,
        *,
        create: Mapping[str, Any] | None,
        is_owner: bool = True,
        resumed_by: str | None = None,
        next_step: int = 0,
        next_episode: int = 0,
    ) -> None:
        self._episodes = next_episode
        self._lock = threading.Lock()
        self.next_step = next_step
        """The step to go on with: 0 for a new run, the one after the last that was completed for a resumed one."""
        # Else another process began the run, and will end it: this one says nothing of its status.
        self._ended = not is_owner
        self._resumed_by = resumed_by if is_owner else None
        if is_owner:
            begun_by = creation_change_id(recording.run_id)
            super().__init__(recording, recording.run_id, change_id=begun_by, **create or {})
            if resumed_by is not None:
                self._change(status="running", status_change_id=resumed_by)
            recording.at_exit = self._end_at_exit
        else:
            self.id, self._recording = recording.run_id, recording
            if create is not None:
                self._change(**create)

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
        self._recording.append("metrics", {"run": self.id, "step": step, "values": as_numbers(values)})

    def step(self, number: int, **fields: Any) -> Step:
        """Begin a step of training."""
        return Step(
            self._recording,
            step_id(self.id, number, rewinds=self.rewinds),
            number=number,
            make_rollout=self.rollout,
            training_run_id=self.id,
            again_by=self._resumed_by if number >= self.next_step else None,
            **fields,
        )

    def rollout(self, **fields: Any) -> Rollout:
        """Begin a rollout; outside a group, `step` may say at which step of training it was made."""
        if "episode_number" not in fields:
            with self._lock:
                fields["episode_number"] = self._episodes
                self._episodes += 1
        return Rollout(self._recording, training_run_id=self.id, **fields)

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
        row_id = checkpoint_id(self.id, number, step=step, rewinds=self.rewinds)
        record = {"id": row_id, "training_run_id": self.id, "checkpoint_number": number, "step": step, **fields}
        records = [known(record)]
        if file is not None:
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
        """Say more of the run: summary, progress, current_step, tags, description, metadata."""
        self._change(**fields)

    def flush(self, *, timeout_seconds: float = 30.0) -> bool:
        """Wait until all that was recorded is in the database; False if it is not, and `stats` says why."""
        return self._recording.flush(timeout_seconds)

    def finish(
        self, status: str = "completed", *, message: str | None = None, summary: Mapping[str, Any] | None = None
    ) -> None:
        """End the run; what is still queued is delivered in the background, also after this process has ended."""
        self._end(status, message=message, summary=summary)
        self._recording.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            interrupted = isinstance(error, (KeyboardInterrupt, SystemExit))
            self.finish("interrupted" if interrupted else "failed", message=describe(error))

    def _end_at_exit(self) -> None:
        """Say of a run that nobody ended what is known: an exception ended the process, or it just ended."""
        # Set by the interpreter when it prints an exception that nobody caught.
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and not isinstance(error, KeyboardInterrupt):
            self._end("failed", message=describe(error))
        else:
            self._end("interrupted", message="the process ended without run.finish()")
