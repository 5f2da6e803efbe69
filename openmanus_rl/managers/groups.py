"""Rollout groups: rollouts of one task, compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.base import EditableManager, Paging, of_ids
from openmanus_rl.records.ids import Id, as_id, as_optional_id, group_id, new_id
from openmanus_rl.records.rows import RolloutGroup
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["RolloutGroupManager"]


class RolloutGroupManager(EditableManager[RolloutGroup]):
    """Creates and finds groups; each has one parent, a training step or an evaluation (or baseline)."""

    table = "rollout_groups"
    noun = "rollout group"
    order_by = ("created_at", "number")

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
    ) -> RolloutGroup:
        """Create a group of a step or an evaluation and return it; the number defaults to the next free one."""
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

        def write(row_id: str, taken_number: int) -> RolloutGroup:
            return cls._create(
                row_id,
                number=taken_number,
                task_id=as_optional_id(task_id, field="task_id"),
                task_description=task_description,
                metadata=metadata,
                **{column: parent},
            )

        if number is not None:
            return write(group_id(parent, number), number)
        # A random id: with one derived from the number, two writers of the same number would share a group.
        made_id = new_id()
        return cls._numbered("number", Filter.eq(column, parent), lambda free_number: write(made_id, free_number))

    @classmethod
    def get_group(cls, group: Id) -> RolloutGroup:
        """Return a group with its counts, reward mean and std; an unknown id raises `NotFoundError`."""
        return cls._get(group, field="group_id")

    @classmethod
    def list_groups(
        cls,
        *,
        training_run_id: Id | None = None,
        training_step_id: Id | None = None,
        evaluation_id: Id | None = None,
        task_id: Id | None = None,
        **paging: Unpack[Paging],
    ) -> Page[RolloutGroup]:
        """Return a page of groups, oldest first."""
        parents = of_ids(
            training_run_id=training_run_id,
            training_step_id=training_step_id,
            evaluation_id=evaluation_id,
            task_id=task_id,
        )
        return cls._page(*parents, **paging)

    @classmethod
    def delete_group(cls, group: Id) -> None:
        """Delete a group with its rollouts."""
        cls._delete(group, field="group_id")
