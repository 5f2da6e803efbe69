"""Gymnasium environments from specs, and their previews."""

from __future__ import annotations

import io
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

from openmanus_rl.environments import build, can_draw, preview
from openmanus_rl.errors import InvalidInput, UnsupportedError


class Blind(gymnasium.Env[Any, Any]):
    """An environment that draws nothing."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 1, (2, 2), np.float32)

    def reset(self, **_: Any) -> Any:
        return np.zeros((2, 2), np.float32), {}


class Noisy(Blind):
    """An environment whose pictures do not compress."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium, "BlindForTests", Blind, raising=False)
    monkeypatch.setattr(gymnasium, "NoisyForTests", Noisy, raising=False)


def test_wrappers_are_applied_from_the_inside_out() -> None:
    environment = build(
        {
            "kind": "gymnasium",
            "id": "CartPole-v1",
            "arguments": {"max_episode_steps": 9},
            "wrappers": [
                {"name": "FrameStackObservation", "arguments": {"stack_size": 3}},
                {"name": "FlattenObservation"},
                {"name": "TimeLimit", "arguments": {"max_episode_steps": 2}},
            ],
        }
    )
    environment.reset(seed=0)

    assert environment.observation_space.shape == (12,)
    assert [environment.step(0)[3] for _ in range(2)] == [False, True]


def test_actions_and_observations_can_be_rescaled() -> None:
    wrappers = [
        {"name": "RescaleAction", "arguments": {"min_action": -1.0, "max_action": 1.0}},
        {"name": "ClipAction"},
        {"name": "NormalizeObservation"},
    ]
    environment = build({"kind": "gymnasium", "id": "Pendulum-v1", "wrappers": wrappers})
    environment.reset(seed=0)

    assert environment.step(np.array([5.0], np.float32))[0].shape == (3,)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"id": "Nothing-v0"}, "id"),
        ({"id": "no_module_here:X-v0"}, "id"),
        ({"id": "CartPole-v1", "arguments": {"gravity": 1}}, "id"),
        ({"entry_point": "no_module:make"}, "entry_point"),
        ({"entry_point": "gymnasium:no_such_name"}, "entry_point"),
        ({"entry_point": "gymnasium:__version__"}, "entry_point"),
        (
            {"id": "CartPole-v1", "wrappers": [{"name": "FlattenObservation"}, {"name": "GrayscaleObservation"}]},
            "wrappers.1",
        ),
        ({"id": "CartPole-v1", "wrappers": [{"name": "TimeLimit"}]}, "wrappers.0"),
    ],
)
def test_what_cannot_be_made_is_named(spec: dict[str, Any], field: str) -> None:
    for call in (build, preview):
        with pytest.raises(InvalidInput) as caught:
            call({"kind": "gymnasium", **spec})
        assert caught.value.field == field


def test_a_preview_is_the_same_every_time() -> None:
    spec = {"kind": "gymnasium", "id": "CartPole-v1"}

    assert preview(spec) == preview(spec)
    assert preview(spec) != preview({**spec, "seed": 9})
    assert Image.open(io.BytesIO(preview(spec))).size == (600, 400)


def test_an_environment_that_draws_nothing_says_so() -> None:
    spec = {"kind": "gymnasium", "entry_point": "gymnasium:BlindForTests"}

    assert not can_draw(spec)
    with pytest.raises(UnsupportedError, match="draws no pictures"):
        preview(spec)


def test_a_picture_that_is_too_large_to_keep_is_scaled_down() -> None:
    found = preview({"kind": "gymnasium", "entry_point": "gymnasium:NoisyForTests"})

    assert len(found) <= 350_000
    assert Image.open(io.BytesIO(found)).size == (400, 300)
