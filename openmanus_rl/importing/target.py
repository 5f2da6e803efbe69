"""The run that an import goes to: one that is there, or one of its own."""

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
    """A run that takes an import; only a run that imports made has its status moved by them."""

    def __init__(self, row: TrainingRun) -> None:
        self.id = str(row["id"])
        self.name = str(row["run_name"] or row["name"])
        self.environment: str | None = row["environment"]
        self._status = row["status"]
        self._is_own = bool((row["metadata"] or {}).get(_MARK))
        self._rollouts_before = self._count()

    @classmethod
    def open(cls, reference: str, *, environment: str | None) -> Target:
        """Find the run of this run_name or id, or begin one of that name."""
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
            # As the recorder names it: two imports that begin it at once begin the same one.
            run_id=uuid5(NAMESPACE, f"run:{reference}"),
        )
        return cls(created)

    def finish(self) -> int:
        """Say that the import is through, and return how many rollouts are new."""
        self._move("completed")
        return self._count() - self._rollouts_before

    def interrupt(self) -> None:
        """Say that the import was not finished."""
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
