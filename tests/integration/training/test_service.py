"""The training service: what it records, what it refuses, and how it stops and goes on."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN

import openmanus_rl
from openmanus_rl.connections import get_client
from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations.stable_baselines3 import load_replay_buffer
from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.run_state import local_state
from openmanus_rl.training.callbacks import Evaluations
from openmanus_rl.training.config import TrainerConfig, parse_config
from openmanus_rl.training.environment import make_environment
from openmanus_rl.training.outcome import Result
from openmanus_rl.training.service import REFUSED, TAKEN, Launch, serve
from openmanus_rl.training.stopping import Stop
from openmanus_rl.training.trainer import Intervals, Trainer

from ..conftest import Command
from .conftest import SLOW, TINY, Launched, Query, new_run, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")

PPO = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, **TINY}
FEW_EVALUATIONS = {"interval_timesteps": 0, "episodes": 1}


class StopAt(Stop):
    """A stop that is asked for at a step."""

    def __init__(self, step: int | None = None) -> None:
        super().__init__()
        self.step = step

    def look(self, step: int, _reward: float | None) -> None:
        if self.step is not None and step >= self.step:
            self._set("stopped by the test")


def train(run_id: str, *, stop_at: int | None = None, intervals: Intervals | None = None) -> Result:
    """Train a run in this process."""
    row = TrainingRunManager.get_run(run_id)
    config = parse_config(row["config"])
    assert isinstance(config, TrainerConfig)
    stop = StopAt(stop_at)
    with stop:
        return Trainer(load_settings(), row, config, intervals or Intervals(10, 0)).train(stop, on_progress=stop.look)


def row_of(query: Query, run_id: str) -> dict[str, Any]:
    (row,) = query("select * from training_runs where id = %s", run_id)
    return row


def ended(query: Query, run_id: str) -> dict[str, Any]:
    wait_until(lambda: row_of(query, run_id)["status"] not in ("pending", "running"))
    return row_of(query, run_id)


def steps_of(run_id: str, name: str) -> list[int]:
    return [point.step for point in MetricManager.get_series(run_id)[name]]


def test_a_run_is_recorded_with_metrics_frames_episodes_evaluations_and_checkpoints(query: Query) -> None:
    run_id = new_run(
        total_timesteps=120, n_envs=2, seed=1, hyperparameters=PPO, evaluation={"interval_timesteps": 50, "episodes": 2}
    )

    result = train(run_id, intervals=Intervals(20, 40))

    assert (result.status, result.step, result.is_delivered) == ("completed", 128, True)
    row = ended(query, run_id)
    assert (row["status"], row["total_steps"], row["progress"]) == ("completed", 120, 1)
    assert row["summary"] == {"mean_evaluation_reward": result.mean_reward}
    assert row["config"]["hyperparameters"] == PPO
    assert steps_of(run_id, "time/fps") == [20, 40, 50, 60, 80, 100, 120, 128]
    assert steps_of(run_id, "eval/mean_reward") == [50, 100, 128]
    assert steps_of(run_id, "train/loss") == [80, 128]
    frames = query("select kind, metadata, width from media where training_run_id = %s order by id", run_id)
    assert sorted(frame["metadata"]["step"] for frame in frames) == [40, 80, 120]
    assert {frame["kind"] for frame in frames} == {"frame"}
    evaluations = query("select step, status from evaluations where training_run_id = %s", run_id)
    assert {(one["step"], one["status"]) for one in evaluations} == {(n, "completed") for n in (50, 100, 128)}
    checkpoints = query("select * from model_checkpoints where training_run_id = %s order by step", run_id)
    assert [one["step"] for one in checkpoints] == [64, 128]
    assert str(checkpoints[-1]["id"]) == result.checkpoint_id
    assert query("select 1 from rollouts where training_run_id = %s and group_id is null", run_id)


def test_an_off_policy_run_goes_on_with_its_replay_buffer_and_normalization(query: Query, tmp_path: Path) -> None:
    run_id = new_run(
        "dqn",
        total_timesteps=300,
        seed=1,
        normalize=True,
        hyperparameters={"buffer_size": 1000, "learning_starts": 20, "batch_size": 8, **TINY},
        evaluation=FEW_EVALUATIONS,
    )

    first = train(run_id, stop_at=100)
    row = ended(query, run_id)
    assert (first.status, row["status"], row["status_message"]) == ("interrupted", "interrupted", "stopped by the test")
    second = train(run_id)

    assert (second.status, second.step) == ("completed", 300)
    assert first.step == 100
    assert row_of(query, run_id)["rewinds"] == [100]
    steps = steps_of(run_id, "time/fps")
    assert steps == sorted(set(steps)) == list(range(10, 301, 10))
    checkpoints = query(
        "select * from model_checkpoints where training_run_id = %s and rewound_at is null order by step", run_id
    )
    last = checkpoints[-1]
    path = StorageManager.download_file("model-checkpoints", last["storage_path"], tmp_path / "model.zip")
    model = DQN.load(path, device="cpu")
    load_replay_buffer(path, model)
    # Stable-Baselines3 stores a transition after the callbacks: that of the step of the stop is missing.
    assert (model.num_timesteps, model.replay_buffer.size()) == (300, 299)  # type: ignore[union-attr]
    assert last["metadata"]["contents"] == ["model", "vecnormalize", "replay_buffer"]


def test_a_run_says_which_version_of_its_environment_it_trained_on_and_goes_on_with_it(query: Query) -> None:
    name = f"corridor-{new_id()}"
    EnvironmentManager.save_environment(name, kind="grid", spec={"map": ["A..G"], "ends": {"max_steps": 8}})
    run_id = new_run("ppo", name, total_timesteps=64, hyperparameters=PPO, evaluation=FEW_EVALUATIONS)
    train(run_id, stop_at=20)
    EnvironmentManager.save_environment(name, kind="grid", spec={"map": ["A.....G"], "ends": {"max_steps": 9}})
    train(run_id)

    row = ended(query, run_id)
    assert (row["status"], row["environment_version"], row["environment"]) == ("completed", 1, name)
    lengths = query("select max(step_count) as n from rollouts where training_run_id = %s", run_id)
    assert lengths == [{"n": 8}]


def test_a_run_that_was_killed_after_its_last_checkpoint_is_only_ended(query: Query) -> None:
    run_id = new_run(total_timesteps=32, hyperparameters=PPO, evaluation=FEW_EVALUATIONS)
    result = train(run_id)
    assert ended(query, run_id)["status"] == "completed"
    again = openmanus_rl.init(run_id=run_id)
    again.finish("interrupted")
    assert again.flush()

    assert train(run_id).mean_reward == result.mean_reward

    wait_until(lambda: row_of(query, run_id)["status"] == "completed")
    shown = "select count(*) as n from {} where training_run_id = %s and rewound_at is null"
    assert [query(shown.format(table), run_id)[0]["n"] for table in ("evaluations", "model_checkpoints")] == [1, 1]
    assert steps_of(run_id, "time/fps")[-1] == 32


def test_a_draft_and_a_place_for_agents_are_not_trained_in() -> None:
    name = f"draft-{new_id()}"
    EnvironmentManager.save_environment(name, kind="grid", spec={"map": ["A..G"]}, is_draft=True)
    other = f"other-{new_id()}"
    EnvironmentManager.save_environment(other, kind="process", spec={})
    for environment, said in ((name, "is a draft"), (other, "training needs gymnasium or grid")):
        with pytest.raises(InvalidInput, match=said):
            make_environment({"environment": environment})


def test_the_same_seed_trains_the_same_also_when_it_is_stopped_and_resumed_twice_alike() -> None:
    config = {"total_timesteps": 128, "seed": 5, "hyperparameters": PPO, "evaluation": FEW_EVALUATIONS}
    curves = []
    for _ in range(2):
        run_id = new_run(**config)
        train(run_id, stop_at=40)
        train(run_id)
        curves.append([point.value for point in MetricManager.get_series(run_id)["train/loss"]])
    assert curves[0] == curves[1]
    assert len(curves[0]) >= 3


@pytest.mark.parametrize(
    ("algorithm", "environment", "config", "said"),
    [
        ("ppo", "CartPole-v1", {}, "config.total_timesteps is missing"),
        ("ppo", "CartPole-v1", {"total_timesteps": 64, "hyperparameters": {"n_step": 1}}, "did you mean n_steps?"),
        ("ppo", "CartPole-v1", {"total_timesteps": 64, "hyperparameters": {"learning_rate": -1.0}}, "PPO refuses them"),
        ("ppo", "CartPole-v1", {"total_timesteps": 64, "device": "cuda:99"}, "config.device is 'cuda:99'"),
        ("dqn", "Pendulum-v1", {"total_timesteps": 64}, "algorithm dqn needs actions of type Discrete"),
        ("sac", "CartPole-v1", {"total_timesteps": 64}, "algorithm sac needs actions of type Box"),
        ("ppo", "CartPool-v1", {"total_timesteps": 64}, "environment 'CartPool-v1' cannot be made"),
        ("grpo", "CartPole-v1", {"total_timesteps": 64}, "algorithm is 'grpo'"),
        ("ppo", None, {"total_timesteps": 64}, "environment is missing"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_training(
    algorithm: str,
    environment: str | None,
    config: dict[str, Any],
    said: str,
    query: Query,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run_id = new_run(algorithm, environment, **config)

    code = serve(Launch(run_id), Stop())

    assert code == REFUSED
    assert said in capfd.readouterr().err
    row = ended(query, run_id)
    assert row["status"] == "failed"
    assert said in row["status_message"]
    assert query("select 1 from metric_chunks where training_run_id = %s", run_id) == []


def test_who_reads_the_log_sees_how_far_training_is(capfd: pytest.CaptureFixture[str]) -> None:
    run_id = new_run(total_timesteps=64, hyperparameters=PPO, evaluation=FEW_EVALUATIONS)
    assert serve(Launch(run_id, metrics_interval=32, frame_interval=0), Stop()) == 0
    assert "step 32 of 64" in capfd.readouterr().out


def test_a_run_that_cannot_be_had_is_not_trained(capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(Launch(new_id()), Stop()) == REFUSED
    assert "its configuration cannot be had" in capfd.readouterr().err


def test_an_error_in_training_ends_the_run_as_failed(query: Query, capfd: pytest.CaptureFixture[str]) -> None:
    # Such steps make the policy's numbers infinite.
    run_id = new_run(total_timesteps=64, hyperparameters={**PPO, "learning_rate": 1e30}, evaluation=FEW_EVALUATIONS)

    assert serve(Launch(run_id), Stop()) == 1

    row = ended(query, run_id)
    assert row["status"] == "failed"
    assert "nan" in row["status_message"].lower()
    assert "training failed" in capfd.readouterr().err


def test_a_stop_asked_for_in_the_record_ends_after_the_step_with_a_checkpoint(
    launch: Callable[..., Launched], command: Command, query: Query
) -> None:
    run_id = new_run("ppo", SLOW, total_timesteps=100_000, hyperparameters=PPO, evaluation=FEW_EVALUATIONS)
    launched = launch(run_id)
    launched.wait_for(lambda: query("select 1 from metric_chunks where training_run_id = %s", run_id))
    done = command("runs", "stop", run_id)
    assert done.code == 0, done.err

    code, said = launched.end()

    assert code == 0, said
    row = ended(query, run_id)
    assert row["status"] == "interrupted"
    assert "as requested in the record" in row["status_message"]
    (saved,) = query("select step, storage_path from model_checkpoints where training_run_id = %s", run_id)
    assert saved["storage_path"]
    assert steps_of(run_id, "time/fps")[-1] == saved["step"]
    # What was asked of that launch is not asked of the next; SIGTERM does the same, and says so.
    again = launch(run_id)
    again.wait_for(lambda: (row_of(query, run_id)["current_step"] or 0) >= saved["step"] + 100)
    again.process.send_signal(signal.SIGTERM)
    code, said = again.end()
    assert code == 128 + signal.SIGTERM, said
    assert ended(query, run_id)["status_message"] == "stopped by SIGTERM"
    steps = steps_of(run_id, "time/fps")
    assert steps == sorted(set(steps))


def test_a_process_whose_run_another_one_has_begun_to_train_ends_and_leaves_the_run_to_it(
    query: Query, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run_id = new_run(total_timesteps=1_000_000, hyperparameters=PPO, evaluation=FEW_EVALUATIONS)
    begin_evaluating, another = Evaluations.on_training_start, new_id()

    def begin(*arguments: Any) -> None:
        begin_evaluating(*arguments)
        get_client().rpc("resume_run", {"run_id": run_id, "change_id": another, "rewind_to_step": -1})

    monkeypatch.setattr(Evaluations, "on_training_start", begin)
    with Stop(poll_seconds=0.05) as stop:
        code = serve(Launch(run_id), stop)

    assert code == TAKEN
    assert "another process trains this run now" in capfd.readouterr().err
    wait_until(lambda: not local_state(spool_root(load_settings()), run_id, undelivered_only=True).is_left)
    row = row_of(query, run_id)
    assert (row["status"], str(row["status_change_id"]), row["timeline"]) == ("running", another, 1)
    assert MetricManager.get_series(run_id) == {}


class Parts(gymnasium.Env[Any, Any]):
    """An environment of which some observations can be normalized."""

    observation_space = spaces.Dict({"speed": spaces.Box(-9, 9, (2,)), "gear": spaces.Discrete(5)})
    action_space = spaces.Discrete(2)

    def reset(self, **_options: Any) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, _action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, random.random() < 0.5, False, {}


gymnasium.register("Parts-v0", Parts, disable_env_checker=True)


class Pictures(Parts):
    """An environment whose observations are images."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)


