"""`train`: train a policy with Stable-Baselines3 in this process, as a recorded run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from openmanus_rl.cli.console import messages, output, phases, print_facts, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.references import find_run
from openmanus_rl.cli.stack import dashboard_fact, dashboard_page
from openmanus_rl.connections import get_client
from openmanus_rl.errors import ConflictError, InvalidInput, LaunchError
from openmanus_rl.managers.checkpoints import ModelCheckpointManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.training.config import ProgramConfig, TrainerConfig, parse_config
from openmanus_rl.training.outcome import Result, TrainingFailed
from openmanus_rl.training.stopping import Stop

if TYPE_CHECKING:
    from openmanus_rl.training.trainer import Trainer

DEFAULT_TIMESTEPS = 50_000


def train(
    env: Annotated[
        str | None, typer.Option("--env", metavar="ID", help="A Gymnasium id, or the name of an environment.")
    ] = None,
    algo: Annotated[
        str | None, typer.Option("--algo", metavar="NAME", help="The algorithm: ppo, dqn, a2c, sac or td3.")
    ] = None,
    timesteps: Annotated[
        int, typer.Option("--timesteps", min=1, help="How many timesteps to train for, all environments together.")
    ] = DEFAULT_TIMESTEPS,
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=2**31 - 1, help="Random seed.")] = None,
    n_envs: Annotated[int, typer.Option("--n-envs", min=1, help="How many environments are stepped together.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An argument of the algorithm, such as learning_rate=0.001, or a key of the configuration, such as "
            "normalize=true or evaluation.episodes=5; may be repeated.",
        ),
    ] = None,
    run_name: Annotated[
        str | None, typer.Option("--run-name", help="A unique name, by which the run can be resumed.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help="Continue this run from its last checkpoint: an id or a run_name."
        ),
    ] = None,
    metrics_interval: Annotated[
        int, typer.Option("--metrics-interval", min=1, help="Timesteps between metrics.")
    ] = 100,
    frame_interval: Annotated[
        int, typer.Option("--frame-interval", min=0, help="Timesteps between pictures of the environment; 0: none.")
    ] = 1000,
    as_json: JsonOption = False,
) -> None:
    """Train a policy with Stable-Baselines3 and record the run: metrics, episodes, frames, evaluations, checkpoints.

    Needs the extra `training`. Ctrl-C ends it after the current step with a checkpoint, from which --resume continues.

    \b
    openmanus-rl train --env CartPole-v1 --algo ppo
    openmanus-rl train --env Pendulum-v1 --algo sac --timesteps 10000 --set learning_rate=0.001 --seed 1
    openmanus-rl train --resume my-run-name
    """
    row: Mapping[str, Any]
    with phases("Connecting"):
        get_client()
        if resume is not None:
            if env is not None or algo is not None or settings or run_name is not None:
                raise typer.BadParameter("the run has its own configuration", param_hint="--resume")
            row = TrainingRunManager.get_run(find_run(resume)["id"])
        else:
            config = _config(settings or [], total_timesteps=timesteps, n_envs=n_envs, seed=seed)
            row = _new_row(env, algo, config, run_name)
        trainer = _trainer(row, metrics_interval, frame_interval)
        if resume is None:
            # Only now: nothing is left of one that is refused.
            row = TrainingRunManager.create_run(
                row["name"], algo, env, row["config"], run_name=run_name, status="pending", run_id=row["id"]
            )
            trainer.row = row
    page = dashboard_page(f"runs/{row['id']}")
    if not as_json:
        print_facts({"Run": row["id"]} | dashboard_fact(page))
    with Stop() as stop:
        stop.on_set = lambda: messages.print("Stopping after this step; press Ctrl-C again to end at once.")
        result = _train_with_progress(trainer, stop, row["config"]["total_timesteps"])
    if stop.is_replaced:
        raise ConflictError(f"run {row['id']}: {stop.message}; this one ended at step {result.step}", field="run_id")
    _show(row, result, page, stop, as_json=as_json)
    if stop.is_set:
        raise typer.Exit(stop.exit_code)


def _new_row(env: str | None, algo: str | None, config: dict[str, Any], run_name: str | None) -> dict[str, Any]:
    for option, value in (("--env", env), ("--algo", algo)):
        if value is None:
            raise typer.BadParameter("missing; give an environment and an algorithm, or --resume", param_hint=option)
    name = run_name or f"{env} {algo}"
    return {
        "id": new_id(),
        "name": name,
        "environment": env,
        "algorithm": algo,
        "config": config,
        "started_at": None,
        "status": "pending",
    }


def _config(settings: list[str], **given: Any) -> dict[str, Any]:
    """Return the configuration; what is no key of it is an argument of the algorithm."""
    config: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--set")
        path = key.split(".")
        if path[0] not in TrainerConfig.model_fields:
            path.insert(0, "hyperparameters")
        place = config
        for part in path[:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise typer.BadParameter(f"{part} has no parts", param_hint="--set")
        place[path[-1]] = _value(text)
    return config


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _trainer(row: Mapping[str, Any], metrics_interval: int, frame_interval: int) -> Trainer:
    config = parse_config(row["config"])
    if isinstance(config, ProgramConfig):
        raise InvalidInput(
            f"run {row['id']} names its own program, which this command does not run",
            field="config.entry_point",
            hint=f"RUN_ID={row['id']} python -m openmanus_rl.training.train",
        )
    if row["status"] == "completed":
        raise InvalidInput(f"run {row['id']} has completed; there is nothing to train", field="resume")
    try:
        from openmanus_rl.training.trainer import Intervals, Trainer
    except ModuleNotFoundError as error:
        library = (error.name or "a library").partition(".")[0]
        raise LaunchError(f'{library} is not installed; run: pip install "openmanus-rl[training]"') from error
    return Trainer(load_settings(), row, config, Intervals(metrics_interval, frame_interval))


def _train_with_progress(trainer: Trainer, stop: Stop, total: int) -> Result:
    """Train, with a progress bar on a terminal and a line now and then elsewhere."""
    with Progress(
        TextColumn("Training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("mean reward [bold]{task.fields[reward]}[/]"),
        TimeElapsedColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    ) as progress:
        bar = progress.add_task("training", total=total, reward="–")
        told = 0

        def on_progress(step: int, mean_reward: float | None) -> None:
            nonlocal told
            reward = "–" if mean_reward is None else f"{mean_reward:.1f}"
            progress.update(bar, completed=min(step, total), reward=reward)
            if not messages.is_terminal and step * 10 // total > told:
                told = step * 10 // total
                messages.print(f"step {step:,} of {total:,}: mean reward {reward}")

        try:
            return trainer.train(stop, on_progress=on_progress)
        except TrainingFailed as error:
            raise LaunchError(f"training failed: {error}") from error


def _show(row: Mapping[str, Any], result: Result, page: str | None, stop: Stop, *, as_json: bool) -> None:
    checkpoint = None
    if result.checkpoint_id is not None and result.is_delivered:
        checkpoint = ModelCheckpointManager.get_checkpoint(result.checkpoint_id)["storage_path"]
    if as_json:
        report = {
            "run_id": row["id"],
            "status": result.status,
            "step": result.step,
            "mean_evaluation_reward": result.mean_reward,
            "checkpoint_path": checkpoint,
            "dashboard_url": page,
        }
        print_json(report)
        return
    if result.status == "completed":
        output.print(f"[bold green]Completed[/] at step {result.step:,}")
    else:
        output.print(f"[bold yellow]Interrupted[/] at step {result.step:,}: {stop.message}")
    facts = {} if result.mean_reward is None else {"Mean evaluation reward": f"{result.mean_reward:.1f}"}
    facts["Checkpoint"] = (
        f"model-checkpoints/{checkpoint}" if checkpoint else "not delivered yet; `openmanus-rl sync` delivers it"
    )
    if result.status != "completed":
        facts["Continue"] = f"openmanus-rl train --resume {row['id']}"
    print_facts(facts | dashboard_fact(page))
