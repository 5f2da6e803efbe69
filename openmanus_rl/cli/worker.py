"""`worker`: work on the queue of rollouts."""

from __future__ import annotations

import logging
import signal
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from openmanus_rl.cli.console import harmless, messages, output
from openmanus_rl.cli.rendering import seconds_text, shortened, status_text
from openmanus_rl.settings import load_settings
from openmanus_rl.workers.worker import LEASE_SECONDS, Event, Worker


def worker(
    max_workers: Annotated[
        int | None,
        typer.Option(
            "--max-workers",
            "-n",
            min=1,
            max=1000,
            help="Rollouts at once; by default MAX_WORKERS, or 4.",
        ),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing waits or runs any more, instead of waiting for work.")
    ] = False,
    idle_seconds: Annotated[
        float | None, typer.Option("--idle-seconds", min=0, help="End after so long without work.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The name in `workers list` and in the dashboard.")] = None,
    lease_seconds: Annotated[
        float,
        typer.Option(
            "--lease-seconds",
            min=5,
            max=86400,
            help="After how long others take over if this worker dies.",
        ),
    ] = LEASE_SECONDS,
) -> None:
    """Work on rollouts that were asked for with `rollouts new`, the dashboard or the function `rollouts`.

    Each rollout gets its environment, an agent works in it, its answer is verified, and everything is removed again.
    Any number of workers may run, on any machine with the same settings. Ctrl-C lets it finish what it has begun; a
    second Ctrl-C, or SIGTERM, returns that to the queue at once.

    \b
    openmanus-rl worker --max-workers 8
    openmanus-rl worker --until-idle
    openmanus-rl worker --idle-seconds 600
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    settings = load_settings()
    made = Worker(
        settings,
        max_workers=max_workers or settings.max_workers,
        until_idle=until_idle,
        idle_seconds=idle_seconds,
        name=name,
        lease_seconds=lease_seconds,
        tell=tell,
    )
    _handle_signals(made)
    at_once = max_workers or settings.max_workers
    output.print(f"Worker {made.id} works on up to {at_once} rollouts at once; Ctrl-C ends it")
    made.run()


def _handle_signals(made: Worker) -> None:
    interrupts = 0

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            messages.print("Finishing what was begun; Ctrl-C again returns it to the queue")
            made.drain()
        else:
            made.give_back()

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, lambda _number, _frame: made.give_back())


def tell(event: Event) -> None:
    if event.kind == "note":
        messages.print(escape(event.text))
        return
    line = Text.assemble((f"{event.rollout_id or ''} ", "dim"))
    if event.kind == "claimed":
        line.append(f"begins: {shortened(event.text, 80)}")
    elif event.kind == "ended":
        line.append(status_text(event.text))
        line.append("" if event.seconds is None else f" after {seconds_text(event.seconds)}")
    else:
        line.append(event.text, style="yellow" if event.kind == "lost" else "")
    _print(line)


def _print(line: Text) -> None:
    if output.is_terminal:
        output.print(line)
    else:
        # To a file, without the time that it takes to lay out a line: there may be hundreds a second.
        print(harmless(line.plain), file=output.file, flush=True)
