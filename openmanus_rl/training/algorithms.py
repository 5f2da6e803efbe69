"""The algorithms of Stable-Baselines3: what their arguments are, and what they can train in."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

import numpy as np
import torch
from gymnasium import spaces
from pydantic import TypeAdapter, ValidationError
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.preprocessing import is_image_space

from openmanus_rl.errors import InvalidInput

__all__ = ["ALGORITHMS", "check_device", "check_spaces", "choose_policy", "find_algorithm", "parse_hyperparameters"]

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {"ppo": PPO, "dqn": DQN, "a2c": A2C, "sac": SAC, "td3": TD3}

_ANY_ACTIONS: tuple[type[spaces.Space[Any]], ...] = (
    spaces.Box,
    spaces.Discrete,
    spaces.MultiDiscrete,
    spaces.MultiBinary,
)
_ACTIONS: dict[str, tuple[type[spaces.Space[Any]], ...]] = {
    "ppo": _ANY_ACTIONS,
    "a2c": _ANY_ACTIONS,
    "dqn": (spaces.Discrete,),
    "sac": (spaces.Box,),
    "td3": (spaces.Box,),
}
# Set by the configuration itself, by this service, or not expressible in JSON.
_NOT_HYPERPARAMETERS = {
    "self",
    "policy",
    "env",
    "seed",
    "device",
    "verbose",
    "tensorboard_log",
    "_init_setup_model",
    "replay_buffer_class",
    "rollout_buffer_class",
}
_FIELD = "config.hyperparameters"
# What the convolutions of Stable-Baselines3 need in height and width; smaller observations, such as maps of cells, are
# read as vectors.
_SMALLEST_IMAGE = 36
_NOISES = {"normal": NormalActionNoise, "ornstein-uhlenbeck": OrnsteinUhlenbeckActionNoise}


def find_algorithm(name: str | None) -> type[BaseAlgorithm]:
    """Return an algorithm by its name."""
    found = ALGORITHMS.get((name or "").lower())
    if found is None:
        given = "is missing" if not name else f"is {name!r}"
        raise InvalidInput(
            f"algorithm {given}; it must be one of {', '.join(ALGORITHMS)}",
            field="algorithm",
            hint="a program of your own is named by config.entry_point",
        )
    return found


def check_spaces(algorithm: str, environment: str, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
    """Refuse an environment that the algorithm cannot train in."""
    fitting = _ACTIONS[algorithm]
    if not isinstance(actions, fitting):
        others = [name for name, kinds in _ACTIONS.items() if isinstance(actions, kinds)]
        wanted = " or ".join(kind.__name__ for kind in fitting)
        raise InvalidInput(
            f"algorithm {algorithm} needs actions of type {wanted}, but those of {environment} are {actions}",
            field="algorithm",
            hint=f"use {' or '.join(others)}" if others else "wrap the environment to simplify its actions",
        )
    problem = _problem(actions)
    if isinstance(actions, spaces.Box) and not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
        problem = "has no finite bounds"
    if problem is not None:
        raise InvalidInput(
            f"environment {environment} has an action space that Stable-Baselines3 cannot use: {actions} {problem}",
            field="environment",
            hint="wrap the environment to change its actions",
        )
    parts = observations.spaces.values() if isinstance(observations, spaces.Dict) else [observations]
    for part in parts:
        is_small_part = isinstance(observations, spaces.Dict) and is_image_space(part) and not _is_large(part)
        if not isinstance(part, _ANY_ACTIONS) or _problem(part) is not None or is_small_part:
            raise InvalidInput(
                f"environment {environment} has observations that Stable-Baselines3 cannot use: {observations}",
                field="environment",
                hint="flatten them with a wrapper, such as FlattenObservation",
            )


def _problem(space: spaces.Space[Any]) -> str | None:
    """Return what Stable-Baselines3 would overlook, and train on other values than the environment takes or gives."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) and np.any(space.start != 0):
        return "does not begin at 0"
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)) and len(space.shape) > 1:
        return "has several dimensions"
    return None


def _is_large(space: spaces.Space[Any]) -> bool:
    """Return whether convolutions fit: the smallest of three dimensions is that of the channels."""
    shape = sorted(space.shape or ())
    return len(shape) == 3 and shape[1] >= _SMALLEST_IMAGE


def check_device(device: str) -> None:
    """Refuse a device that is not there: Stable-Baselines3 would train on the CPU instead."""
    if device == "auto":
        return
    try:
        # Where it is not there, torch says so.
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"config.device is {device!r}: {reason}", field="config.device") from None


