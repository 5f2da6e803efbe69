"""Imports a task set: its environments, its tasks with their validators, and the files of tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.managers.storage.buckets import TASK_FILES
from openmanus_rl.managers.tasks import TaskManager
from openmanus_rl.records.ids import new_id, task_id
from openmanus_rl.sandboxes.spec import parse_spec
from openmanus_rl.tasks.archives import pack_folder
from openmanus_rl.tasks.base import Problem, ReadTask
from openmanus_rl.tasks.reading import iterate_tasks

__all__ = ["ImportReport", "import_task_set"]

_TASKS_PER_CALL = 200


@dataclass
class ImportReport:
    """What was imported, and every entry that was not."""

    tasks: list[str] = field(default_factory=list)
    """The ids of the tasks."""
    environments: list[str] = field(default_factory=list)
    """The names of the environments that came with them."""
    files: int = 0
    """How many archives of files were uploaded; those that are in storage already are not uploaded again."""
    problems: list[Problem] = field(default_factory=list)


def import_task_set(
    path: Any,
    *,
    environment: str | None = None,
    on_progress: Callable[[ImportReport], None] | None = None,
) -> ImportReport:
    """Import all tasks of a file, a folder or a dataset that can be used, and report the others.

    `environment` is that of tasks that name none. `on_progress` is called as the import goes on.
    """
    report = ImportReport()
    for batch in _batches(iterate_tasks(path, environment=environment, check_environment=parse_spec), report):
        _import_batch(batch, report)
        if on_progress is not None:
            on_progress(report)
    return report


def _batches(found: Iterator[ReadTask | Problem], report: ImportReport) -> Iterator[list[ReadTask]]:
    batch: list[ReadTask] = []
    for each in found:
        if isinstance(each, Problem):
            report.problems.append(each)
            continue
        batch.append(each)
        # A folder is packed and sent for each task with files: tell of each one.
        if each.files is not None or len(batch) == _TASKS_PER_CALL:
            yield batch
            batch = []
    yield batch


def _import_batch(batch: list[ReadTask], report: ImportReport) -> None:
    for task in batch:
        if task.environment is not None and task.environment["name"] not in report.environments:
            EnvironmentManager.save_environment(**task.environment)
            report.environments.append(task.environment["name"])
    ids = [_id_of(task) for task in batch]
    # The tasks before their files: files belong to whoever owns the task. Without validators, one keeps none either.
    records = ({"validators": [], **task.record, "id": made} for task, made in zip(batch, ids, strict=True))
    result = TaskManager.import_tasks(records)
    refused = {refusal.id for refusal in result.refused if refusal.kind == "tasks"}
    report.problems += [Problem(str(refusal.id), refusal.field, refusal.message) for refusal in result.refused]
    for task, made in zip(batch, ids, strict=True):
        if made not in refused and (task.files is None or _add_files(made, task.files.folder, report)):
            report.tasks.append(made)


def _id_of(task: ReadTask) -> str:
    external_id = task.record.get("external_id")
    return new_id() if external_id is None else task_id(task.record.get("environment"), external_id)


def _add_files(task: str, folder: Path, report: ImportReport) -> bool:
    """Upload a task's folder, and return whether it could be."""
    with tempfile.TemporaryDirectory(prefix="openmanus-rl-") as place:
        try:
            packed = pack_folder(folder, Path(place) / "files.tar.gz")
            path = f"{task}/{packed.sha256}.tar.gz"
            if not StorageManager.file_exists(TASK_FILES, path):
                StorageManager.upload_file(TASK_FILES, path, packed.path)
                report.files += 1
        except (InvalidInput, LocalFileError) as error:
            report.problems.append(Problem(folder.name, "files", error.message))
            return False
    TaskManager.update(task, files_path=path)
    return True
