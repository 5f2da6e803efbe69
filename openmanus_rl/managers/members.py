"""Members of the workspace."""

from __future__ import annotations

from typing import Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, known, matching
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.rows import Member
from openmanus_rl.records.statuses import MemberRole
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["MemberManager"]


class MemberManager(Manager[Member]):
    """Manages the members of the workspace and their roles; for the secret key and admins."""

    table = "members"
    noun = "member"
    key = "user_id"
    order_by = "created_at"

    @classmethod
    def save_member(cls, user_id: Id, role: MemberRole, *, display_name: str | None = None) -> Member:
        """Add a user as a member, or change their role, and return the member; the user must have signed up."""
        record = known(user_id=as_id(user_id, field="user_id"), role=role, display_name=display_name)
        return cls._checked(cls._client().upsert(cls.table, record, on_conflict="user_id")[0])

    @classmethod
    def get_member(cls, user_id: Id) -> Member:
        """Return a member; a user who is not a member raises `NotFoundError`."""
        return cls._get(user_id, field="user_id")

    @classmethod
    def find_member(cls, user_id: Id) -> Member | None:
        """Return a member, or None."""
        return cls._find(Filter.eq("user_id", as_id(user_id, field="user_id")))

    @classmethod
    def list_members(
        cls,
        *,
        role: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Member]:
        """Return a page of members, in the order they joined."""
        return cls._page(*matching(role=role), **paging)

    @classmethod
    def remove_member(cls, user_id: Id) -> None:
        """Remove a member; the account and the rows that it owns stay."""
        cls._delete(user_id, field="user_id")
