"""Rollout groups: rollouts of one task, compared with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.base import EditableManager, matching
from openmanus_rl.records import RolloutGroup
from openmanus_rl.records.ids import Id, as_id, group_id, new_id
from openmanus_rl.transport.filters import Filter, Page
from openmanus_rl.transport.rest import Row

__all__ = ["RolloutGroupManager"]


class RolloutGroupManager(EditableManager):
    """Creates and finds groups; each has one parent, a training step or an evaluation (or baseline)."""

    table = "rollout_groups"
    noun = "rollout group"
    model = RolloutGroup

    @classmethod
    def create_group(
        cls,
        *,
        training_step_id: Id | None = None,
        evaluation_id: Id | None = None,
        number: int | None = None,
        task_id: Id | None = None,
        task_description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Row:
        """Create a group of a step or an evaluation and return it; without a number it takes the next one."""
        if (training_step_id is None) == (evaluation_id is None):
            raise InvalidInput(
                "a rollout group has exactly one parent",
                field="training_step_id",
                hint="give training_step_id or evaluation_id, and not both",
            )
        column = "training_step_id" if training_step_id is not None else "evaluation_id"
        given = training_step_id if training_step_id is not None else evaluation_id
        assert given is not None
        parent = as_id(given, field=column)

        def write(row_id: str, taken_number: int) -> Row:
            return cls._create(
                row_id,
                number=taken_number,
                task_id=None if task_id is None else as_id(task_id, field="task_id"),
                task_description=task_description,
                metadata=metadata,
                **{column: parent},
            )

        if number is not None:
            return write(group_id(parent, number), number)
        # An id of its own: with one that follows from the number, two writers of a number would share a group.
        made_id = new_id()
        return cls._numbered("number", Filter.eq(column, parent), lambda free_number: write(made_id, free_number))

    @classmethod
    def get_group(cls, group: Id) -> Row:
        """Return a group with its counts, reward mean and std; an unknown id is a `NotFoundError`."""
        return cls._get(group, field="group_id")

    @classmethod
    def list_groups(
        cls,
        *,
        training_run_id: Id | None = None,
        training_step_id: Id | None = None,
        evaluation_id: Id | None = None,
        task_id: Id | None = None,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = ("created_at", "number"),
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of groups, oldest first."""
        conditions = matching(
            training_run_id=training_run_id,
            training_step_id=training_step_id,
            evaluation_id=evaluation_id,
            task_id=task_id,
        )
        return cls._page([*conditions, *filters], order_by=order_by, limit=limit, offset=offset, count=count)

    @classmethod
    def delete_group(cls, group: Id) -> None:
        """Delete a group with its rollouts."""
        cls._delete(group, field="group_id")
