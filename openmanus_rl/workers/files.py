"""The files of a task, such as a Harbor folder: fetched from storage once per machine."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from openmanus_rl._private import make_private
from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.tasks.archives import unpack_archive

__all__ = ["TASK_FILES_BUCKET", "fetch_task_files"]

TASK_FILES_BUCKET = "task-files"


def fetch_task_files(path: str, folder: Path, *, cache: Path) -> Path:
    """Unpack the archive at this path of the bucket into a folder, and return the folder."""
    name = PurePosixPath(path)
    if name.is_absolute() or ".." in name.parts or len(name.parts) != 2:
        raise InvalidInput(
            f"files_path {path!r:.200}: not a path of the bucket {TASK_FILES_BUCKET}", field="files_path"
        )
    make_private(cache)
    archive = cache / "_".join(name.parts)
    if not archive.exists():
        # Under another name until it is complete: several slots may fetch it at once.
        aside = cache / f".{archive.name}.{os.getpid()}"
        try:
            StorageManager.download_file(TASK_FILES_BUCKET, path, aside)
            aside.replace(archive)
        finally:
            aside.unlink(missing_ok=True)
    unpack_archive(archive, folder)
    return folder
