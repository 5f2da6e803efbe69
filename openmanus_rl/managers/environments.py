"""Environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from openmanus_rl.managers.base import EditableManager, OneOrMany, Paging, containing, matching
from openmanus_rl.records.ids import Id, environment_id
from openmanus_rl.records.rows import Environment
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["EnvironmentManager"]


class EnvironmentManager(EditableManager[Environment]):
    """Saves and finds the descriptions of environments."""

    table = "environments"
    noun = "environment"
    order_by = "name"

    @classmethod
    def save_environment(
        cls,
        name: str,
        *,
        kind: str | None = None,
        description: str | None = None,
        spec: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> Environment:
        """Create the environment with this name, or update the given fields, and return it."""
        return cls._create(
            environment_id(name), name=name, kind=kind, description=description, spec=spec, source=source
        )

    @classmethod
    def get_environment(cls, name: str) -> Environment:
        """Return the environment with this name; an unknown one raises `NotFoundError`."""
        return cls._require(Filter.eq("name", name), what=repr(name), field="name")

    @classmethod
    def find_environment(cls, name: str) -> Environment | None:
        """Return the environment with this name, or None."""
        return cls._find(Filter.eq("name", name))

    @classmethod
    def list_environments(
        cls,
        *,
        kind: OneOrMany | None = None,
        name_contains: str | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Environment]:
        """Return a page of environments, by name."""
        return cls._page(*matching(kind=kind), *containing(name=name_contains), **paging)

    @classmethod
    def delete_environment(cls, environment: Id) -> None:
        """Delete an environment's description, by id; its rollouts stay."""
        cls._delete(environment, field="environment")
