"""The option of commands that give a role."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from openmanus_rl.records.statuses import MemberRole

__all__ = ["ROLES", "RoleOption", "as_role", "check_role"]

ROLES: tuple[MemberRole, ...] = get_args(MemberRole)


def check_role(role: str | None) -> str | None:
    """Raise `BadParameter` unless it is a role, or none was given."""
    if role is not None and role not in ROLES:
        raise typer.BadParameter(f"{role!r} is not a role; choose one of {', '.join(ROLES)}")
    return role


def as_role(role: str) -> MemberRole:
    """Return a role that was checked."""
    return next(known for known in ROLES if known == role)


RoleOption = Annotated[str, typer.Option("--role", help=f"One of {', '.join(ROLES)}.", callback=check_role)]
