"""The owner of the embedded stack, anyone who can read its keys: sign-in links, and what the owner did."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

from openmanus_rl.errors import OpenManusError, StackError
from openmanus_rl.local.stack_client import client_of
from openmanus_rl.local.stack_file import StackInfo

if TYPE_CHECKING:
    from openmanus_rl.transport.postgres import PostgresConnection

# Nobody can sign up with this address: sign-up requires a dot in the domain.
OWNER_EMAIL = "owner@localhost"


def sign_in_link(running: StackInfo) -> str:
    """Return a one-time link that opens the dashboard signed in as the owner; it is valid for a day."""
    try:
        with client_of(running) as client:
            user_id, token = client.users.make_sign_in(OWNER_EMAIL)
            # Keep a role that was changed later.
            member = {"user_id": user_id, "role": "admin", "display_name": _user_name()}
            client.upsert("members", member, on_conflict="user_id", ignore_duplicates=True)
    except OpenManusError as error:
        raise _failed(running, error.message) from error
    return f"{running.dashboard_url}#token_hash={token}"


def note_operation(connection: PostgresConnection, action: str) -> None:
    """Keep in the audit log that the user of this process did something to the whole record."""
    connection.execute(
        "select internal.note(%s, details => jsonb_build_object('user', %s::text))", [action, _user_name()]
    )


def _failed(running: StackInfo, reason: str) -> StackError:
    return StackError(
        f"could not create a sign-in link for {running.url}: {reason}",
        hint="see `openmanus-rl status`; restart a stack of an earlier version with `openmanus-rl down` and `up`",
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # The user has no entry in /etc/passwd.
        return "owner"
