"""`train`: a recorded run by one command, and nothing left of one that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from stable_baselines3 import PPO

from openmanus_rl.managers.storage import StorageManager

from ..conftest import Command, Query

SMALL = ["--set", "n_steps=32", "--set", "batch_size=32", "--set", 'policy_kwargs={"net_arch": [4]}']
QUICK = [*SMALL, "--set", "evaluation.episodes=1", "--frame-interval", "0", "--timesteps", "64"]


def test_a_run_is_trained_recorded_and_evaluated_and_its_checkpoint_loads(
    command: Command, query: Query, tmp_path: Path
) -> None:
    done = command("train", "--env", "CartPole-v1", "--algo", "ppo", "--seed", "1", "--n-envs", "2", *QUICK, "--json")

    assert done.code == 0, done.err
    report = done.json
    assert (report["status"], report["step"]) == ("completed", 64)
    assert report["mean_evaluation_reward"] > 0
    (row,) = query("select * from training_runs where id = %s", report["run_id"])
    assert (row["name"], row["algorithm"], row["environment"]) == ("CartPole-v1 ppo", "ppo", "CartPole-v1")
    assert row["config"] == {
        "total_timesteps": 64,
        "n_envs": 2,
        "seed": 1,
        "hyperparameters": {"n_steps": 32, "batch_size": 32, "policy_kwargs": {"net_arch": [4]}},
        "evaluation": {"episodes": 1},
    }
    path = StorageManager.download_file("model-checkpoints", report["checkpoint_path"], tmp_path / "model.zip")
    assert PPO.load(path, device="cpu").num_timesteps == 64
    again = command("train", "--resume", report["run_id"])
    assert again.code == 1
    assert "has completed" in again.message


def test_people_are_told_where_to_look(command: Command) -> None:
    done = command("train", "--env", "CartPole-v1", "--algo", "ppo", *QUICK)

    assert done.code == 0, done.err
    for word in ("Completed", "Mean evaluation reward", "model-checkpoints/", "Dashboard"):
        assert word in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--env", "Pendulum-v1", "--algo", "dqn"], 1, "algorithm dqn needs actions of type Discrete"),
        (["--env", "CartPole-v1", "--algo", "ppo", "--set", "n_step=3"], 1, "did you mean n_steps?"),
        (["--env", "CartPole-v1", "--algo", "ppo", "--set", "nothing"], 2, "is not KEY=VALUE"),
        (["--env", "CartPole-v1"], 2, "missing"),
        (["--resume", "no-such-run"], 1, "no-such-run"),
        (["--resume", "x", "--algo", "ppo"], 2, "has its own configuration"),
    ],
)
def test_nothing_is_left_of_a_run_that_is_refused(
    arguments: list[str], code: int, said: str, command: Command, query: Query
) -> None:
    before = query("select count(*) from training_runs")

    done = command("train", *arguments)

    assert done.code == code
    assert said in done.message
    assert query("select count(*) from training_runs") == before


def test_the_extra_is_named_if_it_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith(("openmanus_rl.training.", "stable_baselines3"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)

    done = command("train", "--env", "CartPole-v1", "--algo", "ppo")

    assert done.code == 1
    assert 'pip install "openmanus-rl[training]"' in done.message


def test_a_run_that_does_not_run_cannot_be_stopped(command: Command, query: Query) -> None:
    made = command("train", "--env", "CartPole-v1", "--algo", "ppo", *QUICK, "--json").json

    done = command("runs", "stop", made["run_id"])

    assert done.code == 1
    assert "there is nothing to stop" in done.message
    assert query("select stop_requested_at as at from training_runs where id = %s", made["run_id"]) == [{"at": None}]
