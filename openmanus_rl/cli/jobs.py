"""`jobs`: launch training runs as jobs, and follow, stop and retry them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from openmanus_rl.cli.console import harmless, messages, output, print_error, print_facts, print_json
from openmanus_rl.cli.options import JsonOption, LimitOption, OffsetOption, check_choice
from openmanus_rl.cli.references import find_job, find_run
from openmanus_rl.cli.rendering import ago, duration, new_table, print_table, shortened, status_text
from openmanus_rl.managers.jobs import ACTIVE, JobManager, OrchestratorManager
from openmanus_rl.records.rows import Job

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Launch training runs as jobs, and follow, stop and retry them.")

_POLL_SECONDS = 1.0
_STATUSES = (*ACTIVE, "succeeded", "failed", "cancelled")
# An orchestrator that was not heard of for so long is not at work.
_SILENT_SECONDS = 120

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id, first characters of an id, or run_name.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id, or first characters of an id.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Option of the job, such as accelerator=A10:1; may be repeated."),
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Print the log as it comes, until the job ends.")]


@app.command()
def launch(
    run: RunArgument, options: SetOption = None, follow: FollowOption = False, as_json: JsonOption = False
) -> None:
    """Ask for a job that trains a run; `openmanus-rl orchestrator` launches it.

    Without options it is a process of the machine on which the orchestrator runs. With `infra`, `cloud` or
    `accelerator` it goes to SkyPilot. With --follow the command ends with the job; the exit code is 1 unless it
    succeeded.

    \b
    openmanus-rl jobs launch RUN --follow
    openmanus-rl jobs launch RUN --set accelerator=A10:1 --set use_spot=true
    openmanus-rl jobs launch RUN --set timeout_minutes=60 --set max_restarts=0
    """
    requested = JobManager.request_job(find_run(run)["id"], _parse(options or []))
    job = requested.job
    if as_json:
        print_json({"job": job, "yaml": requested.yaml})
    else:
        output.print(f"Job {job['id']} waits for an orchestrator ({job['backend']})")
        _warn_without_orchestrator(job["backend"])
    if follow:
        _follow(job["id"], as_json=as_json)


@app.command()
def preview(run: RunArgument, options: SetOption = None, as_json: JsonOption = False) -> None:
    """Print the SkyPilot task that `jobs launch` with these options stands for; nothing is launched.

    \b
    openmanus-rl jobs preview RUN --set accelerator=A10:1
    """
    shown = JobManager.preview_job(find_run(run)["id"], _parse(options or []))
    print_json(shown) if as_json else typer.echo(harmless(shown["yaml"]), nl=False)


@app.command("list")
def list_jobs(
    run: Annotated[str | None, typer.Option("--run", help="Only of this run.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only in this status, or `active`.")] = None,
    limit: LimitOption = 20,
    offset: OffsetOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List jobs, the newest first.

    \b
    openmanus-rl jobs list
    openmanus-rl jobs list --status active
    """
    check_choice("--status", status, ("active", *_STATUSES))
    rows = JobManager.list_jobs(
        training_run_id=find_run(run)["id"] if run else None,
        status=ACTIVE if status == "active" else status,
        limit=limit,
        offset=offset,
    ).rows
    if as_json:
        print_json(rows)
    elif rows:
        _print_jobs(rows)
    else:
        output.print("No jobs; ask for one with `openmanus-rl jobs launch RUN`")


@app.command()
def show(job: JobArgument, as_json: JsonOption = False) -> None:
    """Show one job: its status, where it runs, its attempts, time and cost.

    \b
    openmanus-rl jobs show JOB
    """
    row = find_job(job)
    if as_json:
        print_json(row)
        return
    facts = {
        "Job": row["id"],
        "Run": f"{row['training_run_id'] or 'deleted'} {row['name'] or ''}",
        "Status": row["status"] + (" (asked to stop)" if row["stop_requested_at"] and row["status"] in ACTIVE else ""),
        "Backend": f"{row['backend']} {row['external_id'] or ''}",
        "Attempt": f"{row['attempt']}, after {row['restarts']} of at most {row['max_restarts']} restarts",
        "Asked": ago(row["created_at"]),
        "Time": duration(row["started_at"], row["finished_at"]) if row["started_at"] else "–",
        "Cost": "unknown" if row["cost_usd"] is None else f"${float(row['cost_usd']):.2f}",
        "Options": json.dumps(row["config"]),
    }
    print_facts(facts | ({"Message": row["status_message"]} if row["status_message"] else {}))


