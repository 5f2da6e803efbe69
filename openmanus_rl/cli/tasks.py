"""`tasks`: import task sets, and show tasks with their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from openmanus_rl.cli.console import messages, output, phases, print_facts, print_json
from openmanus_rl.cli.options import EnvironmentOption, JsonOption, LimitOption
from openmanus_rl.cli.rendering import ago, figure, headline, new_table, percent, print_table, shortened
from openmanus_rl.managers.tasks import TaskManager, ValidatorManager

app = typer.Typer(no_args_is_help=True, help="Import tasks for agents, and show how their rollouts went.")

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="The id it was imported with, or the id of its row.")]
WhereOption = Annotated[
    str | None, typer.Option("--environment", help="Which one, if several environments have a task with this id.")
]


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file or folder of tasks.")],
    environment: Annotated[
        str | None, typer.Option("--environment", help="Where the tasks run that name no environment themselves.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Import tasks.json, JSON lines, Parquet, a Harbor task folder or a folder of them, or a saved dataset.

    A task is at least {"id": …, "task": …, "answer": …}. Tasks that were imported before are updated. Every entry that
    cannot be used is shown with the reason, the others are imported, and the exit code is then 1.

    \b
    openmanus-rl tasks import tasks.json --environment shop
    openmanus-rl tasks import harbor-tasks/
    """
    # Imported here: reading needs packages that the other commands do not.
    from openmanus_rl.tasks.importing import import_task_set

    with phases(f"Reading {path}") as display:
        report = import_task_set(
            path,
            environment=environment,
            on_progress=lambda done: display.phase(f"{len(done.tasks)} tasks imported, {len(done.problems)} refused"),
        )
    problems = [{"where": one.where, "field": one.field, "message": one.message} for one in report.problems]
    if as_json:
        done = {"tasks": report.tasks, "environments": report.environments, "files": report.files}
        print_json({**done, "count": len(report.tasks), "problems": problems})
    else:
        for problem in report.problems:
            messages.print(
                f"[red]{escape(problem.where)}[/]: {escape(problem.message.removeprefix(f'{problem.where}: '))}"
            )
        refused = f", {len(problems)} refused" if problems else ""
        output.print(f"{_tasks(len(report.tasks))} imported{refused}")
        if report.tasks:
            output.print(f"[dim]ask for a rollout: openmanus-rl rollouts new --task {report.tasks[0]}[/]")
    if problems:
        raise typer.Exit(1)


@app.command("list")
def list_tasks(
    environment: EnvironmentOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Only this split.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", help="Only tasks with this text in their id, name or description.")
    ] = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first, with how their newest rollouts went.

    \b
    openmanus-rl tasks list --environment shop --search order
    """
    tasks = TaskManager.list_with_results(environment=environment, split=split, search=search, limit=limit)
    if as_json:
        print_json({"tasks": tasks})
        return
    if not tasks:
        output.print("No tasks match; import some with `openmanus-rl tasks import PATH`")
        return
    table = new_table("id", "task id", "environment", "rollouts", "solved", "task", right=("rollouts", "solved"))
    for task in tasks:
        table.add_row(
            task["id"],
            escape(shortened(task["external_id"] or "–", 40)),
            escape(task["environment"] or "–"),
            str(task["rollouts"]),
            percent(task["success_rate"]),
            escape(shortened(task["description"], 60)),
        )
    print_table(table)


@app.command()
def show(task: TaskArgument, environment: WhereOption = None, as_json: JsonOption = False) -> None:
    """Show a task, its validators, and its results by agent and model.

    \b
    openmanus-rl tasks show balls-1
    """
    row = TaskManager.find_task(task, environment=environment)
    validators = ValidatorManager.list_validators(task=row["id"]).rows
    results = TaskManager.task_results(row["id"])
    if as_json:
        print_json({"task": row, "validators": validators, "results": results})
        return
    output.print(f"[bold]Task {row['id']}[/]")
    facts: dict[str, Any] = {
        "Task id": row["external_id"],
        "Name": row["name"],
        "Environment": row["environment"],
        "Split": row["split"],
        "Version": row["version"],
        "Task": row["description"],
        "Expected answer": row["expected_answer"],
        "Files": row["files_path"],
    }
    print_facts({name: str(value) for name, value in facts.items() if value is not None})
    if validators:
        headline("Validators")
        for validator in validators:
            spec = json.dumps(validator["spec"], ensure_ascii=False)
            output.print(f"  {escape(validator['external_id'])}  {escape(validator['kind'])}  [dim]{escape(spec)}[/]")
    if results:
        headline("Results")
        table = new_table(
            "agent", "model", "rollouts", "solved", "reward", "last", right=("rollouts", "solved", "reward")
        )
        for result in results:
            table.add_row(
                escape(result["agent"] or "–"),
                escape(result["model"] or "–"),
                str(result["rollouts"]),
                percent(result["success_rate"]),
                figure(result["mean_reward"]),
                ago(result["last_at"]),
            )
        print_table(table)


@app.command()
def delete(
    task: TaskArgument,
    environment: WhereOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a task with its validators; its rollouts stay.

    \b
    openmanus-rl tasks delete balls-1 --yes
    """
    row = TaskManager.find_task(task, environment=environment)
    if not yes:
        typer.confirm(f"Delete task {row['external_id'] or row['id']}?", abort=True, err=True)
    TaskManager.delete_task(row["id"])
    output.print(f"Task {row['id']} deleted")


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"
