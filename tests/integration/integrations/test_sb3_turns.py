"""Every turn of training is in the record as the environment saw it, however quickly it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from openmanus_rl.integrations import _sb3_quick
from openmanus_rl.integrations.stable_baselines3 import OpenManusCallback

Rows = list[dict[str, Any]]
Read = Callable[[Any], Rows]

pytestmark = pytest.mark.usefixtures("recorder_env")
torch.set_num_threads(1)

_KINDS: dict[str, tuple[spaces.Space[Any], Callable[[int], Any]]] = {
    "numbers": (spaces.Box(0, 99, (2,), np.float32), lambda place: np.array([place, 0.1], np.float32)),
    "discrete": (spaces.Discrete(99), lambda place: place),
    "pictures": (spaces.Box(0, 255, (12, 12, 3), np.uint8), lambda place: np.full((12, 12, 3), place, np.uint8)),
    "several": (
        spaces.Dict({"place": spaces.Box(0, 99, (1,), np.float32), "door": spaces.Discrete(2)}),
        lambda place: {"door": place % 2, "place": np.array([place], np.float32)},
    ),
}


class Walk(gymnasium.Env[Any, Any]):
    """Ends after 7 or 11 steps, in turns; keeps its own account of all that it said and was told."""

    def __init__(self, kind: str = "numbers", action_space: spaces.Space[Any] | None = None) -> None:
        self.observation_space, self._show = _KINDS[kind]
        self.action_space = action_space or spaces.Discrete(3)
        self.account: list[list[dict[str, Any]]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.account.append([])
        self._place = 0
        return self._show(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before, self._place = self._place, self._place + 1
        over = self._place == (7 if len(self.account) % 2 else 11)
        info = {"lap": self._place} if self._place % 3 == 0 else {}
        turn = {
            "place": before,
            "action": np.array(action).tolist(),
            "reward": self._place / 10,
            "info": dict(info) or None,
        }
        self.account[-1].append(turn)
        return self._show(self._place), self._place / 10, False, over, info


def small_ppo(env: Any) -> PPO:
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    return PPO(policy, env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=1)


def check(rollouts: Rows, turns_of: Read, envs: list[Walk], *, show: Callable[[int], str] | None = None) -> None:
    """Hold the rollouts of each environment against its own account; those that were cut short are left out."""
    for index, env in enumerate(envs):
        own = [r for r in rollouts if r["metadata"]["environment_index"] == index and r["status"] == "truncated"]
        whole = [episode for episode in env.account if len(episode) in (7, 11)][: len(own)]
        assert len(own) >= 6
        for rollout, episode in zip(own, whole, strict=True):
            turns = turns_of(rollout)
            assert rollout["step_count"] == len(turns) == len(episode)
            assert [turn["step_number"] for turn in turns] == list(range(len(episode)))
            actions = [json.loads(turn["action"]) for turn in turns]
            np.testing.assert_allclose(actions, [turn["action"] for turn in episode], rtol=1e-6)
            assert [turn["info"] for turn in turns] == [turn["info"] for turn in episode]
            assert [turn["reward"] for turn in turns] == pytest.approx([turn["reward"] for turn in episode])
            assert rollout["total_reward"] == pytest.approx(sum(turn["reward"] for turn in episode))
            if show is not None:
                assert [turn["observation"] for turn in turns] == [show(turn["place"]) for turn in episode]


@pytest.mark.parametrize(
    ("kind", "show"),
    [
        ("numbers", lambda place: f"[{place}.0,0.1]"),
        ("discrete", str),
        ("pictures", lambda place: f"uint8 array of shape (3, 12, 12), from {place} to {place}, mean {place}"),
        ("several", lambda place: f'{{"door":{place % 2},"place":[{place}.0]}}'),
    ],
)
def test_turns_are_as_the_environment_saw_them(
    query: Any, rollouts_of: Read, turns_of: Read, monkeypatch: pytest.MonkeyPatch, kind: str, show: Any
) -> None:
    # So few that episodes are written in parts, and the window is used many times.
    monkeypatch.setattr(_sb3_quick, "_WINDOW_ROWS", 9)
    envs = [Walk(kind), Walk(kind)]
    callback = OpenManusCallback(turn_interval_episodes=1)
    small_ppo(DummyVecEnv([lambda: envs[0], lambda: envs[1]])).learn(128, callback=callback)
    rollouts = rollouts_of(callback.run)
    check(rollouts, turns_of, envs, show=show)
    assert {r["status"] for r in rollouts} == {"truncated", "interrupted"}
    assert all(r["started_at"] <= r["finished_at"] for r in rollouts)
    found = query(
        """
        select o.text from observations o join agent_states a on a.id = o.agent_state_id
          join rollouts r on r.id = a.rollout_id
        where r.training_run_id = %s and o.kind = 'final' and a.step_number in (6, 10)
        """,
        callback.run.id,
    )
    assert {row["text"] for row in found} == {show(7), show(11)}


def test_turns_of_some_episodes_begin_with_what_is_seen_first(rollouts_of: Read, turns_of: Read) -> None:
    envs = [Walk("several"), Walk("several")]
    callback = OpenManusCallback(turn_interval_episodes=3)
    small_ppo(DummyVecEnv([lambda: envs[0], lambda: envs[1]])).learn(128, callback=callback)
    turns = [turns_of(rollout) for rollout in rollouts_of(callback.run)]
    with_turns = [found for found in turns if found]
    assert len(turns) > 2 * len(with_turns) > 6
    assert all(
        [json.loads(turn["observation"])["place"][0] for turn in found] == list(range(len(found)))
        for found in with_turns
    )


def test_unusual_numbers_are_recorded_by_their_names(
    rollouts_of: Read, turns_of: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(Walk):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation, _, *rest = super().step(action)
            return (observation, float("nan") if self._place == 2 else 1.0, *rest)  # type: ignore[return-value]

    monkeypatch.setattr(PPO, "train", lambda _: None)
    callback = OpenManusCallback(turn_interval_episodes=1)
    small_ppo(DummyVecEnv([Odd])).learn(64, callback=callback)
    rollout = rollouts_of(callback.run)[0]
    rewards = [turn["reward"] for turn in turns_of(rollout)]
    assert np.isnan(rewards[1])
    assert [rewards[0], *rewards[2:]] == [1.0] * (len(rewards) - 1)


def test_scaled_environments_and_off_policy_algorithms_too(rollouts_of: Read, turns_of: Read) -> None:
    env = Walk(action_space=spaces.Box(-1, 1, (1,), np.float32))
    model = SAC("MlpPolicy", VecNormalize(DummyVecEnv([lambda: env])), learning_starts=40, batch_size=8, seed=1)
    callback = OpenManusCallback(turn_interval_episodes=1)
    model.learn(64, callback=callback)
    rollouts = rollouts_of(callback.run)
    for rollout in rollouts:
        for turn in turns_of(rollout):
            assert json.loads(turn["observation"]) == [turn["step_number"], 0.1]
    check(rollouts, turns_of, [env], show=lambda place: f"[{place}.0,0.1]")


def test_a_long_episode_can_be_followed_while_it_goes_on(query: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sb3_quick, "_WRITE_SECONDS", 0.0)
    found: list[Any] = []

    class Looks(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 5:
                assert callback.run.flush()
                found.extend(
                    query(
                        """
                        select r.status, count(*) as turns from rollouts r join agent_states a on a.rollout_id = r.id
                        where r.training_run_id = %s group by r.id
                        """,
                        callback.run.id,
                    )
                )
            return True

    callback = OpenManusCallback(turn_interval_episodes=1)
    small_ppo(DummyVecEnv([Walk])).learn(64, callback=[callback, Looks()])
    # Each step writes those before it.
    assert found == [{"status": "running", "turns": 4}]
