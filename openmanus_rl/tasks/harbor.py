"""Reads Harbor task folders: task.toml, instruction.md, environment/, tests/, solution/."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.tasks.archives import list_folder
from openmanus_rl.tasks.base import CheckEnvironment, ReadTask, TaskFiles
from openmanus_rl.tasks.compose import read_compose
from openmanus_rl.tasks.entries import BadEntry, check_environment_spec, check_json, plain_dates, read_entry

__all__ = ["find_harbor_tasks", "read_harbor_task"]

_MAX_TEXT_BYTES = 4 * 1024 * 1024
_COMPOSE_NAMES = ("docker-compose.yaml", "docker-compose.yml")
_MEGABYTES = {"K": 1 / 1024, "M": 1, "G": 1024}
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def find_harbor_tasks(path: Path) -> list[Path]:
    """Return the folder itself if it is a Harbor task, else those in it; none if it is something else."""
    if not path.is_dir():
        return []
    if (path / "task.toml").is_file():
        return [path.resolve()]
    marks = ("task.toml", "instruction.md")
    return sorted(folder for folder in path.iterdir() if any((folder / mark).is_file() for mark in marks))


def read_harbor_task(
    folder: Path, *, environment: str | None = None, check_environment: CheckEnvironment | None = None
) -> ReadTask:
    """Return the task of a folder, or raise `BadEntry`; with `environment`, the folder's own one is not used."""
    _check_files(folder)
    config = _Config(_read_toml(folder / "task.toml"))
    _refuse_unsupported(config)
    if not (folder / "tests/test.sh").is_file():
        raise BadEntry("tests/test.sh", "it is missing")
    about = config.table("task")
    external_id = about.get("name") or folder.name
    name = environment or f"harbor/{external_id}"
    made = None
    if environment is None:
        spec = _environment_spec(folder, config)
        check_environment_spec({"kind": "docker", **spec}, check_environment)
        made = {"name": name, "kind": "docker", "spec": spec}
    task = read_entry(
        {
            "external_id": external_id,
            "name": folder.name,
            "description": _read_text(folder / "instruction.md"),
            "environment": name,
            "validators": [{"kind": "script", "spec": _script_spec(config, has_main=made is not None)}],
            "solution": _solution(folder, config),
            "metadata": _metadata(config),
        },
        environment=None,
        check_environment=None,
    )
    files = TaskFiles(name, task.record["external_id"], folder)
    return ReadTask(task.record, environment=made, files=files)


class _Config:
    """A task.toml, whose parts are asked for by type."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a section, empty if there is none."""
        found = self.values.get(name, {})
        if not isinstance(found, Mapping):
            raise BadEntry(name, "it must be a table")
        return found

    def number(self, section: str, name: str) -> float | int | None:
        """Return a positive number of a section, or None."""
        value = self.table(section).get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
            raise BadEntry(f"{section}.{name}", "it must be a positive number")
        return value

    def variables(self, section: str) -> dict[str, str]:
        """Return the `env` of a section; `${NAME:-default}` stands for its default."""
        found = self.table(section).get("env", {})
        if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
            raise BadEntry(f"{section}.env", "it must be a table of texts")
        return {name: _resolved(value, f"{section}.env.{name}") for name, value in found.items()}


def _resolved(value: str, field: str) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[2] is None:
            # The worker's own variables hold its keys.
            raise BadEntry(field, f"${{{found[1]}}} is a variable of the machine, which tasks are not given")
        return found[2]

    return _VARIABLE.sub(replace, value)


def _check_files(folder: Path) -> None:
    try:
        list_folder(folder)
    except InvalidInput as error:
        raise BadEntry(error.field, error.message) from None
    except LocalFileError as error:
        raise BadEntry(None, error.message) from None


def _refuse_unsupported(config: _Config) -> None:
    """Raise `BadEntry` for what would be run otherwise than its author meant."""
    if config.values.get("steps"):
        raise BadEntry("steps", "tasks of several steps are not supported")
    if config.table("verifier").get("environment_mode", "shared") != "shared":
        raise BadEntry("verifier.environment_mode", "only a verifier in the agent's own environment is supported")
    if config.table("environment").get("gpus"):
        raise BadEntry("environment.gpus", "environments with GPUs are not supported")
    if config.table("environment").get("os", "linux") != "linux":
        raise BadEntry("environment.os", "only Linux is supported")
    for section in ("agent", "verifier"):
        if config.table(section).get("user", "root") not in ("root", 0, "0"):
            raise BadEntry(f"{section}.user", "only the image's own user is supported")


