"""Uploads a folder of datasets, `DIR/<environment>/*`, file by file; a failed file does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from openmanus_rl.errors import (
    AuthError,
    ConnectionFailed,
    InvalidInput,
    LocalFileError,
    OpenManusError,
    SchemaMismatch,
    SettingsError,
    StackError,
)
from openmanus_rl.managers.storage.buckets import DATASETS
from openmanus_rl.managers.storage.names import dataset_path, environment_of_path, extension_of
from openmanus_rl.managers.storage.uploads import prepare, send, stored_unchanged
from openmanus_rl.transport.storage import Storage
from openmanus_rl.transport.transfer import Progress

__all__ = ["DatasetFile", "DatasetFolder", "DatasetOutcome", "Skipped", "not_done", "scan_datasets", "upload_datasets"]

Status = Literal["uploaded", "unchanged", "would upload", "failed", "not done"]

# Errors that would occur for every file, each time after all retries.
_ALL_WOULD_FAIL = (AuthError, ConnectionFailed, SchemaMismatch, SettingsError, StackError)


@dataclass(frozen=True)
class DatasetFile:
    """A file found in an environment's folder."""

    environment: str
    file: Path
    size_bytes: int


@dataclass(frozen=True)
class Skipped:
    """Something in the folder that is not a dataset, and why."""

    file: Path
    reason: str


@dataclass(frozen=True)
class DatasetFolder:
    """The contents of a folder: the files to upload, and those skipped."""

    directory: Path
    files: tuple[DatasetFile, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class DatasetOutcome:
    """The outcome of a file; `reason` says why it failed or was not done."""

    environment: str
    file: Path
    path: str | None
    size_bytes: int
    status: Status
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome in machine-readable form."""
        return asdict(self) | {"file": str(self.file)}


def scan_datasets(directory: Path, *, environments: Sequence[str] = ()) -> DatasetFolder:
    """Find the files directly in each environment's folder; hidden files and subfolders are reported as skipped."""
    if not directory.is_dir():
        problem = "is not a folder" if directory.exists() else "no such folder"
        raise LocalFileError(
            f"{directory}: {problem}",
            path=str(directory),
            hint="give the folder that holds one folder per environment, such as data/alfworld/train.json",
        )
    found, skipped = _split(_listed(directory), wanted=Path.is_dir, other="a file outside an environment's folder")
    # A folder's name can't contain a slash either, so it is written as in the bucket: ALE=2FPong-v5.
    folders = {environment_of_path(folder.name): folder for folder in found}
    unknown = sorted(set(environments) - folders.keys())
    if unknown:
        raise InvalidInput(
            f"{directory}: no folder for environment {', '.join(unknown)}",
            field="environment",
            hint=f"the folders there: {', '.join(folder.name for folder in found) or 'none'}",
        )
    files: list[DatasetFile] = []
    for environment, folder in folders.items():
        if not environments or environment in environments:
            found_files, left_out = _split(_listed(folder), wanted=_is_no_folder, other="a folder within one")
            files += [DatasetFile(environment, file, _size_bytes(file)) for file in found_files]
            skipped += left_out
    return DatasetFolder(directory, tuple(files), tuple(skipped))


def upload_datasets(
    storage: Storage, files: Iterable[DatasetFile], *, dry_run: bool = False, on_progress: Progress | None = None
) -> Iterator[DatasetOutcome]:
    """Upload new and changed files, and yield the outcome of each file in order.

    When the server can't be reached or refuses the key, the remaining files fail at once instead of one by one.
    """
    given_up: str | None = None
    for file in files:
        if given_up is not None:
            yield _failed(file, f"not tried: {given_up}")
            continue
        try:
            yield _upload(storage, file, dry_run=dry_run, on_progress=on_progress)
        except _ALL_WOULD_FAIL as error:
            given_up = str(error)
            yield _failed(file, given_up)
        except OpenManusError as error:
            yield _failed(file, str(error))


def not_done(file: DatasetFile, reason: str) -> DatasetOutcome:
    """Return the outcome of a file whose upload was not finished for a reason other than the file."""
    return DatasetOutcome(file.environment, file.file, None, file.size_bytes, "not done", reason)


def _upload(storage: Storage, file: DatasetFile, *, dry_run: bool, on_progress: Progress | None) -> DatasetOutcome:
    extension = extension_of(file.file.name)
    path = dataset_path(file.environment, file.file.name.removesuffix(extension), file.file.name)
    prepared = prepare(DATASETS, path, file.file)
    status: Status = "uploaded"
    if stored_unchanged(storage, prepared):
        status = "unchanged"
    elif dry_run:
        status = "would upload"
    else:
        send(storage, prepared, on_progress=on_progress)
    return DatasetOutcome(file.environment, file.file, path, prepared.source.size_bytes, status)


def _failed(file: DatasetFile, reason: str) -> DatasetOutcome:
    return DatasetOutcome(file.environment, file.file, None, file.size_bytes, "failed", reason)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise LocalFileError(f"{folder}: can't be read: {error.strerror}", path=str(folder)) from error


def _split(paths: Iterable[Path], *, wanted: Callable[[Path], bool], other: str) -> tuple[list[Path], list[Skipped]]:
    kept: list[Path] = []
    skipped: list[Skipped] = []
    for path in paths:
        if path.name.startswith("."):
            skipped.append(Skipped(path, "hidden"))
        elif wanted(path):
            kept.append(path)
        else:
            skipped.append(Skipped(path, other))
    return kept, skipped


def _is_no_folder(path: Path) -> bool:
    return not path.is_dir()


def _size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        # A broken link: its upload reports the error, and the others continue.
        return 0
