"""Reads a Harbor task's docker-compose.yaml as the services of an environment's spec.

What it says and a spec cannot is refused: a container that runs otherwise than its author meant would be worse.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from openmanus_rl.tasks.entries import BadEntry

__all__ = ["read_compose"]

_MAX_BYTES = 1024 * 1024
_MAX_REFERENCES = 20
_MAIN_IMAGE = "openmanus-rl-main-image"
# What Harbor sets when it reads the file. Its log folders are made by whoever starts the sandbox.
_VARIABLES = {
    "MAIN_IMAGE_NAME": _MAIN_IMAGE,
    "CONTEXT_DIR": ".",
    "TEST_DIR": "/tests",
    "ENV_VERIFIER_LOGS_PATH": "/logs/verifier",
    "ENV_AGENT_LOGS_PATH": "/logs/agent",
    "ENV_ARTIFACTS_PATH": "/logs/artifacts",
    "HOST_VERIFIER_LOGS_PATH": "/logs",
    "HOST_AGENT_LOGS_PATH": "/logs",
    "HOST_ARTIFACTS_PATH": "/logs",
    "CPUS": "",
    "MEMORY": "",
}
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
# They change nothing that an agent or a test could see.
_IGNORED = {
    "container_name",
    "deploy",
    "expose",
    "init",
    "labels",
    "logging",
    "networks",
    "ports",
    "pull_policy",
    "restart",
    "stdin_open",
    "stop_grace_period",
    "tty",
    "ulimits",
}
_READ = {"image", "build", "command", "environment", "depends_on", "healthcheck", "volumes", "user"}


def read_compose(path: Path, *, main: Mapping[str, Any]) -> dict[str, Any]:
    """Return the services of a compose file; `main` is the service `main` as task.toml has it."""
    document = _load(path)
    services = document.get("services") if isinstance(document, Mapping) else None
    if not isinstance(services, Mapping) or "main" not in services:
        raise BadEntry(path.name, "there is no service `main`")
    volumes = document.get("volumes") or {}
    named = set(volumes) if isinstance(volumes, Mapping) else set()
    read = {}
    for name, service in services.items():
        field = f"{path.name}: services.{name}"
        if not isinstance(name, str) or not isinstance(service or {}, Mapping):
            raise BadEntry(path.name, "services must be objects by name")
        read[name] = _service(service or {}, field, named, path.parent)
    read["main"] = _merged(main, read["main"], path.name)
    return read


def _merged(base: Mapping[str, Any], given: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the main service: what the compose file says, and for the rest what task.toml does."""
    merged = {**base, **given, "environment": {**base.get("environment", {}), **given.get("environment", {})}}
    if given.get("image") == _MAIN_IMAGE:
        merged.pop("image")
        merged |= {key: base[key] for key in ("image", "build") if key in base}
    elif "image" in given:
        merged.pop("build", None)
    if "build" in given:
        merged.pop("image", None)
    if "command" in given:
        merged.pop("idle", None)
    if "image" not in merged and "build" not in merged:
        raise BadEntry(f"{file}: services.main", "it has neither image nor build")
    return {key: value for key, value in merged.items() if value != {}}


def _service(given: Mapping[str, Any], field: str, named: set[Any], folder: Path) -> dict[str, Any]:
    for key in given:
        if key not in _READ | _IGNORED:
            raise BadEntry(f"{field}.{key}", "it is not supported")
    service: dict[str, Any] = {}
    if "build" in given:
        service["build"] = _build(given["build"], f"{field}.build")
    elif "image" in given:
        service["image"] = _text(given["image"], f"{field}.image")
    if given.get("command") is not None:
        service["command"] = _command(given["command"], f"{field}.command")
    if given.get("user") is not None:
        service["user"] = _text(str(given["user"]), f"{field}.user")
    if variables := _environment(given.get("environment"), f"{field}.environment"):
        service["environment"] = variables
    if names := _names(given.get("depends_on"), f"{field}.depends_on"):
        service["depends_on"] = names
    if health := _health(given.get("healthcheck"), f"{field}.healthcheck"):
        service["health"] = health
    if files := _files(given.get("volumes"), f"{field}.volumes", named, folder):
        service["files"] = files
    return service


def _build(given: Any, field: str) -> str:
    if isinstance(given, Mapping):
        if unknown := sorted(str(key) for key in given if key not in ("context", "dockerfile")):
            raise BadEntry(f"{field}.{unknown[0]}", "it is not supported")
        if given.get("dockerfile", "Dockerfile") != "Dockerfile":
            raise BadEntry(f"{field}.dockerfile", "only `Dockerfile` is supported")
        given = given.get("context", ".")
    return _inside(_text(given, field), field)


