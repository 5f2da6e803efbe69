"""`archive`: move turns and metric points of old runs to Parquet files in storage, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from openmanus_rl.archiving import Archived, Archiver, Candidate
from openmanus_rl.archiving.archiver import Progress as OnProgress
from openmanus_rl.archiving.archiver import time_before
from openmanus_rl.cli.console import messages, output, print_error, print_json
from openmanus_rl.cli.options import JsonOption, LimitOption, OffsetOption
from openmanus_rl.cli.references import find_run
from openmanus_rl.cli.rendering import ago, new_table, print_table
from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.storage.buckets import format_size

__all__ = ["app"]

app = typer.Typer(no_args_is_help=False)

T = TypeVar("T")

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN…", help="Runs: ids, the starts of ids, or run_names.", show_default=False)
]


@app.callback(invoke_without_command=True)
def archive(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Only runs that finished longer ago: 90d, 12w or 36h.")
    ] = "90d",
    run: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run, whatever its age: an id, the start of an id, or a run_name."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be archived, and change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Move turns and metric points of finished runs to Parquet files in storage.

    Runs stay listed with their figures, rollouts, checkpoints and evaluations. The rows are removed from the database
    only after the files were read back and compared with them. A run that is archived takes no more turns and metric
    points until it is restored.

    \b
    openmanus-rl archive --older-than 90d --dry-run
    openmanus-rl archive --run my-run
    openmanus-rl archive list
    openmanus-rl archive restore my-run
    """
    if context.invoked_subcommand is not None:
        return
    age = _age(older_than)
    with Archiver() as archiver:
        runs = _named(run) if run else archiver.find_runs(older_than=age)
        before = None if run else time_before(age)
        if dry_run:

            def measure(one: Candidate, _told: OnProgress | None) -> tuple[Candidate, dict[str, int], int]:
                archiver.check(one.id, finished_before=before)
                return (one, *archiver.measure(one.id))

            plan, failed = _each(runs, measure)
            _show_plan(plan, failed, as_json=as_json)
        else:
            done, failed = _each(
                runs, lambda one, told: archiver.archive(one.id, finished_before=before, on_progress=told)
            )
            archiver.unload()
            _show_done(done, failed, "archived", as_json=as_json)
    if failed:
        raise typer.Exit(1)


@app.command("list")
def list_archives(limit: LimitOption = 50, offset: OffsetOption = 0, as_json: JsonOption = False) -> None:
    """List archived runs, with the size of their archives."""
    rows = ArchiveManager.list_archives(limit=limit, offset=offset).rows
    if as_json:
        print_json(rows)
        return
    if not rows:
        output.print(
            "No run is archived; `openmanus-rl archive --older-than 90d` archives those that finished long ago"
        )
        return
    table = new_table(
        "run", "name", "archived", "turns", "files", "archive", "was", right=("turns", "files", "archive", "was")
    )
    for row in rows:
        run = TrainingRunManager.get_run(row["training_run_id"])
        sizes = format_size(row["archive_bytes"]), format_size(row["database_bytes"])
        # One that is being written has no counts yet.
        turns = f"{row['row_counts'].get('agent_states', 0):,}"
        table.add_row(run["id"], escape(run["name"]), ago(row["created_at"]), turns, str(len(row["files"])), *sizes)
    print_table(table)


@app.command()
def restore(runs: RunsArgument, as_json: JsonOption = False) -> None:
    """Put the turns and metric points of archived runs back into the database, exactly as they were.

    The files are removed afterwards. A run whose archiving was interrupted is made writable again.

    \b
    openmanus-rl archive restore my-run
    """
    with Archiver() as archiver:
        done, failed = _each(_named(runs), lambda one, told: archiver.restore(one.id, on_progress=told))
    _show_done(done, failed, "restored", as_json=as_json)
    if failed:
        raise typer.Exit(1)


