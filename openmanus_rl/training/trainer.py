"""Trains a run with Stable-Baselines3, from the start or from its last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, VecTransposeImage, is_vecenv_wrapped

from openmanus_rl.errors import InvalidInput, OpenManusError
from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback
from openmanus_rl.recorder import Run, init
from openmanus_rl.settings import Settings, read_variables
from openmanus_rl.training.algorithms import (
    check_device,
    check_spaces,
    choose_policy,
    find_algorithm,
    parse_hyperparameters,
)
from openmanus_rl.training.callbacks import (
    Checkpoints,
    Evaluations,
    Evaluator,
    Frames,
    Metrics,
    OnProgress,
    Watcher,
)
from openmanus_rl.training.checkpoints import Saved, find_checkpoint
from openmanus_rl.training.config import TrainerConfig
from openmanus_rl.training.delivery import wait_for_delivery
from openmanus_rl.training.environment import Factory, can_render, make_environment
from openmanus_rl.training.outcome import Result, TrainingFailed
from openmanus_rl.training.patience import patiently
from openmanus_rl.training.stopping import Stop

__all__ = ["Intervals", "Trainer"]

# How long the end of training waits for what was recorded; after a signal, schedulers kill within half a minute.
_FLUSH_SECONDS = 120.0
_FLUSH_SECONDS_AFTER_SIGNAL = 20.0
_EVALUATION_SEED_OFFSET = 10_000


@dataclass(frozen=True)
class Intervals:
    """How often metrics and frames are recorded, in timesteps; 0: no frames."""

    metrics: int = 100
    frames: int = 1000


class Trainer:
    """Prepares and trains one run. What can be refused is refused before the run begins."""

    def __init__(self, settings: Settings, row: Mapping[str, Any], config: TrainerConfig, intervals: Intervals) -> None:
        self._settings = settings
        self.row = row
        """The run to train; it need not be in the database before `train`."""
        self._config = config
        self._intervals = intervals
        self._name = str(row["algorithm"] or "").lower()
        self._algorithm = find_algorithm(row["algorithm"])
        check_device(config.device)
        self._factory, self._version = make_environment(row)
        probe = self._factory(None)
        try:
            check_spaces(self._name, row["environment"], probe.observation_space, probe.action_space)
            self._policy = choose_policy(self._algorithm, config.policy, probe.observation_space)
            self._arguments = parse_hyperparameters(self._algorithm, config.hyperparameters, probe.action_space)
            self._render_mode = "rgb_array" if intervals.frames and can_render(probe) else None
        finally:
            probe.close()
        if self._policy == "MlpPolicy" and "OMP_NUM_THREADS" not in read_variables():
            # For small networks, several threads cost more than they save, and much more on a busy machine.
            torch.set_num_threads(1)

    def train(self, stop: Stop, *, on_progress: OnProgress | None = None) -> Result:
        """Train until the end or a stop, and end the run; an error ends it as failed and is raised."""
        run_id = self.row["id"]
        was_started = self.row["started_at"] is not None
        if was_started:
            wait_for_delivery(self._settings, run_id)
        with find_checkpoint(run_id) as saved:
            env = self._make_env(self._config.seed, self._config.n_envs, self._render_mode)
            model = self._make_model(env, saved)
            # Also for a run that has not begun: of two processes that begin it at once, the second begins anew.
            rewind_to = saved.step if saved is not None else -1
            total = self._config.total_timesteps
            run = patiently(lambda: init(run_id=run_id, rewind_to_step=rewind_to, total_steps=total), stop)
            try:
                return self._train(run, model, saved, stop, on_progress)
            except BaseException as error:
                run.__exit__(type(error), error, error.__traceback__)
                if isinstance(error, Exception):
                    raise TrainingFailed(f"{type(error).__name__}: {error}") from error
                raise
            finally:
                model.get_env().close()  # type: ignore[union-attr]

    def _train(
        self,
        run: Run,
        model: BaseAlgorithm,
        saved: Saved | None,
        stop: Stop,
        on_progress: OnProgress | None,
    ) -> Result:
        config = self._config
        if saved is not None and saved.progress.is_complete and saved.step >= config.total_timesteps:
            # Killed after its last checkpoint: only that it has completed was not said.
            run.update(current_step=saved.step, progress=1.0)
            return self._end(run, Result("completed", saved.step, saved.progress.mean_reward, None, True), stop)
        stop.watch(run.id, timeline=len(run.rewinds))
        if self._version is not None:
            run.update(environment_version=self._version)
        metrics = Metrics(
            self._intervals.metrics,
            unwritten=saved.state["logged"] if saved is not None else None,
            on_progress=on_progress,
        )
        evaluator = Evaluator(self._evaluation_env(model), run=run, episodes=config.evaluation.episodes, stop=stop)
        evaluations = Evaluations(
            evaluator,
            metrics,
            interval=config.evaluation_interval,
            total=config.total_timesteps,
            stop=stop,
            next_step=saved.progress.next_evaluation if saved is not None else None,
        )
        checkpoints = Checkpoints(run, evaluations, interval=config.checkpoint_interval, stop=stop)
        with OpenManusCallback(run, environment=self.row["environment"]) as recorder:
            # In this order: all of a step is recorded before the checkpoint, and the last evaluation before the end.
            callbacks = [
                evaluations,
                metrics,
                Frames(run, self._intervals.frames),
                recorder,
                checkpoints,
                Watcher(stop),
            ]
            try:
                model.learn(
                    max(0, config.total_timesteps - model.num_timesteps),
                    callback=CallbackList(callbacks),
                    log_interval=None,  # type: ignore[arg-type]
                    reset_num_timesteps=False,
                )
            finally:
                evaluator.eval_env.close()
        # Before the end is recorded: who sees the run ended finds its checkpoint.
        seconds = _FLUSH_SECONDS if stop.signal is None else _FLUSH_SECONDS_AFTER_SIGNAL
        is_delivered = run.flush(timeout_seconds=seconds)
        if is_delivered:
            stop.look_now()
        if stop.is_replaced:
            run.leave()
            return Result("replaced", model.num_timesteps, None, None, is_delivered)
        status = "completed" if evaluations.is_complete else "interrupted"
        result = Result(status, model.num_timesteps, evaluations.mean_reward, checkpoints.saved_id, is_delivered)
        return self._end(run, result, stop)

    def _end(self, run: Run, result: Result, stop: Stop) -> Result:
        if result.status == "completed":
            reward = result.mean_reward
            run.finish("completed", summary=None if reward is None else {"mean_evaluation_reward": reward})
        else:
            run.finish("interrupted", message=stop.message)
        if result.is_delivered and stop.signal is None:
            # The end too, so that whoever comes next, as to resume it or to archive it, finds the run ended.
            wait_for_delivery(self._settings, run.id)
        return result

    def _make_model(self, env: VecEnv, saved: Saved | None) -> BaseAlgorithm:
        if saved is not None:
            return saved.load(self._algorithm, saved.normalized(env), device=self._config.device)
        if self._config.normalize:
            env = _normalized(env, gamma=self._arguments.get("gamma", 0.99))
        given: dict[str, Any] = {**self._arguments, "seed": self._config.seed, "device": self._config.device}
        try:
            return self._algorithm(self._policy, env, verbose=0, **given)
        except OpenManusError:
            raise
        # Such as a batch that is larger than the rollout, or a device that is not there.
        except (AssertionError, AttributeError, MemoryError, RuntimeError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"config.hyperparameters: {self._algorithm.__name__} refuses them: {error}",
                field="config.hyperparameters",
            ) from error

    def _make_env(self, seed: int | None, count: int, render_mode: str | None) -> VecEnv:
        factory: Factory = self._factory

        def make(**_options: Any) -> gymnasium.Env[Any, Any]:
            return factory(render_mode)

        return make_vec_env(make, n_envs=count, seed=seed)

    def _evaluation_env(self, model: BaseAlgorithm) -> VecEnv:
        """Return an environment that is wrapped as the model's own, which may be that of a checkpoint."""
        seed = self._config.seed
        env = self._make_env(None if seed is None else seed + _EVALUATION_SEED_OFFSET, 1, None)
        scaler = model.get_vec_normalize_env()
        if scaler is not None:
            # Its statistics are copied from training before each evaluation.
            env = VecNormalize(
                env, training=False, norm_obs=scaler.norm_obs, norm_reward=False, norm_obs_keys=scaler.norm_obs_keys
            )
        is_turned = is_vecenv_wrapped(model.get_env(), VecTransposeImage)  # type: ignore[arg-type]
        return VecTransposeImage(env) if is_turned else env


def _normalized(env: VecEnv, *, gamma: float) -> VecNormalize:
    """Normalize rewards, and observations but for images, which the policies scale, and for choices."""
    space = env.observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    keys = [key for key, part in parts.items() if isinstance(part, spaces.Box) and not is_image_space(part)]
    in_parts = keys if keys and isinstance(space, spaces.Dict) else None
    return VecNormalize(env, norm_obs=bool(keys), norm_obs_keys=in_parts, gamma=gamma)
