"""Which run Stable-Baselines3 records to: once, again, from a checkpoint, and in a run that has been trained before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import openmanus_rl
from openmanus_rl.errors import NotFoundError, TransientError
from openmanus_rl.integrations.stable_baselines3 import (
    OpenManusCallback,
    OpenManusEvalCallback,
    load_replay_buffer,
    load_vec_normalize,
)
from openmanus_rl.records.ids import new_id
from openmanus_rl.utils.supabase_storage import StorageManager

pytestmark = pytest.mark.usefixtures("recorder_env")
torch.set_num_threads(1)


class Countdown(gymnasium.Env[Any, Any]):
    """Eight steps, each worth what was chosen."""

    observation_space = gymnasium.spaces.Box(0, 8, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._left = 8
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return self._seen(), float(action), self._left == 0, False, {}

    def _seen(self) -> Any:
        return np.array([self._left], np.float32)


class Breaks(BaseCallback):
    """Raises in the middle of training."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._at:
            raise FloatingPointError("loss is NaN")
        return True


def small_ppo(env: Any) -> PPO:
    return PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=1)


def settled(run: Any) -> Any:
    assert run.flush(), run.stats
    return run


def point_steps(query: Any, run: Any) -> list[int]:
    settled(run)
    found = query(
        "select step from metrics where training_run_id = %s and name = 'rollout/ep_rew_mean' order by step", run.id
    )
    return [row["step"] for row in found]


def test_the_run_stays_at_hand_after_training(ended: Any) -> None:
    callback = OpenManusCallback()
    small_ppo(Countdown()).learn(32, callback=callback)
    assert ended(callback.run)["status"] == "completed"
    assert callback.run.flush()
    with OpenManusCallback() as callback:
        small_ppo(Countdown()).learn(32, callback=callback)
    assert ended(callback.run)["status"] == "completed"


def test_training_anew_under_the_same_name_takes_the_place_of_what_was_there(query: Any, ended: Any) -> None:
    name = f"again-{new_id()}"
    callbacks = [OpenManusCallback(run_name=name, checkpoint_interval_steps=32) for _ in range(2)]
    small_ppo(Countdown()).learn(96, callback=callbacks[0])
    settled(callbacks[0].run)
    model = small_ppo(Countdown())
    model.learn(64, callback=callbacks[1])
    first, second = (callback.run for callback in callbacks)
    assert first.id == second.id
    assert point_steps(query, second) == [32, 64]
    # The same callback once more: what was begun anew is begun anew again.
    model.learn(32, callback=callbacks[1])
    assert callbacks[1].run.id == first.id
    assert point_steps(query, callbacks[1].run) == [32]
    kept = "select {} from {} where training_run_id = %s and rewound_at is null order by 1"
    assert query(kept.format("step", "model_checkpoints"), first.id) == [{"step": 32}]
    assert len(query(kept.format("id", "rollouts"), first.id)) == 4
    assert ended(callbacks[1].run)["status"] == "completed"


def test_training_that_counts_on_goes_on_with_its_run(query: Any, ended: Any) -> None:
    callback = OpenManusCallback()
    model = small_ppo(Countdown())
    model.learn(64, callback=callback)
    first = callback.run
    model.learn(32, callback=callback, reset_num_timesteps=False)
    assert callback.run.id == first.id
    assert point_steps(query, callback.run) == [32, 64, 96]
    assert ended(callback.run)["status"] == "completed"
    model.learn(32, callback=callback)
    assert callback.run.id != first.id


def test_a_model_loaded_from_a_checkpoint_goes_on_where_the_checkpoint_was(
    query: Any, tmp_path: Path, ended: Any
) -> None:
    name = f"loaded-{new_id()}"
    model = small_ppo(Countdown())
    model.learn(64)
    model.save(tmp_path / "model.zip")
    with pytest.raises(FloatingPointError), OpenManusCallback(run_name=name) as first:
        small_ppo(Countdown()).learn(160, callback=[first, Breaks(150)])
    settled(first.run)
    assert point_steps(query, first.run) == [32, 64, 96, 128]

    second = OpenManusCallback(run_name=name)
    loaded = PPO.load(tmp_path / "model.zip", env=Countdown())
    loaded.learn(32, callback=second, reset_num_timesteps=False)
    assert second.run.id == first.run.id
    assert point_steps(query, second.run) == [32, 64, 96]
    assert ended(second.run)["status"] == "completed"


def test_a_run_that_is_open_gets_a_second_training_behind_the_first(query: Any) -> None:
    with openmanus_rl.init(name="twice") as run:
        for _ in range(2):
            evaluate = OpenManusEvalCallback(Monitor(Countdown()), eval_freq=32, n_eval_episodes=1, verbose=0)
            callback = OpenManusCallback(run, checkpoint_interval_steps=64)
            small_ppo(Countdown()).learn(64, callback=[callback, evaluate])
        assert point_steps(query, run) == [32, 64, 96, 128]
    for table, steps in (("evaluations", [32, 64, 96, 128]), ("model_checkpoints", [64, 128])):
        found = query(f"select step from {table} where training_run_id = %s order by step", run.id)
        assert [row["step"] for row in found] == steps
    kept = OpenManusCallback(finish_run=False)
    model = small_ppo(Countdown())
    for _ in range(2):
        model.learn(64, callback=kept)
    assert point_steps(query, kept.run) == [32, 64, 96, 128]
    kept.run.finish()


