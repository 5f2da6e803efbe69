"""`openmanus-rl export`: write records to files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from openmanus_rl.cli.console import messages, output, print_json
from openmanus_rl.cli.options import EnvironmentOption, JsonOption, RewoundOption, check_choice
from openmanus_rl.cli.references import find_run
from openmanus_rl.export import KINDS, Selection, export_to_file, export_to_stream
from openmanus_rl.export.reading import Progress as OnProgress

# What the progress bar counts: turns and chats are read by rollout, metrics by run.
_COUNTED = {"runs": "runs", "metrics": "runs"}


def export(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="A .parquet or .jsonl file, or - for JSONL on stdout.")],
    run: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run: an id, the start of an id, or a run_name; may be repeated."),
    ] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only rollouts (or runs) with this status.")] = None,
    success: Annotated[bool, typer.Option("--success", help="Only rollouts that succeeded.")] = False,
    min_reward: Annotated[
        float | None, typer.Option("--min-reward", help="Only rollouts with at least this total reward.")
    ] = None,
    max_reward: Annotated[
        float | None, typer.Option("--max-reward", help="Only rollouts with at most this total reward.")
    ] = None,
    environment: EnvironmentOption = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of rows to export.")] = None,
    include_rewound: RewoundOption = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Export runs, rollouts, turns, metrics, or rollouts as chats for training, to a file.

    JSON columns are exported as JSON text. Turns include their tool calls, tokens and rewards, and of a chat only the
    messages that are new in the turn. A chat is a rollout's messages with its reward. Rows are streamed, so memory use
    does not grow with the export; the file appears only when it is complete.

    \b
    openmanus-rl export rollouts rollouts.parquet --run my-run
    openmanus-rl export chats train.jsonl --success --min-reward 0.5
    openmanus-rl export metrics - --run my-run | head
    """
    check_choice("KIND", kind, list(KINDS))
    to_stdout = out == "-"
    if to_stdout and as_json:
        raise typer.BadParameter("cannot be combined with OUT -, because the rows go to stdout", param_hint="--json")
    selection = Selection(
        run_ids=list(dict.fromkeys(str(find_run(reference)["id"]) for reference in run or ())),
        status=status,
        success=success,
        min_reward=min_reward,
        max_reward=max_reward,
        environment=environment,
        limit=limit,
        include_rewound=include_rewound,
    )
    with _bar(_COUNTED.get(kind, "rollouts")) as moved:
        if to_stdout:
            export_to_stream(kind, sys.stdout.buffer, selection=selection, on_progress=moved)
            return
        rows = export_to_file(kind, out, selection=selection, overwrite=force, on_progress=moved)
    size_bytes = Path(out).stat().st_size
    if as_json:
        print_json({"kind": kind, "path": out, "rows": rows, "size_bytes": size_bytes})
    else:
        output.print(f"Wrote {rows:,} {kind} to {escape(out)} ({size_bytes:,} bytes)")


@contextmanager
def _bar(counted: str) -> Iterator[OnProgress | None]:
    """Show a progress bar on a terminal; elsewhere, skip counting the rows."""
    if not messages.is_terminal:
        yield None
        return
    columns = (TextColumn("Exporting"), BarColumn(), MofNCompleteColumn(), TextColumn(counted), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
