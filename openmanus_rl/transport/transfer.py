"""Local files of transfers: hashed and read in chunks, written to a temporary file and renamed."""

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

__all__ = ["CHUNK_BYTES", "FileSource", "Progress", "bytes_in_pieces", "fingerprint", "write_aside"]

CHUNK_BYTES = 1024 * 1024

Progress = Callable[[int, int], None]
"""Called with the bytes moved so far and the bytes in all."""


@dataclass(frozen=True)
class FileSource:
    """A local file with its size and hash, which can be read again for each attempt."""

    path: Path
    size_bytes: int
    modified_ns: int
    sha256: str

    def chunks(self, on_progress: Progress | None = None) -> Iterator[bytes]:
        """Yield the file's bytes; raise `LocalFileError` before the last chunk if the file has changed since.

        The last chunk is held back until the whole file is verified: a server that misses bytes stores nothing.
        """
        digest = hashlib.sha256()
        read_bytes = sent_bytes = 0
        held_back = b""
        with _open(self.path) as file:
            while chunk := _read(file, self.path):
                read_bytes += len(chunk)
                if read_bytes > self.size_bytes:
                    # The file has grown. With the held back chunk the server would have all bytes that it expects.
                    break
                digest.update(chunk)
                if held_back:
                    yield held_back
                    sent_bytes += len(held_back)
                    if on_progress is not None:
                        on_progress(sent_bytes, self.size_bytes)
                held_back = chunk
            now = os.fstat(file.fileno())
        as_it_was = (now.st_size, now.st_mtime_ns) == (self.size_bytes, self.modified_ns)
        # The digest too: a quick write may not change the modification time, and a writer may reset it.
        if not as_it_was or digest.hexdigest() != self.sha256:
            raise LocalFileError(
                f"{self.path}: changed while it was being uploaded",
                path=str(self.path),
                hint="upload it once nothing writes to it any more, or upload a copy",
            )
        if held_back:
            yield held_back
            if on_progress is not None:
                on_progress(self.size_bytes, self.size_bytes)


def fingerprint(path: str | os.PathLike[str]) -> FileSource:
    """Hash a file without holding it in memory."""
    path = Path(path)
    digest = hashlib.sha256()
    size_bytes = 0
    with _open(path) as file:
        # Before reading, so that a write meanwhile is detected.
        modified_ns = os.fstat(file.fileno()).st_mtime_ns
        while chunk := _read(file, path):
            digest.update(chunk)
            size_bytes += len(chunk)
    return FileSource(path=path, size_bytes=size_bytes, modified_ns=modified_ns, sha256=digest.hexdigest())


def bytes_in_pieces(content: bytes, on_progress: Progress | None = None) -> Iterator[bytes]:
    """Yield bytes in memory in chunks, like `FileSource.chunks`."""
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]
        if on_progress is not None:
            on_progress(min(start + CHUNK_BYTES, len(content)), len(content))


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
    """Open a temporary file that is renamed to the destination if the block succeeds."""
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        if destination.is_dir():
            raise LocalFileError(f"{destination}: is a folder", path=str(destination), hint="give a file's name")
        # In the same folder, since renames can't cross file systems. Shortened, since names have at most 255 bytes.
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
