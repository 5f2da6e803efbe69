"""`openmanus-rl import`: import rollouts from the files of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from openmanus_rl.cli.console import messages, output, print_json
from openmanus_rl.cli.options import JsonOption, check_choice
from openmanus_rl.delivery.batches import Load
from openmanus_rl.errors import OpenManusError, TransientError
from openmanus_rl.importing import FORMATS, FileReport, Import
from openmanus_rl.importing.importer import check_files
from openmanus_rl.importing.lines import is_stream
from openmanus_rl.importing.target import Target
from openmanus_rl.importing.writing import opened_database

_FORMATS = ("auto", *FORMATS)
_EXIT_INTERRUPTED = 130
_SHOWN_REFUSALS = 20
_FORMAT_NAMES = {"openmanus-rl": "steps of OpenManus-RL's rollout script", "chat": "conversations"}


def import_(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="A .jsonl, .jsonl.gz or .json file; - reads stdin.")
    ],
    format_name: Annotated[
        str,
        typer.Option("--format", help=f"One of {', '.join(_FORMATS)}; auto detects the format from the first line."),
    ] = "auto",
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            help="Run to import into: a run_name or id. A new name creates a run. Default: named after the file.",
        ),
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="Environment of the rollouts; overrides what the lines say.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Import rollouts that were recorded elsewhere.

    Two formats are supported, both with one JSON object per line: the steps that OpenManus-RL's rollout script writes,
    and conversations, as messages (role, content), conversations (from, value), or prompt and completion, with reward,
    success and other fields.

    Importing the same lines again creates no duplicates, and an interrupted import can be continued by running it
    again. Lines that cannot be imported are listed with the reason, and the exit code is then 1; all other lines are
    imported.

    \b
    openmanus-rl import rollouts.jsonl --run alfworld-baseline --environment alfworld
    openmanus-rl import chats.jsonl.gz
    zcat part-*.jsonl.gz | openmanus-rl import - --run all-parts
    """
    check_choice("--format", format_name, _FORMATS)
    wanted = None if format_name == "auto" else format_name
    reference = run or _run_name(files)
    check_files(files, format_name=wanted)
    with opened_database() as load, _display(files) as display:
        target = Target.open(reference, environment=environment)
        importing = Import(load, run_id=target.id, format_name=wanted, environment=environment, listener=display)
        report = _import(importing, files, target, load)
    if as_json:
        print_json(report)
    else:
        _show(report)
    if report["interrupted"]:
        raise typer.Exit(_EXIT_INTERRUPTED)
    if report["refused"]:
        raise typer.Exit(1)


def _run_name(files: list[str]) -> str:
    if len(files) > 1 or files[0] == "-":
        what = "several files" if len(files) > 1 else "standard input"
        raise typer.BadParameter(f"{what}: name the run to import into, for example --run my-run", param_hint="--run")
    name = Path(files[0]).name
    for ending in (".gz", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    return f"import-{name}"


def _import(importing: Import, files: list[str], target: Target, load: Load) -> dict[str, Any]:
    new = None
    try:
        for path in files:
            importing.add_file(path)
        if target.environment is None and len(importing.environments) == 1:
            load({"training_runs": [{"id": target.id, "environment": next(iter(importing.environments))}]})
        new = target.finish()
    except KeyboardInterrupt:
        target.interrupt()
    except TransientError:
        messages.print("[dim]What was read so far is stored; run the same command again to continue.[/]")
        raise
    except OpenManusError:
        target.interrupt()
        raise
    reports = importing.reports
    return {
        "run_id": target.id,
        "run_name": target.name,
        "rollouts": sum(report.rollouts for report in reports),
        "new_rollouts": new,
        "turns": sum(report.turns for report in reports),
        "lines": sum(report.lines for report in reports),
        "refused": sum(report.refused for report in reports),
        "interrupted": new is None,
        "files": [asdict(report) for report in reports],
    }


class _Display:
    """Shows the progress of the import, and the detected format of each file."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._done: dict[str, int] = {}

    def recognised(self, report: FileReport) -> None:
        """Print the format of a file."""
        name = "standard input" if report.path == "-" else report.path
        messages.print(f"[dim]{escape(name)}: {_FORMAT_NAMES[str(report.format)]}[/]")

    def moved(self, path: str, read_bytes: int) -> None:
        """Move the bar; of a pipe the size is not known."""
        self._done[path] = read_bytes
        self._progress.update(self._task, completed=sum(self._done.values()))


@contextmanager
def _display(files: list[str]) -> Iterator[_Display]:
    total = None if any(map(is_stream, files)) else sum(Path(path).stat().st_size for path in files)
    columns = (TextColumn("Importing"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        yield _Display(progress, progress.add_task("", total=total))


def _show(report: dict[str, Any]) -> None:
    several = len(report["files"]) > 1
    refusals = [(file["path"], refusal) for file in report["files"] for refusal in file["refusals"]]
    for path, refusal in refusals[:_SHOWN_REFUSALS]:
        place = f"{path}, line {refusal['line']}" if several else f"line {refusal['line']}"
        messages.print(f"[red]{escape(place)}[/]: {escape(refusal['reason'])}")
    if report["refused"] > _SHOWN_REFUSALS:
        messages.print(f"[dim]and {report['refused'] - _SHOWN_REFUSALS:,} more lines[/]")
    new = "" if report["new_rollouts"] is None else f" ({report['new_rollouts']:,} of them new)"
    output.print(
        f"Imported {report['rollouts']:,} rollouts{new} with {report['turns']:,} turns into run "
        f"{escape(report['run_name'])}; {report['refused']:,} of {report['lines']:,} lines refused"
    )
    if report["interrupted"]:
        messages.print("interrupted; run the same command again to continue, without duplicates")
