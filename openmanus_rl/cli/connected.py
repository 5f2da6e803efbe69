"""Who is connected to a stack and how much it holds, for `status`."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from openmanus_rl.cli.console import print_facts
from openmanus_rl.cli.rendering import ago, new_table, print_table
from openmanus_rl.errors import OpenManusError
from openmanus_rl.local.stack_client import client_of
from openmanus_rl.local.stack_file import StackInfo

_LISTED = 20
_ROLES = {"service_role": "secret key", "anon": "publishable key", "authenticated": "a member"}


def read_connected(running: StackInfo) -> dict[str, Any] | None:
    """Return who sent requests within the last minutes and how much is stored; None if the gateway does not say."""
    try:
        with client_of(running) as client:
            return client.gateway_status()
    except OpenManusError:
        # Of an earlier version, or unhealthy, which is said elsewhere.
        return None


def print_connected(connected: dict[str, Any]) -> None:
    """Print how much is stored, and a table of those who are connected."""
    usage, files = connected["usage"], connected["files"]
    stored = sum(bucket["bytes"] for bucket in files.values())
    count = sum(bucket["files"] for bucket in files.values())
    print_facts(
        {
            "Database": f"{_size(usage['database_bytes'])}, {usage['running_runs']:,} runs running",
            "Files": f"{count:,} ({_size(stored)})",
            "Live": f"{connected['liveConnections']:,} open dashboards and other live connections",
        }
    )
    callers = connected["callers"]
    if not callers:
        return
    title = f"Connected within the last five minutes ({len(callers):,})"
    table = new_table("who", "program", "from", "requests", "last seen", right=("requests",), title=title)
    for caller in callers[:_LISTED]:
        who = caller["name"] or _ROLES.get(caller["role"], caller["role"])
        who += f" (key {caller['key']})" if caller.get("key") else ""
        texts = (who, caller["program"], caller["address"], f"{caller['requests']:,}", ago(caller["last"]))
        table.add_row(*map(Text, texts))
    print_table(table)


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:,.1f} MB"
