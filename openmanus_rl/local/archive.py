"""The format of a backup: a tar file with the database dump, the stored files, and a manifest of their checksums.

    header.json        the format and its version
    database.dump      pg_dump's custom format
    storage/<version>  one file for each stored object
    manifest.json      the size and SHA-256 of each member above, and the row counts of the database

The manifest comes last: a file without it is incomplete.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from openmanus_rl.errors import StackError

FORMAT = "openmanus-rl backup"
FORMAT_VERSION = 1
HEADER, DATABASE, MANIFEST = "header.json", "database.dump", "manifest.json"
STORED = re.compile(r"storage/([0-9a-f]{8}-[0-9a-f-]{27})")
_BLOCK_BYTES = 2**20

Moved = Callable[[int], None]


class ArchiveWriter:
    """Adds members to a new archive and keeps the checksum of each."""

    def __init__(self, tar: tarfile.TarFile, *, moved: Moved) -> None:
        self._tar = tar
        self._moved = moved
        self.members: dict[str, dict[str, Any]] = {}

    def add_json(self, name: str, content: dict[str, Any]) -> None:
        """Add a small document."""
        data = json.dumps(content, indent=2, default=str).encode()
        self._add(name, io.BytesIO(data), len(data))

    def add_file(self, name: str, path: Path) -> None:
        """Add the content of a file."""
        with open(path, "rb") as source:
            self._add(name, source, os.fstat(source.fileno()).st_size)

    def add_sized(self, name: str, source: IO[bytes], size: int) -> None:
        """Add the content of a stream of known size; one that ends earlier is an error."""
        self._add(name, source, size)

    def add_stream(self, name: str, source: IO[bytes]) -> None:
        """Add the content of a stream of unknown size; its header is written afterwards, in space reserved for it."""
        file: Any = self._tar.fileobj
        start = file.tell()
        file.write(b"\0" * tarfile.BLOCKSIZE)
        hashed = HashedStream(source, moved=self._moved)
        for block in hashed.blocks():
            file.write(block)
        file.write(b"\0" * (-hashed.size % tarfile.BLOCKSIZE))
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = hashed.size, 0o600
        file.seek(start)
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        file.seek(0, os.SEEK_END)
        self._tar.offset = file.tell()
        self.members[name] = {"size": hashed.size, "sha256": hashed.hexdigest()}

    def _add(self, name: str, source: IO[bytes], size: int) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, 0o600
        hashed = HashedStream(source, moved=self._moved)
        self._tar.addfile(entry, hashed)
        self.members[name] = {"size": size, "sha256": hashed.hexdigest()}


@contextmanager
def new_archive(path: Path, *, moved: Moved) -> Iterator[ArchiveWriter]:
    """Write an archive to a temporary file and rename it when it is complete and synced to disk."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
                yield ArchiveWriter(tar, moved=moved)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_members(path: Path, *, moved: Moved = lambda _: None) -> Iterator[tuple[str, HashedStream]]:
    """Yield each member's name and content in order; read the content before requesting the next member."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            for entry in tar:
                content = tar.extractfile(entry)
                if content is None:
                    raise StackError(f"{path} is not a backup: {entry.name} is not a regular file")
                yield entry.name, HashedStream(content, moved=moved, origin=path)
    except (tarfile.TarError, EOFError) as error:
        raise StackError(f"{path} is damaged, or not a backup: {error}") from error
    except OSError as error:
        raise StackError(f"{path} cannot be read: {error.strerror or error}") from error


def check_archive(path: Path, *, moved: Moved = lambda _: None) -> dict[str, Any]:
    """Read a whole backup, verify its checksums, and return its manifest."""
    found: dict[str, dict[str, Any]] = {}
    manifest: dict[str, Any] | None = None
    for name, content in read_members(path, moved=moved):
        if name in (HEADER, MANIFEST):
            document = _read_json(path, name, content)
            if name == HEADER:
                _require_known(path, document)
            else:
                manifest = document
        content.drain()
        if name != MANIFEST:
            found[name] = {"size": content.size, "sha256": content.hexdigest()}
    if HEADER not in found:
        raise StackError(f"{path} is not a backup of openmanus-rl: it has no {HEADER}")
    if manifest is None:
        raise StackError(f"{path} is incomplete: it has no {MANIFEST}; use another backup")
    expected = manifest.get("members", {})
    if found != expected:
        wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise StackError(
            f"{path} is damaged: {', '.join(wrong[:3])} {'do' if len(wrong) > 1 else 'does'} not match the manifest "
            f"({len(wrong)} of {len(expected)}); use another backup"
        )
    return manifest


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a rename in it survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HashedStream:
    """A stream that computes the checksum of what is read from it."""

    def __init__(self, source: IO[bytes], *, moved: Moved, origin: Path | None = None) -> None:
        self._source = source
        self._moved = moved
        self._origin = origin
        self._digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._source.read(size)
        except tarfile.TarError as error:
            raise StackError(f"{self._origin} is damaged: {error}; use another backup") from error
        self._digest.update(data)
        self.size += len(data)
        self._moved(len(data))
        return data

    def blocks(self) -> Iterator[bytes]:
        """Yield the remaining content in blocks."""
        while block := self.read(_BLOCK_BYTES):
            yield block

    def drain(self) -> None:
        """Read and discard the remaining content."""
        for _ in self.blocks():
            pass

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _read_json(path: Path, name: str, content: HashedStream) -> dict[str, Any]:
    try:
        document = json.loads(content.read())
    except ValueError as error:
        raise StackError(f"{path} is damaged: {name} is not JSON") from error
    if not isinstance(document, dict):
        raise StackError(f"{path} is damaged: {name} is not a JSON object")
    return document


def _require_known(path: Path, header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT:
        raise StackError(f"{path} is not a backup of openmanus-rl")
    if header.get("format_version") != FORMAT_VERSION:
        raise StackError(
            f"{path} was made by openmanus-rl {header.get('version')} in a format that this version cannot read; "
            "run `pip install --upgrade openmanus-rl`"
        )
