"""`orchestrator`: launch and follow training jobs."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from dataclasses import asdict
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from openmanus_rl.cli.console import messages, output
from openmanus_rl.jobs.backends.registry import make_backends
from openmanus_rl.jobs.orchestrator import LEASE_SECONDS, Event, Orchestrator
from openmanus_rl.settings import load_settings

__all__ = ["orchestrator"]


def orchestrator(
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when no job or sweep is left, instead of waiting for the next.")
    ] = False,
    max_jobs: Annotated[int, typer.Option("--max-jobs", "-n", min=1, max=10_000, help="Jobs at once.")] = 4,
    backends: Annotated[
        str | None,
        typer.Option("--backends", help="Kinds of jobs to launch, such as local,skypilot; by default all that can be."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The name in the dashboard.")] = None,
    lease_seconds: Annotated[
        float,
        typer.Option(
            "--lease-seconds", min=5, max=86400, help="After how long others take over if this orchestrator dies."
        ),
    ] = LEASE_SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happens as lines of JSON.")] = False,
) -> None:
    """Launch the training jobs that were asked for, follow them to their end, and advance sweeps.

    Jobs are asked for with `jobs launch`, the dashboard or the function `launch-training`. Local jobs run as processes
    of this machine, which outlive the orchestrator. Any number of orchestrators may run. Ctrl-C or SIGTERM ends this
    one: its jobs go on, and the next orchestrator follows them.

    \b
    openmanus-rl orchestrator
    openmanus-rl orchestrator --until-idle --max-jobs 2
    openmanus-rl orchestrator --backends local
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    settings = load_settings()
    kinds = [kind.strip() for kind in backends.split(",") if kind.strip()] if backends else None
    usable = make_backends(settings, kinds)
    made = Orchestrator(
        settings,
        usable,
        max_jobs=max_jobs,
        until_idle=until_idle,
        name=name,
        lease_seconds=lease_seconds,
        tell=_print_json if as_json else _print,
    )
    _handle_signals(made)
    if not as_json:
        output.print(f"Orchestrator {made.id} follows up to {max_jobs} jobs ({', '.join(usable)}); Ctrl-C ends it")
    made.run()


def _handle_signals(made: Orchestrator) -> None:
    def handle(number: int, _frame: FrameType | None) -> None:
        if made.is_stopping:
            # Safe at any point: the next orchestrator goes on from there.
            os._exit(128 + number)
        # Not through the console, which may be in use by the thread that was interrupted.
        sys.stderr.write("Ending after the steps that are under way; jobs go on. Again to end at once\n")
        made.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def _print(event: Event) -> None:
    if event.kind == "note":
        messages.print(escape(event.text))
    else:
        output.print(Text.assemble((f"{event.job_id} ", "dim"), event.text))


def _print_json(event: Event) -> None:
    sys.stdout.write(json.dumps(asdict(event)) + "\n")
    sys.stdout.flush()
