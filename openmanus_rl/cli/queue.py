"""`queue`: what waits, what runs, and who works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape

from openmanus_rl.cli.console import output, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.rendering import ago, duration, headline, new_table, print_table, shortened, status_text
from openmanus_rl.cli.workers import print_workers
from openmanus_rl.managers.queue import QueueManager

__all__ = ["queue"]


def queue(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of rows of each.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show the queue: how many rollouts wait, which are next, which run where, and the workers.

    \b
    openmanus-rl queue
    """
    overview = QueueManager.queue_overview(listed=limit)
    if as_json:
        print_json(overview)
        return
    oldest = f", the oldest for {duration(overview['oldest_waiting_at'], None)}" if overview["waiting"] else ""
    output.print(f"{overview['waiting']} waiting{oldest}; {len(overview['held'])} running")
    if overview["held"]:
        headline("Running")
        names = {worker["id"]: worker["name"] for worker in overview["workers"]}
        table = new_table("rollout", "status", "turns", "for", "worker", "agent", "model", "task", right=("turns",))
        for row in overview["held"]:
            table.add_row(
                row["id"],
                status_text("cancelling" if row["cancelling"] else row["status"]),
                str(row["turns"]),
                duration(row["claimed_at"], None),
                escape(names.get(row["worker_id"], row["worker_id"])),
                *_what(row),
            )
        print_table(table)
    if overview["next"]:
        headline("Next")
        table = new_table("rollout", "priority", "asked", "agent", "model", "task", right=("priority",))
        for row in overview["next"]:
            table.add_row(row["id"], str(row["priority"]), ago(row["created_at"]), *_what(row))
        print_table(table)
    headline("Workers")
    print_workers(overview["workers"])


def _what(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        escape(row["agent"] or "–"),
        escape(row["model"] or "–"),
        escape(shortened(row["task_description"], 50)),
    )
