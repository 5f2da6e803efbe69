"""Sweeps from the command line: asking for them, looking at them, stopping them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openmanus_rl.utils.supabase_db import MetricManager, SweepManager, TrainingRunManager

from ..conftest import Command, Query

CONFIG = {"total_timesteps": 1000, "hyperparameters": {"learning_rate": 0.1}}


@pytest.fixture
def run() -> str:
    return TrainingRunManager.create_run("first", "ppo", "CartPole-v1", CONFIG)["id"]


@pytest.fixture(autouse=True)
def _no_sweep_left(_settings: None) -> Iterator[None]:
    """Stop the sweeps of a test: orchestrators of others would make their trials."""
    yield
    for sweep in SweepManager.list_sweeps(status=["pending", "running"]):
        SweepManager.stop_sweep(sweep["id"])


def test_a_sweep_is_asked_for_by_options(cli: Command, run: str) -> None:
    done = cli(
        "sweeps", "new", "--run", run, "--param", "hyperparameters.learning_rate=1e-5..1e-2:log",
        "--param", "hyperparameters.n_steps=64,128", "--method", "bayesian", "--metric", "reward", "--trials", "12",
        "--at-once", "3", "--seeds", "2", "--stop-after", "100", "--job", "max_restarts=1", "--json",
    )  # fmt: skip

    assert done.code == 0, done.err
    sweep = SweepManager.get_sweep(done.json["id"])
    assert sweep["template"] == {
        "name": "first", "algorithm": "ppo", "environment": "CartPole-v1", "config": CONFIG,
    }  # fmt: skip
    assert sweep["space"] == {
        "hyperparameters.learning_rate": {"min": 1e-5, "max": 1e-2, "log": True},
        "hyperparameters.n_steps": {"values": [64, 128]},
        "seed": {"values": [0, 1]},
    }
    assert (sweep["name"], sweep["method"], sweep["metric"], sweep["direction"]) == (
        "first", "bayesian", "reward", "maximize",
    )  # fmt: skip
    assert (sweep["max_trials"], sweep["max_concurrent"]) == (12, 3)
    assert sweep["early_stopping"] == {"after_steps": 100}
    assert sweep["job_config"] == {"backend": "local", "max_restarts": 1}


def test_a_sweep_is_asked_for_by_a_file_and_options_win(cli: Command, run: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        f'run = "{run}"\nname = "night"\nmethod = "grid"\nmetric = "loss"\ndirection = "minimize"\nmax_concurrent = 2\n'
        '[space."hyperparameters.learning_rate"]\nvalues = [0.1, 0.01]\n'
    )

    done = cli("sweeps", "new", str(file), "--seeds", "3", "--at-once", "4")

    assert done.code == 0, done.err
    assert "6 trials" in done.out
    (sweep,) = SweepManager.list_sweeps(limit=1)
    assert (sweep["name"], sweep["method"], sweep["direction"], sweep["max_trials"], sweep["max_concurrent"]) == (
        "night", "grid", "minimize", 6, 4,
    )  # fmt: skip


@pytest.mark.parametrize("asking", [("sweeps", "seeds"), ("sweeps", "new", "--metric", "m", "--seeds", "5", "--run")])
def test_several_seeds_of_a_run_are_one_command(cli: Command, run: str, asking: tuple[str, ...]) -> None:
    done = cli(*asking, run, "--json")

    assert done.code == 0, done.err
    assert (done.json["method"], done.json["max_trials"]) == ("seeds", 5)
    assert done.json["space"] == {"seed": {"values": [0, 1, 2, 3, 4]}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--param", "lr=1,2", "--metric", "m"], "say what is varied"),
        (["--run", "RUN", "--metric", "m"], "say what is varied in it"),
        (["--run", "RUN", "--param", "lr=1,2"], "which metric decides"),
        (["--run", "RUN", "--param", "lr=1,2", "--metric", "m"], "max_trials: the number of trials is expected"),
        (["--run", "RUN", "--param", "lr=0..1:log", "--metric", "m"], "space.lr.min: it must be above 0 for log"),
        (["--run", "RUN", "--param", "lr=0..1", "--metric", "m", "--method", "grid"], "space.lr: a grid needs values"),
        (["--run", "RUN", "--param", "total_timesteps.x=1", "--metric", "m"], "total_timesteps is not an object"),
        (["--run", "RUN", "--param", "a=1", "--metric", "m", "--method", "magic"], "'magic' is not one of grid"),
        (
            ["--run", "RUN", "-p", "a=1", "--metric", "m", "--trials", "1", "--job", "gpu=1"],
            "config.gpu: there is no such",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_said(cli: Command, run: str, arguments: list[str], said: str) -> None:
    done = cli("sweeps", "new", *(run if argument == "RUN" else argument for argument in arguments))

    assert done.code != 0
    assert said in done.message


def test_the_trials_are_shown_best_first_with_what_mattered(cli: Command, run: str, query: Query) -> None:
    sweep = cli(
        "sweeps", "new", "--run", run, "-p", "[odd] λ=1,2,3", "--method", "grid", "--metric", "m", "--json"
    ).json
    query(
        "with leased as (insert into internal.orchestrator_leases (subject_id, lease_id, orchestrator_id, expires_at)"
        " values (%s, %s, gen_random_uuid(), now()) returning 1) update public.sweeps set status = 'running',"
        " max_concurrent = 3, importances = '{\"[odd] λ\": 0.75}' where id = %s returning id",
        sweep["id"], sweep["id"], sweep["id"],
    )  # fmt: skip
    for number, value in enumerate([5.0, 7.25, 6.0]):
        trial = SweepManager.add_trial(sweep["id"], number, {"[odd] λ": number + 1})
        MetricManager.log(trial["training_run_id"] or "", {"m": value}, step=1)

    shown = cli("sweeps", "show", sweep["id"][:18])

    assert shown.code == 0, shown.err
    lines = [line.split() for line in shown.out.splitlines()]
    assert [line[0] for line in lines if line and line[0].isdigit()] == ["1", "2", "0"]
    assert "7.25" in shown.out
    assert "75%  " + "█" * 22 in shown.out
    assert [trial["value"] for trial in cli("sweeps", "show", sweep["id"], "--json").json["trials"]] == [5, 7.25, 6]
    listed = cli("sweeps", "list", "--status", "running")
    assert sweep["id"] in listed.out
    assert "3/3" in listed.out
    stopped = cli("sweeps", "stop", sweep["id"])
    assert "is cancelled" in stopped.out
    jobs = query(
        "select j.status from public.jobs j join public.sweep_trials t using (training_run_id) where t.sweep_id = %s",
        sweep["id"],
    )
    assert [job["status"] for job in jobs] == ["cancelled"] * 3


def test_an_unknown_sweep_is_said_to_be_unknown(cli: Command) -> None:
    done = cli("sweeps", "show", "ffffffff")

    assert done.code == 1
    assert "no sweep matches 'ffffffff'" in done.message