def choose_policy(algorithm: type[BaseAlgorithm], given: str | None, observations: spaces.Space[Any]) -> str:
    """Return the given policy, or the one that fits the observations."""
    is_large = _is_large(observations)
    if given is None:
        if isinstance(observations, spaces.Dict):
            return "MultiInputPolicy"
        return "CnnPolicy" if is_large and is_image_space(observations) else "MlpPolicy"
    if given not in algorithm.policy_aliases:
        raise InvalidInput(
            f"config.policy is {given!r}; {algorithm.__name__} has {', '.join(algorithm.policy_aliases)}",
            field="config.policy",
        )
    is_for_parts = given == "MultiInputPolicy"
    if is_for_parts != isinstance(observations, spaces.Dict) or (given == "CnnPolicy" and not is_large):
        raise InvalidInput(
            f"config.policy is {given!r}, which does not fit the observations: {observations}",
            field="config.policy",
            hint="without config.policy, the one that fits them is chosen",
        )
    return given


def parse_hyperparameters(
    algorithm: type[BaseAlgorithm], given: Mapping[str, Any], actions: spaces.Space[Any]
) -> dict[str, Any]:
    """Return the arguments for an algorithm; raise an `InvalidInput` for a name or value that it does not take."""
    # Not by get_type_hints: other arguments have annotations that only type checkers can resolve.
    known = inspect.signature(algorithm.__init__).parameters
    names = [name for name in known if name not in _NOT_HYPERPARAMETERS]
    parsed: dict[str, Any] = {}
    for name, value in given.items():
        if name not in names:
            raise _unknown(algorithm, name, names)
        parsed[name] = _parse(name, value, known[name].annotation, actions)
    return parsed


def _parse(name: str, value: Any, hint: Any, actions: spaces.Space[Any]) -> Any:
    if name == "action_noise" and value is not None:
        return _noise(value, actions)
    if name == "policy_kwargs":
        return _with_activation(value)
    if isinstance(value, dict) and set(value) == {"start", "end"} and _takes_schedule(hint):
        return _linear(_checked(f"{name}.start", value["start"], float), _checked(f"{name}.end", value["end"], float))
    return _checked(name, value, hint)


def _checked(name: str, value: Any, hint: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        # JSON has one kind of number, and the range of a sweep gives 64.0.
        value = int(value)
    try:
        # As JSON: lists may be tuples there, but texts and truth values are no numbers.
        return TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        reasons = {one["msg"] for one in error.errors() if "callable" not in one["type"]}
        message = f"{_FIELD}.{name} is {value!r:.80}: {' or '.join(sorted(reasons))}"
        raise InvalidInput(message, field=f"{_FIELD}.{name}") from None


def _takes_schedule(hint: Any) -> bool:
    return any(getattr(one, "__origin__", None) is Callable or "Callable" in str(one) for one in get_args(hint))


def _linear(start: float, end: float) -> Callable[[float], float]:
    """Return a schedule that goes from one value at the start to another at the end of training."""

    def schedule(remaining: float) -> float:
        return end + (start - end) * remaining

    return schedule


def _noise(value: Any, actions: spaces.Space[Any]) -> Any:
    kind, sigma = (value.get("kind"), value.get("sigma")) if isinstance(value, dict) else (None, None)
    if kind not in _NOISES or not isinstance(sigma, (int, float)) or set(value) != {"kind", "sigma"}:
        raise InvalidInput(
            f'{_FIELD}.action_noise is {value!r:.80}; it must be {{"kind": …, "sigma": 0.1}} '
            f"with a kind of {' or '.join(_NOISES)}",
            field=f"{_FIELD}.action_noise",
        )
    size = actions.shape or (1,)
    return _NOISES[kind](mean=np.zeros(size), sigma=float(sigma) * np.ones(size))


def _with_activation(value: Any) -> Any:
    """Replace the name of an activation function by its class, as in {"activation_fn": "Tanh"}."""
    value = _checked("policy_kwargs", value, dict[str, Any] | None)
    if not value or not isinstance(value.get("activation_fn"), str):
        return value
    found = getattr(torch.nn, value["activation_fn"], None)
    if not (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        raise InvalidInput(
            f"{_FIELD}.policy_kwargs.activation_fn is {value['activation_fn']!r}, which torch.nn does not have",
            field=f"{_FIELD}.policy_kwargs.activation_fn",
            hint="such as Tanh, ReLU or ELU",
        )
    return {**value, "activation_fn": found}


def _unknown(algorithm: type[BaseAlgorithm], name: str, names: list[str]) -> InvalidInput:
    near = get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names)}"
    if name in ("seed", "policy", "device"):
        guess = f"it belongs into config.{name}"
    return InvalidInput(f"{_FIELD}.{name}: {algorithm.__name__} takes none; {guess}", field=f"{_FIELD}.{name}")
