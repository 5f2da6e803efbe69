"""Hyperparameters are those of the algorithms themselves, and environments must fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from openmanus_rl.errors import InvalidInput
from openmanus_rl.training.algorithms import (
    ALGORITHMS,
    check_spaces,
    choose_policy,
    find_algorithm,
    parse_hyperparameters,
)

FEW = spaces.Discrete(2)
SMOOTH = spaces.Box(-1, 1, (3,))


@pytest.mark.parametrize(
    ("algorithm", "given", "said"),
    [
        ("ppo", {"n_step": 3}, "did you mean n_steps?"),
        ("ppo", {"learning_starts": 3}, "PPO takes none"),
        ("ppo", {"n_steps": "3"}, "valid integer"),
        ("ppo", {"n_steps": 3.5}, "valid integer"),
        ("ppo", {"learning_rate": True}, "valid number"),
        ("ppo", {"learning_rate": {"start": 1, "end": "x"}}, "valid number"),
        ("ppo", {"seed": 3}, "belongs into config.seed"),
        ("ppo", {"device": "cpu"}, "belongs into config.device"),
        ("ppo", {"env": "x"}, "takes none"),
        ("ppo", {"policy_kwargs": {"activation_fn": "os"}}, "torch.nn does not have"),
        ("ppo", {"policy_kwargs": [1]}, "should be an object"),
        ("sac", {"ent_coef": [1]}, "valid"),
        ("td3", {"action_noise": {"kind": "loud", "sigma": 1}}, "normal or ornstein-uhlenbeck"),
        ("td3", {"action_noise": 0.1}, "normal or ornstein-uhlenbeck"),
    ],
)
def test_what_an_algorithm_does_not_take_is_named(algorithm: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_hyperparameters(find_algorithm(algorithm), given, SMOOTH)

    assert said in str(refused.value)
    assert str(refused.value.field).startswith(f"config.hyperparameters.{next(iter(given))}")


def test_values_of_json_become_those_of_python() -> None:
    ppo = parse_hyperparameters(
        find_algorithm("PPO"),
        {"learning_rate": {"start": 1e-3, "end": 0}, "n_steps": 8.0, "policy_kwargs": {"activation_fn": "ReLU"}},
        FEW,
    )
    td3 = parse_hyperparameters(
        find_algorithm("td3"), {"train_freq": [1, "episode"], "action_noise": {"kind": "normal", "sigma": 0.1}}, SMOOTH
    )

    assert [ppo["learning_rate"](remaining) for remaining in (1.0, 0.5, 0.0)] == [1e-3, 5e-4, 0]
    assert isinstance(ppo["n_steps"], int)
    assert ppo["policy_kwargs"]["activation_fn"].__name__ == "ReLU"
    assert td3["train_freq"] == (1, "episode")
    assert td3["action_noise"]().shape == (3,)


@pytest.mark.parametrize(
    ("algorithm", "actions", "fits"),
    [
        ("dqn", FEW, True),
        ("dqn", SMOOTH, False),
        ("sac", SMOOTH, True),
        ("sac", FEW, False),
        ("td3", FEW, False),
        ("ppo", spaces.MultiDiscrete([2, 3]), True),
        ("a2c", spaces.Tuple([FEW]), False),
    ],
)
def test_actions_that_do_not_fit_are_refused(algorithm: str, actions: spaces.Space[Any], fits: bool) -> None:
    if fits:
        check_spaces(algorithm, "e", SMOOTH, actions)
        return
    with pytest.raises(InvalidInput, match=f"algorithm {algorithm} needs actions") as refused:
        check_spaces(algorithm, "e", SMOOTH, actions)
    assert refused.value.hint is not None


@pytest.mark.parametrize(
    "actions",
    [
        spaces.Discrete(2, start=5),
        spaces.MultiDiscrete([2, 3], start=[0, 1]),
        spaces.MultiDiscrete([[2], [3]]),
        spaces.MultiBinary([2, 2]),
        spaces.Box(-np.inf, 1, (1,)),
    ],
    ids=str,
)
def test_actions_that_would_reach_the_environment_as_others_are_refused(actions: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidInput, match="action space that Stable-Baselines3 cannot use") as refused:
        check_spaces("ppo", "e", SMOOTH, actions)
    assert refused.value.field == "environment"


@pytest.mark.parametrize(
    "observations",
    [
        spaces.Tuple([FEW]),
        spaces.Discrete(2, start=1),
        spaces.Dict({"a": spaces.Dict({"b": FEW})}),
        spaces.Dict({"map": spaces.Box(0, 255, (7, 7, 3), np.uint8)}),
    ],
    ids=str,
)
def test_observations_that_do_not_fit_are_refused(observations: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidInput, match="observations that Stable-Baselines3 cannot use"):
        check_spaces("ppo", "e", observations, FEW)


def test_the_policy_follows_from_the_observations() -> None:
    ppo = ALGORITHMS["ppo"]
    picture = spaces.Box(0, 255, (64, 64, 3), np.uint8)

    assert choose_policy(ppo, None, SMOOTH) == "MlpPolicy"
    assert choose_policy(ppo, None, picture) == "CnnPolicy"
    assert choose_policy(ppo, None, spaces.Dict({"a": SMOOTH})) == "MultiInputPolicy"
    assert choose_policy(ppo, "CnnPolicy", picture) == "CnnPolicy"
    with pytest.raises(InvalidInput, match="PPO has MlpPolicy"):
        choose_policy(ppo, "LstmPolicy", SMOOTH)


def test_a_map_of_cells_that_looks_like_a_small_image_is_read_as_a_vector() -> None:
    assert choose_policy(ALGORITHMS["ppo"], None, spaces.Box(0, 255, (7, 7, 3), np.uint8)) == "MlpPolicy"


@pytest.mark.parametrize(
    ("policy", "observations"),
    [("CnnPolicy", SMOOTH), ("MultiInputPolicy", SMOOTH), ("MlpPolicy", spaces.Dict({"a": SMOOTH}))],
)
def test_a_policy_that_does_not_fit_the_observations_is_refused(policy: str, observations: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidInput, match="does not fit the observations") as refused:
        choose_policy(ALGORITHMS["ppo"], policy, observations)
    assert refused.value.field == "config.policy"


@pytest.mark.parametrize("name", [None, "", "grpo"])
def test_an_unknown_algorithm_is_refused(name: str | None) -> None:
    with pytest.raises(InvalidInput, match="must be one of ppo, dqn, a2c, sac, td3"):
        find_algorithm(name)
