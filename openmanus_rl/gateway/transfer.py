"""Moving files in pieces: hashed, streamed up, and written aside before they take their name."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from openmanus_rl.errors import LocalFileError

__all__ = ["CHUNK_BYTES", "FileSource", "Progress", "fingerprint", "write_aside"]

CHUNK_BYTES = 1024 * 1024

Progress = Callable[[int, int], None]
"""Called with the bytes moved so far and the bytes in all."""


@dataclass(frozen=True)
class FileSource:
    """A file as it was when it was hashed; it can be read again for each attempt."""

    path: Path
    size_bytes: int
    modified_ns: int
    sha256: str

    def chunks(self, on_progress: Progress | None = None) -> Iterator[bytes]:
        """Yield the file's bytes; a file that changed since it was hashed is a `LocalFileError`."""
        sent_bytes = 0
        with _open(self.path) as file:
            while chunk := _read(file, self.path):
                sent_bytes += len(chunk)
                if sent_bytes > self.size_bytes:
                    break
                yield chunk
                if on_progress is not None:
                    on_progress(sent_bytes, self.size_bytes)
            now = os.fstat(file.fileno())
        if (now.st_size, now.st_mtime_ns) != (self.size_bytes, self.modified_ns):
            raise LocalFileError(
                f"{self.path}: changed while it was being uploaded",
                path=str(self.path),
                hint="upload it once nothing writes to it any more, or upload a copy",
            )


def fingerprint(path: str | os.PathLike[str]) -> FileSource:
    """Hash a file without holding it in memory."""
    path = Path(path)
    digest = hashlib.sha256()
    with _open(path) as file:
        before = os.fstat(file.fileno())
        while chunk := _read(file, path):
            digest.update(chunk)
    return FileSource(path=path, size_bytes=before.st_size, modified_ns=before.st_mtime_ns, sha256=digest.hexdigest())


def _open(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise LocalFileError(f"{path}: is a folder, not a file", path=str(path), hint="give one file")
        return path.open("rb")
    except FileNotFoundError as error:
        raise LocalFileError(f"{path}: no such file", path=str(path), hint="check the path") from error
    except OSError as error:
        raise LocalFileError(f"{path}: can't be read: {error.strerror}", path=str(path)) from error


def _read(file: BinaryIO, path: Path) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise LocalFileError(f"{path}: can't be read: {error.strerror}", path=str(path)) from error


@contextmanager
def write_aside(destination: Path) -> Iterator[BinaryIO]:
    """Give a file to write that takes the destination's name only once the block has ended well."""
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        if destination.is_dir():
            raise LocalFileError(f"{destination}: is a folder", path=str(destination), hint="give a file's name")
        # In the same folder: a rename across file systems would be a copy. Cut short: a name has 255 bytes at most.
        aside = destination.with_name(f".{destination.name[:40]}.{uuid.uuid4().hex}.part")
        file = aside.open("xb")
    except OSError as error:
        raise _cannot_write(destination, error) from error
    try:
        with file:
            yield file
        aside.replace(destination)
    except OSError as error:
        raise _cannot_write(destination, error) from error
    finally:
        aside.unlink(missing_ok=True)


def _cannot_write(destination: Path, error: OSError) -> LocalFileError:
    return LocalFileError(
        f"{destination}: can't be written: {error.strerror or error}",
        path=str(destination),
        hint="check the folder's permissions and the free space",
    )
