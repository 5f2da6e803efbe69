"""Archives: which runs' turns and metric points are in Parquet files, and reading some of them again."""

from __future__ import annotations

from typing import Unpack

from openmanus_rl.managers.base import Manager, Paging, of_ids
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.rows import Archive
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["ArchiveManager"]


class ArchiveManager(Manager[Archive]):
    """Reads archives; `openmanus_rl.archiving` makes and restores them."""

    table = "archives"
    noun = "archive"

    @classmethod
    def get_archive(cls, training_run_id: Id) -> Archive:
        """Return the archive of a run; a run that is not archived raises `NotFoundError`."""
        run_id = as_id(training_run_id, field="training_run_id")
        return cls._require(Filter.eq("training_run_id", run_id), what=run_id, field="training_run_id")

    @classmethod
    def find_archive(cls, training_run_id: Id) -> Archive | None:
        """Return the archive of a run, or None if it is not archived."""
        return cls._find(Filter.eq("training_run_id", as_id(training_run_id, field="training_run_id")))

    @classmethod
    def list_archives(cls, *, training_run_id: Id | None = None, **paging: Unpack[Paging]) -> Page[Archive]:
        """Return a page of archives, newest first."""
        return cls._page(*of_ids(training_run_id=training_run_id), **paging)

    @classmethod
    def load_rollout(cls, rollout_id: Id) -> dict[str, int]:
        """Copy the turns of an archived rollout back for a day, to be read; return how many rows of each table."""
        body = {"rollout_id": as_id(rollout_id, field="rollout_id")}
        return cls._load(body)

    @classmethod
    def load_metrics(cls, training_run_id: Id) -> dict[str, int]:
        """Copy the metric points of an archived run back for a day, to be read; return how many rows of each table."""
        body = {"training_run_id": as_id(training_run_id, field="training_run_id")}
        return cls._load(body)

    @classmethod
    def _load(cls, body: dict[str, str]) -> dict[str, int]:
        return {
            str(table): int(rows) for table, rows in cls._client().function("load-archive", json=body)["rows"].items()
        }
