"""Evaluations have the figures that Stable-Baselines3 and sb3-contrib find themselves for the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback, OpenManusEvalCallback

pytestmark = pytest.mark.usefixtures("recorder_env")
torch.set_num_threads(1)

SETTINGS = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "device": "cpu", "seed": 1}


class Doors(gymnasium.Env[Any, Any]):
    """Eighteen steps; of eight doors one is open each time, only it earns something, and only the mask tells which."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(8)
    length = 18

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(self.action_masks()[int(action)])
        self._steps += 1
        return np.zeros(1, np.float32), reward, False, self._steps == self.length, {}

    def action_masks(self) -> Any:
        return np.arange(8) == (self._steps * 5 + 3) % 8


class Closed(Doors):
    """Doors that do not say which is open."""

    action_masks = property()  # type: ignore[assignment]


class LastSign(gymnasium.Env[Any, Any]):
    """Wants the sign that was shown before the last: nobody without memory knows it."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps, self._before, self._sign = 0, 0, 1
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self._before) + 0.01 * self._steps
        self._steps += 1
        self._before, self._sign = self._sign, (self._steps * 7 // 3) % 2
        return self._seen(), reward, self._steps == 11, False, {"is_success": reward > 1}

    def _seen(self) -> Any:
        return np.array([self._sign], np.float32)


def results(folder: Path) -> list[list[float]]:
    found: list[list[float]] = np.load(folder / "evaluations.npz")["results"].tolist()
    return found


def recorded(query: Any, run: Any) -> list[tuple[float, list[float]]]:
    """Return the mean of each evaluation, and the returns of its episodes."""
    assert run.flush(), run.stats
    rows = query(
        """
        select e.mean_reward, array_agg(r.total_reward order by r.id) as returns
        from evaluations e join rollout_groups g on g.evaluation_id = e.id join rollouts r on r.group_id = g.id
        where e.training_run_id = %s group by e.id order by e.step
        """,
        run.id,
    )
    return [(row["mean_reward"], row["returns"]) for row in rows]


def compare(query: Any, tmp_path: Path, model: Any, make_env: Any, theirs: Any, **options: Any) -> Any:
    """Train with both evaluations beside each other, and hold ours against theirs."""
    shared = {"eval_freq": 32, "n_eval_episodes": 3, "verbose": 0} | options
    ours = OpenManusEvalCallback(make_env(), log_path=str(tmp_path / "ours"), **shared)
    other = theirs(make_env(), log_path=str(tmp_path / "theirs"), **shared)
    callback = OpenManusCallback(turn_interval_episodes=0)
    model.learn(64, callback=[callback, ours, other])
    found = recorded(query, callback.run)
    assert results(tmp_path / "ours") == results(tmp_path / "theirs")
    assert [pytest.approx(mean) for mean, _ in found] == [np.mean(one) for one in results(tmp_path / "theirs")]
    assert [sorted(returns) for _, returns in found] == [sorted(one) for one in results(tmp_path / "theirs")]
    assert ours.best_mean_reward == other.best_mean_reward
    return callback.run


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_models_that_take_masks_are_evaluated_with_them(query: Any, tmp_path: Path, vector: Any) -> None:
    model = MaskablePPO("MlpPolicy", Doors(), **SETTINGS)
    run = compare(
        query, tmp_path, model, lambda: vector([lambda: Monitor(Doors()) for _ in range(2)]), MaskableEvalCallback
    )
    assert {mean for mean, _ in recorded(query, run)} == {18.0}
    assert model.__class__ is MaskablePPO


def test_masks_can_be_left_out_and_must_be_there_otherwise(query: Any, tmp_path: Path) -> None:
    model = MaskablePPO("MlpPolicy", Doors(), **SETTINGS)
    run = compare(query, tmp_path, model, lambda: Monitor(Doors()), MaskableEvalCallback, use_masking=False)
    assert all(mean < 18 for mean, _ in recorded(query, run))
    with pytest.raises(InvalidInput, match="Closed: it has no action_masks, which MaskablePPO needs"):
        model.learn(32, callback=[OpenManusCallback(), OpenManusEvalCallback(Monitor(Closed()), verbose=0)])


def test_models_with_a_memory_are_evaluated_with_it(query: Any, tmp_path: Path) -> None:
    model = RecurrentPPO("MlpLstmPolicy", LastSign(), policy_kwargs={"lstm_hidden_size": 8}, **SETTINGS)
    compare(query, tmp_path, model, lambda: DummyVecEnv([LastSign, LastSign]), EvalCallback, warn=False)


def test_scaling_is_that_of_training(query: Any, tmp_path: Path) -> None:
    def scaled() -> VecNormalize:
        return VecNormalize(DummyVecEnv([lambda: Monitor(LastSign())]))

    def for_evaluation() -> VecNormalize:
        env = scaled()
        env.training = env.norm_reward = False
        return env

    compare(query, tmp_path, PPO("MlpPolicy", scaled(), **SETTINGS), for_evaluation, EvalCallback)


def test_the_options_of_stable_baselines3_work_as_there(tmp_path: Path) -> None:
    class Counts(BaseCallback):
        def _on_step(self) -> bool:
            return True

    after, threshold = Counts(), StopTrainingOnRewardThreshold(reward_threshold=17.0)
    evaluate = OpenManusEvalCallback(
        Monitor(Doors()),
        eval_freq=32,
        n_eval_episodes=1,
        callback_after_eval=after,
        callback_on_new_best=threshold,
        best_model_save_path=str(tmp_path),
        verbose=0,
    )
    model = MaskablePPO("MlpPolicy", Doors(), **SETTINGS)
    model.learn(96, callback=[OpenManusCallback(), evaluate])
    # 18 is enough: training stopped with the first evaluation.
    assert (model.num_timesteps, after.n_calls, evaluate.best_mean_reward) == (32, 0, 18.0)
    assert after.model is model
    assert MaskablePPO.load(tmp_path / "best_model.zip").num_timesteps == 32


def test_an_evaluation_that_breaks_leaves_nothing_running(query: Any, ended: Any) -> None:
    class Broken(Doors):
        length = 100

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            if self._steps == 3:
                raise RuntimeError("the door is stuck")
            return super().step(action)

    evaluate = OpenManusEvalCallback(Monitor(Broken()), eval_freq=32, turn_interval_episodes=1, verbose=0)
    with pytest.raises(RuntimeError, match="stuck"), OpenManusCallback() as callback:
        MaskablePPO("MlpPolicy", Doors(), **SETTINGS).learn(64, callback=[callback, evaluate])
    assert ended(callback.run)["status"] == "failed"
    assert callback.run.flush()
    (evaluation,) = query("select * from evaluations where training_run_id = %s", callback.run.id)
    assert (evaluation["status"], evaluation["status_message"]) == ("failed", "RuntimeError: the door is stuck")
    of_it = "select status, step_count from rollouts where training_run_id = %s and source = 'evaluation'"
    assert query(of_it, callback.run.id) == [{"status": "error", "step_count": 3}]
