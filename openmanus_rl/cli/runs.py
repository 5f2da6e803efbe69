"""`runs`: list, show, compare, stop and delete training runs."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, get_args

import typer
from rich.markup import escape

from openmanus_rl.cli.console import output, phases, print_json
from openmanus_rl.cli.options import EnvironmentOption, JsonOption, LimitOption, OffsetOption, check_choice, order_from
from openmanus_rl.cli.references import find_run
from openmanus_rl.cli.rendering import ago, duration, figure, new_table, percent, print_table, shortened, status_text
from openmanus_rl.cli.run_report import gather, print_report
from openmanus_rl.managers.checkpoints import ModelCheckpointManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.managers.storage.buckets import ARCHIVES, EVALUATION_RESULTS, LOGS, MEDIA, MODEL_CHECKPOINTS
from openmanus_rl.records.rows import RunOverview
from openmanus_rl.records.statuses import RunStatus

app = typer.Typer(no_args_is_help=True, help="List, show, compare, stop and delete training runs.")

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="An id, the first characters of an id, or a run_name.")]

# A run with status `running` whose heartbeat stopped is shown as stalled.
_STATUSES = (*get_args(RunStatus), "stalled")
_SORTS = {
    "created": "created_at",
    "updated": "updated_at",
    "name": "name",
    "status": "shown_status",
    "progress": "progress",
    "step": "current_step",
}


@app.command("list")
def list_runs(
    status: Annotated[
        str | None, typer.Option("--status", help=f"Only runs with this status: {', '.join(_STATUSES)}.")
    ] = None,
    environment: EnvironmentOption = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="Only this algorithm.")] = None,
    search: Annotated[str | None, typer.Option("--search", help="Only runs whose name contains this text.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only runs with this tag.")] = None,
    sort: Annotated[
        str, typer.Option("--sort", help=f"Sort by {', '.join(_SORTS)}; prefix with - for descending order.")
    ] = "-created",
    limit: LimitOption = 20,
    offset: OffsetOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List training runs, newest first.

    \b
    openmanus-rl runs list --status running
    openmanus-rl runs list --environment alfworld --algorithm gigpo --sort=-progress --limit 5
    openmanus-rl runs list --json | jq -r '.runs[].id'
    """
    check_choice("--status", status, _STATUSES)
    page = TrainingRunManager.list_runs(
        shown_status=status,
        environment=environment,
        algorithm=algorithm,
        name_contains=search,
        tag=tag,
        order_by=order_from(sort, _SORTS),
        limit=limit,
        offset=offset,
        count=True,
    )
    if as_json:
        print_json({"total": page.total, "runs": page.rows})
        return
    if not page.rows:
        filtered = any(value is not None for value in (status, environment, algorithm, search, tag)) or offset
        output.print("No runs match" if filtered else "No runs yet; `openmanus-rl demo` records one")
        return
    table = new_table(
        "id",
        "name",
        "status",
        "progress",
        "step",
        "algorithm",
        "environment",
        "started",
        "took",
        right=("progress", "step"),
    )
    for row in page.rows:
        started = row["started_at"] or row["created_at"]
        table.add_row(
            row["id"],
            escape(shortened(row["run_name"] or row["name"], 40)),
            status_text(row["shown_status"]),
            percent(row["progress"]),
            "–" if row["current_step"] is None else str(row["current_step"]),
            escape(row["algorithm"] or "–"),
            escape(row["environment"] or "–"),
            ago(started),
            duration(started, row["finished_at"]),
        )
    print_table(table)
    output.print(f"[dim]{len(page.rows)} of {page.total}; show one with `openmanus-rl runs show RUN`[/]")


