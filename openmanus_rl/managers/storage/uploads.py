"""Uploads a file after checking everything that can be checked locally."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmanus_rl.errors import InvalidInput, LocalFileError, NotFoundError, TooLargeError
from openmanus_rl.managers.storage.buckets import BUCKETS, content_type_for, format_size
from openmanus_rl.managers.storage.names import check_path
from openmanus_rl.transport.objects import ObjectInfo
from openmanus_rl.transport.storage import Storage
from openmanus_rl.transport.transfer import FileSource, Progress, fingerprint

__all__ = ["FilePath", "PreparedFile", "advised", "check_size", "file_name", "prepare", "send", "stored_unchanged"]

FilePath = str | os.PathLike[str]


@dataclass(frozen=True)
class PreparedFile:
    """A checked and hashed file, and its destination."""

    bucket: str
    path: str
    source: FileSource


def prepare(bucket: str, path: str, file: FilePath) -> PreparedFile:
    """Hash a file for a place in a bucket; raise an error if it is not a file or over the bucket's limit."""
    check_path(path)
    file_name(file)
    check_size(bucket, str(file), local_size_bytes(file))
    source = fingerprint(file)
    # Again, since the file may have grown.
    check_size(bucket, str(file), source.size_bytes)
    return PreparedFile(bucket, path, source)


def send(
    storage: Storage,
    prepared: PreparedFile,
    *,
    overwrite: bool = True,
    metadata: Mapping[str, Any] | None = None,
    on_progress: Progress | None = None,
) -> ObjectInfo:
    """Upload a prepared file with its checksum."""
    with advised(prepared.bucket):
        return storage.upload(
            prepared.bucket,
            prepared.path,
            prepared.source,
            content_type=content_type_for(prepared.bucket, prepared.path),
            upsert=overwrite,
            metadata=metadata,
            on_progress=on_progress,
        )


@contextmanager
def advised(bucket: str) -> Iterator[None]:
    """Add a hint to errors of the server for uploads that passed the local checks."""
    try:
        yield
    except TooLargeError as error:
        # Hosted projects have a global limit, which on the free plan is lower than some of ours.
        error.hint = "raise the project's own limit: Supabase dashboard, Storage, Settings"
        raise
    except NotFoundError as error:
        makes_it = "make it with `openmanus-rl migrate`" if bucket in BUCKETS else "make it first, or check its name"
        error.hint = f"there is no bucket {bucket}; {makes_it}"
        raise


def stored_unchanged(storage: Storage, prepared: PreparedFile) -> bool:
    """Return whether the same content is already stored."""
    try:
        stored = storage.info(prepared.bucket, prepared.path)
    except NotFoundError:
        return False
    return (stored.size_bytes, stored.sha256) == (prepared.source.size_bytes, prepared.source.sha256)


def check_size(bucket: str, name: str, size_bytes: int) -> None:
    """Raise an error if the size is over the bucket's limit, which is unknown for buckets of the user."""
    rules = BUCKETS.get(bucket)
    if rules is not None and size_bytes > rules.limit_bytes:
        size, limit = format_size(size_bytes), format_size(rules.limit_bytes)
        if size == limit:
            size, limit = f"{size_bytes:,} bytes", f"{rules.limit_bytes:,}"
        raise TooLargeError(
            f"{name}: {size}, but bucket {bucket} takes at most {limit}",
            details={"size_bytes": size_bytes, "limit_bytes": rules.limit_bytes},
            hint=rules.advice_when_too_large,
            field="file",
        )


def file_name(file: FilePath) -> str:
    """Return the last part of a file's path."""
    if not isinstance(file, (str, os.PathLike)):
        raise InvalidInput(
            f"a file's path is due where {type(file).__name__} was given", field="file", hint="or use upload_bytes"
        )
    return Path(file).name


def local_size_bytes(file: FilePath) -> int:
    """Return a regular file's size; anything else raises `LocalFileError`."""
    name = str(file)
    try:
        found = Path(file).stat()
    except FileNotFoundError as error:
        raise LocalFileError(f"{name}: no such file", path=name, hint="check the path") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise LocalFileError(f"{name}: can't be read: {reason}", path=name) from error
    if stat.S_ISDIR(found.st_mode):
        raise LocalFileError(
            f"{name}: is a folder, not a file", path=name, hint="pack it first, e.g. with `tar -czf packed.tar.gz …`"
        )
    if not stat.S_ISREG(found.st_mode):
        # A pipe has no size and can't be read twice, as the size limit and the checksum require.
        raise LocalFileError(f"{name}: is not a regular file", path=name, hint="write its content to a file first")
    return found.st_size
