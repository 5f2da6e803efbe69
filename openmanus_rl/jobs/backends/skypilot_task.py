"""The task of an attempt as SkyPilot is given it: what the database wrote, with what only this machine knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.jobs.backends.base import Attempt
from openmanus_rl.settings import Settings, read_variables
from openmanus_rl.skypilot.package import Package, find_package
from openmanus_rl.skypilot.secrets import find_secrets
from openmanus_rl.skypilot.task import Kind, kind_of

__all__ = ["ALLOW_LOOPBACK", "FinalTask", "finish_task", "kind_of_attempt"]

ALLOW_LOOPBACK = "OPENMANUS_RL_ALLOW_LOOPBACK"
"""A variable to set to 1 where jobs run on this machine, as on a Slurm of one node, and reach its own Supabase."""

_EXTRAS = "training"
_AUTOSTOP = {"idle_minutes": 5, "down": True}
# As the SQL function internal.job_task writes it.
_INSTALL = '"$HOME/.local/bin/uv" pip install --quiet --python "$HOME/openmanus-rl-training/bin/python" '


@dataclass(frozen=True)
class FinalTask:
    """A task, and the values of its secrets, which are not in it."""

    task: dict[str, Any]
    secrets: dict[str, str]


def kind_of_attempt(config: Mapping[str, Any]) -> Kind:
    """Return what an attempt is launched as: a managed job, or, on Slurm, a cluster."""
    return kind_of(str(config.get("infra") or config.get("cloud") or ""))


def finish_task(attempt: Attempt, settings: Settings) -> FinalTask:
    """Return the task of an attempt with the address of the database, its secrets, and the package of this machine."""
    names = list(attempt.config.get("secrets") or [])
    is_allowed = read_variables().get(ALLOW_LOOPBACK) == "1"
    url, secrets = find_secrets(settings, names=names, allow_loopback=is_allowed, who="jobs")
    task = dict(attempt.task)
    envs = {**task.get("envs", {}), "SUPABASE_URL": url}
    task["envs"] = {name: value for name, value in envs.items() if name not in secrets}
    task["secrets"] = dict.fromkeys(secrets)
    if kind_of_attempt(attempt.config) == "cluster":
        # Nothing else removes the machine if nobody follows the job any more.
        task["resources"] = {"autostop": _AUTOSTOP} | dict(task.get("resources", {}))
    package = _find_package(attempt.config)
    if package is not None:
        task["setup"] = _with_package(str(task["setup"]), attempt.config, package)
        if package.workdir is not None:
            task["workdir"] = str(package.workdir)
        if package.file_mounts:
            task["file_mounts"] = package.file_mounts
    return FinalTask(task, secrets)


def _find_package(config: Mapping[str, Any]) -> Package | None:
    """Return what to install instead of what the task says, if that is to come from this machine."""
    given = config.get("package")
    if given is not None and (not given.endswith(".whl") or "://" in given):
        return None
    return find_package(given, extras=config.get("extras") or _EXTRAS)


def _with_package(setup: str, config: Mapping[str, Any], package: Package) -> str:
    asked = str(config.get("package") or f"openmanus-rl[{config.get('extras') or _EXTRAS}]")
    line = _INSTALL + "'" + asked.replace("'", "'\"'\"'") + "'\n"
    if line not in setup:
        raise InvalidInput("the task does not install this package as expected", field="setup")
    return setup.replace(line, f"{_INSTALL}{package.arguments}\n", 1)
