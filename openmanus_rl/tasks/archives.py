"""A task's files as one archive: packed the same way each time, and unpacked without trust in who packed it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from openmanus_rl.errors import InvalidInput, LocalFileError, TooLargeError

__all__ = ["MAX_BYTES", "MAX_FILES", "PackedFolder", "list_folder", "pack_folder", "unpack_archive"]

MAX_BYTES = 1024**3
MAX_FILES = 20_000
_CHUNK_BYTES = 1024 * 1024
# tarfile reads a header's own texts, such as long names, at once.
_MAX_READ_BYTES = 16 * 1024 * 1024
_HEADER_BYTES = 4096


@dataclass(frozen=True)
class PackedFolder:
    """An archive that was written."""

    path: Path
    sha256: str
    size_bytes: int


def pack_folder(folder: Path, archive: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> PackedFolder:
    """Write a folder as tar.gz: equal content gives equal bytes, whoever owns the files and whenever they were made.

    Raise `InvalidInput` for a link that leaves the folder or what is neither file, folder nor link.
    """
    entries = list_folder(folder, max_bytes=max_bytes, max_files=max_files)
    try:
        with (
            archive.open("wb") as file,
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name in entries:
                _add(tar, folder, name)
    except OSError as error:
        raise LocalFileError(f"{folder}: it can't be packed: {error}", path=str(folder)) from error
    with archive.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return PackedFolder(archive, digest, archive.stat().st_size)


def list_folder(folder: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> list[str]:
    """Return the paths of all that is in a folder, sorted; raise what `pack_folder` would."""
    names: list[str] = []
    total = 0
    for name, status in _walk(folder, ""):
        _check_text(name)
        if stat.S_ISLNK(status.st_mode):
            _check_link(name, os.readlink(folder / name))
        elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise InvalidInput(f"{name} is neither a file nor a folder", field=name)
        names.append(name)
        total += status.st_size if stat.S_ISREG(status.st_mode) else 0
        _check_limits(len(names), total, max_files=max_files, max_bytes=max_bytes)
    return sorted(names)


def unpack_archive(archive: Path, folder: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> list[str]:
    """Unpack a tar.gz into a folder that is made, and return the paths; nothing is left of one that is refused.

    Files, folders and symbolic links that stay inside are unpacked, and nothing else.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LocalFileError(f"{folder}: it can't be made: {error.strerror}", path=str(folder)) from error
    try:
        with gzip.open(archive, "rb") as packed:
            limited = _Limited(packed, max_bytes + max_files * _HEADER_BYTES)
            with tarfile.open(fileobj=limited, mode="r:") as tar:
                return _extract(tar, folder, max_bytes=max_bytes, max_files=max_files)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, UnicodeError, ValueError) as error:
        shutil.rmtree(folder)
        raise InvalidInput(f"{archive.name}: it is no archive that can be read: {error}", field="archive") from error
    except OSError as error:
        shutil.rmtree(folder)
        raise LocalFileError(f"{archive.name}: it can't be unpacked: {error}", path=str(archive)) from error
    except BaseException:
        shutil.rmtree(folder)
        raise


def _extract(tar: tarfile.TarFile, folder: Path, *, max_bytes: int, max_files: int) -> list[str]:
    names: list[str] = []
    links: dict[str, str] = {}
    total = 0
    for member in tar:
        if PurePosixPath(member.name) == PurePosixPath("."):
            continue
        name = _checked_name(member.name)
        names.append(name)
        total += member.size
        _check_limits(len(names), total, max_files=max_files, max_bytes=max_bytes)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            target.mkdir(exist_ok=True)
        elif member.issym():
            links[name] = _check_link(name, member.linkname)
        elif member.isreg():
            _write(tar, member, target)
        else:
            raise InvalidInput(f"{name} is neither a file, a folder nor a symbolic link", field=name)
    # At last: until now there are only real folders, so that nothing was written through a link.
    for name, destination in links.items():
        (folder / name).symlink_to(destination)
    return sorted(names)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    mode = 0o755 if member.mode & 0o100 else 0o644
    source = tar.extractfile(member)
    assert source is not None
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with source, os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)
        shutil.copyfileobj(source, file, _CHUNK_BYTES)


def _add(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add one entry, with nothing of this machine in it."""
    path = folder / name
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode = 0o755 if status.st_mode & 0o100 else 0o644
    if stat.S_ISLNK(status.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, _check_link(name, os.readlink(path)), 0o777
        tar.addfile(info)
    elif stat.S_ISDIR(status.st_mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
    else:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, file)


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all that is below a folder, by its relative path; links are not followed."""
    waiting = [prefix]
    while waiting:
        current = waiting.pop()
        try:
            entries = list(os.scandir(folder / current))
        except OSError as error:
            raise LocalFileError(f"{folder / current}: it can't be read: {error.strerror}", path=str(folder)) from error
        for entry in entries:
            name = f"{current}/{entry.name}" if current else entry.name
            yield name, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)


def _checked_name(name: str) -> str:
    _check_text(name)
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise InvalidInput(f"{name!r:.200} leads out of the archive", field="archive")
    return str(path)


def _check_text(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name!r:.200} is not a name in UTF-8", field=repr(name)[:200]) from None


def _check_link(name: str, target: str) -> str:
    """Return a link's target, if it stays inside whatever other links lead to.

    So `..` may only come first, where the folder is known: after a name, which may be a link, it could lead anywhere.
    """
    _check_text(target)
    parts = PurePosixPath(target).parts
    ups = next((count for count, part in enumerate(parts) if part != ".."), len(parts))
    leaves = ups > len(PurePosixPath(name).parts) - 1
    if not target or "\0" in target or target.startswith("/") or leaves or ".." in parts[ups:]:
        raise InvalidInput(f"{name}: the link leads to {target!r:.200}, out of its folder", field=name)
    return target


def _check_limits(files: int, total_bytes: int, *, max_files: int, max_bytes: int) -> None:
    if files > max_files:
        raise TooLargeError(f"there are more than {max_files:,} files")
    if total_bytes > max_bytes:
        raise TooLargeError(f"the files have more than {max_bytes:,} bytes")


class _Limited(io.RawIOBase):
    """A stream that ends with an error where an archive would unpack to far more than it may."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, limit_bytes: int) -> None:
        self._stream = stream
        self._limit_bytes = limit_bytes

    def read(self, size: int = -1) -> bytes:
        """Read a number of bytes that must be given, and not be large."""
        if not 0 <= size <= _MAX_READ_BYTES or self._stream.tell() > self._limit_bytes:
            raise TooLargeError("the archive is larger than it may be")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on to a place within the limit."""
        if whence != os.SEEK_SET or offset > self._limit_bytes:
            raise TooLargeError("the archive is larger than it may be")
        return self._stream.seek(offset)

    def tell(self) -> int:
        """Return how far it was read."""
        return self._stream.tell()

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be gone through."""
        return True
