"""Members of the workspace, their keys, invitations to it, and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from openmanus_rl.errors import ForbiddenError
from openmanus_rl.managers.base import Manager, OneOrMany, Paging, known, matching, of_ids
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.rows import AuditLog, Invitation, Member, MemberKey
from openmanus_rl.records.statuses import MemberRole
from openmanus_rl.transport.filters import Filter, Page

__all__ = ["AuditManager", "InvitationManager", "KeyManager", "MemberManager"]


class Account(Member):
    """A member with what is known of the account; the rest is for admins and oneself, and None for all others."""

    email: str | None
    last_sign_in_at: str | None
    keys: int | None


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
    def list_accounts(cls) -> list[Account]:
        """Return all members, for admins with their e-mail addresses, last sign-ins and numbers of keys."""
        found: list[Account] = cls._client().rpc("list_members", {})
        return found

    @classmethod
    def find_account(cls, who: str) -> Account | None:
        """Return a member by id or e-mail address, or None; by an address, only admins find others."""
        wanted = who.strip().lower()
        accounts = cls.list_accounts()
        found = next((one for one in accounts if wanted in (one["user_id"], (one["email"] or "").lower())), None)
        if found is None and "@" in wanted and any(one["keys"] is None for one in accounts):
            raise ForbiddenError(
                f"{who} cannot be looked up: only admins see the addresses of members",
                field="user_id",
                hint="give the member's id, or use the secret key",
            )
        return found

    @classmethod
    def make_sign_in_token(cls, user_id: Id) -> tuple[str, str]:
        """Return the address of a member and a token that signs in as the member once; requires the secret key."""
        params = {"member_id": as_id(user_id, field="user_id")}
        email: str = cls._client().rpc("prepare_sign_in_link", params, retryable=False)
        return email, cls._client().users.make_sign_in_token(email)

    @classmethod
    def remove_member(cls, user_id: Id) -> None:
        """Remove a member and the member's keys; the account and the rows that it owns stay."""
        cls._delete(user_id, field="user_id")


class InvitationManager(Manager[Invitation]):
    """Invites people to the workspace; for the secret key and admins."""

    table = "invitations"
    noun = "invitation"

    @classmethod
    def invite(
        cls, email: str, role: MemberRole = "viewer", *, expires_at: datetime | None = None
    ) -> tuple[Invitation, str]:
        """Invite somebody and return the invitation and its token, which is shown this once.

        An open invitation of the same address is replaced. Without `expires_at` it lasts seven days.
        """
        params = {"email": email, "role": role, "expires_at": expires_at.isoformat() if expires_at else None}
        # Not retried: a second attempt would replace the first, whose answer may still arrive.
        made = cls._client().rpc("invite_member", params, retryable=False)
        token: str = made.pop("token")
        return cls._checked(made), token

    @classmethod
    def list_invitations(cls, *, open_only: bool = False, **paging: Unpack[Paging]) -> Page[Invitation]:
        """Return a page of invitations, newest first."""
        ended = [Filter.is_null("accepted_at"), Filter.is_null("revoked_at"), Filter.gt("expires_at", "now")]
        return cls._page(*(ended if open_only else []), **paging)

    @classmethod
    def revoke(cls, invitation_id: Id) -> Invitation:
        """Revoke an invitation that was not accepted, and return it."""
        params = {"invitation_id": as_id(invitation_id, field="invitation_id")}
        return cls._checked(cls._client().rpc("revoke_invitation", params))


class KeyManager(Manager[MemberKey]):
    """Makes, lists and revokes the keys with which trainers and workers act for a member."""

    table = "member_keys"
    noun = "key"

    @classmethod
    def create_key(
        cls,
        name: str,
        *,
        member_id: Id | None = None,
        role: MemberRole | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[MemberKey, str]:
        """Make a key and return its row and the key itself, which is shown this once.

        Made with the secret key, it is for the member that `member_id` names. Its role is the member's, and no wider
        than editor unless `role` says so.
        """
        params = {
            "name": name,
            "role": role,
            "expires_at": expires_at.isoformat() if expires_at else None,
            "member_id": as_id(member_id, field="member_id") if member_id else None,
        }
        # Not retried: a second attempt would make another key.
        made = cls._client().rpc("create_key", params, retryable=False)
        key: str = made.pop("key")
        return cls._checked(made), key

    @classmethod
    def list_keys(cls, *, member_id: Id | None = None, **paging: Unpack[Paging]) -> Page[MemberKey]:
        """Return a page of keys, newest first: one's own, for admins and the secret key everybody's."""
        return cls._page(*of_ids(member_id=member_id), **paging)

    @classmethod
    def revoke_key(cls, key_id: Id) -> MemberKey:
        """Revoke a key at once and for good, and return its row."""
        return cls._checked(cls._client().rpc("revoke_key", {"key_id": as_id(key_id, field="key_id")}))


class AuditManager(Manager[AuditLog]):
    """Reads who did what; for the secret key and admins."""

    table = "audit_log"
    noun = "entry of the audit log"
    order_by = "-happened_at"

    @classmethod
    def list_entries(
        cls,
        *,
        action: OneOrMany | None = None,
        actor_id: Id | None = None,
        subject_id: Id | None = None,
        **paging: Unpack[Paging],
    ) -> Page[AuditLog]:
        """Return a page of the log, newest first."""
        return cls._page(*matching(action=action), *of_ids(actor_id=actor_id, subject_id=subject_id), **paging)
