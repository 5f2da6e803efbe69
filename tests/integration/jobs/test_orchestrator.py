"""The orchestrator follows jobs to their end, whatever their programs, other orchestrators and people do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from openmanus_rl.jobs import get_job_logs, get_job_status, stop_job
from openmanus_rl.managers.jobs import JobManager, OrchestratorManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.rows import Orchestrator

from ..conftest import Command
from .conftest import Forks, Jobs

SLEEPS = """
    print("ready", flush=True)
    time.sleep(120)
"""
# It does not end when it is asked to, and neither does what it started.
STUBBORN = """
    import subprocess
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(120)"])
    print("ready", flush=True)
    time.sleep(120)
"""


def test_a_program_that_fails_fails_the_job_with_its_last_lines_and_can_be_tried_again(
    jobs: Jobs, forks: Forks
) -> None:
    job_id = jobs.request()
    program = jobs.program("""
        print("\\n".join(f"line {n}" for n in range(100)))
        if ATTEMPT == 1:
            sys.exit("no such environment")
    """)

    assert forks.run(program) == 0
    job = JobManager.get_job(job_id)
    assert (job["status"], job["exit_code"], job["restarts"]) == ("failed", 1, 0)
    assert job["status_message"].startswith("exit code 1\nline 81\n")
    assert job["status_message"].endswith("line 99\nno such environment")
    run = TrainingRunManager.get_run(job["training_run_id"])
    assert (run["status"], run["status_message"]) == ("failed", job["status_message"])

    JobManager.retry_job(job_id)
    # As a training process does when it resumes its run.
    TrainingRunManager.update_status(run["id"], "running")
    assert forks.run(program) == 0
    assert (get_job_status(job_id), jobs.began(job_id)) == ("succeeded", [1, 2])
    assert get_job_logs(job_id, attempt=1).endswith("no such environment\n")


def test_an_attempt_that_is_lost_is_replaced_only_so_often(jobs: Jobs, forks: Forks) -> None:
    job_id = jobs.request(max_restarts=2)

    assert forks.run(jobs.program("os.kill(os.getpid(), signal.SIGKILL)")) == 0

    job = jobs.assert_ended_once(job_id, "failed", logs={1: "", 2: "", 3: ""})
    assert job["status_message"] == "it was killed by signal 9, after 2 restarts"


def test_a_program_that_crashes_by_itself_is_not_launched_again(jobs: Jobs, forks: Forks) -> None:
    job_id = jobs.request()

    assert forks.run(jobs.program("os.kill(os.getpid(), signal.SIGSEGV)")) == 0

    jobs.assert_ended_once(job_id, "failed", logs={1: ""})


def test_a_program_dies_with_its_runner_and_is_launched_again(jobs: Jobs, forks: Forks) -> None:
    job_id = jobs.request()
    program = jobs.program("""
        print("ready", flush=True)
        if ATTEMPT == 1:
            import subprocess
            subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(120)"])
    """)
    forks.start(program)
    jobs.await_that(lambda: get_job_logs(job_id) == "ready\n")
    (folder,) = (path for path in jobs.home.glob("omrl-*"))
    os.kill(json.loads((folder / "started.json").read_text())["pid"], signal.SIGKILL)

    jobs.await_status(job_id, "succeeded")
    job = jobs.assert_ended_once(job_id, "succeeded", logs={1: "ready\n", 2: "ready\n"})
    assert job["restarts"] == 1


def test_a_program_that_does_not_stop_is_killed_with_all_that_it_started(jobs: Jobs, forks: Forks) -> None:
    job_id = jobs.request(stop_grace_seconds=1)
    forks.start(jobs.program(STUBBORN))
    jobs.await_that(lambda: get_job_logs(job_id) == "ready\n")

    stop_job(job_id)

    jobs.await_status(job_id, "cancelled")
    job = jobs.assert_ended_once(job_id, "cancelled", logs={1: "ready\n"})
    assert job["exit_code"] == -signal.SIGKILL


def test_a_job_is_stopped_after_its_time_limit(jobs: Jobs, forks: Forks) -> None:
    job_id = jobs.request(timeout_minutes=1, stop_grace_seconds=0)
    program = jobs.program(SLEEPS)
    pid = forks.start(program)
    jobs.await_that(lambda: get_job_logs(job_id) == "ready\n")
    os.kill(pid, signal.SIGKILL)
    forks.wait()
    jobs.query("update public.jobs set started_at = now() - interval '61 s' where id = %s returning 1", job_id)
    jobs.expire_leases()

    assert forks.run(program) == 0

    job = jobs.assert_ended_once(job_id, "failed", logs={1: "ready\n"})
    assert job["status_message"] == "it was stopped after its time limit of 1 minutes"


@pytest.mark.parametrize("how", ["ended", "deleted"])
def test_nothing_runs_for_a_run_that_has_ended_or_was_deleted(jobs: Jobs, forks: Forks, how: str) -> None:
    job_id = jobs.request(stop_grace_seconds=0)
    run_id = JobManager.get_job(job_id)["training_run_id"]
    assert run_id is not None
    forks.start(jobs.program(SLEEPS), linger_seconds=0)
    jobs.await_that(lambda: get_job_logs(job_id) == "ready\n")
    assert jobs.processes_of(job_id)

    if how == "ended":
        # As the training process does: it begins, its run ends, and then it hangs.
        JobManager.begin_attempt(job_id, 1, token="mine")
        TrainingRunManager.finish(run_id)
        jobs.await_status(job_id, "succeeded")
    else:
        TrainingRunManager.delete_run(run_id)
        jobs.await_status(job_id, "cancelled")

    assert jobs.processes_of(job_id) == []
    assert list(jobs.home.glob("omrl-*")) == []


def test_two_orchestrators_share_jobs_and_begin_each_once(jobs: Jobs, forks: Forks) -> None:
    ids = [jobs.request() for _ in range(8)]
    program = jobs.program("time.sleep(0.2)")
    another = Forks({**jobs.env})

    forks.start(program, max_jobs=2)
    assert another.run(program, max_jobs=2) == 0
    another.close()

    for job_id in ids:
        jobs.assert_ended_once(job_id, "succeeded", logs={1: ""})
    assert len({JobManager.get_job(job_id)["orchestrator_id"] for job_id in ids}) == 2


def test_an_orchestrator_that_was_frozen_launches_nothing_that_trains_and_leaves_nothing(
    jobs: Jobs, forks: Forks
) -> None:
    job_id = jobs.request()
    program = jobs.program(f"""
        sys.path[:0] = {[path for path in sys.path if path]}
        from openmanus_rl.errors import ConflictError
        from openmanus_rl.managers.jobs import JobManager
        try:
            JobManager.begin_attempt(os.environ["OPENMANUS_RL_JOB_ID"], ATTEMPT, token=str(os.getpid()))
        except ConflictError:
            time.sleep(120)  # Even one that does not end by itself.
        with open({str(jobs.folder / "trained")!r}, "a") as file:
            file.write("trains ")
    """)
    frozen = forks.start(program, freeze_at="launch")
    jobs.await_that(lambda: psutil.Process(frozen).status() == psutil.STATUS_STOPPED)
    jobs.expire_leases()
    assert forks.run(program) == 0
    assert get_job_status(job_id) == "succeeded"

    os.kill(frozen, signal.SIGCONT)
    jobs.await_that(lambda: psutil.Process(frozen).status() == psutil.STATUS_ZOMBIE)
    # It itself has removed what it launched, or the next orchestrator does.
    assert forks.run(program) == 0
    assert jobs.processes_of(job_id) == []
    assert (jobs.folder / "trained").read_text() == "trains "
    assert jobs.ends_of(job_id) == ["succeeded"]
    assert list(jobs.home.glob("omrl-*")) == []


def test_an_orchestrator_that_is_told_to_end_leaves_its_jobs_to_the_next_one(jobs: Jobs, forks: Forks) -> None:
    job_id = jobs.request()
    program = jobs.program(SLEEPS)
    pid = forks.start(program)
    jobs.await_that(lambda: get_job_logs(job_id) == "ready\n")

    os.kill(pid, signal.SIGTERM)
    assert forks.wait() == 0
    assert (get_job_status(job_id), len(jobs.processes_of(job_id))) == ("running", 2)
    stop_job(job_id)
    # Without waiting for a lease to run out.
    assert forks.run(program) == 0

    jobs.assert_ended_once(job_id, "cancelled", logs={1: "ready\n"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_says_that_it_ends(jobs: Jobs, tmp_path: Path, number: signal.Signals) -> None:
    arguments = ["-m", "openmanus_rl", "orchestrator", "--backends", "local"]
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=jobs.env,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:

        def find() -> list[Orchestrator]:
            return [row for row in OrchestratorManager.list_orchestrators().rows if row["pid"] == process.pid]

        jobs.await_that(find)
        process.send_signal(number)
        out, told = process.communicate(timeout=30)

    assert (process.returncode, find()[0]["state"]) == (0, "stopped")
    assert "jobs (local); Ctrl-C ends it" in out
    assert "jobs go on" in told


def test_a_job_is_followed_on_the_command_line(jobs: Jobs, forks: Forks, command: Command) -> None:
    run = TrainingRunManager.create_run("followed", run_name="followed", status="pending")
    asked = command("jobs", "launch", "followed", "--set", "max_restarts=0", "--json").json["job"]
    assert (asked["training_run_id"], asked["max_restarts"]) == (run["id"], 0)
    assert forks.run(jobs.program("print('trains')")) == 0

    assert command("jobs", "logs", asked["id"], "--follow").out == "trains\n"
    assert command("jobs", "show", asked["id"][:13], "--json").json["status"] == "succeeded"
    assert [row["id"] for row in command("jobs", "list", "--run", "followed", "--json").json] == [asked["id"]]
    assert "succeeded" in command("jobs", "list").out
    assert command("jobs", "retry", asked["id"]).code == 1
    assert command("jobs", "preview", "followed", "--set", "accelerator=A10:1").out.startswith('name: "omrl-')


@pytest.mark.usefixtures("jobs")
def test_a_job_that_waits_is_stopped_and_retried_on_the_command_line(command: Command) -> None:
    TrainingRunManager.create_run("stopped", run_name="stopped", status="pending")
    assert command("jobs", "launch", "stopped").code == 0
    job_id = command("jobs", "list", "--status", "active", "--json").json[0]["id"]

    assert "is cancelled" in command("jobs", "stop", job_id).out
    assert command("jobs", "retry", job_id, "--json").json["attempt"] == 2
    assert command("jobs", "stop", job_id, "--json").json[0]["status"] == "cancelled"
    assert command("jobs", "logs", job_id, "--follow").code == 1
    assert command("jobs", "launch", "stopped", "--set", "acelerator=A10").code == 1
    assert command("jobs", "launch", "stopped", "--set", "acelerator").code == 2
