"""What reading a task set gives: records to import, files to upload, and every entry that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openmanus_rl.records.ids import task_id

__all__ = ["CheckEnvironment", "Problem", "ReadTask", "TaskFiles", "TaskSet"]

CheckEnvironment = Callable[[Mapping[str, Any]], Any]
"""Raises an `InvalidInput` that names the field if an environment's spec, with its `kind`, is wrong."""


@dataclass(frozen=True)
class Problem:
    """Why an entry cannot be imported."""

    where: str
    """Such as `line 3`, `entry 5`, or the name of a folder."""
    field: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True)
class TaskFiles:
    """A folder that belongs to a task, and is uploaded as one archive."""

    environment: str | None
    external_id: str
    folder: Path

    @property
    def task_id(self) -> str:
        """Return the id that the task gets when it is imported."""
        return task_id(self.environment, self.external_id)


@dataclass(frozen=True)
class ReadTask:
    """One task: its record, the environment that it brings along, and its files."""

    record: dict[str, Any]
    environment: dict[str, Any] | None = None
    files: TaskFiles | None = None


@dataclass
class TaskSet:
    """All tasks of a file or folder."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    """Records for `TaskManager.import_tasks`."""
    environments: list[dict[str, Any]] = field(default_factory=list)
    """Arguments of `EnvironmentManager.save_environment`; to be saved before the tasks."""
    problems: list[Problem] = field(default_factory=list)
    files: list[TaskFiles] = field(default_factory=list)
