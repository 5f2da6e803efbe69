"""Workers that the real SkyPilot starts on a real Slurm: run by scripts/test_slurm."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from openmanus_rl.managers.queue import QueueManager
from tests.integration.slurm import NEEDS_SLURM, VENV, Slurm

pytestmark = NEEDS_SLURM


@pytest.fixture
def cli(slurm: Slurm, queue: Any) -> Callable[..., Any]:
    def run(*arguments: str, code: int = 0) -> Any:
        done = subprocess.run(
            [f"{VENV}/bin/python", "-m", "openmanus_rl", "workers", *arguments],
            env={**queue.env, **slurm.env},
            cwd=queue.home,
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in arguments else done.stdout if code == 0 else done.stderr

    return run


def await_no_jobs(slurm: Slurm) -> None:
    deadline = time.monotonic() + 1800
    while slurm.jobs:
        assert time.monotonic() < deadline
        time.sleep(2)


def test_launched_workers_do_the_work_and_go_when_there_is_none(
    slurm: Slurm, cli: Any, queue: Any, ask: Callable[..., list[str]]
) -> None:
    rollouts = ask(task={"metadata": {"script": [{"sleep": 1}]}}, agent="scripted", attempts=12)

    size = ("--cpus", "1", "--memory", "1", "--idle-minutes", "1")
    launched = cli("launch", "--infra", "slurm", "--count", "2", "--name", "pair", "--allow-loopback", *size, "--json")

    assert launched["started"] == ["omrl-pair-1", "omrl-pair-2"]
    assert len(slurm.jobs) == 2
    assert {queue.ended(rollout, timeout_seconds=1800)["status"] for rollout in rollouts} == {"completed"}
    workers = QueueManager.list_workers().rows
    assert {row["infra"]["name"] for row in workers} == {"omrl-pair-1", "omrl-pair-2"}
    await_no_jobs(slurm)
    listed = cli("list", "--json")
    assert listed["launched"] == []
    assert {row["state"] for row in listed["workers"]} == {"stopped"}


def test_stopping_a_launch_returns_its_work_and_removes_its_machines(
    slurm: Slurm, cli: Any, queue: Any, ask: Callable[..., list[str]]
) -> None:
    [rollout] = ask(task={"metadata": {"script": [{"sleep": 1000}]}}, agent="scripted")
    cli("launch", "--infra", "slurm", "--name", "solo", "--allow-loopback", "--cpus", "1", "--memory", "1")
    queue.await_status(rollout, "running", timeout_seconds=1800)
    [listed] = cli("list", "--json")["launched"]
    assert (listed["name"], listed["state"]) == ("omrl-solo-1", "UP")

    stopped = cli("stop", "--launched", "solo", "--wait-seconds", "3", "--json")

    assert (stopped["asked"], stopped["ended"], stopped["late"]) == (1, ["omrl-solo-1"], 1)
    assert queue.status_of(rollout) == "pending"
    await_no_jobs(slurm)
    again = cli("stop", "--launched", "solo", "--json")
    assert (again["asked"], again["ended"]) == (0, [])


def test_skypilots_parser_takes_what_a_dry_run_prints(cli: Any, queue: Any) -> None:
    size = ("--cpus", "4+", "--memory", "8+", "--accelerators", "A10:1", "--use-spot", "--image", "docker:debian")
    shown = [
        cli("launch", "--infra", infra, "--allow-loopback", *size, "--setup", "echo hi", "--dry-run")
        for infra in ("slurm", "k8s", "aws/us-east-1")
    ]
    assert not any("sb_secret_" in one for one in shown)
    parse = "[sky.Task.from_yaml_config(yaml.safe_load(one)) for one in json.load(sys.stdin)]"
    program = f"import json, sys, yaml, sky; {parse}"
    subprocess.run([f"{VENV}/bin/python", "-c", program], input=json.dumps(shown), env=queue.env, text=True, check=True)


def test_an_unknown_infrastructure_is_refused_in_skypilots_words(cli: Any) -> None:
    assert "nosuch" in cli("launch", "--infra", "nosuch", "--allow-loopback", code=1)
