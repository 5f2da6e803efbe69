"""Launched workers in the real queue; SkyPilot is replaced, the workers are real."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from openmanus_rl.cli.workers import app
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.skypilot.package import Package
from openmanus_rl.workers.launching.task import Launch
from tests.support.fake_sky import Sky, Status

Ask = Callable[..., list[str]]


@pytest.fixture
def sky(monkeypatch: pytest.MonkeyPatch, queue: Any) -> Sky:
    made = Sky()
    monkeypatch.setitem(sys.modules, "sky", made)  # type: ignore[arg-type]
    assert queue.rows("delete from public.workers returning id") is not None
    return made


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def work_on(queue: Any, name: str, *arguments: str) -> None:
    """Start a worker with the variables that its task gives it, as SkyPilot would."""
    launch = Launch(name=name, infra="slurm", count=1, package=Package("openmanus-rl"))
    task = launch.task(launch.names[0], url="", secrets=[])
    queue.env["OPENMANUS_RL_WORKER_INFRA"] = task["envs"]["OPENMANUS_RL_WORKER_INFRA"]
    try:
        queue.work("--name", launch.names[0], *arguments)
    finally:
        del queue.env["OPENMANUS_RL_WORKER_INFRA"]


def test_a_launched_worker_is_listed_with_its_machine_and_stopped_with_it(
    queue: Any, ask: Ask, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    [rollout] = ask(task={"metadata": {"script": [{"sleep": 4}]}}, agent="scripted")
    sky.clusters |= {"omrl-mine-1": Status.UP, "omrl-other-1": Status.UP}
    work_on(queue, "mine")
    queue.await_status(rollout, "running")

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sky", None)
        unasked = run("list")
    listed = run("list")
    stopped = run("stop", "--launched", "mine")

    assert [(machine["name"], machine["state"]) for machine in unasked["launched"]] == [("omrl-mine-1", None)]
    assert "openmanus-rl[skypilot]" in unasked["problem"]
    assert [(machine["name"], machine["state"]) for machine in listed["launched"]] == [("omrl-mine-1", "UP")]
    assert stopped["ended"] == ["omrl-mine-1"]
    assert stopped["late"] == 0
    assert sky.clusters == {"omrl-other-1": Status.UP}
    # It was given the time to finish.
    assert queue.status_of(rollout) == "completed"
    assert run("stop", "--launched", "mine") == {"asked": 0, "workers": [], "ended": [], "late": 0}


def test_a_worker_that_does_not_finish_in_time_loses_its_rollout_to_the_queue(queue: Any, ask: Ask, sky: Sky) -> None:
    [rollout] = ask(task={"metadata": {"script": [{"sleep": 1000}]}}, agent="scripted")
    sky.clusters["omrl-slow-1"] = Status.UP
    work_on(queue, "slow")
    queue.await_status(rollout, "running")
    [worker] = QueueManager.list_workers().rows

    stopped = run("stop", worker["id"], "--wait-seconds", "0")

    assert (stopped["ended"], stopped["late"]) == (["omrl-slow-1"], 1)
    assert sky.clusters == {}
    # Even if the machine lives on for a moment, it cannot have it back.
    assert queue.status_of(rollout) == "pending"
    queue.workers[-1].wait(60)
    assert queue.status_of(rollout) == "pending"
