"""Workers that the real SkyPilot starts on a real Slurm. Takes about ten minutes, and is run only when asked for:

apt-get install --no-install-recommends slurm-wlm munge openssh-server rsync
python3 -m venv V && V/bin/pip install -e '.[skypilot]' uv
OPENMANUS_RL_TEST_SLURM=V .venv/bin/python -m pytest tests/integration/workers/test_slurm.py
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openmanus_rl.managers.queue import QueueManager
from tests.integration.workers.slurm import NEEDS_SLURM, VENV, Slurm, running_slurm

pytestmark = NEEDS_SLURM


@pytest.fixture(scope="module")
def infrastructure() -> Iterator[tuple[Slurm, dict[str, str]]]:
    with running_slurm() as found:
        yield found


@pytest.fixture
def cli(infrastructure: tuple[Slurm, dict[str, str]], queue: Any) -> Callable[..., Any]:
    def run(*arguments: str, code: int = 0) -> Any:
        done = subprocess.run(
            [f"{VENV}/bin/python", "-m", "openmanus_rl", "workers", *arguments],
            env={**queue.env, **infrastructure[1]},
            cwd=queue.home,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


def jobs(slurm: Slurm) -> list[str]:
    return slurm.output("squeue", "-h", "-o", "%j").split()


def await_no_jobs(slurm: Slurm) -> None:
    deadline = time.monotonic() + 400
    while jobs(slurm):
        assert time.monotonic() < deadline
        time.sleep(2)


def test_launched_workers_do_the_work_and_go_when_there_is_none(
    infrastructure: Any, cli: Any, queue: Any, ask: Callable[..., list[str]]
) -> None:
    slurm = infrastructure[0]
    rollouts = ask(task={"metadata": {"script": [{"sleep": 1}]}}, agent="scripted", attempts=12)

    size = ("--cpus", "1", "--memory", "1", "--idle-minutes", "1")
    launched = cli("launch", "--infra", "slurm", "--count", "2", "--name", "pair", "--allow-loopback", *size, "--json")

    assert launched["started"] == ["omrl-pair-1", "omrl-pair-2"]
    assert len(jobs(slurm)) == 2
    assert {queue.ended(rollout, timeout_seconds=300)["status"] for rollout in rollouts} == {"completed"}
    workers = QueueManager.list_workers().rows
    assert {row["infra"]["name"] for row in workers} == {"omrl-pair-1", "omrl-pair-2"}
    await_no_jobs(slurm)
    listed = cli("list", "--json")
    assert listed["launched"] == []
    assert {row["state"] for row in listed["workers"]} == {"stopped"}


def test_stopping_a_launch_returns_its_work_and_removes_its_machines(
    infrastructure: Any, cli: Any, queue: Any, ask: Callable[..., list[str]]
) -> None:
    slurm = infrastructure[0]
    [rollout] = ask(task={"metadata": {"script": [{"sleep": 1000}]}}, agent="scripted")
    cli("launch", "--infra", "slurm", "--name", "solo", "--allow-loopback", "--cpus", "1", "--memory", "1")
    queue.await_status(rollout, "running", timeout_seconds=300)
    [listed] = cli("list", "--json")["launched"]
    assert (listed["name"], listed["state"]) == ("omrl-solo-1", "UP")

    stopped = cli("stop", "--launched", "solo", "--wait-seconds", "3", "--json")

    assert (stopped["asked"], stopped["ended"], stopped["late"]) == (1, ["omrl-solo-1"], 1)
    assert queue.status_of(rollout) == "pending"
    await_no_jobs(slurm)
    again = cli("stop", "--launched", "solo", "--json")
    assert (again["asked"], again["ended"]) == (0, [])


def test_skypilots_parser_takes_what_a_dry_run_prints(infrastructure: Any, cli: Any, queue: Any) -> None:
    for infra in ("slurm", "k8s", "aws/us-east-1"):
        options = (
            "--cpus",
            "4+",
            "--memory",
            "8+",
            "--accelerators",
            "A10:1",
            "--use-spot",
            "--image",
            "docker:debian",
        )
        shown = cli("launch", "--infra", infra, "--allow-loopback", *options, "--setup", "echo hi", "--dry-run")
        program = "import sys, yaml, sky; sky.Task.from_yaml_config(yaml.safe_load(sys.stdin))"
        env = {**queue.env, **infrastructure[1]}
        subprocess.run([f"{VENV}/bin/python", "-c", program], input=shown, env=env, text=True, check=True)
        assert "sb_secret_" not in shown
    assert "nosuch" in cli_error(queue, infrastructure[1])


def cli_error(queue: Any, env: dict[str, str]) -> str:
    command = [f"{VENV}/bin/python", "-m", "openmanus_rl", "workers", "launch", "--infra", "nosuch", "--allow-loopback"]
    done = subprocess.run(command, env={**queue.env, **env}, cwd=queue.home, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr
