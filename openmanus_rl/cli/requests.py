"""`rollouts new|evaluate|cancel|retry|delete`: ask the queue for rollouts, and change what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from openmanus_rl.cli.console import messages, output, print_json
from openmanus_rl.cli.options import JsonOption, read_pair
from openmanus_rl.cli.references import find_rollout, find_run
from openmanus_rl.cli.rendering import new_table, print_table, shortened, status_text
from openmanus_rl.managers.queue import QueueManager, RequestOptions
from openmanus_rl.records.rows import Rollout

__all__ = ["cancel", "delete", "evaluate", "new", "retry"]

_LIMITS = ("max_steps", "max_seconds", "max_tokens", "max_cost_usd")
_SHOWN = 20

AttemptsOption = Annotated[int, typer.Option("--attempts", "-k", min=1, max=1000, help="Rollouts of each task.")]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help="noop, oracle, scripted, chat, browser, or module:attribute; by default the task's own, or chat.",
    ),
]
ModelOption = Annotated[str | None, typer.Option("--model", help="The model that acts.")]
PriorityOption = Annotated[int, typer.Option("--priority", min=-1000, max=1000, help="Higher goes first.")]
SeedOption = Annotated[
    int | None, typer.Option("--seed", help="Seed of the first attempt; the next attempts count up from it.")
]
LimitsOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=NUMBER", help=f"{', '.join(_LIMITS)}; may be repeated."),
]
AgentOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the agent, as JSON or text; may be repeated."),
]
RunOption = Annotated[
    str | None, typer.Option("--run", help="The training run they belong to: an id, its start, or a run_name.")
]
RolloutArguments = Annotated[
    list[str], typer.Argument(metavar="ROLLOUT...", help="Ids, or the first characters of ids.")
]


def new(
    task: Annotated[list[str], typer.Option("--task", "-t", help="A task's id; may be repeated.")],
    attempts: AttemptsOption = 1,
    agent: AgentOption = None,
    model: ModelOption = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="Where they run; by default the task's own.")
    ] = None,
    priority: PriorityOption = 0,
    seed: SeedOption = None,
    limit: LimitsOption = None,
    option: AgentOptionsOption = None,
    run: RunOption = None,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Accept equal rollouts that have ended instead of new ones.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put rollouts of tasks into the queue, and print them.

    Workers (`openmanus-rl worker`) take them from there. A task is named by the id it was imported with, or by the id
    of its row: `openmanus-rl tasks list` shows both. With --reuse, a rollout of the same version of the task with the
    same agent, model, seed, options, limits and environment answers instead of a new one.

    \b
    openmanus-rl rollouts new --task balls-1 --attempts 4 --agent chat --model gpt-5
    openmanus-rl rollouts new --task a --task b --limit max_steps=50 --limit max_cost_usd=0.5 --option temperature=0.7
    """
    options = _options(attempts, agent, model, environment, priority, seed, limit, option, run)
    asked = QueueManager.request_rollouts(task, reuse=reuse, **options)
    if as_json:
        print_json({"rollouts": asked.rollouts, "reused": asked.reused})
        return
    _print_rollouts(asked.rollouts)
    new_ones = len(asked.rollouts) - len(asked.reused)
    reused = f"; {len(asked.reused)} had ended before" if asked.reused else ""
    output.print(f"{_count(new_ones)} in the queue{reused}; `openmanus-rl queue` shows it, `openmanus-rl worker` works")


