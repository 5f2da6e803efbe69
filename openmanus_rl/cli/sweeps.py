"""`sweeps`: searches over the parameters of a run, and several seeds of one configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.markup import escape
from rich.text import Text

from openmanus_rl.cli.console import output, print_facts, print_json
from openmanus_rl.cli.options import JsonOption, LimitOption, check_choice, read_pair
from openmanus_rl.cli.references import find_sweep
from openmanus_rl.cli.rendering import ago, duration, headline, new_table, print_table, shortened, status_text
from openmanus_rl.cli.sweep_requests import read_parameters, read_request, template_of
from openmanus_rl.jobs.sweeps.space import read_space
from openmanus_rl.jobs.sweeps.trials import Trial, read_trials
from openmanus_rl.managers.sweeps import SweepManager, SweepOverview
from openmanus_rl.records.rows import Sweep
from openmanus_rl.records.statuses import SweepMethod, SweepStatus

app = typer.Typer(no_args_is_help=True, help="Search over the parameters of a run, or train several seeds of it.")

SweepArgument = Annotated[str, typer.Argument(metavar="SWEEP", help="An id, or the first characters of an id.")]
RunOption = Annotated[
    str | None, typer.Option("--run", help="The run that is varied: an id, its first characters, or a run_name.")
]
MetricOption = Annotated[
    str | None, typer.Option("--metric", help="The metric that decides; its last value is that of a trial.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the sweep; by default the run's.")]
AtOnceOption = Annotated[
    int | None, typer.Option("--at-once", min=1, max=1000, help="Trials at the same time; 1 by default.")
]
JobOption = Annotated[
    list[str] | None,
    typer.Option("--job", metavar="KEY=VALUE", help="An option of the trials' jobs, as JSON or text; repeatable."),
]

_METHODS = get_args(SweepMethod)
# What Stable-Baselines3 records of every algorithm.
_USUAL_METRIC = "rollout/ep_rew_mean"
_BAR_WIDTH = 30


@app.command()
def new(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The sweep, as TOML or JSON.")] = None,
    run: RunOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="PATH=VALUES",
            help="A parameter, by its path in the configuration: a,b,c or MIN..MAX with :log, :integer, :step=NUMBER.",
        ),
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help=f"{', '.join(_METHODS)}; random by default.")] = None,
    metric: MetricOption = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="Less of the metric is better.")] = False,
    trials: Annotated[
        int | None, typer.Option("--trials", min=1, max=10_000, help="Number of trials; by default the whole grid.")
    ] = None,
    at_once: AtOnceOption = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=10_000, help="Vary the seed too, from 0 to this less one.")
    ] = None,
    stop_after: Annotated[
        int | None,
        typer.Option("--stop-after", min=0, metavar="STEPS", help="From this step on, stop trials below the median."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the search itself; 0 by default.")] = None,
    name: NameOption = None,
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask for a sweep, from a file or from a run and parameters; `openmanus-rl orchestrator` makes its trials.

    A file has the fields of the sweep, and instead of a `template` it may name a `run`; options win over it.

    \b
    openmanus-rl sweeps new sweep.toml
    openmanus-rl sweeps new --run 0199f3c2 --param hyperparameters.learning_rate=1e-5..1e-2:log --metric reward --trials 12 --at-once 3
    openmanus-rl sweeps new --run 0199f3c2 --param hyperparameters.n_steps=64,128 --seeds 3 --method grid --metric reward
    """  # noqa: E501
    check_choice("--method", method, _METHODS)
    asked = {} if file is None else read_request(file)
    named = asked.pop("run", None)
    run = run or named
    space = {**asked.get("space", {}), **read_parameters(param or [])}
    if seeds is not None:
        space["seed"] = {"values": list(range(seeds))}
    options = {
        "template": None if run is None else template_of(run),
        "space": space or None,
        "method": method,
        "metric": metric,
        "direction": "minimize" if minimize else None,
        "max_trials": trials,
        "max_concurrent": at_once,
        "early_stopping": None if stop_after is None else {"after_steps": stop_after},
        "seed": seed,
        "name": name,
        "job_config": _job_config(job),
    }
    usual = "seeds" if list(space) == ["seed"] and seeds is not None else "random"
    given = {key: value for key, value in options.items() if value is not None}
    _request({"method": usual, **asked, **given}, as_json)