def test_training_goes_on_while_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"away-{new_id()}"
    model = small_ppo(Countdown())
    model.learn(64, callback=OpenManusCallback(run_name=name))
    # Another machine, from which the database can't be reached.
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path))
    monkeypatch.setenv("SUPABASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SUPABASE_DB_URL", "")
    monkeypatch.setenv("OPENMANUS_RL_ASK_TIMEOUT_SECONDS", "1")
    with pytest.raises(TransientError, match="this machine has no record of it"):
        model.learn(32, callback=OpenManusCallback(run_name=name, resume="must"), reset_num_timesteps=False)
    callback = OpenManusCallback(run_name=name)
    model.learn(32, callback=callback, reset_num_timesteps=False)
    assert callback.run.stats.queued > 0


def test_training_that_broke_off_and_begins_again_is_another_run(ended: Any) -> None:
    callback = OpenManusCallback()
    model = small_ppo(Countdown())
    with pytest.raises(FloatingPointError):
        model.learn(64, callback=[callback, Breaks(40)])
    broken = callback.run
    model.learn(32, callback=callback)
    assert callback.run.id != broken.id
    assert [ended(run)["status"] for run in (broken, callback.run)] == ["failed", "completed"]


def downloaded(query: Any, run: Any, folder: Path) -> Path:
    (found,) = query("select storage_path from model_checkpoints where training_run_id = %s", settled(run).id)
    path = folder / "checkpoint.zip"
    StorageManager.download_file("model-checkpoints", found["storage_path"], path)
    return path


def test_a_checkpoint_brings_back_the_scaling_that_the_model_was_trained_with(query: Any, tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([lambda: Monitor(gymnasium.make("Pendulum-v1"))]))
    model = small_ppo(env)
    callback = OpenManusCallback(checkpoint_interval_steps=256)
    model.learn(256, callback=callback)
    path = downloaded(query, callback.run, tmp_path)

    def evaluated(model: PPO, env: VecNormalize) -> Any:
        env.training, env.norm_reward = False, False
        env.seed(3)
        return evaluate_policy(model, env, n_eval_episodes=2, return_episode_rewards=True)

    restored = load_vec_normalize(path, DummyVecEnv([lambda: Monitor(gymnasium.make("Pendulum-v1"))]))
    assert restored.obs_rms.count == env.obs_rms.count > 256
    assert evaluated(PPO.load(path), restored) == evaluated(model, env)
    with pytest.raises(NotFoundError, match="contains no replay_buffer"):
        load_replay_buffer(path, DQN("MlpPolicy", Countdown(), buffer_size=10))


def test_a_checkpoint_brings_back_the_replay_buffer_if_that_was_asked_for(query: Any, tmp_path: Path) -> None:
    model = DQN("MlpPolicy", Countdown(), learning_starts=8, batch_size=8, buffer_size=100, device="cpu", seed=1)
    callback = OpenManusCallback(checkpoint_interval_steps=40, save_replay_buffer=True)
    model.learn(40, callback=callback)
    path = downloaded(query, callback.run, tmp_path)
    loaded = DQN.load(path, env=Countdown())
    load_replay_buffer(path, loaded)
    assert loaded.replay_buffer.size() == 40
    np.testing.assert_array_equal(loaded.replay_buffer.observations, model.replay_buffer.observations)


class Waits(BaseCallback):
    """Waits once, in the middle of training, until everything so far is in the database, and counts the episodes."""

    def __init__(self, recorded: OpenManusCallback, query: Any, at: int) -> None:
        super().__init__()
        self._recorded, self._query, self._at = recorded, query, at
        self.found = -1

    def _on_step(self) -> bool:
        if self.num_timesteps == self._at:
            assert self._recorded.run.flush(), self._recorded.run.stats
            count = "select count(*) as n from rollouts where training_run_id = %s and status = 'completed'"
            self.found = self._query(count, self._recorded.run.id)[0]["n"]
        return True


def test_episodes_that_ended_are_there_when_somebody_waits_or_training_breaks_off(query: Any) -> None:
    callback = OpenManusCallback(turn_interval_episodes=2)
    waits = Waits(callback, query, at=84)
    with pytest.raises(FloatingPointError):
        small_ppo(Countdown()).learn(1000, callback=[callback, waits, Breaks(at=204)])
    assert waits.found == 10
    run_id, run = callback.run.id, callback.run
    # The callback is gone, and with it whatever it had not written.
    del callback, waits
    run.finish("failed")
    assert run.flush()
    rows = query(
        "select step_count, total_reward from rollouts where training_run_id = %s and status = 'completed'", run_id
    )
    assert [row["step_count"] for row in rows] == [8] * 25
    turns = query("select count(*) as n from agent_states where training_run_id = %s", run_id)
    assert 12 * 8 <= turns[0]["n"] <= 13 * 8
