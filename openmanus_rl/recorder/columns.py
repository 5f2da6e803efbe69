"""Rollouts that are written with many turns per line, as columns.

A loop that steps environments thousands of times per second cannot write a record per turn. It hands over arrays, which
become one line of the spool; the courier makes turns of it:

    {"id": …, "status": "completed", …, "turns": {"first": 0, "times": […], "observations": […], "actions": […],
     "rewards": […], "infos": {"3": {…}}, "final": …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from openmanus_rl.recorder.blocks import Rollout
from openmanus_rl.recorder.fields import prepared
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.records.ids import new_id

__all__ = ["WholeRollout"]


class WholeRollout(Rollout):
    """A rollout that is written in one line when it ends, unless `write` is called before."""

    def __init__(self, recording: Recording, **fields: Any) -> None:
        self.id = new_id()
        self._recording = recording
        self._ended = False
        self._turns = 0
        self._rewards = []
        self._unwritten = {"id": self.id, **prepared(self._kind, fields)}
        self._is_begun = False

    def write(self, *, turns: Mapping[str, Any] | None = None) -> None:
        """Write the turns so far, as columns. The first call also records that the rollout is running."""
        if not self._is_begun:
            self._change(status="running", status_change_id=new_id(), turns=turns)
        elif turns is not None:
            self._change(turns=turns)

    def log_turn(self, **fields: Any) -> str:
        """Record a turn at once, as `Rollout.log_turn` does."""
        self.write()
        return super().log_turn(**fields)

    def log_media(self, data: Any, **fields: Any) -> str | None:
        """Record media at once, as `Rollout.log_media` does."""
        self.write()
        return super().log_media(data, **fields)

    def _end(self, status: str, *, message: str | None = None, **fields: Any) -> None:
        # The database sees such a row only after the rollout has ended, and cannot know when that was.
        fields.setdefault("finished_at", datetime.now(UTC))
        super()._end(status, message=message, **fields)

    def _change(self, *, turns: Mapping[str, Any] | None = None, **fields: Any) -> None:
        record, self._unwritten = {**self._unwritten, **prepared(self._kind, fields)}, {"id": self.id}
        self._is_begun = True
        self._recording.append(self._kind, record if turns is None else {**record, "turns": turns})
