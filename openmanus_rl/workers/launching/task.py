"""What SkyPilot is asked for: one task per worker."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Literal

from openmanus_rl.errors import InvalidInput, SettingsError
from openmanus_rl.local.embedded import ensure_stack
from openmanus_rl.settings import Settings, read_variables
from openmanus_rl.transport.loopback import is_loopback
from openmanus_rl.workers.launching.package import Package

__all__ = ["PREFIX", "Kind", "Launch", "find_secrets", "new_name"]

Kind = Literal["job", "cluster"]

# Of all names at SkyPilot: nothing else is ever ended, whatever a worker says that it was launched as.
PREFIX = "omrl-"

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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

    @property
    def kind(self) -> Kind:
        """A managed job per worker; on Slurm, which does not run SkyPilot's job controller, a cluster per worker."""
        return "cluster" if self.infra.partition("/")[0].lower() == "slurm" else "job"

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


def find_secrets(settings: Settings, *, names: list[str], allow_loopback: bool = False) -> tuple[str, dict[str, str]]:
    """Return the URL of the Supabase and the secrets that workers need, with those of the given variables."""
    if (settings.is_embedded or is_loopback(settings.require_url())) and not allow_loopback:
        raise SettingsError(
            "workers on other machines cannot reach this Supabase: it listens on this machine only",
            setting="SUPABASE_URL",
            hint="use a hosted project (docs/deploying.md), or --allow-loopback if the workers run on this machine",
        )
    url, secrets = _read_keys(settings)
    variables = read_variables()
    for name in names:
        if not _VARIABLE.fullmatch(name) or name not in variables:
            raise InvalidInput(
                f"{name}: there is no such variable", field="secret", hint="set it here or in .env.supabase first"
            )
        secrets[name] = variables[name]
    return url, secrets


def _read_keys(settings: Settings) -> tuple[str, dict[str, str]]:
    if settings.is_embedded:
        stack = ensure_stack(settings)
        return stack.url, {
            "SUPABASE_SERVICE_ROLE_KEY": stack.secret_key,
            "SUPABASE_ANON_KEY": stack.publishable_key,
        }
    keys = {"SUPABASE_SERVICE_ROLE_KEY": settings.require_service_role_key()}
    if settings.anon_key is not None:
        keys["SUPABASE_ANON_KEY"] = settings.anon_key.get_secret_value()
    return settings.require_url(), keys
