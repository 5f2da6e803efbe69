"""A folder of Harbor tasks, imported as it is and run by a worker in containers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import docker
import pytest

from openmanus_rl.managers.queue import QueueManager

TASKS = {"write-a-file": "hello", "write-another": "world", "count": "42"}
TOML = """
[metadata]
difficulty = "easy"
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 60.0
[environment]
build_timeout_sec = 300.0
memory_mb = 512
allow_internet = false
"""
TEST = """#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/answer.txt 2>/dev/null)" = "{expected}" ]; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
"""
# Scripts that leave a reward which is none: each is an error, and never a success.
ODD_REWARDS = {"nan": "echo nan > /logs/verifier/reward.txt", "none": "true"}


@pytest.fixture(scope="module", autouse=True)
def _engine_of_the_worker(_queue_stack: Any, docker_engine: docker.DockerClient) -> None:
    assert docker_engine.ping()
    _queue_stack.env["DOCKER_HOST"] = os.environ["DOCKER_HOST"]


def make_task(folder: Path, image: str, *, expected: str, test: str | None = None) -> None:
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(TOML)
    (folder / "instruction.md").write_text(f"Write {expected} to /app/answer.txt.\n")
    (folder / "environment" / "Dockerfile").write_text(f"FROM {image}\nRUN mkdir -p /app\nWORKDIR /app\n")
    (folder / "tests" / "test.sh").write_text(test or TEST.replace("{expected}", expected))
    (folder / "solution" / "solve.sh").write_text(f"#!/bin/bash\nprintf %s {expected} > /app/answer.txt\n")


def test_the_oracle_solves_all_of_them_and_noop_none(
    queue: Any, command: Any, debian_image: str, docker_engine: docker.DockerClient, tmp_path: Path
) -> None:
    for name, expected in TASKS.items():
        make_task(tmp_path / "set" / name, debian_image, expected=expected)
    for name, script in ODD_REWARDS.items():
        make_task(tmp_path / "set" / name, debian_image, expected="x", test=f"mkdir -p /logs/verifier\n{script}\n")

    imported = command("tasks", "import", str(tmp_path / "set"))
    assert imported.code == 0, imported.err
    ids = {row["external_id"]: str(row["id"]) for row in queue.rows("select id, external_id from public.tasks")}
    agents = {
        agent: QueueManager.request_rollouts(list(ids.values()), agent=agent).rollouts for agent in ("oracle", "noop")
    }
    queue.work_off("--max-workers", "4", timeout_seconds=300)

    rows = queue.rows("select id::text, task_id::text, agent, status, error, total_reward from public.rollouts")
    found = {(row["agent"], name): row for row in rows for name, task in ids.items() if task == row["task_id"]}
    assert {name: found["oracle", name]["status"] for name in TASKS} == dict.fromkeys(TASKS, "success"), rows
    assert {name: found["noop", name]["status"] for name in TASKS} == dict.fromkeys(TASKS, "failed"), rows
    assert {found["oracle", name]["total_reward"] for name in TASKS} == {1.0}
    assert {found["oracle", name]["status"] for name in ODD_REWARDS} == {"error"}, rows
    assert len(rows) == sum(map(len, agents.values()))
    assert docker_engine.containers.list(all=True) == []
    assert [network.name for network in docker_engine.networks.list() if "rollout" in (network.name or "")] == []
    assert queue.leftovers() == []
