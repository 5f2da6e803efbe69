"""The embedded stack's owner: whoever may read its keys signs in to the dashboard with a one-time link."""

from __future__ import annotations

import getpass

from openmanus_rl.errors import OpenManusError, StackError
from openmanus_rl.local.stack_file import StackInfo

# No one can sign up with it: the sign-up takes no address without a dot in its domain.
OWNER_EMAIL = "owner@localhost"
_TIMEOUT_SECONDS = 5.0


def sign_in_link(running: StackInfo) -> str:
    """Return a new address of the dashboard that signs its holder in as the owner, once and within a day."""
    # Here, not above: they load every HTTP client, which `up` and `status` need not wait for.
    from openmanus_rl.transport.client import Client
    from openmanus_rl.transport.retry import RetryPolicy

    client = Client.from_url_and_key(
        running.url,
        running.secret_key,
        proof_key=running.secret_key,
        request_timeout_seconds=_TIMEOUT_SECONDS,
        retry=RetryPolicy(limit_seconds=0),
    )
    try:
        user_id, token = client.users.make_sign_in(OWNER_EMAIL)
        # A role that was changed later stays.
        member = {"user_id": user_id, "role": "admin", "display_name": _user_name()}
        client.upsert("members", member, on_conflict="user_id", ignore_duplicates=True)
    except OpenManusError as error:
        raise _failed(running, error.message) from error
    finally:
        client.door.close()
    return f"{running.dashboard_url}#token_hash={token}"


def _failed(running: StackInfo, reason: str) -> StackError:
    return StackError(
        f"no sign-in link could be made at {running.url}: {reason}",
        hint="see `openmanus-rl status`; a stack of an earlier version is replaced by `openmanus-rl down` and `up`",
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user without an entry in the system's list.
        return "owner"
