"""What tests of the training service share: launches of it, and an environment that is slow enough to be killed in."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.managers.runs import TrainingRunManager

from ..conftest import Query
from ..integrations.conftest import recorder_env, recorder_home

__all__ = ["Launched", "Query", "launch", "new_run", "recorder_env", "recorder_home", "wait_until"]

# CartPole with a pause, so that it can be caught in the middle. KILL="1:100" kills the process in the 100th step of the
# environment that is made second: after the one that is looked at come that of training and that of evaluations.
SLOW_CARTPOLE = """
import itertools, os, signal, time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

order = itertools.count()
where, _, when = os.environ.get("KILL", ":").partition(":")

class Slow(CartPoleEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.order, self.steps = next(order), 0

    def step(self, action):
        self.steps += 1
        if [str(self.order), str(self.steps)] == [where, when]:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.002)
        return super().step(action)

gymnasium.register("SlowCartPole-v0", Slow, max_episode_steps=40)
"""
SLOW = "slow_cartpole:SlowCartPole-v0"
TINY = {"policy_kwargs": {"net_arch": [4]}}


def new_run(algorithm: str | None = "ppo", environment: str | None = "CartPole-v1", **config: Any) -> str:
    """Return the id of a run as the dashboard creates it."""
    return TrainingRunManager.create_run("asked for", algorithm, environment, config, status="pending")["id"]


def wait_until(condition: Callable[[], Any], *, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Launched:
    """A process of the training service."""

    def __init__(self, run_id: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openmanus_rl.training.train"],
            env={**env, "RUN_ID": run_id},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Wait for the end, and return the exit code and what was said."""
        out, err = self.process.communicate(timeout=200)
        return self.process.returncode, out + err

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Wait until something happens while it trains."""
        wait_until(lambda: self.process.poll() is not None or condition())
        assert self.process.poll() is None, self.end()


@pytest.fixture
def launch(recorder_env: dict[str, str], tmp_path: Path) -> Callable[..., Launched]:
    """Return a function that starts the service for a run."""
    (tmp_path / "slow_cartpole.py").write_text(SLOW_CARTPOLE)

    def start(run_id: str, **variables: str) -> Launched:
        settings = {"METRICS_INTERVAL": "50", "FRAME_INTERVAL": "0", "PYTHONPATH": str(tmp_path)}
        return Launched(run_id, {**os.environ, **recorder_env, **settings, **variables})

    return start
