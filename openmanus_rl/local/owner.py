"""Sign-in links for the owner of the embedded stack: anyone who can read its keys can create one."""

from __future__ import annotations

import getpass

from openmanus_rl.errors import OpenManusError, StackError
from openmanus_rl.local.stack_file import StackInfo

# Nobody can sign up with this address: sign-up requires a dot in the domain.
OWNER_EMAIL = "owner@localhost"
_TIMEOUT_SECONDS = 5.0


def sign_in_link(running: StackInfo) -> str:
    """Return a one-time link that opens the dashboard signed in as the owner; it is valid for a day."""
    # Imported here because they load the HTTP clients, which `up` and `status` do not need.
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
        # Keep a role that was changed later.
        member = {"user_id": user_id, "role": "admin", "display_name": _user_name()}
        client.upsert("members", member, on_conflict="user_id", ignore_duplicates=True)
    except OpenManusError as error:
        raise _failed(running, error.message) from error
    finally:
        client.http.close()
    return f"{running.dashboard_url}#token_hash={token}"


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
