"""Status history: every status change, as recorded by the database."""

from __future__ import annotations

from typing import Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, matching, of_ids
from openmanus_rl.records.ids import Id
from openmanus_rl.records.rows import StatusChange
from openmanus_rl.transport.filters import Page

__all__ = ["StatusHistoryManager"]


class StatusHistoryManager(Manager[StatusChange]):
    """Reads status changes, which only the database writes."""

    table = "status_history"
    noun = "status change"
    order_by = "changed_at"

    @classmethod
    def get_change(cls, change: Id) -> StatusChange:
        """Return a change; an unknown id raises `NotFoundError`."""
        return cls._get(change, field="change_id")

    @classmethod
    def list_changes(
        cls,
        *,
        entity_id: Id | None = None,
        entity: OneOrMany | None = None,
        training_run_id: Id | None = None,
        new_status: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[StatusChange]:
        """Return a page of changes, oldest first; `entity` is a table's name, such as rollouts."""
        parents = of_ids(entity_id=entity_id, training_run_id=training_run_id)
        return cls._page(*parents, *matching(entity=entity, new_status=new_status), **paging)
