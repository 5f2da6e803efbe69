"""Training jobs that the real SkyPilot runs on a real Slurm: run by scripts/test_slurm."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.jobs import get_job_logs
from openmanus_rl.managers.jobs import JobManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.records.rows import Job
from tests.integration.slurm import NEEDS_SLURM, VENV, Slurm

from .conftest import Jobs

pytestmark = NEEDS_SLURM

CLUSTER = {"infra": "slurm", "cpus": "1", "memory": "1", "max_restarts": 0}
# Where SkyPilot may choose, it is a managed job, and Slurm is all there is to choose from.
MANAGED = {"cpus": "1", "memory": "1", "max_restarts": 0}
# A small package instead of this one, and a program that stands for training.
STAND_IN = """\
site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/openmanus_rl/training"
cat > "$site/openmanus_rl/training/train.py" <<'END'
{program}
END
"""
GOOD = "import os\nfor i in range(1000): print('step', i)\nprint('trained', os.environ['RUN_ID'])"
BAD = "print('no such thing'); raise SystemExit(3)"
ENDLESS = "import time\nfor i in range(10**6):\n    print('step', i, flush=True); time.sleep(1)"
ORCHESTRATE = """
from openmanus_rl.jobs.backends.registry import make_backends
from openmanus_rl.jobs.orchestrator import Orchestrator
from openmanus_rl.settings import load_settings

settings = load_settings()
backends = make_backends(settings, ["skypilot"])
tell = lambda event: print(event.job_id, event.text, flush=True)
Orchestrator(settings, backends, max_jobs=4, until_idle=True, tell=tell).run()
"""
# SkyPilot works in processes of its own, which take a while to begin; a busy machine must not fail a test.
LAUNCH_SECONDS = 1800.0


class Orchestrators:
    """Starts orchestrators, which run until no job is left, where SkyPilot is installed."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self._env, self._folder = env, folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        command = [f"{VENV}/bin/python", "-c", ORCHESTRATE]
        self._started.append(subprocess.Popen(command, env=self._env, cwd=self._folder))

    def wait(self) -> int:
        """Wait for the end of the one that was started last, and return its exit code."""
        return self._started[-1].wait(LAUNCH_SECONDS)

    def kill(self) -> None:
        """End all that still run as SIGKILL does."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def orchestrators(slurm: Slurm, jobs: Jobs) -> Iterator[Orchestrators]:
    made = Orchestrators({**jobs.env, **slurm.env, "OPENMANUS_RL_ALLOW_LOOPBACK": "1"}, jobs.folder)
    yield made
    made.kill()


@pytest.fixture
def ask(jobs: Jobs) -> Callable[..., str]:
    """Ask for a job whose program stands for training."""

    def request(program: str, **config: Any) -> str:
        return jobs.request(package="six", setup=STAND_IN.format(program=textwrap.dedent(program)), **config)

    return request


def notes(jobs: Jobs) -> Path:
    return Path(jobs.env["OPENMANUS_RL_HOME"]) / "skypilot-jobs"


def is_launched(jobs: Jobs, job_id: str) -> bool:
    """Return whether SkyPilot has accepted a launch."""
    name = JobManager.get_job(job_id)["external_id"]
    return name is not None and (notes(jobs) / name / "launch.json").exists()


def await_growing_log(jobs: Jobs, job_id: str) -> None:
    """Wait until a job that runs has printed something, and more of it."""
    jobs.await_that(lambda: "step 0\n" in get_job_logs(job_id), seconds=LAUNCH_SECONDS)
    before = get_job_logs(job_id)
    jobs.await_that(lambda: len(get_job_logs(job_id)) > len(before), seconds=LAUNCH_SECONDS)
    assert get_job_logs(job_id).startswith(before)
    assert JobManager.get_job(job_id)["status"] == "running"


def assert_ended(jobs: Jobs, slurm: Slurm, job_id: str, status: str) -> Job:
    """Check that a job ended once, after one attempt and one job of Slurm, and that nothing is left of it."""
    job = JobManager.get_job(job_id)
    assert (job["attempt"], jobs.ends_of(job_id)) == (1, [status]), job["status_message"]
    assert jobs.processes_of(job_id) == []
    # A managed job's is called after it, too.
    name = str(job["external_id"])
    assert [one for one in slurm.jobs if name in one] == []
    assert slurm.count_ended(name) == 1
    assert not (notes(jobs) / name).exists()
    return job


def assert_printed_steps(job_id: str) -> None:
    printed = get_job_logs(job_id).splitlines()
    assert printed == [f"step {number}" for number in range(len(printed))]


@pytest.mark.parametrize("where", [CLUSTER, MANAGED], ids=["clusters", "managed jobs"])
def test_jobs_are_launched_once_followed_stopped_and_fail_although_the_orchestrator_is_killed(
    where: dict[str, Any], slurm: Slurm, jobs: Jobs, orchestrators: Orchestrators, ask: Any
) -> None:
    good, bad = ask(GOOD, **where), ask(BAD, **where)
    stopped = ask(ENDLESS, **where, stop_grace_seconds=1)
    orchestrators.start()
    for job in (good, bad, stopped):
        jobs.await_that(lambda job=job: is_launched(jobs, job), seconds=LAUNCH_SECONDS)
    # Between launch and follow.
    orchestrators.kill()
    jobs.expire_leases()

    orchestrators.start()
    await_growing_log(jobs, stopped)
    JobManager.stop_jobs([stopped])
    assert orchestrators.wait() == 0

    run_id = assert_ended(jobs, slurm, good, "succeeded")["training_run_id"]
    assert get_job_logs(good) == "".join(f"step {i}\n" for i in range(1000)) + f"trained {run_id}\n"
    failed = assert_ended(jobs, slurm, bad, "failed")
    assert failed["exit_code"] == 3
    assert "no such thing" in (failed["status_message"] or "")
    assert get_job_logs(bad) == "no such thing\n"
    assert_ended(jobs, slurm, stopped, "cancelled")
    assert_printed_steps(stopped)


def test_a_cluster_that_vanishes_is_found_out(slurm: Slurm, jobs: Jobs, orchestrators: Orchestrators, ask: Any) -> None:
    job = ask(ENDLESS, **CLUSTER)
    orchestrators.start()
    await_growing_log(jobs, job)

    slurm.cancel(str(JobManager.get_job(job)["external_id"]))
    assert orchestrators.wait() == 0

    lost = assert_ended(jobs, slurm, job, "failed")
    assert "gone" in (lost["status_message"] or "")
    assert_printed_steps(job)


def test_a_cluster_that_is_stopped_while_it_starts_is_removed(
    slurm: Slurm, jobs: Jobs, orchestrators: Orchestrators, ask: Any
) -> None:
    job = ask(ENDLESS, **CLUSTER)
    orchestrators.start()
    jobs.await_that(lambda: is_launched(jobs, job), seconds=LAUNCH_SECONDS)
    name = str(JobManager.get_job(job)["external_id"])
    jobs.await_that(lambda: any(one.startswith(name) for one in slurm.jobs), seconds=LAUNCH_SECONDS)

    JobManager.stop_jobs([job])
    assert orchestrators.wait() == 0

    assert_ended(jobs, slurm, job, "cancelled")
    assert get_job_logs(job) == ""


def test_a_cluster_removes_itself_if_no_orchestrator_is_left_to_do_it(
    slurm: Slurm, jobs: Jobs, orchestrators: Orchestrators, ask: Any
) -> None:
    job = ask(GOOD, **CLUSTER, autostop_minutes=1)
    orchestrators.start()
    jobs.await_that(lambda: is_launched(jobs, job), seconds=LAUNCH_SECONDS)
    orchestrators.kill()
    name = str(JobManager.get_job(job)["external_id"])

    jobs.await_that(lambda: slurm.count_ended(name) == 1, seconds=LAUNCH_SECONDS)
    # Nobody has seen how it ended.
    jobs.expire_leases()
    orchestrators.start()
    assert orchestrators.wait() == 0
    assert "gone" in (assert_ended(jobs, slurm, job, "failed")["status_message"] or "")


def test_a_run_is_trained(slurm: Slurm, jobs: Jobs, orchestrators: Orchestrators) -> None:
    """This package is copied there and installed; of PyTorch, which is large, the node uses what is here."""
    run = TrainingRunManager.create_run(
        "small", status="pending", algorithm="ppo", environment="CartPole-v1", config={"total_timesteps": 512}
    )
    libraries = (
        """site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')\n"""
        f"""echo "import site; site.addsitedir('{sysconfig.get_path("purelib")}')" > "$site/libraries.pth"\n"""
    )
    job = JobManager.request_job(run["id"], {**CLUSTER, "memory": "4", "extras": "media", "setup": libraries}).job["id"]
    orchestrators.start()

    assert orchestrators.wait() == 0

    assert_ended(jobs, slurm, job, "succeeded")
    trained = TrainingRunManager.get_run(run["id"])
    assert (trained["status"], trained["name"]) == ("completed", "small"), get_job_logs(job)
    assert jobs.query("select count(*) from public.metrics where training_run_id = %s", run["id"])[0]["count"] > 0


