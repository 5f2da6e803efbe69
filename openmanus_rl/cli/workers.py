"""`workers`: who works on the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from openmanus_rl.cli.console import output, phases, print_error, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.rendering import ago, headline, new_table, print_table
from openmanus_rl.cli.workers_launch import launch
from openmanus_rl.errors import LaunchError, NotFoundError
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.settings import load_settings
from openmanus_rl.workers.launching.ending import end_machines
from openmanus_rl.workers.launching.fleet import Fleet, Machine, machine_of

__all__ = ["app", "print_workers"]

app = typer.Typer(no_args_is_help=True, help="Show the workers of the queue, start them elsewhere, and end them.")
app.command()(launch)

_MOST = 1000
_STYLES = {"active": "green", "silent": "bold yellow", "draining": "yellow", "stopped": "dim"}


@app.command("list")
def list_workers(as_json: JsonOption = False) -> None:
    """List workers: those that work, and those that ended within the last hour.

    A silent one was not heard of for a minute; its rollouts go back to the queue when their leases end. Below them is
    what was launched with `workers launch`, with what SkyPilot says of it.

    \b
    openmanus-rl workers list
    """
    workers = QueueManager.queue_overview(listed=_MOST)["workers"]
    machines, problem = _ask_skypilot(workers)
    if as_json:
        print_json({"workers": workers, "launched": [asdict(machine) for machine in machines], "problem": problem})
        return
    print_workers(workers)
    _print_machines(machines, workers)
    if problem is not None:
        print_error(problem)


@app.command()
def stop(
    workers: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKER]...", help="Names, ids, or first characters of ids.")
    ] = None,
    launched: Annotated[
        str | None, typer.Option("--launched", metavar="NAME", help="All of a launch, also those that are starting.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that work, and all that was launched from here.")] = False,
    wait_seconds: Annotated[
        float,
        typer.Option(
            "--wait-seconds", min=0, help="How long launched workers may take to finish before their machines go."
        ),
    ] = 300,
    as_json: JsonOption = False,
) -> None:
    """Ask workers to finish what they have begun and to end; they claim nothing more.

    The machines of launched workers are removed when they have finished, or after --wait-seconds; what they still had
    goes back to the queue.

    \b
    openmanus-rl workers stop 0199f3c2
    openmanus-rl workers stop --launched NAME
    openmanus-rl workers stop --all
    """
    if sum((bool(workers), launched is not None, every)) != 1:
        raise typer.BadParameter("name workers, or give --launched or --all", param_hint="WORKER")
    known = [row for row in QueueManager.queue_overview(listed=_MOST)["workers"] if row["state"] != "stopped"]
    fleet = Fleet(load_settings().home)
    if workers:
        chosen = [row for reference in workers for row in _find(reference, known)]
        machines = [machine for row in chosen if (machine := machine_of(row)) is not None]
    else:
        machines = [machine for machine in fleet.find(known) if launched in (None, machine.launch)]
        names = {machine.name for machine in machines}
        chosen = [row for row in known if every or ((its := machine_of(row)) is not None and its.name in names)]
    asked = QueueManager.stop_workers([row["id"] for row in chosen])
    late = 0
    if machines:
        with phases(f"{asked} asked to end; {len(machines)} machines end with them"):
            late = end_machines(fleet, machines, workers=chosen, wait_seconds=wait_seconds)
    if as_json:
        ended = [machine.name for machine in machines]
        print_json({"asked": asked, "workers": [row["id"] for row in chosen], "ended": ended, "late": late})
        return
    output.print(f"{asked} asked to end" if asked else "No worker was active")
    if machines:
        output.print(f"{len(machines)} machines ended")
    if late:
        output.print(f"{late} did not finish in time; their rollouts are back in the queue")


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


def _ask_skypilot(workers: Sequence[Mapping[str, Any]]) -> tuple[list[Machine], str | None]:
    """Return what was launched and still exists; and what is wrong if SkyPilot cannot be asked."""
    fleet = Fleet(load_settings().home)
    machines = fleet.find(row for row in workers if row["state"] != "stopped")
    if not machines:
        return [], None
    try:
        return [machine for machine in fleet.ask(machines) if machine.state is not None], None
    except LaunchError as error:
        return machines, str(error)


def _print_machines(machines: Sequence[Machine], workers: Sequence[Mapping[str, Any]]) -> None:
    if not machines:
        return
    headline("Launched")
    table = new_table("name", "infra", "kind", "job", "state", "worker", right=("job",))
    for machine in machines:
        mine = [row["id"] for row in workers if machine_of(row) == replace(machine, state=None, job_id=None)]
        table.add_row(
            escape(machine.name),
            escape(machine.infra),
            machine.kind,
            str(machine.job_id or "–"),
            escape(machine.state or "unknown"),
            mine[0] if mine else "–",
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
