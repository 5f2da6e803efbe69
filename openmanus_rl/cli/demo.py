"""`demo`: train a small agent, record the run and show the result."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from openmanus_rl.cli.charts import plot
from openmanus_rl.cli.console import messages, output, phases, print_facts, print_json
from openmanus_rl.cli.rendering import status_text
from openmanus_rl.cli.stack import dashboard_fact, dashboard_page
from openmanus_rl.connections import get_client
from openmanus_rl.demo.train import DEFAULT_STEPS, DemoResult, train
from openmanus_rl.settings import load_settings

_CURVE_COLUMNS = 60


def demo(
    steps: Annotated[
        int, typer.Option("--steps", min=1, max=1000, help="Number of training steps; each has 24 rollouts.")
    ] = DEFAULT_STEPS,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**31 - 1, help="Random seed; the same seed trains the same agent.")
    ] = 0,
    name: Annotated[str, typer.Option("--name", help="Name of the run.")] = "demo: fetch things in a house",
    rollouts: Annotated[
        bool,
        typer.Option(
            "--rollouts", help="Instead, let an agent do three tasks in the browser, with video and verification."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")] = False,
) -> None:
    """Train a small agent and record the training run, in under a minute.

    The agent learns to find and fetch things in text-based houses, with a group-relative policy gradient (GRPO). Every
    rollout, turn, tool call, reward, evaluation and checkpoint is recorded. If the settings name no Supabase, the
    embedded stack is used, and started if it is not running.

    \b
    openmanus-rl demo
    openmanus-rl demo --seed 7 --steps 40 --name "another house"
    openmanus-rl demo --rollouts
    """
    name = name.strip()
    if not 1 <= len(name) <= 500:
        raise typer.BadParameter("must have 1 to 500 characters", param_hint="--name")
    with phases("Connecting"):
        get_client()
    if rollouts:
        _play_rollouts(as_json=as_json)
        return
    result = _train_with_progress(steps=steps, seed=seed, name=name)
    dashboard_url = dashboard_page(f"runs/{result.run_id}")
    if as_json:
        print_json(_report(result, dashboard_url))
    else:
        _show(result, dashboard_url)


def _train_with_progress(*, steps: int, seed: int, name: str) -> DemoResult:
    """Train, with a progress bar on a terminal and a line every few steps elsewhere."""
    with Progress(
        TextColumn("Training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("success rate [bold]{task.fields[success_rate]}[/]"),
        TimeElapsedColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    ) as progress:
        bar = progress.add_task("training", total=steps, success_rate="–")

        def on_step(step: int, result: DemoResult) -> None:
            rate = f"{result.success_rates[-1]:.0%}"
            progress.update(bar, completed=step, success_rate=rate)
            if not messages.is_terminal and (step == steps or step % max(1, steps // 5) == 0):
                messages.print(f"step {step} of {steps}: success rate {rate}")

        return train(steps=steps, seed=seed, name=name, on_step=on_step)


def _play_rollouts(*, as_json: bool) -> None:
    # Imported here: it needs much that the training demo does not.
    from openmanus_rl.cli.worker import tell
    from openmanus_rl.demo.rollouts import play

    played = play(load_settings(), tell=(lambda _event: None) if as_json else tell)
    dashboard_url = dashboard_page("rollouts")
    if as_json:
        print_json({"rollouts": played.rollouts, "dashboard_url": dashboard_url})
        return
    table = Table("task", "status", "answer", "turns", "video")
    for row in played.rollouts:
        name = played.names.get(row["task_id"] or "", "")
        answer = "–" if row["result"] is None else json.dumps(row["result"], ensure_ascii=False)
        cells = (escape(name), status_text(row["status"]), escape(answer), str(row["step_count"]))
        table.add_row(*cells, "yes" if row["video_path"] else "no")
    output.print(table)
    if played.rollouts:
        output.print("\n[bold]Where to look[/]")
        facts = {"A rollout, turn by turn": f"openmanus-rl rollouts show {played.rollouts[0]['id']}"}
        print_facts(facts | dashboard_fact(dashboard_url))


def _report(result: DemoResult, dashboard_url: str | None) -> dict[str, Any]:
    return {
        "run_id": result.run_id,
        "seed": result.seed,
        "steps": result.steps,
        **result.summary(),
        "success_rates": result.success_rates,
        "evaluations": [
            {"step": step, "success_rate": figures["success_rate"]} for step, figures in result.evaluations.items()
        ],
        "example_rollout_id": result.example_rollout_id,
        "dashboard_url": dashboard_url,
    }


def _show(result: DemoResult, dashboard_url: str | None) -> None:
    output.print(
        f"[bold green]Trained for {result.steps} steps[/]: {result.rollout_count} rollouts, "
        f"{result.turn_count} turns, {result.seconds:.0f} s"
    )
    output.print("\n[bold]Success rate in training[/]")
    # With fewer steps than columns, repeat each, so that short runs have a wide curve too.
    repeat = max(1, _CURVE_COLUMNS // result.steps)
    curve = [rate for rate in result.success_rates for _ in range(repeat)]
    for line in plot(curve, low=0, high=1, width=_CURVE_COLUMNS, as_percent=True):
        output.print(f"  [cyan]{line}[/]")
    output.print(f"  {'':>5} step 1 to {result.steps}\n")
    rates = " → ".join(f"{figures['success_rate']:.0%}" for figures in result.evaluations.values())
    output.print(f"[bold]Success rate on held-out tasks[/], from untrained to the last step: {rates}\n")
    output.print(_comparison(result.evaluations[0], result.evaluations[result.steps]))
    output.print("\n[bold]Where to look[/]")
    facts = {
        "The run": f"openmanus-rl runs show {result.run_id}",
        "One of its rollouts": f"openmanus-rl rollouts show {result.example_rollout_id}",
        "The stack": "openmanus-rl status",
    }
    print_facts(facts | dashboard_fact(dashboard_url))


def _comparison(baseline: dict[str, float], final: dict[str, float]) -> Table:
    table = Table()
    table.add_column("")
    for title in ("untrained", "trained", "change"):
        table.add_column(title, justify="right")
    before, after = baseline["success_rate"], final["success_rate"]
    table.add_row("success rate", f"{before:.0%}", f"{after:.0%}", f"{(after - before) * 100:+.0f} points")
    for label in ("mean reward", "mean turns"):
        before, after = (figures[label.replace(" ", "_")] for figures in (baseline, final))
        table.add_row(label, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}")
    return table
