"""Finds the provider of an environment, starts environments, and removes what dead workers left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from openmanus_rl.errors import InvalidInput
from openmanus_rl.sandboxes.base import Provider, Sandbox, SandboxError
from openmanus_rl.sandboxes.spec import Spec, parse_spec

__all__ = ["available_kinds", "provider_for", "provision", "remove_rollout", "take_back_all"]

_PROVIDERS = {
    "none": ("none", "NoneProvider"),
    "process": ("process", "ProcessProvider"),
    "docker": ("docker", "DockerProvider"),
    "openenv": ("openenv", "OpenEnvProvider"),
    "gymnasium": ("gymnasium", "GymnasiumProvider"),
    "grid": ("gymnasium", "GridProvider"),
}
_LIBRARIES = {"docker": "docker", "openenv": "openenv", "gymnasium": "gymnasium", "grid": "gymnasium"}


def provider_for(kind: str) -> Provider:
    """Return the provider of a kind of environment."""
    if kind not in _PROVIDERS:
        raise InvalidInput(f"kind: must be one of {', '.join(_PROVIDERS)}, not {kind!r:.100}", field="kind")
    module, name = _PROVIDERS[kind]
    return cast(Provider, getattr(import_module(f"openmanus_rl.sandboxes.{module}"), name)())


def provision(
    spec: Spec | Mapping[str, Any] | None,
    *,
    rollout_id: str,
    owner: str,
    folder: Path,
    task_files: Path | None = None,
    seed: int | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Sandbox:
    """Start an environment, given by its spec or as JSON with its `kind`; None is no environment."""
    if spec is None or isinstance(spec, Mapping):
        spec = parse_spec(spec or {"kind": "none"})
    return provider_for(spec.kind).provision(
        spec,
        rollout_id=rollout_id,
        owner=owner,
        folder=folder,
        task_files=task_files,
        seed=seed,
        is_cancelled=is_cancelled,
    )


def available_kinds() -> list[str]:
    """Return the kinds of environments that can be started on this machine."""
    return [kind for kind in _PROVIDERS if _can_start(kind)]


def take_back_all(is_alive: Callable[[str], bool]) -> list[str]:
    """Remove what owners that are no longer alive left on this machine; return what was removed."""
    return [name for provider in _that_leave_traces() for name in provider.take_back(is_alive=is_alive)]


def remove_rollout(rollout_id: str) -> list[str]:
    """Remove what is left of a rollout on this machine, whoever started it; return what was removed."""
    return [name for provider in _that_leave_traces() for name in provider.remove(rollout_id)]


def _that_leave_traces() -> list[Provider]:
    """Return the providers of processes and containers, which those of OpenEnv are as well."""
    return [provider_for(kind) for kind in ("process", "docker") if _can_start(kind)]


def _can_start(kind: str) -> bool:
    try:
        if kind in _LIBRARIES:
            import_module(_LIBRARIES[kind])
        if kind == "docker":
            import_module("openmanus_rl.sandboxes._docker_engine").connect().close()
    except (ModuleNotFoundError, SandboxError):
        return False
    return True
