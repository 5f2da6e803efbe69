"""The run that an import writes to: an existing one, or a new one."""

from __future__ import annotations

from uuid import UUID, uuid5

from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.ids import NAMESPACE
from openmanus_rl.records.rows import TrainingRun
from openmanus_rl.records.statuses import RunStatus

__all__ = ["Target"]

_MARK = "imported"


class Target:
    """The run of an import; the import changes its status only if an import created it."""

    def __init__(self, row: TrainingRun) -> None:
        self.id = str(row["id"])
        self.name = str(row["run_name"] or row["name"])
        self.environment: str | None = row["environment"]
        self._status = row["status"]
        self._is_own = bool((row["metadata"] or {}).get(_MARK))
        self._rollouts_before = self._count()

    @classmethod
    def open(cls, reference: str, *, environment: str | None) -> Target:
        """Find the run with this run_name or id, or create one with that name."""
        found = TrainingRunManager.find_by_run_name(reference)
        if found is None and (run_id := _as_uuid(reference)) is not None:
            found = TrainingRunManager.get_run(run_id)
        if found is not None:
            target = cls(found)
            if target._is_own and target._status in ("interrupted", "failed", "cancelled"):
                target._move("running")
            return target
        if not reference:
            raise InvalidInput("a run needs a name", field="run", hint="give one with --run")
        created = TrainingRunManager.create_run(
            reference,
            environment=environment,
            run_name=reference,
            metadata={_MARK: True},
            # The same id as the recorder's, so that two simultaneous imports create the same run.
            run_id=uuid5(NAMESPACE, f"run:{reference}"),
        )
        return cls(created)

    def finish(self) -> int:
        """Mark the import as completed, and return how many rollouts are new."""
        self._move("completed")
        return self._count() - self._rollouts_before

    def interrupt(self) -> None:
        """Mark the import as interrupted."""
        self._move("interrupted", message="the import was interrupted")

    def _move(self, status: RunStatus, *, message: str | None = None) -> None:
        if self._is_own and self._status not in ("completed", status):
            TrainingRunManager.update_status(self.id, status, message=message)
            self._status = status

    def _count(self) -> int:
        return int(TrainingRunManager.get_metrics(self.id, rollout_limit=0)["total_rollouts"])


def _as_uuid(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None
