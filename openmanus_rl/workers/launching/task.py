"""What SkyPilot is asked for: one task per worker."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from openmanus_rl.errors import InvalidInput
from openmanus_rl.skypilot.package import Package
from openmanus_rl.skypilot.task import PREFIX, Kind, kind_of

__all__ = ["Launch", "new_name"]

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
# The orchestrator takes what has such a name for an attempt of a training job.
_JOB = re.compile(r"[0-9a-f]{16}")
_VENV = "$HOME/openmanus-rl-worker"
# SkyPilot puts uv here on every machine. Images may have an older Python than this package needs.
_UV = '"$HOME/.local/bin/uv"'
# After the worker has ended, so that nothing is paid for an empty queue.
_DOWN_AFTER_MINUTES = 1


def new_name() -> str:
    """Return a name for a launch that no other one has."""
    return f"workers-{token_hex(3)}"


@dataclass(frozen=True)
class Launch:
    """Workers to start on an infrastructure, all alike."""

    name: str
    infra: str
    count: int
    package: Package
    max_workers: int = 4
    idle_minutes: int = 10
    cpus: str | None = None
    memory: str | None = None
    accelerators: str | None = None
    use_spot: bool = False
    image: str | None = None
    setup: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name!r} is not a name",
                field="name",
                hint="use 1 to 40 lower case letters, digits and -, beginning with a letter",
            )
        if _JOB.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name!r} is how training jobs are named", field="name", hint="choose another name"
            )

    @property
    def kind(self) -> Kind:
        """What each worker is."""
        return kind_of(self.infra)

    @property
    def names(self) -> list[str]:
        """Return the names of the jobs or clusters, which are those of the workers too."""
        return [f"{PREFIX}{self.name}-{number}" for number in range(1, self.count + 1)]

    def task(self, name: str, *, url: str, secrets: list[str]) -> dict[str, Any]:
        """Return the task of one worker as SkyPilot reads it from YAML; the values of secrets are not in it."""
        infra = {"launcher": "skypilot", "launch": self.name, "name": name, "infra": self.infra, "kind": self.kind}
        task: dict[str, Any] = {"name": name, "resources": self._resources()}
        if self.package.workdir is not None:
            task["workdir"] = str(self.package.workdir)
        if self.package.file_mounts:
            task["file_mounts"] = self.package.file_mounts
        return task | {
            "envs": {"SUPABASE_URL": url, "OPENMANUS_RL_WORKER_INFRA": json.dumps(infra)},
            "secrets": dict.fromkeys(secrets),
            "setup": self._setup(),
            "run": self._run(name),
        }

    def _resources(self) -> dict[str, Any]:
        given = {
            "infra": self.infra,
            "cpus": self.cpus,
            "memory": self.memory,
            "accelerators": self.accelerators,
            "use_spot": self.use_spot or None,
            "image_id": self.image,
            # A managed job's machine is removed with the job.
            "autostop": {"idle_minutes": _DOWN_AFTER_MINUTES, "down": True} if self.kind == "cluster" else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _setup(self) -> str:
        lines = [
            "set -e",
            f'[ -x "{_VENV}/bin/python" ] || {_UV} venv --quiet --python \'>=3.11\' "{_VENV}"',
            f'{_UV} pip install --quiet --python "{_VENV}/bin/python" {self.package.arguments}',
        ]
        if self.setup:
            lines += [f'export PATH="{_VENV}/bin:$PATH"', self.setup]
        return "\n".join(lines) + "\n"

    def _run(self, name: str) -> str:
        options = {"--name": name, "--max-workers": self.max_workers, "--idle-seconds": self.idle_minutes * 60}
        given = " ".join(f"{option} {shlex.quote(str(value))}" for option, value in options.items())
        # Replaces the shell, so that SkyPilot's signals reach it.
        return f'export PATH="{_VENV}/bin:$PATH"\nexec openmanus-rl worker {given}\n'
