"""Training jobs that the real SkyPilot runs on a real Slurm. Takes about ten minutes, and is run only when asked for:

apt-get install --no-install-recommends slurm-wlm munge openssh-server rsync
python3 -m venv V && V/bin/pip install -e '.[skypilot]' uv
OPENMANUS_RL_TEST_SLURM=V .venv/bin/python -m pytest tests/integration/jobs/test_slurm.py
"""

from __future__ import annotations

import importlib.util
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.jobs import get_job_logs
from openmanus_rl.managers.jobs import JobManager
from openmanus_rl.managers.runs import TrainingRunManager
from tests.integration.workers.slurm import NEEDS_SLURM, VENV, Slurm, running_slurm

from .conftest import Jobs

pytestmark = NEEDS_SLURM

SIZE = {"infra": "slurm", "cpus": "1", "memory": "1", "max_restarts": 0}
# A small package instead of this one, and a program that stands for training.
STAND_IN = """\
site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/openmanus_rl/training"
cat > "$site/openmanus_rl/training/train.py" <<'END'
{program}
END
"""
ORCHESTRATE = """
from openmanus_rl.jobs.backends.registry import make_backends
from openmanus_rl.jobs.orchestrator import Orchestrator
from openmanus_rl.settings import load_settings

settings = load_settings()
backends = make_backends(settings, ["skypilot"])
tell = lambda event: print(event.job_id, event.text, flush=True)
Orchestrator(settings, backends, max_jobs=4, until_idle=True, tell=tell).run()
"""


@pytest.fixture(scope="module")
def infrastructure() -> Iterator[tuple[Slurm, dict[str, str]]]:
    with running_slurm() as found:
        yield found


@pytest.fixture
def orchestrator(infrastructure: Any, jobs: Jobs) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A starter of orchestrators, which run until no job is left."""
    started: list[subprocess.Popen[bytes]] = []
    env = {**jobs.env, **infrastructure[1], "OPENMANUS_RL_ALLOW_LOOPBACK": "1"}

    def start() -> subprocess.Popen[bytes]:
        command = [f"{VENV}/bin/python", "-c", ORCHESTRATE]
        started.append(subprocess.Popen(command, env=env, cwd=jobs.folder))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def request(jobs: Jobs, program: str, **config: Any) -> str:
    setup = STAND_IN.format(program=textwrap.dedent(program))
    return jobs.request(**SIZE, package="six", setup=setup, **config)


def clusters(slurm: Slurm) -> list[str]:
    return slurm.output("squeue", "-h", "-o", "%j").split()


def test_jobs_are_launched_followed_stopped_and_fail(infrastructure: Any, jobs: Jobs, orchestrator: Any) -> None:
    slurm = infrastructure[0]
    good = request(jobs, "import os; print('trains', os.environ['RUN_ID'])")
    bad = request(jobs, "print('no such thing'); raise SystemExit(3)")
    endless = request(
        jobs,
        "import time\nfor i in range(10**6):\n    print('step', i, flush=True); time.sleep(1)",
        stop_grace_seconds=1,
    )
    killed = orchestrator()
    jobs.await_that(lambda: "step" in get_job_logs(endless), seconds=900)
    # Another orchestrator goes on where this one is killed.
    killed.kill()
    killed.wait()
    jobs.expire_leases()
    again = orchestrator()
    JobManager.stop_jobs([endless])

    assert again.wait(900) == 0

    assert [jobs.ends_of(job) for job in (good, bad, endless)] == [["succeeded"], ["failed"], ["cancelled"]]
    assert [JobManager.get_job(job)["attempt"] for job in (good, bad, endless)] == [1, 1, 1]
    assert get_job_logs(good).endswith(f"trains {JobManager.get_job(good)['training_run_id']}\n")
    assert JobManager.get_job(bad)["exit_code"] == 3
    assert "no such thing" in (JobManager.get_job(bad)["status_message"] or "")
    printed = [line for line in get_job_logs(endless).splitlines() if line.startswith("step")]
    assert printed == [f"step {number}" for number in range(len(printed))]
    assert clusters(slurm) == []
    assert list((Path(jobs.env["OPENMANUS_RL_HOME"]) / "skypilot-jobs").iterdir()) == []


@pytest.mark.skipif(
    importlib.util.find_spec("openmanus_rl.training") is None, reason="the training service is not installed"
)
def test_a_run_is_trained(infrastructure: Any, orchestrator: Any) -> None:
    run = TrainingRunManager.create_run(
        "small", status="pending", algorithm="ppo", environment="CartPole-v1", config={"total_timesteps": 512}
    )
    job = JobManager.request_job(run["id"], {**SIZE, "memory": "4"}).job["id"]

    assert orchestrator().wait(1500) == 0

    assert JobManager.get_job(job)["status"] == "succeeded", get_job_logs(job)
    assert TrainingRunManager.get_run(run["id"])["status"] == "completed"
    assert clusters(infrastructure[0]) == []


def test_skypilots_parser_takes_what_the_database_writes(infrastructure: Any, jobs: Jobs) -> None:
    run = TrainingRunManager.create_run("shown", status="pending")
    program = "import sys, yaml, sky; sky.Task.from_yaml_config(yaml.safe_load(sys.stdin))"
    secrets = "SUPABASE_SERVICE_ROLE_KEY", "MODEL_KEY"
    configs: list[dict[str, Any]] = [
        {"infra": "slurm/one/main", "autostop_minutes": 0},
        {"infra": "k8s", "accelerator": "A10:1", "use_spot": True, "cpus": "4+", "memory": "8+", "disk_size_gb": 100},
        {"cloud": "aws", "image": "docker:debian", "secrets": ["MODEL_KEY"], "env": {"A": "b: 'c' # \"d\"\n\tü"}},
        {"accelerator": "H100:8", "setup": "echo 'one'\n\n  echo \"two\" # three", "package": "it's[x]"},
    ]
    for config in configs:
        shown = JobManager.preview_job(run["id"], config)["yaml"]
        given = shown.replace("SUPABASE_URL: null", 'SUPABASE_URL: "http://127.0.0.1:1"')
        for name in secrets:
            given = given.replace(f"{name}: null", f'{name}: "x"')
        env = {**jobs.env, **infrastructure[1]}
        subprocess.run([f"{VENV}/bin/python", "-c", program], input=given, env=env, text=True, check=True)
        assert jobs.env["SUPABASE_SERVICE_ROLE_KEY"] not in shown
