"""Training that is killed at any point goes on from its last checkpoint, with no gap and no double in the record."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from stable_baselines3 import PPO

from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.training.service import Launch, serve
from openmanus_rl.training.stopping import Stop

from .conftest import SLOW, TINY, Launched, Query, new_run, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")

TOTAL, ROLLOUT, LAST = 900, 64, 960
INTERVAL = 150


def shown(query: Query, table: str, run_id: str) -> list[dict[str, Any]]:
    return query(f"select * from {table} where training_run_id = %s and rewound_at is null order by step, id", run_id)


def checkpoints_of_an_undisturbed_run() -> list[int]:
    """Return the first ends of rollouts after each multiple of the interval, and the end."""
    ends = range(ROLLOUT, LAST, ROLLOUT)
    due = [next(end for end in ends if end >= multiple) for multiple in range(INTERVAL, LAST - ROLLOUT, INTERVAL)]
    return [*due, LAST]


def lose_machine(home: Path) -> None:
    """End whoever delivers, and lose what was not delivered, as when a machine is taken away."""
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "openmanus_rl.delivery" in line and any(str(home) in part for part in line):
            process.kill()
            process.wait(10)
    shutil.rmtree(home / "spool")


# Six processes, each of which imports torch.
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_at_many_points_is_as_one_that_was_not(
    launch: Callable[..., Launched], query: Query, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    run_id = new_run(
        "ppo",
        SLOW,
        total_timesteps=TOTAL,
        seed=3,
        hyperparameters={"n_steps": ROLLOUT, "batch_size": ROLLOUT, "n_epochs": 1, **TINY},
        evaluation={"interval_timesteps": INTERVAL, "episodes": 2},
        checkpoint_interval_timesteps=INTERVAL,
    )
    points = {
        "before the first checkpoint": "1:100",
        "right after the checkpoint of step 192 was written, while it is uploaded": "1:193",
        "in the evaluation of step 300": "2:5",
        "between the checkpoint of step 320 and the next metrics": f"1:{320 - 192 + 10}",
    }
    for point in points.values():
        code, said = launch(run_id, OPENMANUS_RL_HOME=str(home), KILL=point).end()
        assert code == -signal.SIGKILL, said
    lose_machine(home)
    killed = launch(run_id, OPENMANUS_RL_HOME=str(home))
    killed.wait_for(lambda: query("select 1 from training_runs where id = %s and timeline = 4", run_id))
    # At any time between its first step and its end.
    time.sleep(random.uniform(0, 3))
    killed.process.kill()
    killed.end()

    code, said = launch(run_id, OPENMANUS_RL_HOME=str(home)).end()

    assert code == 0, said
    wait_until(lambda: query("select 1 from training_runs where id = %s and status = 'completed'", run_id))
    check_record(query, run_id)
    check_model(query, run_id, tmp_path)
    assert serve(Launch(run_id), Stop()) == 0
    assert "has completed" in capfd.readouterr().err
    wait_until(lambda: not list(home.glob("spool/*/*/meta.json")))
    check_record(query, run_id)


def check_record(query: Query, run_id: str) -> None:
    series = MetricManager.get_series(run_id)
    evaluated = list(range(INTERVAL, TOTAL, INTERVAL))
    written = sorted({*range(50, LAST, 50), *evaluated, LAST})
    assert [point.step for point in series["time/fps"]] == written
    assert [point.step for point in series["eval/mean_reward"]] == [*evaluated, LAST]
    updates = [point.value for point in series["train/n_updates"]]
    assert updates == sorted(set(updates))
    assert updates[-1] == LAST // ROLLOUT
    evaluations = shown(query, "evaluations", run_id)
    assert [(row["step"], row["status"]) for row in evaluations] == [(n, "completed") for n in [*evaluated, LAST]]
    checkpoints = shown(query, "model_checkpoints", run_id)
    assert [row["step"] for row in checkpoints] == checkpoints_of_an_undisturbed_run()
    assert all(row["storage_path"] for row in checkpoints)
    numbers = query("select episode_number as n from rollouts where training_run_id = %s order by 1", run_id)
    assert [row["n"] for row in numbers] == list(range(len(numbers)))
    ended = [row for row in shown(query, "rollouts", run_id) if row["group_id"] is None]
    by_number = sorted(ended, key=lambda row: row["episode_number"])
    assert [row["step"] for row in by_number] == sorted(row["step"] for row in by_number)
    assert sum(row["step_count"] or 0 for row in ended) <= LAST


def check_model(query: Query, run_id: str, tmp_path: Path) -> None:
    path = shown(query, "model_checkpoints", run_id)[-1]["storage_path"]
    model = PPO.load(StorageManager.download_file("model-checkpoints", path, tmp_path / "model.zip"), device="cpu")
    assert (model.num_timesteps, model._n_updates) == (LAST, LAST // ROLLOUT)
