"""The embedded stack's owner: whoever may read its keys signs in to the dashboard with a one-time link."""

from __future__ import annotations

import getpass
import json
import urllib.error
import urllib.request
from typing import Any

from openmanus_rl.errors import StackError
from openmanus_rl.local.stack_file import StackInfo

# No one can sign up with it: the sign-up takes no address without a dot in its domain.
OWNER_EMAIL = "owner@localhost"
_TIMEOUT_SECONDS = 5.0

# Loopback must not go through a proxy that the environment names for the outside.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def sign_in_link(running: StackInfo) -> str:
    """Return a new address of the dashboard that signs its holder in as the owner, once and within a day."""
    made = _post(running, "/auth/v1/admin/generate_link", {"type": "magiclink", "email": OWNER_EMAIL})
    if not isinstance(made, dict) or not isinstance(made.get("hashed_token"), str):
        raise _failed(running, "the answer holds no link")
    # A role that was changed later stays.
    member = {"user_id": made["id"], "role": "admin", "display_name": _user_name()}
    _post(running, "/rest/v1/members?on_conflict=user_id", member, prefer="resolution=ignore-duplicates")
    return f"{running.dashboard_url}#token_hash={made['hashed_token']}"


def _post(running: StackInfo, path: str, content: dict[str, Any], *, prefer: str = "return=minimal") -> Any:
    headers = {"apikey": running.secret_key, "Content-Type": "application/json", "Prefer": prefer}
    request = urllib.request.Request(f"{running.url}{path}", json.dumps(content).encode(), headers)
    try:
        with _opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return json.loads(response.read() or "null")
    except urllib.error.HTTPError as error:
        with error:
            raise _failed(running, f"{path.split('?')[0]} answers with status {error.code}") from error
    except (OSError, ValueError) as error:
        raise _failed(running, str(getattr(error, "reason", error))) from error


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
