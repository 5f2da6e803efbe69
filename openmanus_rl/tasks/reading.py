"""Reads task sets: every bad entry is a problem with its place, and all others can be imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.tasks.base import CheckEnvironment, Problem, ReadTask, TaskSet
from openmanus_rl.tasks.entries import BadEntry, problem_of, read_entry, renamed
from openmanus_rl.tasks.harbor import find_harbor_tasks, read_harbor_task
from openmanus_rl.tasks.json_files import Found, read_json_file
from openmanus_rl.tasks.tables import is_saved_dataset, read_dataset, read_parquet, read_saved_dataset

__all__ = ["iterate_tasks", "read_tasks"]


def read_tasks(
    path: Any,
    *,
    environment: str | None = None,
    columns: Mapping[str, str] | None = None,
    check_environment: CheckEnvironment | None = None,
) -> TaskSet:
    """Read all tasks of a file, a folder or a dataset.

    `path` is a `tasks.json`, JSON lines, a Parquet file, a Harbor task folder or a folder of them, a saved dataset, or
    a `Dataset` itself. `environment` is that of the tasks that name none. `columns` says which columns hold our fields,
    such as `{"task": "question"}`; others are then left out. What cannot be read at all raises.
    """
    found = TaskSet()
    environments: dict[str, Mapping[str, Any]] = {}
    options: Any = {"environment": environment, "columns": columns, "check_environment": check_environment}
    for each in iterate_tasks(path, **options):
        if isinstance(each, Problem):
            found.problems.append(each)
            continue
        found.tasks.append(each.record)
        if each.files is not None:
            found.files.append(each.files)
        if each.environment is not None and each.environment["name"] not in environments:
            environments[each.environment["name"]] = each.environment
            found.environments.append(each.environment)
    return found


def iterate_tasks(
    path: Any,
    *,
    environment: str | None = None,
    columns: Mapping[str, str] | None = None,
    check_environment: CheckEnvironment | None = None,
) -> Iterator[ReadTask | Problem]:
    """Yield the tasks and problems one by one, so that a large set need not be in memory; as `read_tasks` otherwise."""
    seen = _Seen()
    if isinstance(path, (str, Path)) and (folders := find_harbor_tasks(Path(path))):
        for folder in folders:
            yield seen.checked(folder.name, _harbor_task(folder, environment, check_environment))
        return
    for where, entry in _entries(path):
        if isinstance(entry, BadEntry):
            yield problem_of(entry, where)
            continue
        try:
            task = read_entry(renamed(entry, columns), environment=environment, check_environment=check_environment)
        except BadEntry as error:
            yield problem_of(error, where)
        else:
            yield seen.checked(where, task)


class _Seen:
    """What was read so far, to find what is there twice."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str | None, str], str] = {}
        self._environments: dict[str, Mapping[str, Any]] = {}

    def checked(self, where: str, task: ReadTask | Problem) -> ReadTask | Problem:
        """Return the task, or the problem that it contradicts an earlier one."""
        if isinstance(task, Problem):
            return task
        made = task.environment
        if made is not None and self._environments.setdefault(made["name"], made) != made:
            message = f"environment.name: another environment is named {made['name']!r:.100}"
            return Problem(where, "environment.name", message)
        external_id = task.record.get("external_id")
        if external_id is not None:
            first = self._tasks.setdefault((task.record.get("environment"), external_id), where)
            if first != where:
                return Problem(where, "external_id", f"external_id: {external_id!r:.100} is also that of {first}")
        return task


def _harbor_task(folder: Path, environment: str | None, check: CheckEnvironment | None) -> ReadTask | Problem:
    try:
        return read_harbor_task(folder, environment=environment, check_environment=check)
    except BadEntry as error:
        return problem_of(error, folder.name)


def _entries(path: Any) -> Iterator[Found]:
    if not isinstance(path, (str, Path)):
        return read_dataset(path)
    path = Path(path)
    if path.is_dir():
        if is_saved_dataset(path):
            return read_saved_dataset(path)
        hint = "a Harbor task is a folder with task.toml and instruction.md"
        raise InvalidInput(f"{path}: there are no tasks in this folder", field="path", hint=hint)
    if not path.exists():
        raise LocalFileError(f"{path}: no such file", path=str(path))
    return read_parquet(path) if path.suffix.lower() == ".parquet" else read_json_file(path)
