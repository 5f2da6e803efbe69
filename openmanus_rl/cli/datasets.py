"""`datasets`: upload a folder of datasets to the bucket."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from openmanus_rl.cli.console import SafeConsole, messages, output, print_error, print_json
from openmanus_rl.connections import get_client
from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.storage.buckets import format_size
from openmanus_rl.managers.storage.dataset_folder import (
    DatasetFile,
    DatasetFolder,
    DatasetOutcome,
    not_done,
    scan_datasets,
    upload_datasets,
)

__all__ = ["app", "main", "upload"]

app = typer.Typer(no_args_is_help=True, add_completion=False)

_COLOURS = {
    "uploaded": "green",
    "unchanged": "dim",
    "would upload": "cyan",
    "failed": "bold red",
    "not done": "yellow",
}
# A shell's exit code for a command that Ctrl-C ended.
_EXIT_INTERRUPTED = 130
# Wider than any path: without a terminal, each message must stay on one line.
_UNWRAPPED_WIDTH = 10_000


@app.callback()
def _datasets() -> None:
    """Upload datasets to the bucket `datasets`."""


@app.command()
def upload(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with one subfolder per environment.")] = Path(
        "data"
    ),
    environment: Annotated[
        list[str] | None, typer.Option("--environment", "-e", help="Only this environment; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be uploaded without uploading.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")] = False,
) -> None:
    """Upload DIR/<environment>/* to the bucket `datasets`, as <environment>/<file name>.

    Files that are already in the bucket with the same content are skipped. Hidden files, nested folders and files
    outside an environment's folder are skipped and listed. A file may have up to 50 MB.

    The target is the Supabase that SUPABASE_URL and SUPABASE_SERVICE_ROLE_KEY name (environment or .env.supabase), or
    else the embedded stack. The exit code is 1 if any file failed; the other files are still uploaded. Ctrl-C stops
    with exit code 130 and reports what was done.

    Example: data/alfworld/train.json becomes alfworld/train.json. A slash in an environment's name is written =2F, in
    the folder and in the bucket: ALE/Pong-v5 is ALE=2FPong-v5.
    """
    folder = scan_datasets(directory, environments=environment or ())
    outcomes: list[DatasetOutcome] = []
    interrupted = False
    try:
        if folder.files:
            _upload_all(folder, outcomes, dry_run=dry_run, quiet=as_json)
    except KeyboardInterrupt:
        interrupted = True
        outcomes += [not_done(file, "interrupted") for file in folder.files[len(outcomes) :]]
    if as_json:
        print_json(_report(folder, outcomes))
    else:
        _print_summary(folder, outcomes)
    if interrupted:
        messages.print("interrupted; run the command again to continue: files that are uploaded already are skipped")
        raise typer.Exit(_EXIT_INTERRUPTED)
    if any(outcome.status == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def main() -> None:
    """Run as a separate program; an error prints one message and exits with code 1."""
    program = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.command()(upload)
    try:
        program()
    except OpenManusError as error:
        if "--json" in sys.argv[1:]:
            print_json(error.as_dict())
        else:
            print_error(str(error))
        sys.exit(1)


class _Bar:
    """A progress bar over all bytes, with the name of the current file."""

    def __init__(self, progress: Progress, *, total_bytes: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=max(total_bytes, 1))
        self._done_bytes = 0

    def started(self, file: DatasetFile) -> None:
        """Show the current file."""
        self._progress.update(self._task, description=escape(f"{file.environment}/{file.file.name}"))

    def moved(self, sent_bytes: int, _total_bytes: int) -> None:
        """Show the progress of the current file; after a retry the bar may go back."""
        self._progress.update(self._task, completed=self._done_bytes + sent_bytes)

    def finished(self, file: DatasetFile) -> None:
        """Show that a file is finished, whatever its outcome."""
        self._done_bytes += file.size_bytes
        self._progress.update(self._task, completed=self._done_bytes)


def _upload_all(folder: DatasetFolder, outcomes: list[DatasetOutcome], *, dry_run: bool, quiet: bool) -> None:
    """Append the outcome of each file at once, so that an interrupted upload can be reported."""
    storage = get_client().storage
    with _bar(sum(file.size_bytes for file in folder.files)) as bar:
        done = upload_datasets(storage, folder.files, dry_run=dry_run, on_progress=bar.moved)
        for file in folder.files:
            bar.started(file)
            outcome = next(done)
            outcomes.append(outcome)
            bar.finished(file)
            if not quiet and not messages.is_terminal:
                messages.print(f"[{len(outcomes)}/{len(folder.files)}] {outcome.file}: {outcome.status}", markup=False)


@contextmanager
def _bar(total_bytes: int) -> Iterator[_Bar]:
    columns = (BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        yield _Bar(progress, total_bytes=total_bytes)


def _print_summary(folder: DatasetFolder, outcomes: list[DatasetOutcome]) -> None:
    for skipped in folder.skipped:
        messages.print(f"[dim]skipped {escape(str(skipped.file))}: {escape(skipped.reason)}[/]")
    if not outcomes:
        output.print(
            f"{escape(str(folder.directory))}: no datasets to upload; put files into one folder per environment"
        )
        return
    table = Table("file", "result", "size", "path or reason", box=None, pad_edge=False)
    for outcome in outcomes:
        table.add_row(
            escape(str(outcome.file)),
            f"[{_COLOURS[outcome.status]}]{outcome.status}[/]",
            format_size(outcome.size_bytes),
            escape(outcome.reason or outcome.path or "").removeprefix(f"{escape(str(outcome.file))}: "),
        )
    (output if output.is_terminal else SafeConsole(width=_UNWRAPPED_WIDTH)).print(table)
    output.print(", ".join(f"{count} {status}" for status, count in _counts(outcomes).items()))


def _counts(outcomes: list[DatasetOutcome]) -> dict[str, int]:
    return dict(Counter(outcome.status for outcome in outcomes))


def _report(folder: DatasetFolder, outcomes: list[DatasetOutcome]) -> dict[str, object]:
    return {
        "directory": str(folder.directory),
        "files": [outcome.as_dict() for outcome in outcomes],
        "skipped": [{"file": str(skipped.file), "reason": skipped.reason} for skipped in folder.skipped],
        "counts": _counts(outcomes),
    }
