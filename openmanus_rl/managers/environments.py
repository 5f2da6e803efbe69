"""Environments and their versions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack, cast

from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.base import EditableManager, Manager, OneOrMany, Paging, containing, matching
from openmanus_rl.records.ids import Id, environment_id
from openmanus_rl.records.rows import Environment, EnvironmentVersion
from openmanus_rl.transport.filters import Filter, Order, Page

__all__ = ["EnvironmentManager", "VersionSummary"]

_PNG = "data:image/png;base64,"


class VersionSummary(TypedDict):
    """A version of an environment in a list, without its picture."""

    version: int
    kind: str | None
    spec: Any
    created_by: str | None
    created_at: str


class EnvironmentManager(EditableManager[Environment]):
    """Saves and finds the descriptions of environments.

    Specs of kinds that can be trained in, `gymnasium` and `grid`, are checked before they are saved.
    """

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
        is_draft: bool | None = None,
    ) -> Environment:
        """Create the environment with this name, or update the given fields, and return it."""
        if spec is not None:
            known = None if kind is not None else cls.find_environment(name)
            _check(known["kind"] if known is not None else kind, spec)
        return cls._create(
            environment_id(name),
            name=name,
            kind=kind,
            description=description,
            spec=spec,
            source=source,
            is_draft=is_draft,
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
        is_draft: bool | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Environment]:
        """Return a page of environments, by name."""
        return cls._page(*matching(kind=kind, is_draft=is_draft), *containing(name=name_contains), **paging)

    @classmethod
    def list_recent(cls, *, kind: OneOrMany | None = None, limit: int = 100) -> Page[Environment]:
        """Return the environments that were changed last, the newest change first."""
        return cls.list_environments(kind=kind, order_by="-updated_at", limit=limit)

    @classmethod
    def confirm_environment(cls, name: str) -> Environment:
        """Confirm an environment that was imported as a draft, once its spec is right."""
        row = cls.get_environment(name)
        _check(row["kind"], row["spec"])
        return cls._change(row, {"is_draft": False})

    @classmethod
    def list_versions(cls, name: str, *, limit: int = 100, offset: int = 0) -> Page[VersionSummary]:
        """Return a page of an environment's versions, the newest first."""
        page = cls._client().select(
            _Versions.table,
            columns=",".join(VersionSummary.__annotations__),
            filters=[Filter.eq("environment_id", cls.get_environment(name)["id"])],
            order=[Order("version", descending=True)],
            limit=limit,
            offset=offset,
        )
        return Page(cast(list[VersionSummary], page.rows), page.total, page.next_offset)

    @classmethod
    def get_version(cls, name: str, version: int) -> EnvironmentVersion:
        """Return an environment as it was in a version, with its picture as a data: URL."""
        row = cls.get_environment(name)
        return cls._sibling(_Versions).get_version(row, version)

    @classmethod
    def save_preview(cls, name: str, *, version: int, picture: bytes | None = None, error: str | None = None) -> None:
        """Keep the picture of a version, a PNG, or why there is none."""
        if (picture is None) == (error is None):
            raise InvalidInput("picture: give one of picture, error", field="picture")
        params = {
            "environment_id": cls.get_environment(name)["id"],
            "version": version,
            "preview": None if picture is None else _PNG + base64.b64encode(picture).decode(),
            "preview_error": error,
        }
        cls._client().rpc("save_preview", params)

    @classmethod
    def delete_environment(cls, environment: Id) -> None:
        """Delete an environment's description, by id; its rollouts stay. One that a run trained on is kept."""
        cls._delete(environment, field="environment")

    @classmethod
    def _change(cls, row: Environment, fields: Mapping[str, Any]) -> Environment:
        if fields.get("spec") is not None or fields.get("kind") is not None:
            _check(fields.get("kind", row["kind"]), fields.get("spec", row["spec"]))
        return super()._change(row, fields)


class _Versions(Manager[EnvironmentVersion]):
    table = "environment_versions"
    noun = "version"
    key = "version"

    @classmethod
    def get_version(cls, row: Environment, version: int) -> EnvironmentVersion:
        filters = [Filter.eq("environment_id", row["id"]), Filter.eq("version", version)]
        return cls._require(*filters, what=f"{version} of {row['name']!r}", field="version")


def _check(kind: str | None, spec: Mapping[str, Any]) -> None:
    from openmanus_rl.environments.specs import TRAINING_KINDS, parse_spec

    if not isinstance(spec, Mapping):
        raise InvalidInput("spec: must be a JSON object", field="spec")
    if kind in TRAINING_KINDS:
        parse_spec({**spec, "kind": kind})