def evaluate(
    checkpoint: Annotated[str | None, typer.Option("--checkpoint", help="The checkpoint's id.")] = None,
    model: ModelOption = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="Evaluate all tasks of this environment.")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", "-t", help="Evaluate these tasks instead; may be repeated.")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Only the environment's tasks of this split.")] = None,
    attempts: AttemptsOption = 1,
    agent: AgentOption = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the evaluation.")] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="Record it as a baseline.")] = False,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="Training step that is evaluated; by default the checkpoint's.")
    ] = None,
    priority: PriorityOption = 0,
    seed: SeedOption = None,
    limit: LimitsOption = None,
    option: AgentOptionsOption = None,
    run: RunOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the queue to evaluate a checkpoint or a model: makes the evaluation and its rollouts.

    \b
    openmanus-rl rollouts evaluate --model gpt-5 --environment shop --split test --attempts 4
    openmanus-rl rollouts evaluate --checkpoint 0199f3c2-7d1e-7b02-8f6a-91d3c0e4b702 --environment shop --agent chat
    """
    if checkpoint is None and model is None and agent is None:
        raise typer.BadParameter("say what is evaluated: --checkpoint, --model or --agent", param_hint="--checkpoint")
    if environment is None and not task:
        raise typer.BadParameter("say on what: --environment, or --task", param_hint="--environment")
    options = _options(attempts, agent, model, environment, priority, seed, limit, option, run)
    asked = QueueManager.request_evaluation(
        checkpoint_id=checkpoint,
        task=task or None,
        split=split,
        name=name,
        kind="baseline" if baseline else None,
        step=step,
        **options,
    )
    if as_json:
        print_json({"evaluation": asked.evaluation, "rollouts": asked.rollouts})
        return
    _print_rollouts(asked.rollouts)
    output.print(f"Evaluation {asked.evaluation['id']}: {_count(len(asked.rollouts))} in the queue")


def cancel(rollouts: RolloutArguments, as_json: JsonOption = False) -> None:
    """Cancel rollouts: those that wait at once; those that run are stopped by their worker within seconds.

    \b
    openmanus-rl rollouts cancel 0199f3c2-7d1e 0199f3c2-8a01
    """
    _report(QueueManager.cancel_rollouts(_ids(rollouts)), as_json=as_json)


def retry(rollouts: RolloutArguments, as_json: JsonOption = False) -> None:
    """Put rollouts that ended with error, cancelled, timeout or truncated back into the queue.

    What they recorded is kept in rollouts of their own.

    \b
    openmanus-rl rollouts retry 0199f3c2-7d1e
    """
    _report(QueueManager.retry_rollouts(_ids(rollouts)), as_json=as_json)


def delete(
    rollouts: RolloutArguments,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete rollouts with all that they recorded; those that run are stopped first.

    \b
    openmanus-rl rollouts delete 0199f3c2-7d1e --yes
    """
    ids = _ids(rollouts)
    if not yes:
        typer.confirm(f"Delete {_count(len(ids))} with all turns?", abort=True, err=True)
    deletion = QueueManager.delete_rollouts(ids)
    if as_json:
        print_json({"deleted": deletion.deleted, "stopping": deletion.stopping})
        return
    for rollout in deletion.deleted:
        output.print(f"{rollout} deleted")
    for rollout in deletion.stopping:
        output.print(f"{rollout} is being stopped by its worker, and deleted then")


def _options(
    attempts: int,
    agent: str | None,
    model: str | None,
    environment: str | None,
    priority: int,
    seed: int | None,
    limit: list[str] | None,
    option: list[str] | None,
    run: str | None,
) -> RequestOptions:
    return {
        "attempts": attempts,
        "agent": agent,
        "model": model,
        "environment": environment,
        "priority": priority,
        "seed": seed,
        "limits": _limits(limit or []) or None,
        "agent_options": dict(read_pair("--option", text) for text in option or []) or None,
        "training_run_id": None if run is None else find_run(run)["id"],
    }


def _limits(given: Sequence[str]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for text in given:
        name, value = read_pair("--limit", text)
        if name not in _LIMITS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(_LIMITS)}", param_hint="--limit")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise typer.BadParameter(f"{text!r}: a number is expected after the =", param_hint="--limit")
        limits[name] = value
    return limits


def _ids(references: Sequence[str]) -> list[str]:
    return [find_rollout(reference)["id"] for reference in references]


def _report(rollouts: Sequence[Rollout], *, as_json: bool) -> None:
    if as_json:
        print_json({"rollouts": rollouts})
        return
    _print_rollouts(rollouts)
    if any(rollout["cancel_requested_at"] for rollout in rollouts):
        messages.print("Those that run are being stopped by their workers")


def _print_rollouts(rollouts: Sequence[Rollout]) -> None:
    table = new_table("id", "status", "agent", "model", "environment", "task")
    for row in rollouts[:_SHOWN]:
        table.add_row(
            row["id"],
            status_text(row["status"]),
            escape(row["agent"] or "–"),
            escape(row["model"] or "–"),
            escape(row["environment"]),
            escape(shortened(row["task_description"], 50)),
        )
    print_table(table)
    if len(rollouts) > _SHOWN:
        output.print(f"[dim]… and {len(rollouts) - _SHOWN} more; --json prints all[/]")


def _count(number: int) -> str:
    return "1 rollout" if number == 1 else f"{number} rollouts"