def _inside(path: str, field: str) -> str:
    """Return a path of the compose file's folder as one among the task's files."""
    found = posixpath.normpath(posixpath.join("environment", path))
    if path.startswith(("/", "~")) or PurePosixPath(found).parts[:1] != ("environment",):
        raise BadEntry(field, f"{path!r:.100} leads out of the task's environment folder")
    return found


def _command(given: Any, field: str) -> list[str]:
    if isinstance(given, str):
        try:
            # Compose splits a command itself; it is not run by a shell.
            given = shlex.split(given)
        except ValueError as error:
            raise BadEntry(field, f"it can't be split into words: {error}") from None
    if not isinstance(given, list) or not given:
        raise BadEntry(field, "it must be text or a list of texts")
    return [_text(part, field) for part in given]


def _environment(given: Any, field: str) -> dict[str, str]:
    if isinstance(given, list):
        pairs = [_text(item, field).partition("=") for item in given]
        if bare := next((name for name, equals, _ in pairs if not equals), None):
            raise BadEntry(field, f"{bare} is a variable of the machine, which tasks are not given")
        return {name: value for name, _, value in pairs}
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadEntry(field, "it must be an object or a list")
    return {_text(name, field): _text(_scalar(value), f"{field}.{name}") for name, value in given.items()}


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _names(given: Any, field: str) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, (list, Mapping)):
        raise BadEntry(field, "it must be a list or an object")
    return [_text(name, field) for name in given]


def _health(given: Any, field: str) -> dict[str, Any] | None:
    if given is None or (isinstance(given, Mapping) and given.get("disable")):
        return None
    test = given.get("test") if isinstance(given, Mapping) else None
    command: Any = test
    if isinstance(test, list) and len(test) > 1 and test[0] in ("CMD", "CMD-SHELL"):
        command = [_text(part, field) for part in test[1:]] if test[0] == "CMD" else _text(test[1], field)
    elif isinstance(test, str):
        command = _text(test, field)
    else:
        raise BadEntry(f"{field}.test", "it must be a command")
    interval, timeout = (_seconds(given.get(name, "30s"), f"{field}.{name}") for name in ("interval", "timeout"))
    start = _seconds(given.get("start_period", "0s"), f"{field}.start_period")
    retries = given.get("retries", 3)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 1:
        raise BadEntry(f"{field}.retries", "it must be a positive number")
    return {
        "command": command,
        "interval_seconds": interval,
        # As long as Docker would try: ours is one limit for all attempts.
        "timeout_seconds": start + retries * (interval + timeout),
    }


def _seconds(given: Any, field: str) -> float:
    found = _DURATION.fullmatch(given) if isinstance(given, str) and given else None
    if found is None:
        raise BadEntry(field, 'it must be a duration such as "10s"')
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _files(given: Any, field: str, named: set[Any], folder: Path) -> dict[str, Any]:
    """Return the files that are mounted from the task's folder; volumes of Docker's own begin empty, as folders do."""
    if given is None:
        return {}
    if not isinstance(given, list):
        raise BadEntry(field, "it must be a list")
    files: dict[str, Any] = {}
    for volume in given:
        source, _, rest = _text(volume, field).partition(":")
        target = rest.partition(":")[0]
        if not target or source in named or source == "/logs":
            continue
        path = _inside(source, field)
        if not (folder.parent / path).exists():
            raise BadEntry(field, f"there is no {source!r:.100}")
        files[target] = {"path": path}
    return files


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise BadEntry(field, "it must be text")

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        name = found[2] or found[4]
        if name in _VARIABLES:
            return _VARIABLES[name]
        if found[3] is None:
            raise BadEntry(field, f"${{{name}}} is a variable of the machine, which tasks are not given")
        return found[3]

    return _VARIABLE.sub(replace, value)


def _load(path: Path) -> Any:
    try:
        yaml = import_module("yaml")
    except ModuleNotFoundError:
        raise BadEntry(path.name, 'PyYAML is not installed; run: pip install "openmanus-rl[harbor]"') from None
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise BadEntry(path.name, f"it is larger than {_MAX_BYTES:,} bytes")
    try:
        # Each may double what was there before, so that a few lines could stand for more than fits into memory.
        if sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)) > _MAX_REFERENCES:
            raise BadEntry(path.name, f"it has more than {_MAX_REFERENCES} references")
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadEntry(path.name, f"it is not YAML: {str(error)[:300]}") from None
