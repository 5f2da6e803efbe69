"""Stable-Baselines3's own account of training, and what of it is in the database."""

from __future__ import annotations

import csv
import gc
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import CSVOutputFormat, Logger
from stable_baselines3.common.monitor import Monitor, load_results
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import openmanus_rl
from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback, OpenManusEvalCallback

Rows = list[dict[str, Any]]
Read = Callable[[Any], Rows]

pytestmark = pytest.mark.usefixtures("recorder_env")

# These models are too small to share out; threads would only wait for each other.
torch.set_num_threads(1)


class Corridor(gymnasium.Env[Any, Any]):
    """Five steps to the right are success; drawn as a bar."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(0, 5, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._place, self._steps = 0, 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = max(0, self._place + (1 if action else -1))
        self._steps += 1
        arrived = self._place == 5
        over = arrived or self._steps == 12
        return self._seen(), float(arrived), arrived, over and not arrived, {"is_success": arrived} if over else {}

    def render(self) -> Any:
        return np.full((16, 16, 3), 40 * self._place, np.uint8)

    def _seen(self) -> Any:
        return np.array([self._place], np.float32)


class Breaks(BaseCallback):
    """Raises in the middle of training."""

    def _on_step(self) -> bool:
        if self.num_timesteps >= 48:
            raise FloatingPointError("loss is NaN")
        return True


def small_ppo(env: Any, **options: Any) -> PPO:
    return PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=1, **options)


def episodes(rollouts: Rows) -> list[tuple[float, int]]:
    """Return returns and lengths of the episodes that ended by themselves."""
    ended = [r for r in rollouts if r["status"] != "interrupted"]
    return sorted((round(r["total_reward"], 6), r["step_count"]) for r in ended)


def monitored(folder: Path) -> list[tuple[float, int]]:
    frame = load_results(str(folder))
    return sorted(zip(frame["r"].round(6), frame["l"], strict=True))


def logger_with_csv() -> tuple[Logger, io.StringIO]:
    written = io.StringIO()
    output = CSVOutputFormat.__new__(CSVOutputFormat)
    output.file, output.keys, output.separator, output.quotechar = written, [], ",", '"'
    return Logger(None, [output]), written


def test_ppo_is_recorded_as_monitor_and_logger_saw_it(
    tmp_path: Path, query: Any, rollouts_of: Read, turns_of: Read
) -> None:
    env = make_vec_env("CartPole-v1", n_envs=2, seed=1, monitor_dir=str(tmp_path))
    model = small_ppo(env, learning_rate=lambda left: 1e-3 * left)
    logger, written = logger_with_csv()
    model.set_logger(logger)
    run = openmanus_rl.init(name="ppo")
    model.learn(1024, callback=OpenManusCallback(run, turn_interval_episodes=10))

    rollouts = rollouts_of(run)
    assert len(rollouts) > 20
    assert episodes(rollouts) == monitored(tmp_path)
    assert all(0 < r["step"] <= 1024 for r in rollouts)
    ended = [r for r in rollouts if r["status"] != "interrupted"]
    with_turns = [r for r in ended if turns_of(r)]
    assert len(with_turns) in (len(ended) // 10, len(ended) // 10 + 1)
    for rollout in with_turns:
        turns = turns_of(rollout)
        assert len(turns) == rollout["step_count"]
        assert sum(turn["reward"] for turn in turns) == rollout["total_reward"]

    found = query("select name, step, value from metrics where training_run_id = %s", run.id)
    recorded = {(row["name"], row["step"]): row["value"] for row in found}
    wrote = [
        (name, int(row["time/total_timesteps"]), float(value))
        for row in csv.DictReader(io.StringIO(written.getvalue()))
        for name, value in row.items()
        if value
    ]
    assert {"rollout/ep_rew_mean", "train/loss", "time/fps"} <= {name for name, _, _ in wrote}
    for name, step, value in wrote:
        assert recorded[name, step] == pytest.approx(value), (name, step)
    assert len(recorded) == len(found) == len(wrote)
    (row,) = query("select * from training_runs where id = %s", run.id)
    assert (row["status"], row["current_step"], row["progress"]) == ("running", 1024, 1.0)
    assert len(logger.output_formats) == 1
    run.finish()


def test_a_run_of_its_own_says_how_is_trained_and_ends_with_training(query: Any, ended: Any) -> None:
    callback = OpenManusCallback(turn_interval_episodes=0, tags=["a"], checkpoint_interval_steps=100)
    model = DQN("MlpPolicy", "CartPole-v1", learning_starts=50, batch_size=8, buffer_size=500, device="cpu", seed=2)
    kept: list[Any] = []
    model.learn(260, callback=[callback, Notes(callback, kept)])
    run = kept[0]
    row = ended(run)
    assert (row["name"], row["algorithm"], row["environment"]) == ("CartPole-v1-dqn", "dqn", "CartPole-v1")
    assert (row["status"], row["tags"], row["total_steps"]) == ("completed", ["a"], 260)
    assert (
        row["config"].items() >= {"learning_starts": 50, "batch_size": 8, "gamma": 0.99, "learning_rate": 1e-4}.items()
    )
    rollouts = query("select * from rollouts where training_run_id = %s", run.id)
    assert episodes(rollouts) == sorted((info["r"], info["l"]) for info in model.ep_info_buffer)
    names = {r["name"] for r in query("select distinct name from metrics where training_run_id = %s", run.id)}
    assert {"rollout/exploration_rate", "rollout/ep_rew_mean", "train/loss"} <= names
    checkpoints = query("select * from model_checkpoints where training_run_id = %s order by step", run.id)
    assert [c["step"] for c in checkpoints] == [100, 200, 260]
    assert all(c["storage_path"].endswith(".zip") and c["size_bytes"] > 1000 for c in checkpoints)


class Notes(BaseCallback):
    """Keeps the run that the callback made, which is gone when training is over."""

    def __init__(self, other: OpenManusCallback, kept: list[Any]) -> None:
        super().__init__()
        self._other, self._kept = other, kept

    def _on_step(self) -> bool:
        self._kept[:] = [self._other.run]
        return True


def test_learning_goes_on_in_the_same_run(tmp_path: Path, query: Any, rollouts_of: Read) -> None:
    env = Monitor(gymnasium.make("CartPole-v1"), str(tmp_path / "a"))
    model = small_ppo(env)
    callback = OpenManusCallback(finish_run=False, turn_interval_episodes=1)
    model.learn(128, callback=callback)
    run = callback.run
    model.learn(128, callback=callback, reset_num_timesteps=False)
    assert callback.run is run
    rollouts = rollouts_of(run)
    assert episodes(rollouts) == monitored(tmp_path)
    assert max(r["step"] for r in rollouts) > 128
    steps = query("select max(step) as last from metrics where training_run_id = %s", run.id)
    assert steps == [{"last": 256}]
    run.finish()


def test_a_second_training_of_a_finished_run_is_another_run(ended: Any) -> None:
    model = small_ppo(Corridor())
    callback = OpenManusCallback()
    kept: list[Any] = []
    found = []
    for _ in range(2):
        model.learn(64, callback=[callback, Notes(callback, kept)])
        found.append(kept[0])
    assert [ended(run)["status"] for run in found] == ["completed", "completed"]
    assert found[0].id != found[1].id


def test_an_exception_marks_the_run_failed_and_is_raised_on(query: Any, ended: Any) -> None:
    model = small_ppo(Corridor())
    kept: list[Any] = []
    with pytest.raises(FloatingPointError), OpenManusCallback(turn_interval_episodes=1) as callback:
        model.learn(128, callback=[callback, Notes(callback, kept), Breaks()])
    row = ended(kept[0])
    assert (row["status"], row["status_message"]) == ("failed", "FloatingPointError: loss is NaN")
    rollouts = query("select distinct status from rollouts where training_run_id = %s", kept[0].id)
    statuses = {r["status"] for r in rollouts}
    assert "error" in statuses
    assert "running" not in statuses


def test_training_that_broke_off_without_a_block_is_failed_when_it_is_forgotten(ended: Any) -> None:
    model = small_ppo(Corridor())
    kept: list[Any] = []

    def train() -> None:
        callback = OpenManusCallback()
        model.learn(128, callback=[callback, Notes(callback, kept), Breaks()])

    with pytest.raises(FloatingPointError):
        train()
    gc.collect()
    row = ended(kept[0])
    assert (row["status"], row["status_message"]) == ("failed", "training was aborted")
    assert model.logger.output_formats == []


def test_evaluations_have_the_figures_and_episodes_of_stable_baselines3(
    tmp_path: Path, query: Any, turns_of: Read
) -> None:
    model = small_ppo(Corridor())
    evaluator = OpenManusEvalCallback(
        Monitor(Corridor()),
        eval_freq=64,
        n_eval_episodes=3,
        turn_interval_episodes=2,
        log_path=str(tmp_path),
        verbose=0,
    )
    callback = OpenManusCallback(finish_run=False)
    model.learn(128, callback=[callback, evaluator])
    run = callback.run
    assert run.flush(), run.stats
    truth = np.load(tmp_path / "evaluations.npz")
    found = query("select * from evaluations where training_run_id = %s order by step", run.id)
    assert [row["step"] for row in found] == truth["timesteps"].tolist() == [64, 128]
    for row, results, lengths, successes in zip(
        found, truth["results"], truth["ep_lengths"], truth["successes"], strict=True
    ):
        assert (row["status"], row["environment"]) == ("completed", "Corridor")
        assert row["mean_reward"] == pytest.approx(results.mean())
        assert row["mean_turns"] == pytest.approx(lengths.mean())
        assert row["success_rate"] == pytest.approx(successes.mean())
        rollouts = query(
            """
            select r.* from rollouts r join rollout_groups g on g.id = r.group_id
            where g.evaluation_id = %s order by r.id
            """,
            row["id"],
        )
        assert [(r["total_reward"], r["step_count"]) for r in rollouts] == list(zip(results, lengths, strict=True))
        assert [len(turns_of(r)) for r in rollouts] == [lengths[0], 0, lengths[2]]
        assert {r["source"] for r in rollouts} == {"evaluation"}
    run.finish()


def test_evaluations_without_a_run_are_refused_before_training() -> None:
    model = small_ppo(Corridor())
    with pytest.raises(InvalidInput, match="no OpenManusCallback records this model"):
        model.learn(64, callback=OpenManusEvalCallback(Monitor(Corridor()), verbose=0))


def test_pictures_of_episodes_show_what_was_seen(query: Any, turns_of: Read) -> None:
    model = small_ppo(make_vec_env(Corridor, n_envs=2, vec_env_cls=DummyVecEnv))
    callback = OpenManusCallback(
        finish_run=False, turn_interval_episodes=8, frame_interval=1, video_interval_episodes=8
    )
    model.learn(128, callback=callback)
    run = callback.run
    assert run.flush(), run.stats
    rollouts = query("select * from rollouts where training_run_id = %s and video_path is not null order by id", run.id)
    assert rollouts
    turns = turns_of(rollouts[0])
    frames = query(
        """
        select step_number, path from media join agent_states a on a.id = agent_state_id
        where media.rollout_id = %s and kind = 'frame' order by step_number
        """,
        rollouts[0]["id"],
    )
    assert [frame["step_number"] for frame in frames] == list(range(len(turns)))
    # The same place looks the same, and is stored once: a picture of what followed would differ.
    by_place: dict[str, set[str]] = {}
    for turn, frame in zip(turns, frames, strict=True):
        by_place.setdefault(turn["observation"], set()).add(frame["path"])
    assert all(len(paths) == 1 for paths in by_place.values())
    assert len({path for paths in by_place.values() for path in paths}) == len(by_place)
    run.finish()


def test_scaled_environments_are_recorded_as_they_are(rollouts_of: Read, turns_of: Read) -> None:
    env = VecNormalize(DummyVecEnv([lambda: Corridor()]))
    model = small_ppo(env)
    callback = OpenManusCallback(finish_run=False, turn_interval_episodes=1)
    model.learn(64, callback=callback)
    rollouts = [r for r in rollouts_of(callback.run) if r["status"] != "interrupted"]
    assert rollouts
    for rollout in rollouts:
        turns = turns_of(rollout)
        assert {json.loads(turn["observation"])[0] for turn in turns} <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert rollout["status"] == ("success" if rollout["total_reward"] == 1 else "failed")
        # Nobody but the callback counts here: there is no Monitor.
        assert (len(turns), sum(turn["reward"] for turn in turns)) == (rollout["step_count"], rollout["total_reward"])
    callback.run.finish()


def test_pictures_that_nobody_draws_are_refused_before_there_is_a_run(query: Any) -> None:
    model = small_ppo(gymnasium.make("CartPole-v1"))
    with pytest.raises(InvalidInput, match="CartPole-v1: cannot record frames"):
        model.learn(64, callback=OpenManusCallback(name="no frames", frame_interval=1))
    assert query("select 1 from training_runs where name = 'no frames'") == []