@app.command()
def logs(
    job: JobArgument,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="By default the last.")] = None,
    follow: FollowOption = False,
) -> None:
    """Print what a job printed.

    \b
    openmanus-rl jobs logs JOB
    openmanus-rl jobs logs JOB --follow
    """
    job_id = find_job(job)["id"]
    if follow and attempt is None:
        _follow(job_id)
    else:
        _print_log(job_id, attempt=attempt, after=0, output_file=sys.stdout)


@app.command()
def stop(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids, or first characters of ids.")],
    as_json: JsonOption = False,
) -> None:
    """Stop jobs: one that waits is cancelled, one that trains ends after its current step, with a checkpoint.

    \b
    openmanus-rl jobs stop JOB
    """
    rows = JobManager.stop_jobs([find_job(job)["id"] for job in jobs])
    if as_json:
        print_json(rows)
        return
    for row in rows:
        output.print(f"{row['id']} {'is asked to stop' if row['status'] in ACTIVE else 'is ' + row['status']}")


@app.command()
def retry(job: JobArgument, follow: FollowOption = False, as_json: JsonOption = False) -> None:
    """Launch a failed or cancelled job again; its run goes on from its last checkpoint.

    \b
    openmanus-rl jobs retry JOB
    """
    row = JobManager.retry_job(find_job(job)["id"])
    if as_json:
        print_json(row)
    else:
        output.print(f"Job {row['id']} waits for an orchestrator, for attempt {row['attempt']}")
        _warn_without_orchestrator(row["backend"])
    if follow:
        _follow(row["id"], as_json=as_json)


def _parse(given: Sequence[str]) -> dict[str, Any]:
    """Return options from KEY=VALUE; a value is JSON where it can be read as such, and else a text."""
    config: dict[str, Any] = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--set")
        try:
            config[key.strip()] = json.loads(value)
        except ValueError:
            config[key.strip()] = value
    return config


def _warn_without_orchestrator(backend: str) -> None:
    for row in OrchestratorManager.list_orchestrators(state="active", limit=1000).rows:
        if backend in row["backends"] and time.time() - _seconds(row["heartbeat_at"]) < _SILENT_SECONDS:
            return
    messages.print(f"[yellow]No orchestrator for {escape(backend)} is at work; start one: openmanus-rl orchestrator[/]")


def _seconds(timestamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(timestamp).timestamp()


def _print_jobs(rows: Sequence[Job]) -> None:
    table = new_table(
        "id", "status", "run", "backend", "attempt", "time", "cost", "asked", "message", right=("attempt",)
    )
    for row in rows:
        table.add_row(
            row["id"],
            status_text("stopping" if row["stop_requested_at"] and row["status"] in ACTIVE else row["status"]),
            escape(shortened(row["name"] or row["training_run_id"], 30)),
            row["backend"],
            str(row["attempt"]),
            duration(row["started_at"], row["finished_at"]) if row["started_at"] else "–",
            "–" if row["cost_usd"] is None else f"${float(row['cost_usd']):.2f}",
            ago(row["created_at"]),
            escape(shortened(row["status_message"], 60)),
        )
    print_table(table)


def _follow(job_id: str, *, as_json: bool = False) -> None:
    """Print the log of a job as it comes; exit with 1 unless it succeeds. The log goes to stderr beside JSON."""
    file = sys.stderr if as_json else sys.stdout
    status, attempt, after = "", 0, 0
    while True:
        job = JobManager.get_job(job_id)
        if job["attempt"] != attempt:
            if attempt:
                after = _print_log(job_id, attempt=attempt, after=after, output_file=file)
            attempt, after = job["attempt"], 0
        if job["status"] != status:
            status = job["status"]
            message = f": {job['status_message']}" if job["status_message"] and status in ACTIVE else ""
            messages.print(f"[dim]attempt {attempt} is {status}{escape(message)}[/]")
        after = _print_log(job_id, attempt=attempt, after=after, output_file=file)
        if status not in ACTIVE:
            break
        time.sleep(_POLL_SECONDS)
    if status != "succeeded":
        print_error(f"job {job_id} {status}" + (f": {job['status_message']}" if job["status_message"] else ""))
        raise typer.Exit(1)


def _print_log(job_id: str, *, attempt: int | None, after: int, output_file: Any) -> int:
    """Print what there is of a log from a place on, and return where it ends now."""
    while True:
        part: Mapping[str, Any] = JobManager.read_logs(job_id, attempt=attempt, after=after)
        # A program's progress bars return to the beginning of their line.
        output_file.write(harmless(part["text"].replace("\r\n", "\n").replace("\r", "\n")))
        output_file.flush()
        after, attempt = part["next"], part["attempt"]
        if not part["text"] or after >= part["end"]:
            return after
