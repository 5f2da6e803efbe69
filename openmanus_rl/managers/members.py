"""Members of the workspace."""

from __future__ import annotations

from collections.abc import Sequence

from openmanus_rl.managers.base import Manager, OneOrMany, known, matching
from openmanus_rl.records import Member
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.statuses import MemberRole
from openmanus_rl.transport.filters import Filter, Page
from openmanus_rl.transport.rest import Row

__all__ = ["MemberManager"]


class MemberManager(Manager):
    """Says who belongs and as what; for the secret key and admins."""

    table = "members"
    noun = "member"
    model = Member

    @classmethod
    def save_member(cls, user_id: Id, role: MemberRole, *, display_name: str | None = None) -> Row:
        """Make a user a member, or change its role, and return it; the user must have signed up."""
        record = known(user_id=as_id(user_id, field="user_id"), role=role, display_name=display_name)
        return cls._checked(cls._client().upsert(cls.table, record, on_conflict="user_id")[0])

    @classmethod
    def get_member(cls, user_id: Id) -> Row:
        """Return a member; someone who is none is a `NotFoundError`."""
        member = cls.find_member(user_id)
        if member is None:
            raise cls._unknown(user_id, field="user_id")
        return member

    @classmethod
    def find_member(cls, user_id: Id) -> Row | None:
        """Return a member, or None."""
        return cls._find(Filter.eq("user_id", as_id(user_id, field="user_id")))

    @classmethod
    def list_members(
        cls,
        *,
        role: OneOrMany | None = None,
        filters: Sequence[Filter] = (),
        order_by: str | Sequence[str] = "created_at",
        limit: int = 100,
        offset: int = 0,
        count: bool = False,
    ) -> Page[Row]:
        """Return a page of members, in the order they joined."""
        return cls._page(
            [*matching(role=role), *filters],
            order_by=order_by,
            limit=limit,
            offset=offset,
            count=count,
            tie_break="user_id",
        )

    @classmethod
    def remove_member(cls, user_id: Id) -> None:
        """End a membership; the account and what it owns stay."""
        if not cls._client().delete(cls.table, filters=[Filter.eq("user_id", as_id(user_id, field="user_id"))]):
            raise cls._unknown(user_id, field="user_id")