@app.command()
def show(run: RunArgument, as_json: JsonOption = False) -> None:
    """Show a run: counts, metrics, evaluations compared to the baseline, checkpoints and status history.

    \b
    openmanus-rl runs show 0199f3c2
    openmanus-rl runs show my-run-name --json
    """
    report = gather(find_run(run))
    if as_json:
        print_json(report)
    else:
        print_report(report)


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs: ids, starts of ids, or run_names.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Compare runs side by side: their results, and where their configurations differ.

    \b
    openmanus-rl runs compare baseline-1 0199f3c2
    """
    if len(runs) < 2:
        raise typer.BadParameter("at least two runs are required", param_hint="RUN")
    found = [find_run(reference) for reference in runs]
    figures = [_figures(run) for run in found]
    if as_json:
        print_json([{"run_id": run["id"], "name": run["name"], **row} for run, row in zip(found, figures, strict=True)])
        return
    table = new_table("", *(escape(shortened(run["run_name"] or run["name"], 30)) for run in found))
    table.add_row("id", *(run["id"] for run in found))
    table.add_row("status", *(status_text(run["shown_status"]) for run in found))
    for label in ("rollouts", "success_rate", "average_reward", "average_steps", "last_evaluation", "baseline"):
        as_text = percent if label in ("success_rate", "last_evaluation", "baseline") else figure
        cells = [str(row[label]) if label == "rollouts" else as_text(row[label]) for row in figures]
        table.add_row(label.replace("_", " "), *cells)
    for key in sorted({key for run in found for key in run["config"]}):
        values = [json.dumps(run["config"][key]) if key in run["config"] else "–" for run in found]
        if len(set(values)) > 1:
            table.add_row(f"config {escape(key)}", *(escape(shortened(value, 40)) for value in values))
    print_table(table)


@app.command()
def stop(run: RunArgument, as_json: JsonOption = False) -> None:
    """Ask a run to stop: it ends after the current step, with a checkpoint, and can be resumed.

    \b
    openmanus-rl runs stop my-run-name
    """
    row = TrainingRunManager.stop_run(find_run(run)["id"])
    if as_json:
        print_json(row)
    else:
        output.print(f"Asked {escape(row['name'])} to stop; `openmanus-rl runs show {row['id']}` shows when it has")


@app.command()
def delete(
    run: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a run with everything that was recorded for it, including its files.

    \b
    openmanus-rl runs delete my-run-name
    """
    row = find_run(run)
    total = TrainingRunManager.get_metrics(row["id"], rollout_limit=0)["total_rollouts"]
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise typer.BadParameter(
                "there is no terminal to ask for confirmation; pass --yes to delete", param_hint="--yes"
            )
        typer.confirm(f"Delete {row['name']!r} ({row['id']}) with {total} rollouts and its files?", abort=True)
    with phases("Deleting"):
        folders = _folders(row)
        TrainingRunManager.delete_run(row["id"])
        file_count = sum(_delete_folder(bucket, folder) for bucket, folder in folders)
    if as_json:
        print_json({"deleted": row["id"], "rollouts": total, "files": file_count})
    else:
        output.print(f"Deleted {escape(row['name'])}: {total} rollouts, {file_count} files")


def _figures(run: RunOverview) -> dict[str, Any]:
    report = gather(run)
    rates = {"eval": None, "baseline": None}
    for evaluation in report["evaluations"]:
        if evaluation["success_rate"] is not None:
            rates[evaluation["kind"]] = evaluation["success_rate"]
    counts = report["counts"]
    return {
        "rollouts": counts["total_rollouts"],
        "success_rate": counts["success_rate"],
        "average_reward": counts["average_reward"],
        "average_steps": counts["average_steps"],
        "last_evaluation": rates["eval"],
        "baseline": rates["baseline"],
        "config": run["config"],
    }


def _folders(run: RunOverview) -> list[tuple[str, str]]:
    """Return the storage paths of a run; call it before deleting the rows, because some contain checkpoint ids."""
    folders = [(bucket, run["id"]) for bucket in (MODEL_CHECKPOINTS, LOGS, MEDIA, ARCHIVES)]
    offset: int | None = 0
    while offset is not None:
        page = ModelCheckpointManager.list_checkpoints(training_run_id=run["id"], offset=offset)
        folders += [(EVALUATION_RESULTS, row["id"]) for row in page.rows]
        offset = page.next_offset
    return folders


def _delete_folder(bucket: str, folder: str) -> int:
    paths = [file["path"] for file in StorageManager.walk_files(bucket, folder)]
    return len(StorageManager.delete_files(bucket, paths)) if paths else 0
