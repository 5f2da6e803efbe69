"""Files into and out of containers, as the tar archives that the engine takes and gives."""

from __future__ import annotations

import io
import posixpath
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from openmanus_rl.sandboxes.base import SandboxError

if TYPE_CHECKING:
    from docker.models.containers import Container

__all__ = ["absolute", "copy_in", "copy_out"]

_IN_MEMORY_BYTES = 8 * 1024 * 1024
_MAX_LINKS = 8


def absolute(container: Container, path: str) -> str:
    """Return a path inside a container; a relative one is below its working directory."""
    if "\0" in path or not path:
        raise SandboxError(f"{path!r:.200} is not a path")
    folder = container.attrs["Config"].get("WorkingDir") or "/"
    return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def copy_in(container: Container, contents: Mapping[str, tuple[bytes | Path, int]]) -> None:
    """Write files and folders, given by absolute path with their permissions; folders above them are made."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for target, (content, mode) in contents.items():
                _add(archive, target.lstrip("/"), content, mode)
        file.seek(0)
        container.put_archive("/", file)


def _add(archive: tarfile.TarFile, target: str, content: bytes | Path, mode: int) -> None:
    if isinstance(content, Path) and content.is_dir():
        entries = sorted(content.rglob("*"))
        if not entries:
            _add_folder(archive, target)
        for path in entries:
            # Not the folder itself: it may be there, with permissions of its own, such as those of /tmp.
            archive.add(path, f"{target}/{path.relative_to(content)}", recursive=False, filter=_as_root)
    elif isinstance(content, Path):
        with content.open("rb") as file:
            _add_file(archive, target, file, content.stat().st_size, mode)
    else:
        _add_file(archive, target, io.BytesIO(content), len(content), mode)


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isreg() or entry.isdir() or entry.issym() else None


def _add_folder(archive: tarfile.TarFile, target: str) -> None:
    entry = tarfile.TarInfo(target)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(entry)


def _add_file(archive: tarfile.TarFile, target: str, file: IO[bytes], size: int, mode: int) -> None:
    entry = tarfile.TarInfo(target)
    entry.size, entry.mode = size, mode
    archive.addfile(entry, file)


def copy_out(container: Container, path: str, *, limit_bytes: int) -> bytes:
    """Return the content of a file; `FileNotFoundError` if there is none, `SandboxError` if it is too large."""
    import docker.errors

    place = path
    for _ in range(_MAX_LINKS):
        try:
            chunks, status = container.get_archive(place)
        except docker.errors.NotFound as error:
            raise FileNotFoundError(path) from error
        target = (status or {}).get("linkTarget")
        if not target:
            return _read(chunks, path, limit_bytes)
        place = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
    raise SandboxError(f"{path!r:.200}: too many links")


def _read(chunks: Iterable[bytes], path: str, limit_bytes: int) -> bytes:
    try:
        # As a stream: only as much is taken from the engine as is read here.
        with tarfile.open(fileobj=_Stream(chunks), mode="r|") as archive:
            entry = archive.next()
            if entry is None or not entry.isreg():
                raise SandboxError(f"{path!r:.200} is not a file")
            if entry.size > limit_bytes:
                raise SandboxError(f"{path!r:.200} has {entry.size} bytes, more than {limit_bytes}")
            file = archive.extractfile(entry)
            return file.read() if file else b""
    except tarfile.TarError as error:
        raise SandboxError(f"{path!r:.200} could not be read: {error}") from error
    finally:
        close: Any = getattr(chunks, "close", None)
        if close is not None:
            close()


class _Stream(io.RawIOBase):
    """The chunks of an answer as a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return that many bytes, fewer at the end."""
        parts, left = [], size
        while left > 0 and (self._rest or (chunk := next(self._chunks, None)) is not None):
            data = self._rest or chunk or b""
            parts.append(data[:left])
            self._rest = data[left:]
            left -= len(parts[-1])
        return b"".join(parts)
