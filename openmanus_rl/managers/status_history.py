"""Status history: every change of every status, as the database wrote it down."""

from __future__ import annotations

from collections.abc import Sequence

from openmanus_rl.managers.base import Manager, OneOrMany, matching
from openmanus_rl.records import StatusChange
from openmanus_rl.records.ids import Id
from openmanus_rl.transport.filters import Filter, Page
from openmanus_rl.transport.rest import Row

__all__ = ["StatusHistoryManager"]


class StatusHistoryManager(Manager):
    """Reads how statuses changed; nobody writes here but the database."""

    table = "status_history"
    noun = "status change"
    model = StatusChange

    @classmethod
    def get_change(cls, change: Id) -> Row:
        """Return a change; an unknown id is a `NotFoundError`."""
        return cls._get(change, field="change_id")

    @classmethod
    def list_changes(
        cls,
        *,
        entity_id: Id | None = None,
        entity: OneOrMany | None = None,
        training_run_id: Id | None = None,
        new_status: OneOrMany | None = None,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = "changed_at",
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of changes, oldest first; `entity` is a table's name, such as rollouts."""
        conditions = matching(
            entity_id=entity_id, entity=entity, training_run_id=training_run_id, new_status=new_status
        )
        return cls._page([*conditions, *filters], order_by=order_by, limit=limit, offset=offset, count=count)