@app.command()
def seeds(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run: an id, its first characters, or a run_name.")],
    count: Annotated[int, typer.Option("--count", min=1, max=10_000, help="Number of seeds, from 0 on.")] = 5,
    metric: MetricOption = _USUAL_METRIC,
    at_once: AtOnceOption = None,
    name: NameOption = None,
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a run's configuration again with several seeds.

    \b
    openmanus-rl sweeps seeds 0199f3c2 --count 5 --at-once 2
    """
    asked = {
        "method": "seeds",
        "template": template_of(run),
        "space": {"seed": {"values": list(range(count))}},
        "metric": metric,
        "max_concurrent": at_once,
        "name": name,
        "job_config": _job_config(job),
    }
    _request({key: value for key, value in asked.items() if value is not None}, as_json)


@app.command("list")
def list_sweeps(
    status: Annotated[
        str | None, typer.Option("--status", help=f"Only this status: {', '.join(get_args(SweepStatus))}.")
    ] = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List sweeps, newest first.

    \b
    openmanus-rl sweeps list --status running
    """
    check_choice("--status", status, get_args(SweepStatus))
    page = SweepManager.list_sweeps(status=status, limit=limit, count=True)
    if as_json:
        print_json({"total": page.total, "sweeps": page.rows})
        return
    if not page.rows:
        output.print("No sweeps match" if status else "No sweeps yet; `openmanus-rl sweeps new` asks for one")
        return
    table = new_table("id", "name", "status", "method", "trials", "metric", "asked", right=("trials",))
    for row in page.rows:
        table.add_row(
            row["id"],
            escape(shortened(row["name"], 40)),
            status_text(row["status"]),
            row["method"],
            f"{row['next_trial']}/{row['max_trials']}",
            escape(row["metric"]),
            ago(row["created_at"]),
        )
    print_table(table)


@app.command()
def show(sweep: SweepArgument, limit: LimitOption = 50, as_json: JsonOption = False) -> None:
    """Show a sweep: its trials, the best first, and which parameters mattered.

    \b
    openmanus-rl sweeps show 0199f3c2
    """
    overview = SweepManager.sweep_overview(find_sweep(sweep)["id"])
    if as_json:
        print_json(overview)
        return
    row = overview["sweep"]
    done = sum(trial.has_ended for trial in read_trials(overview))
    print_facts(
        {
            "sweep": row["id"],
            "name": row["name"],
            "status": row["status"] + (f": {row['status_message']}" if row["status_message"] else ""),
            "search": f"{row['method']}, {row['direction']} {row['metric']}",
            "trials": f"{done} of {row['max_trials']} ended, at most {row['max_concurrent']} at once",
            "took": duration(row["started_at"], row["finished_at"]),
        }
    )
    _print_trials(overview, limit)
    _print_importances(row["importances"])


@app.command()
def stop(sweep: SweepArgument, as_json: JsonOption = False) -> None:
    """End a sweep: it makes no more trials, and those that train stop after their current step, with a checkpoint.

    \b
    openmanus-rl sweeps stop 0199f3c2
    """
    stopped = SweepManager.stop_sweep(find_sweep(sweep)["id"])
    if as_json:
        print_json(stopped)
        return
    output.print(f"Sweep {stopped['id']} is {stopped['status']}")


def _request(asked: Mapping[str, Any], as_json: bool) -> None:
    template = asked.get("template")
    if template is None:
        raise typer.BadParameter("say what is varied: --run, or a file with a template", param_hint="--run")
    if "space" not in asked:
        raise typer.BadParameter("say what is varied in it: --param, or --seeds", param_hint="--param")
    if "metric" not in asked:
        raise typer.BadParameter("say which metric decides", param_hint="--metric")
    # Before it is sent: NaN, which TOML has, cannot be.
    read_space(asked["space"], template.get("config"))
    sweep = SweepManager.request_sweep(**{"name": template.get("name"), **asked})
    if as_json:
        print_json(sweep)
        return
    output.print(f"Sweep {sweep['id']}: {_count(sweep)}; `openmanus-rl orchestrator` makes them")
    output.print(f"Follow it with `openmanus-rl sweeps show {sweep['id']}`")


def _count(sweep: Sweep) -> str:
    return "1 trial" if sweep["max_trials"] == 1 else f"{sweep['max_trials']} trials"


def _job_config(given: Sequence[str] | None) -> dict[str, Any] | None:
    return dict(read_pair("--job", text) for text in given) if given else None


def _print_trials(overview: SweepOverview, limit: int) -> None:
    trials = read_trials(overview)
    if not trials:
        output.print("No trials yet; `openmanus-rl orchestrator` makes them")
        return
    sign = -1 if overview["sweep"]["direction"] == "maximize" else 1
    # Those without a value at the end, and those that failed after all.
    trials.sort(key=lambda t: (t.state == "failed", t.value is None, sign * (t.value or 0), t.number))
    paths = sorted(overview["sweep"]["space"])
    headline("Trials")
    table = new_table("trial", "run", "state", overview["sweep"]["metric"], *paths, "", right=("trial",))
    for trial in trials[:limit]:
        table.add_row(str(trial.number), trial.run_id or "–", _state(trial), _value(trial.value),
                      *(escape(_value(trial.parameters.get(path))) for path in paths),
                      escape(shortened(trial.problem, 60)))  # fmt: skip
    print_table(table)
    if len(trials) > limit:
        output.print(f"[dim]… and {len(trials) - limit} more; --limit or --json shows them[/]")


def _state(trial: Trial) -> Text:
    return status_text({"active": "running", "settling": "running"}.get(trial.state, trial.state))


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_importances(importances: Mapping[str, float] | None) -> None:
    if not importances:
        return
    headline("Importance")
    table = new_table("parameter", "share", "", right=("share",))
    for path, share in sorted(importances.items(), key=lambda item: -item[1]):
        table.add_row(escape(path), f"{share:.0%}", "█" * round(share * _BAR_WIDTH))
    print_table(table)
