"""Runs to train, programs that stand for training, and orchestrators to kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from openmanus_rl.jobs import get_job_logs
from openmanus_rl.managers.jobs import ACTIVE, JobManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.rows import Job
from tests.conftest import RunningStack, clean_env

from ..conftest import Query

# What a program writes down when it begins: a line with its job and attempt.
_BEGIN = """
import os, signal, sys, time
ATTEMPT = int(os.environ["OPENMANUS_RL_JOB_ATTEMPT"])
with open({trace!r}, "a") as trace:
    trace.write(os.environ["OPENMANUS_RL_JOB_ID"] + " " + str(ATTEMPT) + chr(10))
"""


@dataclass
class Jobs:
    """What the tests do with jobs of the session's stack."""

    env: dict[str, str]
    folder: Path
    query: Query

    @property
    def home(self) -> Path:
        return Path(self.env["OPENMANUS_RL_HOME"]) / "jobs"

    def request(self, **config: Any) -> str:
        """Ask for a job of a new run."""
        run = TrainingRunManager.create_run("trained", status="pending")
        return JobManager.request_job(run["id"], config).job["id"]

    def program(self, source: str) -> str:
        """Return the path of a program that writes down that it begins."""
        path = self.folder / "program.py"
        path.write_text(_BEGIN.format(trace=str(self.folder / "trace")) + textwrap.dedent(source))
        return str(path)

    def began(self, job_id: str) -> list[int]:
        """Return the attempts in which a program began, in their order."""
        path = self.folder / "trace"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [int(number) for job, number in (line.split() for line in lines) if job == job_id]

    def expire_leases(self) -> None:
        self.query("update internal.orchestrator_leases set expires_at = now() - interval '1 s' returning 1")

    def ends_of(self, job_id: str) -> list[str]:
        """Return the statuses in which a job ended, of which there must be one."""
        rows = self.query(
            "select new_status from public.status_history where entity = 'jobs' and entity_id = %s "
            "and new_status in ('succeeded', 'failed', 'cancelled') order by changed_at",
            job_id,
        )
        return [row["new_status"] for row in rows]

    def processes_of(self, job_id: str) -> list[int]:
        """Return the processes that were started for a job and are still there."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("OPENMANUS_RL_JOB_ID") == job_id and process.status() != "zombie":
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def await_that(self, condition: Callable[[], Any], *, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, "it does not happen"
            time.sleep(0.02)
        return value

    def await_status(self, job_id: str, *statuses: str) -> Job:
        self.await_that(lambda: JobManager.get_job(job_id)["status"] in statuses)
        return JobManager.get_job(job_id)

    def assert_ended_once(self, job_id: str, status: str, *, logs: dict[int, str]) -> Job:
        """Check that a job ended once, was begun once per attempt, and that nothing is missing, doubled or left."""
        job = JobManager.get_job(job_id)
        assert (job["status"], self.ends_of(job_id)) == (status, [status])
        assert self.began(job_id) == list(range(1, len(logs) + 1))
        assert {number: get_job_logs(job_id, attempt=number) for number in logs} == logs
        assert self.processes_of(job_id) == []
        assert not [path for path in self.home.iterdir() if job_id.replace("-", "")[:8] in path.name]
        return job


class Forks:
    """Starts orchestrators; see `orchestrating`."""

    def __init__(self, env: dict[str, str]) -> None:
        self._pids: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.jobs.orchestrating"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    def start(self, program: str, **orders: Any) -> int:
        """Start an orchestrator and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"program": program, **orders}) + "\n")
        self._process.stdin.flush()
        self._pids.append(int(self._answer()["pid"]))
        return self._pids[-1]

    def run(self, program: str, **orders: Any) -> int:
        """Run an orchestrator to its end, and return its exit code."""
        self.start(program, **orders)
        return int(self._answer()["code"])

    def close(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.communicate(timeout=30)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@pytest.fixture
def jobs(stack: RunningStack, _stack_settings: None, query: Query, tmp_path: Path) -> Iterator[Jobs]:
    """A stack on which no job waits."""
    # Others may have left some: an orchestrator would launch them.
    query("update public.jobs set status = 'cancelled' where status = 'pending' returning 1")
    made = Jobs({**clean_env(), **stack.env}, tmp_path, query)
    yield made
    assert JobManager.list_jobs(status=ACTIVE).rows == []


@pytest.fixture
def forks(jobs: Jobs) -> Iterator[Forks]:
    """Orchestrators in forks."""
    made = Forks({**jobs.env, "PYTHONPATH": os.getcwd()})
    yield made
    made.close()
