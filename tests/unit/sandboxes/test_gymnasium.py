"""Environments of Gymnasium, and none at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes.base import Episode, Sandbox, SandboxError
from openmanus_rl.sandboxes.providers import available_kinds, provider_for, provision


def start(spec: dict[str, Any], **options: Any) -> Sandbox:
    return provision(spec, **{"rollout_id": "r", "owner": "o", "folder": Path("unused")} | options)


def episode(spec: dict[str, Any], **options: Any) -> Episode:
    found = start(spec, **options).episode
    assert found is not None
    return found


def test_an_episode_is_played_with_pictures() -> None:
    sandbox = start({"kind": "gymnasium", "id": "CartPole-v1"}, seed=7)
    played = sandbox.episode
    assert played is not None

    first = played.reset()
    results = [played.step(0)]
    while not results[-1].is_done:
        results.append(played.step(0))

    assert first.reward is None
    assert results[-1].terminated
    assert played.state() == {"steps": len(results), "return": float(len(results)), "is_done": True}
    picture = played.render()
    assert picture is not None
    assert picture.ndim == 3
    sandbox.close()
    sandbox.close()


def test_the_seed_of_the_rollout_gives_the_same_episode() -> None:
    spec = {"kind": "gymnasium", "id": "CartPole-v1"}

    first, second, other = (episode(spec, seed=seed).reset().observation for seed in (7, 7, 8))
    again = episode(spec, seed=1).reset(seed=7).observation

    assert np.array_equal(first, second)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_second_reset_is_another_episode() -> None:
    played = episode({"kind": "gymnasium", "id": "CartPole-v1", "seed": 3})

    assert not np.array_equal(played.reset().observation, played.reset().observation)


def test_actions_may_be_json() -> None:
    played = episode({"kind": "gymnasium", "id": "Pendulum-v1", "arguments": {"g": 9.81}}, seed=1)
    played.reset()

    assert played.step([0.5]).reward is not None
    for wrong in ([9.0], [0.1, 0.2], "left", None, {}, float("nan"), [None]):
        with pytest.raises(InvalidInput) as caught:
            played.step(wrong)
        assert caught.value.field == "action"


class Broken(gymnasium.Env[int, int]):
    """An environment that fails."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *, fails_at_once: bool = False) -> None:
        if fails_at_once:
            raise RuntimeError("no display")

    def reset(self, **_: Any) -> Any:
        return 0, {}

    def step(self, action: int) -> Any:  # noqa: ARG002
        raise ZeroDivisionError("lost the ball")


def test_an_environment_that_fails_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium, "BrokenForTests", Broken, raising=False)
    spec = {"kind": "gymnasium", "entry_point": "gymnasium:BrokenForTests"}

    played = episode(spec)
    assert played.reset().observation == 0
    assert played.render() is None
    with pytest.raises(SandboxError, match="failed in step: ZeroDivisionError: lost the ball"):
        played.step(1)
    with pytest.raises(SandboxError, match="no display"):
        start(spec | {"arguments": {"fails_at_once": True}})


@pytest.mark.parametrize(
    "spec", [{"id": "Nothing-v0"}, {"id": "no_module_here:X-v0"}, {"entry_point": "no_module:make"}, {"id": "../x"}]
)
def test_an_environment_that_is_not_there_is_named(spec: dict[str, Any]) -> None:
    with pytest.raises(SandboxError, match=r"could not be made"):
        start({"kind": "gymnasium", **spec})


def test_what_a_sandbox_does_not_have_it_says() -> None:
    sandbox = start({"kind": "none"})

    for call in (
        lambda: sandbox.run("ls"),
        lambda: sandbox.read_file("x"),
        lambda: sandbox.write_file("x", b""),
        lambda: sandbox.request("GET", "http://example.com/"),
        sandbox.database_url,
    ):
        with pytest.raises(SandboxError):
            call()
    assert (sandbox.url, sandbox.episode, sandbox.services, sandbox.logs()) == (None, None, {}, {})
    sandbox.check()
    sandbox.close()


def test_no_environment_may_have_a_url() -> None:
    sandbox = start({"kind": "none", "url": "https://example.com/start"})

    assert sandbox.url == "https://example.com/start"
    for url in ("http://example.com/start", "https://example.com.evil.example/", "https://example.com:444/"):
        with pytest.raises(SandboxError, match="not of this environment"):
            sandbox.request("GET", url)


def test_kinds_that_can_be_started_are_known() -> None:
    assert {"none", "process", "gymnasium", "grid"} <= set(available_kinds())
    with pytest.raises(InvalidInput):
        provider_for("../x")


def test_a_grid_world_is_read_and_played_by_name() -> None:
    sandbox = start({"kind": "grid", "map": ["A.G"], "rewards": {"step": -0.1}}, seed=3)
    played = sandbox.episode
    assert played is not None

    first = played.reset()
    results = [played.step(action) for action in ("Right ", 1)]

    assert sandbox.kind == "grid"
    assert played.action_space == {"type": "string", "enum": ["up", "right", "down", "left"]}
    legend = "A you, at column {}, row 0, # wall, G goal"
    assert first.observation == f"A.G\n{legend.format(0)}\nActions: up, right, down, left"
    assert results[0].observation == f".AG\n{legend.format(1)}"
    assert results[1].terminated
    assert played.state() == {"steps": 2, "return": pytest.approx(0.8), "is_done": True}
    picture = played.render()
    assert picture is not None
    assert picture.shape == (32, 96, 3)
    for wrong in ("jump", 4, -1, True, None, [1], 1.5):
        with pytest.raises(InvalidInput) as caught:
            played.step(wrong)
        assert caught.value.field == "action"
