"""`workers`: who works on the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from openmanus_rl.cli.console import output, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.rendering import ago, new_table, print_table
from openmanus_rl.errors import NotFoundError
from openmanus_rl.managers.queue import QueueManager

__all__ = ["app", "print_workers"]

app = typer.Typer(no_args_is_help=True, help="Show the workers of the queue, and end them.")

_MOST = 1000
_STYLES = {"active": "green", "silent": "bold yellow", "draining": "yellow", "stopped": "dim"}


@app.command("list")
def list_workers(as_json: JsonOption = False) -> None:
    """List workers: those that work, and those that ended within the last hour.

    A silent one was not heard of for a minute; its rollouts go back to the queue when their leases end.

    \b
    openmanus-rl workers list
    """
    workers = QueueManager.queue_overview(listed=_MOST)["workers"]
    if as_json:
        print_json({"workers": workers})
        return
    print_workers(workers)


@app.command()
def stop(
    workers: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKER]...", help="Names, ids, or first characters of ids.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that work.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask workers to finish what they have begun and to end; they claim nothing more.

    \b
    openmanus-rl workers stop 0199f3c2
    openmanus-rl workers stop --all
    """
    if bool(workers) == every:
        raise typer.BadParameter("name workers, or give --all", param_hint="WORKER")
    known = [row for row in QueueManager.queue_overview(listed=_MOST)["workers"] if row["state"] != "stopped"]
    chosen = known if every else [row for reference in workers or [] for row in _find(reference, known)]
    asked = QueueManager.stop_workers([row["id"] for row in chosen])
    if as_json:
        print_json({"asked": asked, "workers": [row["id"] for row in chosen]})
        return
    output.print(f"{asked} asked to end" if asked else "No worker was active")


def print_workers(workers: Sequence[Mapping[str, Any]]) -> None:
    """Print workers as a table."""
    if not workers:
        output.print("No workers; start one with `openmanus-rl worker`")
        return
    table = new_table("id", "name", "state", "rollouts", "host", "environments", "seen", right=("rollouts",))
    for row in workers:
        state = "silent" if row["is_silent"] else row["state"]
        table.add_row(
            row["id"],
            escape(row["name"]),
            Text(state, style=_STYLES.get(state, "")),
            f"{row['held']}/{row['max_rollouts']}",
            escape(f"{row['host'] or '–'} {row['pid'] or ''}".strip()),
            escape(", ".join(row["providers"])),
            ago(row["heartbeat_at"]),
        )
    print_table(table)


def _find(reference: str, workers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the workers with this name, or the one with this id or start of an id."""
    named = [row for row in workers if row["name"] == reference]
    found = named or [row for row in workers if len(reference) >= 4 and row["id"].startswith(reference.lower())]
    if not found or (not named and len(found) > 1):
        reason = "matches several workers" if found else "matches no worker"
        raise NotFoundError(
            f"{reference!r} {reason}", field="worker", hint="list them with `openmanus-rl workers list`"
        )
    return found