def test_skypilots_parser_takes_what_the_database_writes(jobs: Jobs) -> None:
    run = TrainingRunManager.create_run("shown", status="pending")
    parse = "[sky.Task.from_yaml_config(yaml.safe_load(one)) for one in json.load(sys.stdin)]"
    program = f"import json, sys, yaml, sky; {parse}"
    configs: list[dict[str, Any]] = [
        {"infra": "slurm/one/main", "autostop_minutes": 0},
        {"infra": "k8s", "accelerator": "A10:1", "use_spot": True, "cpus": "4+", "memory": "8+", "disk_size_gb": 100},
        {"cloud": "aws", "image": "docker:debian", "secrets": ["MODEL_KEY"], "env": {"A": "b: 'c' # \"d\"\n\tü"}},
        {"accelerator": "H100:8", "setup": "echo 'one'\n\n  echo \"two\" # three", "package": "it's[x]"},
    ]
    shown = [str(JobManager.preview_job(run["id"], config)["yaml"]) for config in configs]
    assert all(jobs.env["SUPABASE_SERVICE_ROLE_KEY"] not in one for one in shown)
    given = [one.replace("SUPABASE_URL: null", 'SUPABASE_URL: "http://127.0.0.1:1"') for one in shown]
    for name in ("SUPABASE_SERVICE_ROLE_KEY", "MODEL_KEY"):
        given = [one.replace(f"{name}: null", f'{name}: "x"') for one in given]

    subprocess.run([f"{VENV}/bin/python", "-c", program], input=json.dumps(given), env=jobs.env, text=True, check=True)
