"""An orchestrator may be killed between any two of its steps: no job is lost, and none is launched twice."""

from __future__ import annotations

import pytest

from openmanus_rl.jobs import get_job_logs
from openmanus_rl.managers.jobs import JobManager

from .conftest import Forks, Jobs

# The first attempt is lost, the second succeeds. Characters of several bytes, and bytes of no character.
LOST_ONCE = r"""
    os.write(1, b"begins \xff\xc3")
    os.write(1, b"\xa9\n")
    if ATTEMPT == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    os.write(1, "ends ✓\n".encode() * 3)
"""
LOST_ONCE_LOGS = {1: "begins \ufffdé\n", 2: "begins \ufffdé\n" + "ends ✓\n" * 3}

STOPPABLE = """
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"stops\\n"), os._exit(0)))
    os.write(1, b"ready\\n")
    time.sleep(60)
"""


def kill_at_every_step(jobs: Jobs, forks: Forks, program: str, **orders: bool) -> list[str]:
    """Return the jobs of orchestrators that were killed at their first step, their second, and so on."""
    ids = []
    for number in range(1, 200):
        ids.append(jobs.request())
        code = forks.run(program, kill_at=number, until_job=ids[-1], **orders)
        assert code in (0, -9)
        if code == 0:
            return ids
    raise AssertionError("the orchestrator does not end")


def test_a_job_is_begun_once_per_attempt_wherever_its_orchestrator_is_killed(jobs: Jobs, forks: Forks) -> None:
    program = jobs.program(LOST_ONCE)
    ids = kill_at_every_step(jobs, forks, program)
    assert len(ids) > 25

    jobs.expire_leases()
    assert forks.run(program, max_jobs=4) == 0

    for job_id in ids:
        job = jobs.assert_ended_once(job_id, "succeeded", logs=LOST_ONCE_LOGS)
        assert (job["restarts"], job["exit_code"]) == (1, 0)


def test_a_job_that_was_asked_to_stop_is_stopped_wherever_its_orchestrator_is_killed(jobs: Jobs, forks: Forks) -> None:
    program = jobs.program(STOPPABLE)
    ids = kill_at_every_step(jobs, forks, program, stop_when_ready=True)
    assert len(ids) > 12

    for job_id in ids:
        JobManager.stop_jobs([job_id])
    jobs.expire_leases()
    assert forks.run(program, max_jobs=4) == 0

    for job_id in ids:
        # Stopped before it was launched, before it was ready, or after.
        assert jobs.began(job_id) in ([], [1])
        assert get_job_logs(job_id) in ("", "ready\n", "ready\nstops\n")
        assert jobs.ends_of(job_id) == ["cancelled"]
        assert jobs.processes_of(job_id) == []
    assert get_job_logs(ids[-1]) == "ready\nstops\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_is_begun_once_per_attempt_though_every_call_fails_at_first(jobs: Jobs, forks: Forks, when: str) -> None:
    program = jobs.program(LOST_ONCE)
    job_id = jobs.request()

    assert forks.run(program, fail=when) == 0

    jobs.assert_ended_once(job_id, "succeeded", logs=LOST_ONCE_LOGS)
