"""A sweep of real runs, launched by real orchestrators, of which the first is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openmanus_rl.managers.sweeps import SweepManager

from .conftest import Jobs

ORCHESTRATOR = """
from openmanus_rl.jobs.backends.local import LocalBackend
from openmanus_rl.jobs.orchestrator import Orchestrator
from openmanus_rl.settings import load_settings

settings = load_settings()
Orchestrator(settings, {"local": LocalBackend(settings)}, max_jobs=3, until_idle=True, poll_seconds=0.2).run()
"""
PROGRAM = """
import sys
import openmanus_rl

def main():
    with open(__file__ + ".trace", "a") as trace:
        trace.write(sys.argv[1] + chr(10))
    with openmanus_rl.init(name="a loop of one's own") as run:
        for step in range(run.next_step, 3):
            run.log({"reward": float(sys.argv[1]) + step / 10}, step=step)
"""


Orchestrate = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def orchestrate(jobs: Jobs, tmp_path: Path) -> Iterator[Orchestrate]:
    """Start an orchestrator that ends when there is nothing left to do."""
    (tmp_path / "orchestrator.py").write_text(ORCHESTRATOR)
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen([sys.executable, str(tmp_path / "orchestrator.py")], env=jobs.env, cwd=tmp_path)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_sweep_of_twelve_runs_three_at_once_killed_in_the_middle_is_twelve_runs_each_once(
    jobs: Jobs, orchestrate: Orchestrate, tmp_path: Path
) -> None:
    (tmp_path / "loop.py").write_text(PROGRAM)
    sweep = SweepManager.request_sweep(
        "twelve",
        method="grid",
        template={"name": "looped", "config": {"entry_point": {"module": "loop:main"}}},
        space={"arguments": {"values": [[str(number)] for number in range(12)]}},
        metric="reward",
        max_concurrent=3,
        job_config={"env": {"PYTHONPATH": str(tmp_path)}},
    )
    first = orchestrate()
    jobs.await_that(lambda: ended(sweep["id"]) >= 4)
    first.kill()
    first.wait()
    assert SweepManager.get_sweep(sweep["id"])["next_trial"] < 12
    jobs.expire_leases()

    assert orchestrate().wait(timeout=240) == 0

    overview = SweepManager.sweep_overview(sweep["id"])
    assert overview["sweep"]["status"] == "completed", overview["sweep"]["status_message"]
    assert [trial["parameters"]["arguments"] for trial in overview["trials"]] == [[str(n)] for n in range(12)]
    assert [trial["value"] for trial in overview["trials"]] == [n + 0.2 for n in range(12)]
    assert {(trial["status"], trial["job_status"]) for trial in overview["trials"]} == {("completed", "succeeded")}
    trained = (tmp_path / "loop.py.trace").read_text().split()
    assert sorted(trained, key=int) == [str(number) for number in range(12)], "each was trained once"
    (most,) = jobs.query(
        # How many jobs were active at the start of each.
        "select max((select count(*) from public.jobs o join public.sweep_trials u using (training_run_id)"
        " where u.sweep_id = t.sweep_id and o.created_at <= j.created_at and o.finished_at > j.created_at)) as active"
        " from public.jobs j join public.sweep_trials t using (training_run_id) where t.sweep_id = %s",
        sweep["id"],
    )
    assert most["active"] == 3


def ended(sweep_id: str) -> int:
    trials = SweepManager.sweep_overview(sweep_id)["trials"]
    return sum(trial["job_status"] == "succeeded" for trial in trials)
