"""Information about a Stable-Baselines3 model and its environments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize, is_vecenv_wrapped, unwrap_vec_normalize

from openmanus_rl.integrations._readable import as_plain
from openmanus_rl.recorder import Run

__all__ = [
    "Originals",
    "algorithm_of",
    "config_of",
    "environment_of",
    "is_monitored",
    "pick",
    "runs",
]


runs: WeakKeyDictionary[BaseAlgorithm, Run] = WeakKeyDictionary()
"""The run of each model, so that several callbacks record to the same run."""

# Arguments that are not hyperparameters.
_NOT_CONFIG = {"self", "env", "policy", "tensorboard_log", "verbose", "device", "_init_setup_model"}


def algorithm_of(model: BaseAlgorithm) -> str:
    """Return the name of the algorithm, such as "ppo"."""
    return type(model).__name__.lower()


def environment_of(env: VecEnv) -> str:
    """Return the id of the environments, or the name of their class if they have none."""
    spec = env.get_attr("spec", indices=[0])[0]
    if spec is not None:
        return str(spec.id)
    inside = getattr(env.unwrapped, "envs", None)
    return type(inside[0].unwrapped).__name__ if inside else type(env.unwrapped).__name__


def config_of(model: BaseAlgorithm) -> dict[str, Any]:
    """Return the model's hyperparameters, including defaults."""
    config: dict[str, Any] = {
        "policy": type(model.policy).__name__,
        "n_envs": model.n_envs,
        "device": str(model.device),
    }
    for name in inspect.signature(type(model).__init__).parameters:
        if name not in _NOT_CONFIG and hasattr(model, name):
            config[name] = _plain(getattr(model, name))
    return config


def _plain(value: Any) -> Any:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if callable(value):
        return _schedule(value)
    return as_plain(value)


def _schedule(value: Any) -> Any:
    """Return a schedule as a constant or as its first and last value; another callable as its name."""
    try:
        start, end = float(value(1.0)), float(value(0.0))
    except (TypeError, ValueError):
        return getattr(value, "__name__", type(value).__name__)
    return start if start == end else {"start": start, "end": end}


def is_monitored(env: VecEnv) -> bool:
    """Whether a Monitor reports the ends of episodes; then `done` may also be the loss of a life."""
    return is_vecenv_wrapped(env, VecMonitor) or env.env_is_wrapped(Monitor)[0]


def pick(batch: Any, index: int) -> Any:
    """Return one environment's part of a batch of observations."""
    if isinstance(batch, dict):
        return {name: values[index] for name, values in batch.items()}
    return batch[index]


class Originals:
    """Observations and rewards before VecNormalize, if it is used."""

    def __init__(self, env: VecEnv) -> None:
        self._scaler: VecNormalize | None = unwrap_vec_normalize(env)

    def observations(self, given: Any) -> Any:
        """Return the latest observations, not normalized."""
        return given if self._scaler is None else self._scaler.get_original_obs()

    def rewards(self, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the latest rewards, not normalized."""
        return given if self._scaler is None else self._scaler.get_original_reward()

    def unscaled(self, observation: Any) -> Any:
        """Return an observation without its normalization; clipped values stay clipped."""
        return observation if self._scaler is None else self._scaler.unnormalize_obs(observation)

    def final(self, info: Mapping[str, Any], *, otherwise: Any) -> Any:
        """Return the last observation of a finished episode; the environment has already been reset."""
        seen = info.get("terminal_observation")
        return otherwise if seen is None else self.unscaled(seen)