def _environment_spec(folder: Path, config: _Config) -> dict[str, Any]:
    """Return the spec of the containers that the agent works in."""
    build = folder / "environment"
    compose = next((build / name for name in _COMPOSE_NAMES if (build / name).is_file()), None)
    main: dict[str, Any] = {"idle": True}
    image = config.table("environment").get("docker_image")
    if image is not None:
        main["image"] = image
    elif (build / "Dockerfile").is_file():
        main["build"] = "environment"
    elif compose is None:
        raise BadEntry("environment", "there is neither environment/Dockerfile, docker-compose.yaml nor docker_image")
    main["resources"] = _resources(config)
    seconds = config.number("environment", "build_timeout_sec")
    if seconds is not None:
        main["build_timeout_seconds"] = seconds
    if variables := config.variables("environment"):
        main["environment"] = variables
    if health := _health(config):
        main["health"] = health
    services = {"main": main} if compose is None else read_compose(compose, main=main)
    return {"services": services, "main": "main", "network": _network(config)}


def _resources(config: _Config) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for name, ours in (("memory", "memory"), ("storage", "disk")):
        megabytes = config.number("environment", f"{name}_mb")
        if megabytes is None:
            megabytes = _older_size(config.table("environment").get(name), f"environment.{name}")
        if megabytes is not None:
            resources[ours] = f"{megabytes:g}m"
    cpus = config.number("environment", "cpus")
    return resources | ({} if cpus is None else {"cpus": cpus})


def _older_size(value: Any, field: str) -> float | None:
    """Return the megabytes of a size as earlier versions write it, such as 4G."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG])", value.strip().upper()) if isinstance(value, str) else None
    if found is None:
        raise BadEntry(field, 'it must be a size such as "4G"')
    return float(found[1]) * _MEGABYTES[found[2]]


def _health(config: _Config) -> dict[str, Any] | None:
    given = config.table("environment").get("healthcheck")
    if given is None:
        return None
    if not isinstance(given, Mapping) or not isinstance(given.get("command"), str):
        raise BadEntry("environment.healthcheck", "it must be a table with a command")
    numbers = {"interval_sec": 5.0, "timeout_sec": 30.0, "start_period_sec": 0.0, "retries": 3.0}
    for name in numbers:
        value = given.get(name, numbers[name])
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise BadEntry(f"environment.healthcheck.{name}", "it must be a number")
        numbers[name] = float(value)
    attempt = numbers["interval_sec"] + numbers["timeout_sec"]
    return {
        "command": given["command"],
        "interval_seconds": numbers["interval_sec"],
        # As long as Harbor would try: ours is one limit for all attempts.
        "timeout_seconds": numbers["start_period_sec"] + numbers["retries"] * attempt,
    }


def _network(config: _Config) -> str:
    section = config.table("environment")
    mode = section.get("network_mode")
    if mode is None:
        mode = "public" if section.get("allow_internet", True) else "no-network"
    if section.get("allowed_hosts") or mode not in ("public", "no-network"):
        raise BadEntry("environment.network_mode", "only public and no-network are supported")
    return "internet" if mode == "public" else "none"


def _script_spec(config: _Config, *, has_main: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"service": "main"} if has_main else {}
    seconds = config.number("verifier", "timeout_sec")
    if seconds is not None:
        spec["timeout_seconds"] = seconds
    if variables := config.variables("verifier"):
        spec["environment"] = variables
    return spec


def _solution(folder: Path, config: _Config) -> dict[str, Any] | None:
    script = folder / "solution/solve.sh"
    if not script.is_file():
        return None
    solution: dict[str, Any] = {"script": _read_text(script), "folder": "solution"}
    variables = config.variables("solution")
    return solution | ({"environment": variables} if variables else {})


def _metadata(config: _Config) -> dict[str, Any]:
    """Return the author's own metadata, the limits, and all that Harbor's task.toml says beside it."""
    values = plain_dates(config.values)
    check_json(values, "task.toml")
    about = {key: value for key, value in values.get("task", {}).items() if key != "name"}
    metadata: dict[str, Any] = {**about, **config.table("metadata")}
    seconds = config.number("agent", "timeout_sec")
    if seconds is not None:
        metadata["limits"] = {"max_seconds": seconds}
    metadata["harbor"] = {key: value for key, value in values.items() if key != "metadata"}
    return plain_dates(metadata)  # type: ignore[no-any-return]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise BadEntry("task.toml", f"it is not TOML: {error}") from None
    except RecursionError:
        raise BadEntry("task.toml", "it is nested too deeply") from None
    except ValueError as error:
        raise BadEntry("task.toml", f"it can't be read: {error}") from None


def _read_text(path: Path) -> str:
    """Return a text file; a byte order mark and the line ends of Windows are left out."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_TEXT_BYTES + 1)
        if len(data) > _MAX_TEXT_BYTES:
            raise BadEntry(path.name, f"it is larger than {_MAX_TEXT_BYTES:,} bytes")
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise BadEntry(path.name, "it is missing") from None
    except OSError as error:
        raise BadEntry(path.name, f"it can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadEntry(path.name, f"it is not UTF-8 text: byte {error.start + 1} fits nowhere") from None
