"""The media of a spool: files `blobs/<name>` next to its records, kept until they are delivered.

Two internal fields of a record, which are not stored in the database, refer to its content: `_blob` names the file that
is uploaded before the record is loaded; `_unkept` is the reason why there is no file, with which the record is refused.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from openmanus_rl._private import make_private
from openmanus_rl.errors import InvalidInput
from openmanus_rl.media.content import Blob, Unkept, as_blob
from openmanus_rl.media.pictures import CannotKeep
from openmanus_rl.records.ids import new_id
from openmanus_rl.transport.transfer import FileSource

__all__ = [
    "BLOB_FIELD",
    "UNKEPT_FIELD",
    "BlobStore",
    "blob_path",
    "checkpoint_records",
    "forget_blobs",
    "media_record",
    "sweep_blobs",
]

_logger = logging.getLogger(__name__)

BLOB_FIELD = "_blob"
UNKEPT_FIELD = "_unkept"

Record = dict[str, Any]

_OF_CHECKPOINTS = ("id", "training_run_id", "checkpoint_number", "step")
_REMEMBERED_NAMES = 4096
_COPY_BYTES = 64 * 1024 * 1024
# Errors of kernels and file systems that cannot copy within the file system.
_NO_KERNEL_COPY = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


class BlobStore:
    """Stores content in a spool's folder, each once. Thread-safe; a forked child needs its own."""

    def __init__(self, spool_folder: Path) -> None:
        self._folder = spool_folder
        self._names: dict[str, None] = {}
        self._lock = threading.Lock()

    def keep(self, blob: Blob) -> bool:
        """Write content to the folder, unless it is there; return False and log an error if that fails."""
        if blob.name in self._names:
            return True
        if not self._write(blob.name, blob):
            return False
        with self._lock:
            self._names[blob.name] = None
            if len(self._names) > _REMEMBERED_NAMES:
                del self._names[next(iter(self._names))]
        return True

    def keep_file(self, file: Path, *, name: str) -> bool:
        """Copy a file in its current state under a unique name; return False if that fails."""
        return self._write(name, file)

    def _write(self, name: str, content: Blob | Path) -> bool:
        target = blob_path(self._folder, name)
        aside = target.with_name(f"{new_id()}.part")
        try:
            make_private(target.parent)
            if target.exists():
                return True
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                _fill(file, content)
            aside.replace(target)
        except OSError as error:
            _logger.error("%s could not be written to the spool and is lost: %s", name, error)
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            return False
        return True


def media_record(
    store: BlobStore, data: Any, *, run_id: str | None, kind: str, folder: str | None = None, **fields: Any
) -> tuple[Record | None, str | None]:
    """Store content; return the record of kind "media" to append and the path in the bucket. Never raises.

    `data` is what `as_blob` takes or returns, `fields` are further columns of the table. The content is stored in the
    folder of its run, or in the given one. For content that cannot be
    stored, the record will be refused with the reason, and there is no path. If writing to the disk failed, there is no
    record either: the content is lost, and the caller must count it.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    record: Record = {"id": new_id(), "training_run_id": run_id, "kind": kind, **given}
    content = data if isinstance(data, (Blob, Unkept)) else as_blob(data)
    if isinstance(content, Unkept):
        return {**record, UNKEPT_FIELD: content.reason}, None
    if not store.keep(content):
        return None, None
    path, facts = content.path(folder or run_id or "shared"), content.fields()
    # The caller may override the type or the image size, but not the name.
    sure = {"path": path, "size_bytes": content.size_bytes, "checksum": content.sha256, BLOB_FIELD: content.name}
    return {**facts, **record, **sure}, path


def checkpoint_records(
    store: BlobStore, record: Record, file: str | os.PathLike[str], *, timeline: int = 0
) -> list[Record]:
    """Store a checkpoint's file; return the records of kind "model_checkpoints" to append. Never raises.

    The first record lacks the path of the file, so that records that refer to the checkpoint need not wait for the
    upload; the second adds it. The file is copied without reading it: the courier computes the checksum. After a rewind
    of the run, files are stored in a separate folder, so that hidden checkpoints stay unchanged.
    """
    # Imported here because every command loads this module, and few record checkpoints.
    from openmanus_rl.managers.storage.names import checkpoint_path

    own: Record = {name: record[name] for name in _OF_CHECKPOINTS if name in record}
    try:
        path = Path(file)
        if not path.is_file():
            raise CannotKeep(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        run_id, _, place = checkpoint_path(record["training_run_id"], record["checkpoint_number"], path.name).partition(
            "/"
        )
        name = f"{new_id()}.checkpoint"
        if not store.keep_file(path, name=name):
            raise CannotKeep(f"{path}: could not be copied to the spool; check the free disk space")
    except (CannotKeep, InvalidInput, OSError, TypeError, ValueError) as error:
        return [record, {**own, UNKEPT_FIELD: str(error)}]
    folder = f"{run_id}/timeline_{timeline}" if timeline else run_id
    return [record, {**own, "storage_path": f"{folder}/{place}", BLOB_FIELD: name}]


def blob_path(spool_folder: Path, name: str) -> Path:
    """Return the path of the content of this name in a spool."""
    return spool_folder / "blobs" / name


def forget_blobs(spool_folder: Path, records: Iterable[Mapping[str, Any]], *, but: Iterable[Mapping[str, Any]]) -> None:
    """Delete the content of delivered records, except what other records still need."""
    needed = {record.get(BLOB_FIELD) for record in but}
    for name in {record[BLOB_FIELD] for record in records if BLOB_FIELD in record} - needed:
        blob_path(spool_folder, name).unlink(missing_ok=True)


def sweep_blobs(spool_folder: Path, *, needed_by: Iterable[Mapping[str, Any]]) -> None:
    """Delete all content that these records do not need, in a spool that is no longer written."""
    needed = {record.get(BLOB_FIELD) for record in needed_by}
    for path in (spool_folder / "blobs").glob("*"):
        if path.name not in needed:
            path.unlink(missing_ok=True)


def _fill(file: BinaryIO, content: Blob | Path) -> None:
    if isinstance(content, Path):
        _copy(content, file)
    elif isinstance(content.source, bytes):
        file.write(content.source)
    elif isinstance(content.source, FileSource):
        _copy(content.source.path, file)
        status = content.source.path.stat()
        if (status.st_size, status.st_mtime_ns) != (content.source.size_bytes, content.source.modified_ns):
            raise OSError(f"{content.source.path} changed while it was copied")
    else:
        file.write(content.source())


def _copy(path: Path, target: BinaryIO) -> None:
    """Copy a file; if the file system supports it, share the data instead of copying it."""
    with path.open("rb") as source:
        try:
            while os.copy_file_range(source.fileno(), target.fileno(), _COPY_BYTES):
                pass
        except AttributeError:
            pass  # Only available on Linux.
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
        # Continue where that ended, if it is incomplete.
        shutil.copyfileobj(source, target)
