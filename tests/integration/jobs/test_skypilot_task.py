"""The task that the database writes, as the backend finishes it for SkyPilot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.jobs.backends.base import Attempt, parse_name
from openmanus_rl.jobs.backends.skypilot import SkyPilotBackend
from openmanus_rl.jobs.backends.skypilot_task import finish_task
from openmanus_rl.managers.jobs import JobManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.settings import load_settings

from .conftest import Jobs


@pytest.mark.parametrize(
    ("config", "installed"),
    [
        ({"infra": "k8s"}, "--editable '.[training]'"),
        ({"infra": "slurm/one", "extras": "training,docker"}, "--editable '.[training,docker]'"),
        ({"cloud": "slurm", "setup": "echo \"own\" 'setup'"}, "--editable '.[training]'"),
        ({"accelerator": "A10:1", "package": "it's==1"}, "'it'\"'\"'s==1'"),
        ({"package": "{wheel}", "extras": "x"}, '"$HOME/openmanus-rl-wheels/a-1-py3-none-any.whl[x]"'),
        ({"cloud": "aws", "secrets": ["MODEL_KEY"], "env": {"MODEL": "small"}}, "--editable '.[training]'"),
    ],
)
def test_a_task_of_the_database_is_finished(
    config: dict[str, Any], installed: str, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENMANUS_RL_ALLOW_LOOPBACK", "1")
    monkeypatch.setenv("MODEL_KEY", "model-secret")
    wheel = tmp_path / "a-1-py3-none-any.whl"
    wheel.touch()
    config = {name: str(wheel) if value == "{wheel}" else value for name, value in config.items()}
    run = TrainingRunManager.create_run("launched", status="pending")
    preview = JobManager.preview_job(run["id"], config)
    attempt = Attempt(preview["task"]["name"], "", 1, preview["config"], preview["task"])

    final = finish_task(attempt, load_settings())

    assert parse_name(attempt.name) is not None
    assert f'/bin/python" {installed}\n' in final.task["setup"]
    assert final.task["setup"].endswith((f"{installed}\n", "echo \"own\" 'setup'\n"))
    assert final.task["envs"]["SUPABASE_URL"] == jobs.env["SUPABASE_URL"]
    assert None not in final.task["envs"].values()
    assert final.task["secrets"].keys() == final.secrets.keys() >= {"SUPABASE_SERVICE_ROLE_KEY"}
    assert ("autostop" in final.task["resources"]) == ("slurm" in str(config))
    shown = SkyPilotBackend(load_settings()).final_yaml(attempt)
    for secret in final.secrets.values():
        assert secret not in shown