@app.command()
def verify(runs: RunsArgument, as_json: JsonOption = False) -> None:
    """Check that the files of archived runs are complete and hold what was archived.

    Every file is downloaded, compared with its checksum, and read by Postgres as a restore would.

    \b
    openmanus-rl archive verify my-run
    """
    with Archiver() as archiver:
        checked, failed = _each(_named(runs), lambda one, told: (one, archiver.verify(one.id, on_progress=told)))
    if as_json:
        found = [
            {"run_id": one.id, "name": one.name, "files": len(files), "rows": sum(file.rows for file in files)}
            for one, files in checked
        ]
        print_json({"verified": found, "failed": failed})
    else:
        for one, files in checked:
            rows = sum(file.rows for file in files)
            output.print(f"{escape(one.name)}: {len(files)} files with {rows:,} rows are as they were archived")
    if failed:
        raise typer.Exit(1)


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([hdw])", text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r}: a number of days, weeks or hours is expected, such as 90d", param_hint="--older-than"
        )
    return int(found[1]) * _UNITS[found[2]]


def _named(references: list[str]) -> list[Candidate]:
    rows = {row["id"]: row for row in map(find_run, references)}
    return [
        Candidate(str(row["id"]), row["name"], row["finished_at"], row["archive_status"] == "writing")
        for row in rows.values()
    ]


def _each(
    runs: list[Candidate], work: Callable[[Candidate, OnProgress | None], T]
) -> tuple[list[T], list[dict[str, Any]]]:
    """Do it for each run, and return what was done and which failed: one must not stop the others."""
    done: list[T] = []
    failed: list[dict[str, Any]] = []
    for one in runs:
        try:
            with _bar(one.name) as told:
                done.append(work(one, told))
        except OpenManusError as error:
            failed.append({"run_id": one.id, "name": one.name, **error.as_dict()})
            print_error(f"{one.name}: {error}")
    return done, failed


def _show_plan(
    plan: list[tuple[Candidate, dict[str, int], int]], failed: list[dict[str, Any]], *, as_json: bool
) -> None:
    if as_json:
        found = [
            {"run_id": one.id, "name": one.name, "row_counts": counts, "database_bytes": size}
            for one, counts, size in plan
        ]
        print_json({"would_archive": found, "failed": failed})
        return
    if not plan:
        if not failed:
            output.print("There is nothing to archive")
        return
    table = new_table(
        "run", "name", "finished", "turns", "rows", "in the database", right=("turns", "rows", "in the database")
    )
    for one, counts, size in plan:
        finished = ago(one.finished_at) if one.finished_at else "–"
        rows = f"{sum(counts.values()):,}"
        table.add_row(one.id, escape(one.name), finished, f"{counts['agent_states']:,}", rows, format_size(size))
    print_table(table)
    total = format_size(sum(size for _, _, size in plan))
    output.print(f"{len(plan)} runs, {total} in the database; nothing was changed")


def _show_done(done: list[Archived], failed: list[dict[str, Any]], verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json({verb: [one.as_dict() for one in done], "failed": failed})
        return
    if done:
        table = new_table(
            "run",
            "name",
            "turns",
            "rows",
            "archive",
            "in the database",
            right=("turns", "rows", "archive", "in the database"),
        )
        for one in done:
            sizes = format_size(one.archive_bytes), format_size(one.database_bytes)
            turns, rows = one.row_counts.get("agent_states", 0), sum(one.row_counts.values())
            table.add_row(one.run_id, escape(one.name), f"{turns:,}", f"{rows:,}", *sizes)
        print_table(table)
    elif not failed:
        output.print("There is nothing to archive")
    moved = sum(one.database_bytes for one in done)
    if done and verb == "archived":
        kept = format_size(sum(one.archive_bytes for one in done))
        output.print(
            f"{len(done)} runs archived: {format_size(moved)} in the database became {kept} in storage; "
            "Postgres reuses the space after its next vacuum"
        )
    elif done:
        output.print(f"{len(done)} runs restored")
    for back in done:
        if back.left_out:
            output.print(f"{escape(back.name)}: {back.left_out:,} rows of rollouts deleted since were left out")
    if failed:
        output.print(f"{len(failed)} runs were not {verb}, for the reasons above")


@contextmanager
def _bar(name: str) -> Iterator[OnProgress | None]:
    """Show a progress bar on a terminal."""
    if not messages.is_terminal:
        yield None
        return
    columns = (TextColumn(escape(name)), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda phase, done, total: progress.update(task, description=phase, completed=done, total=total)
