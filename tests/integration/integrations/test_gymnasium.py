"""Gymnasium's environments, one and many, in one process and in several, and what of them is in the database."""

from __future__ import annotations

import importlib
import json
import string
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import openmanus_rl
from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations.gymnasium import RecordEpisodes, RecordVectorEpisodes

Rows = list[dict[str, Any]]
Read = Callable[[Any], Rows]


class House(gymnasium.Env[str, str]):
    """A text game: the ball is north."""

    observation_space = gymnasium.spaces.Text(100, charset=string.printable)
    action_space = gymnasium.spaces.Text(100, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return 'a room, "dark"\nand an exit', {"task": "find the red ball"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "burn the house":
            raise RuntimeError("the house is gone")
        found = action == "go north"
        info = {"moves": np.int64(3), "exits": ["north"], "map": object(), "distance": float("nan")}
        return ("the ball!" if found else "a wall"), float(found), found, False, info | {"is_success": found}


class Camera(gymnasium.Env[Any, Any]):
    """Seen as pictures: what is observed and what is rendered; three steps long."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self._steps += 1
        return self.observation_space.sample(), 0.0, False, self._steps == 3, {}

    def render(self) -> Any:
        return np.full((33, 48, 3), 80 * self._steps, np.uint8)


@pytest.fixture
def run(recorder_env: dict[str, str]) -> Iterator[openmanus_rl.recorder.Run]:  # noqa: ARG001
    with openmanus_rl.init(name="gym") as begun:
        yield begun


def test_an_episode_is_a_rollout_and_each_step_a_turn(run: Any, rollouts_of: Read, turns_of: Read) -> None:
    env = RecordEpisodes(gymnasium.make("CartPole-v1", max_episode_steps=12), run=run, step=lambda: 40)
    expected = []
    for episode in range(4):
        seen, _ = env.reset(seed=7 if episode == 0 else None)
        observations, rewards, over = [seen], [], False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(int(episode % 2))
            over = terminated or truncated
            observations.append(seen)
            rewards.append(reward)
        expected.append((observations, rewards, "completed" if terminated else "truncated"))
    env.close()

    rollouts = rollouts_of(run)
    assert [(r["total_reward"], r["step_count"], r["status"]) for r in rollouts] == [
        (sum(rewards), len(rewards), status) for _, rewards, status in expected
    ]
    assert {(r["environment"], r["step"]) for r in rollouts} == {("CartPole-v1", 40)}
    assert [r["seed"] for r in rollouts] == [7, None, None, None]
    turns = turns_of(rollouts[0])
    assert [turn["action"] for turn in turns] == ["0"] * len(expected[0][1])
    np.testing.assert_array_equal(
        np.array([json.loads(turn["observation"]) for turn in turns], np.float32), expected[0][0][:-1]
    )


def test_an_episode_cut_off_by_a_time_limit_is_truncated(run: Any, rollouts_of: Read) -> None:
    env = RecordEpisodes(gymnasium.make("MountainCar-v0", max_episode_steps=5), run=run)
    env.reset()
    for _ in range(5):
        env.step(0)
    (rollout,) = rollouts_of(run)
    assert (rollout["status"], rollout["total_reward"]) == ("truncated", -5)
    assert rollout["result"] == {"terminated": False, "truncated": True}


def test_text_stays_text(run: Any, rollouts_of: Read, turns_of: Read, query: Any) -> None:
    env = RecordEpisodes(House(), run=run, metadata={"level": 2})
    env.reset()
    env.step("look\n\taround")
    env.step("go north")
    (rollout,) = rollouts_of(run)
    assert (rollout["status"], rollout["task_description"], rollout["environment"]) == (
        "success",
        "find the red ball",
        "House",
    )
    assert rollout["metadata"] == {"level": 2}
    turns = turns_of(rollout)
    assert [(t["observation"], t["action"], t["reward"]) for t in turns] == [
        ('a room, "dark"\nand an exit', "look\n\taround", 0.0),
        ("a wall", "go north", 1.0),
    ]
    assert turns[0]["info"] == {
        "moves": 3,
        "exits": ["north"],
        "map": "<object>",
        "distance": "NaN",
        "is_success": False,
    }
    final = query("select kind, text from observations where agent_state_id = %s", turns[1]["id"])
    assert final == [{"kind": "final", "text": "the ball!"}]


def test_what_is_broken_off_keeps_its_turns_and_says_why(run: Any, rollouts_of: Read, turns_of: Read) -> None:
    env = RecordEpisodes(House(), run=run, task_description=lambda seen, info: f"{info['task']} in {seen[:6]}")
    env.reset()
    env.reset()
    env.step("wait")
    env.reset()
    env.step("wait")
    with pytest.raises(RuntimeError, match="the house is gone"):
        env.step("burn the house")
    env.reset()
    env.step("wait")
    env.close()
    rollouts = rollouts_of(run)
    assert [(r["status"], r["step_count"], len(turns_of(r))) for r in rollouts] == [
        ("truncated", 1, 1),
        ("error", 2, 2),
        ("interrupted", 1, 1),
    ]
    assert rollouts[0]["status_message"] == "the environment was reset in the middle of the episode"
    assert rollouts[1]["error"] == "RuntimeError: the house is gone"
    assert turns_of(rollouts[1])[1]["action"] == "burn the house"
    assert {r["task_description"] for r in rollouts} == {"find the red ball in a room"}


def test_pictures_are_described_in_text_and_kept_as_frames_and_video(
    run: Any, rollouts_of: Read, turns_of: Read, query: Any
) -> None:
    env = RecordEpisodes(Camera(), run=run, frame_interval=2, video_interval_episodes=2)
    for _ in range(2):
        env.reset()
        for _ in range(3):
            env.step(1)
    first, second = rollouts_of(run)
    turns = turns_of(first)
    assert all(turn["observation"].startswith("uint8 array of shape (84, 84, 4), from ") for turn in turns)
    assert all(len(turn["observation"]) < 100 for turn in turns)
    frames = query(
        """
        select step_number, kind, content_type, width, height from media join agent_states a on a.id = agent_state_id
        where media.rollout_id = %s order by step_number
        """,
        first["id"],
    )
    # Of the turns 0 and 2, and what the last one led to.
    assert [frame["step_number"] for frame in frames] == [0, 2, 2]
    assert {(f["kind"], f["content_type"], f["width"], f["height"]) for f in frames} == {("frame", "image/png", 48, 33)}
    assert first["video_path"].endswith(".mp4")
    assert second["video_path"] is None


def test_only_every_nth_episode_is_recorded_and_of_these_every_nth_with_turns(
    run: Any, rollouts_of: Read, turns_of: Read
) -> None:
    env = RecordEpisodes(Camera(), run=run, record_every=2, turn_interval_episodes=3)
    for _ in range(8):
        env.reset()
        for _ in range(3):
            env.step(0)
    rollouts = rollouts_of(run)
    assert [(r["step_count"], len(turns_of(r))) for r in rollouts] == [(3, 3), (3, 0), (3, 0), (3, 3)]
    assert all(r["started_at"] <= r["finished_at"] for r in rollouts)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_each_environment_of_a_vector_has_its_episodes(
    run: Any, rollouts_of: Read, turns_of: Read, mode: AutoresetMode
) -> None:
    truth: list[list[tuple[float, int]]] = [[], []]

    def make(index: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        return lambda: Truthful(gymnasium.make("CartPole-v1"), truth[index])

    envs = RecordVectorEpisodes(SyncVectorEnv([make(0), make(1)], autoreset_mode=mode), run=run)
    envs.reset(seed=3)
    envs.action_space.seed(3)
    for _ in range(120):
        envs.step(envs.action_space.sample())
    envs.close()
    rollouts = rollouts_of(run)
    for index in range(2):
        own = [r for r in rollouts if r["metadata"] == {"environment_index": index} and r["status"] != "interrupted"]
        assert [(r["total_reward"], r["step_count"]) for r in own] == truth[index]
        assert [len(turns_of(r)) for r in own] == [length for _, length in truth[index]]
    assert {r["seed"] for r in rollouts} == {3, 4, None}


class Truthful(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes down the return and length of each episode that ends."""

    def __init__(self, env: gymnasium.Env[Any, Any], truth: list[tuple[float, int]]) -> None:
        super().__init__(env)
        self._truth = truth

    def reset(self, **options: Any) -> Any:
        self._rewards: list[float] = []
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._rewards.append(float(result[1]))
        if result[2] or result[3]:
            self._truth.append((sum(self._rewards), len(self._rewards)))
        return result


def test_environments_that_are_reset_by_hand_are_followed(run: Any, rollouts_of: Read) -> None:
    envs = RecordVectorEpisodes(SyncVectorEnv([Camera, Camera], autoreset_mode=AutoresetMode.DISABLED), run=run)
    envs.reset()
    envs.step(np.array([0, 0]))
    envs.reset(options={"reset_mask": np.array([True, False])})
    for _ in range(2):
        envs.step(np.array([0, 0]))
    envs.reset(options={"reset_mask": np.array([False, True])})
    envs.close()
    rollouts = rollouts_of(run)
    found = sorted((r["metadata"]["environment_index"], r["status"], r["step_count"]) for r in rollouts)
    assert found == [(0, "interrupted", 2), (0, "truncated", 1), (1, "truncated", 3)]


def test_a_step_of_a_vector_that_raises_ends_its_episodes_as_errors(run: Any, rollouts_of: Read) -> None:
    envs = RecordVectorEpisodes(SyncVectorEnv([House, House]), run=run)
    envs.reset()
    envs.step(("wait", "wait"))
    with pytest.raises(RuntimeError, match="the house is gone"):
        envs.step(("wait", "burn the house"))
    found = [(r["status"], r["error"], r["step_count"]) for r in rollouts_of(run)]
    assert found == [("error", "RuntimeError: the house is gone", 1)] * 2


def test_the_frames_of_a_vector_are_those_of_each_environment(run: Any, rollouts_of: Read, query: Any) -> None:
    envs = SyncVectorEnv([Camera, Camera], autoreset_mode=AutoresetMode.SAME_STEP)
    envs = RecordVectorEpisodes(envs, run=run, frame_interval=1, video_interval_episodes=1)
    envs.reset()
    for _ in range(3):
        envs.step(np.array([0, 0]))
    envs.close()
    rollouts = rollouts_of(run)
    assert len(rollouts) == 2
    assert all(r["video_path"] for r in rollouts)
    frames = query(
        """
        select media.rollout_id, step_number, path from media join agent_states a on a.id = agent_state_id
        where media.training_run_id = %s and kind = 'frame' order by media.rollout_id, step_number
        """,
        run.id,
    )
    # The environment was reset in the step that ended the episode, so that the end itself is not to be seen.
    assert [frame["step_number"] for frame in frames] == [0, 1, 2, 0, 1, 2]
    assert len({frame["path"] for frame in frames}) == 3


class TwoGoals(House):
    """Rewards in two parts, and a success that is no yes or no."""

    def step(self, action: str) -> Any:
        seen, _, over, _, _ = super().step(action)
        return seen, np.array([1.0, -0.5]), over, False, {"success": "nearly", "is_success": float("nan")}


def test_rewards_in_parts_are_kept_in_parts(run: Any, rollouts_of: Read, query: Any) -> None:
    env = RecordEpisodes(TwoGoals(), run=run)
    env.reset()
    env.step("go north")
    (rollout,) = rollouts_of(run)
    assert (rollout["status"], rollout["total_reward"]) == ("completed", 0.5)
    parts = query("select reward_type, reward from rewards where rollout_id = %s order by 1", rollout["id"])
    assert [(part["reward_type"], part["reward"]) for part in parts] == [("0", 1.0), ("1", -0.5)]


def test_worker_processes_record_to_the_run_of_their_parent(run: Any, rollouts_of: Read, turns_of: Read) -> None:
    inside = AsyncVectorEnv([lambda: RecordEpisodes(House(), metadata={"where": "worker"})] * 2)
    outside = RecordVectorEpisodes(inside, run=run, metadata={"where": "parent"})
    outside.reset()
    outside.step(("wait", "go north"))
    outside.step(("go north", "go north"))
    outside.close()
    wait_for(lambda: len(rollouts_of(run)) == 4)
    wait_for(lambda: {r["status"] for r in rollouts_of(run)} == {"success"})
    for where in ("worker", "parent"):
        own = [r for r in rollouts_of(run) if r["metadata"]["where"] == where]
        assert sorted(r["step_count"] for r in own) == [1, 2]
        assert sorted(turn["action"] for r in own for turn in turns_of(r)) == ["go north", "go north", "wait"]


def test_frames_of_an_environment_that_draws_none_are_refused(run: Any) -> None:
    with pytest.raises(InvalidInput, match=r"CartPole-v1: cannot record frames") as refused:
        RecordEpisodes(gymnasium.make("CartPole-v1"), run=run, frame_interval=1)
    assert refused.value.hint == 'create it with render_mode="rgb_array"'


@pytest.mark.parametrize(
    ("name", "value"), [("record_every", 0), ("turn_interval_episodes", -1), ("frame_interval", 1.5)]
)
def test_an_interval_that_is_none_is_named(run: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is {value}"):
        RecordEpisodes(House(), run=run, **{name: value})


def test_without_a_run_the_error_says_how_to_begin_one(recorder_env: dict[str, str]) -> None:  # noqa: ARG001
    with pytest.raises(InvalidInput, match="none is given") as refused:
        RecordEpisodes(House())
    assert "openmanus_rl.init" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("gymnasium", "gymnasium", "gymnasium"), ("stable_baselines3", "stable_baselines3", "sb3")],
)
def test_a_missing_library_is_named_with_the_extra_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, library: str, extra: str
) -> None:
    for loaded in [name for name in sys.modules if name.startswith("openmanus_rl.integrations")]:
        monkeypatch.delitem(sys.modules, loaded)
    for loaded in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=rf'{library} is not installed; .*"openmanus-rl\[{extra}\]"'):
        importlib.import_module(f"openmanus_rl.integrations.{module}")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for what another process has recorded."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
