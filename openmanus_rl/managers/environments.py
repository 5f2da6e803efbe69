"""Environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmanus_rl.managers.base import EditableManager, OneOrMany, matching
from openmanus_rl.records import Environment
from openmanus_rl.records.ids import Id, environment_id
from openmanus_rl.transport.filters import Filter, Page
from openmanus_rl.transport.rest import Row

__all__ = ["EnvironmentManager"]


class EnvironmentManager(EditableManager):
    """Describes the environments that rollouts happen in."""

    table = "environments"
    noun = "environment"
    model = Environment

    @classmethod
    def save_environment(
        cls,
        name: str,
        *,
        kind: str | None = None,
        description: str | None = None,
        spec: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> Row:
        """Create the environment of this name, or change what is given of it, and return it."""
        return cls._create(
            environment_id(name), name=name, kind=kind, description=description, spec=spec, source=source
        )

    @classmethod
    def get_environment(cls, name: str) -> Row:
        """Return the environment of this name; an unknown one is a `NotFoundError`."""
        environment = cls.find_environment(name)
        if environment is None:
            raise cls._unknown(repr(name), field="name")
        return environment

    @classmethod
    def find_environment(cls, name: str) -> Row | None:
        """Return the environment of this name, or None."""
        return cls._find(Filter.eq("name", name))

    @classmethod
    def list_environments(
        cls,
        *,
        kind: OneOrMany | None = None,
        name_contains: str | None = None,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = "name",
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of environments, by name."""
        conditions = [*matching(kind=kind), *filters]
        if name_contains is not None:
            conditions.append(Filter.contains_text("name", name_contains))
        return cls._page(conditions, order_by=order_by, limit=limit, offset=offset, count=count)

    @classmethod
    def delete_environment(cls, environment: Id) -> None:
        """Delete an environment's description, by id; its rollouts stay."""
        cls._delete(environment, field="environment")