gymnasium.register("Pictures-v0", Pictures, disable_env_checker=True)


@pytest.mark.parametrize("environment", ["Parts-v0", "Pictures-v0", "FrozenLake-v1"])
def test_images_and_choices_are_not_normalized(environment: str) -> None:
    config = {"total_timesteps": 32, "normalize": True, "hyperparameters": PPO, "evaluation": FEW_EVALUATIONS}
    assert train(new_run("ppo", environment, **config)).status == "completed"


def test_an_episode_that_began_where_the_run_is_rewound_to_is_hidden(query: Query) -> None:
    # Of 200 steps: none ends here.
    config = {"total_timesteps": 96, "hyperparameters": PPO, "evaluation": FEW_EVALUATIONS}
    run_id = new_run("ppo", "Pendulum-v1", **config)
    kept = train(run_id, stop_at=40).step
    assert train(run_id, stop_at=60).step > kept

    resumption = {"run_id": run_id, "change_id": new_id(), "rewind_to_step": kept}
    get_client().rpc("resume_run", resumption)

    found = query("select timeline, rewound_at is null as counts from rollouts where training_run_id = %s", run_id)
    assert sorted((row["timeline"], row["counts"]) for row in found) == [(0, True), (1, False)]


@pytest.mark.parametrize("before", [True, False])
def test_a_run_goes_on_with_the_normalization_of_its_checkpoint(before: bool) -> None:
    config = {"total_timesteps": 96, "hyperparameters": PPO, "evaluation": FEW_EVALUATIONS}
    run_id = new_run("ppo", "CartPole-v1", normalize=before, **config)
    assert train(run_id, stop_at=40).status == "interrupted"
    TrainingRunManager.update_run(run_id, config={**config, "normalize": not before})
    assert train(run_id).status == "completed"


def test_an_attempt_that_another_process_has_begun_is_left_alone(
    query: Query, capfd: pytest.CaptureFixture[str]
) -> None:
    run_id = new_run(total_timesteps=32, hyperparameters=PPO, evaluation=FEW_EVALUATIONS)
    job = get_client().rpc("request_job", {"run_id": run_id, "config": {}})["job"]
    attempt = {"job_id": job["id"], "attempt": job["attempt"]}
    get_client().rpc("begin_attempt", {**attempt, "token": "another"})

    code = serve(Launch(run_id, job_id=job["id"], job_attempt=job["attempt"]), Stop())

    assert code == TAKEN
    assert "not ours to train" in capfd.readouterr().err
    assert row_of(query, run_id)["status"] == "pending"
    assert row_of(query, run_id)["started_at"] is None


def test_the_trainer_is_prepared_without_a_run(query: Query) -> None:
    row = {"id": new_id(), "algorithm": "dqn", "environment": "Pendulum-v1", "started_at": None}
    config = parse_config({"total_timesteps": 9})
    assert isinstance(config, TrainerConfig)
    with pytest.raises(InvalidInput):
        Trainer(load_settings(), row, config, Intervals())
    assert query("select 1 from training_runs where id = %s", row["id"]) == []
