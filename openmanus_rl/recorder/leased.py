"""Records a rollout that a worker has claimed: every record carries the lease."""

from __future__ import annotations

from typing import Any, cast

from openmanus_rl.recorder.blocks import Rollout
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.files import LEASE_FIELD

__all__ = ["AdoptedRollout", "LeasedRecording"]


class LeasedRecording:
    """Writes to a worker's spool under a lease. Once another worker has the rollout, its records are refused."""

    def __init__(self, recording: Recording, *, rollout_id: str, lease_id: str, run_id: str | None) -> None:
        self._recording = recording
        self._lease = {LEASE_FIELD: lease_id}
        self.run_id = run_id
        # Members may read what no run owns. In the folder of a public run, everybody may.
        self.media_folder = run_id or f"rollouts/{rollout_id}"

    def append(self, kind: str, record: dict[str, Any]) -> None:
        """Write a record to the spool; never waits for the network."""
        self._recording.append(kind, record | self._lease)

    def keep_media(self, data: Any, *, kind: str | None, **fields: Any) -> tuple[dict[str, Any] | None, str | None]:
        """Store media in the spool; return the record to append, and the path in the bucket."""
        return self._recording.keep_media(data, kind=kind, folder=self.media_folder, run_id=self.run_id, **fields)

    def append_media(self, record: dict[str, Any] | None) -> None:
        """Write a record of stored media; None counts media as lost for which there was no space."""
        self._recording.append_media(None if record is None else record | self._lease)


class AdoptedRollout(Rollout):
    """A rollout that exists: a worker has claimed it, and records what happens in it."""

    def __init__(self, recording: LeasedRecording, rollout_id: str) -> None:
        # Not by the constructor of `Rollout`, which begins a new one.
        self.id = rollout_id
        # It has what a rollout needs of a recording.
        self._recording = cast(Recording, recording)
        self._ended = False
        self._turns = 0
        self._rewards = []

    def begin(self) -> None:
        """Record that the agent begins."""
        self._change(status="running", status_change_id=new_id())

    def update(self, **fields: Any) -> None:
        """Set fields of the rollout, such as logs_path."""
        self._change(**fields)

    @property
    def rewards(self) -> list[float]:
        """Return the rewards of the turns so far."""
        return self._rewards
