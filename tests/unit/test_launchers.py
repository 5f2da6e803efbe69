"""What launchers say, and what follows from it for the processes of a job."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from openmanus_rl._launchers import Launch, read_launch
from openmanus_rl.recorder.job import Job, identify_job

UUID = "833cc808-b12c-45a1-a094-4491662f9d16"
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": UUID}
NODES = {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}
SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "prterun-host-5@1"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"rank": 0, "world_size": 1, "rank_variable": None}),
        (TORCHRUN, {"rank": 1, "world_size": 4, "name": f"torchrun:{UUID}", "is_on_one_machine": True}),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, {"name": None, "is_on_one_machine": True}),
        (
            TORCHRUN | NODES | {"MASTER_ADDR": "host", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "2"},
            {"name": None, "is_on_one_machine": False, "store": ("host", 29500), "restarts": 2},
        ),
        (SLURM, {"rank": 3, "world_size": 8, "name": "slurm::77:0"}),
        # A shell in an allocation, or in a step of its own, is no job.
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, {"rank_variable": None}),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77"}, {"rank_variable": None}),
        (OPEN_MPI, {"rank": 1, "name": "mpi:prterun-host-5@1"}),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, {"name": None, "is_on_one_machine": True}),
        # Ray Train sets these in workers whose parent outlives the job.
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, {"name": None, "is_on_one_machine": False}),
        ({"RANK": "high", "WORLD_SIZE": "2"}, {"rank_variable": None}),
        ({"RANK": "5", "WORLD_SIZE": "2"}, {"rank_variable": None}),
    ],
)
def test_what_a_launcher_says_is_read(values: dict[str, str], expected: dict[str, Any]) -> None:
    launch = read_launch(values)
    assert {name: getattr(launch, name) for name in expected} == expected


def test_ranks_agree_on_their_runs_and_other_launches_differ() -> None:
    def runs(name: str) -> list[str]:
        job = Job(name, restarts=0)
        return [job.next_run_id(), job.next_run_id()]

    first = runs("a")
    assert len(set(first)) == 2
    assert not set(first) & set(runs("b"))


RANK = """
from openmanus_rl._launchers import read_launch
from openmanus_rl.recorder.job import identify_job
import os
print(identify_job(read_launch(os.environ), timeout_seconds=5).next_run_id())
"""


def test_on_one_machine_the_launchers_process_tells_jobs_apart() -> None:
    launcher = f"""
import os, subprocess, sys
env = {{**os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}}
# One rank has a shell in between.
ranks = [[sys.executable, "-c", {RANK!r}], ["sh", "-c", '"$0" "$@"; true', sys.executable, "-c", {RANK!r}]]
for rank, command in enumerate(ranks):
    subprocess.run(command, env={{**env, "RANK": str(rank)}}, check=True)
"""
    jobs = [
        subprocess.run([sys.executable, "-c", launcher], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert [len(set(job)) for job in jobs] == [1, 1]
    assert jobs[0] != jobs[1]


def test_a_process_that_no_launcher_started_has_no_job() -> None:
    assert identify_job(Launch(), timeout_seconds=1) is None
    assert identify_job(read_launch({"RANK": "0", "WORLD_SIZE": "2"}), timeout_seconds=1) is None
