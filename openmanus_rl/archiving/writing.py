"""Writes the rows of a run to Parquet files of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from openmanus_rl.archiving.manifest import ArchivedFile
from openmanus_rl.errors import OpenManusError
from openmanus_rl.export.writers import ParquetWriter
from openmanus_rl.transport.archive_rows import ArchivedTable
from openmanus_rl.transport.transfer import fingerprint

__all__ = ["FileParts"]

# Below the limit of free hosted projects for one file, 50 MB.
_FILE_BYTES = 32 * 1024 * 1024
_FILE_ROWS = 500_000
# How columns of the database are written; whole numbers and fractions of any width have one type.
_KINDS = {
    "uuid": "text",
    "text": "text",
    "jsonb": "json",
    "smallint": "integer",
    "integer": "integer",
    "bigint": "integer",
    "real": "number",
    "double precision": "number",
    "boolean": "boolean",
    "timestamp with time zone": "time",
}


class FileParts:
    """The files of one table: rows are added, and each complete file is given away."""

    def __init__(
        self, table: ArchivedTable, columns: dict[str, str], folder: Path, store: Callable[[Path, str], str]
    ) -> None:
        self.files: list[ArchivedFile] = []
        self.database_bytes = 0
        self._table = table
        self._columns = columns
        self._fields = tuple((name, _kind(table, name, kind)) for name, kind in columns.items())
        self._folder = folder
        self._store = store
        self._stream: BinaryIO | None = None
        self._writer: ParquetWriter | None = None
        self._digest = 0
        # Rollouts themselves have an id.
        self._rollout_column = "id" if table.name == "rollouts" else "rollout_id"
        self._rollouts: tuple[str | None, str | None] = (None, None)

    @property
    def rows(self) -> int:
        """How many rows the complete files have."""
        return sum(file.rows for file in self.files)

    def add(self, rows: Iterator[tuple[dict[str, Any], int, int]]) -> int:
        """Write rows, each with its digest and size, and return how many."""
        count = 0
        for row, digest, size in rows:
            self._open().write(row)
            self._digest += digest
            rollout = row.get(self._rollout_column)
            self._rollouts = (self._rollouts[0] or rollout, rollout)
            self.database_bytes += size
            count += 1
            if self._is_full():
                self._finish()
        return count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        elif self._writer is not None and self._stream is not None:
            with self._stream:
                self._writer.__exit__(kind, error, trace)

    def _open(self) -> ParquetWriter:
        if self._writer is None:
            self._stream = self._path().open("wb")
            self._writer = ParquetWriter(self._stream, self._fields)
            self._digest = 0
            self._rollouts = (None, None)
        return self._writer

    def _path(self) -> Path:
        return self._folder / f"{self._table.name}-{len(self.files):05d}.parquet"

    def _is_full(self) -> bool:
        assert self._stream is not None
        assert self._writer is not None
        return self._stream.tell() >= _FILE_BYTES or self._writer.rows >= _FILE_ROWS

    def _finish(self) -> None:
        if self._writer is None or self._stream is None:
            return
        writer, path = self._writer, self._path()
        with self._stream:
            writer.__exit__(None, None, None)
        self._writer = self._stream = None
        source = fingerprint(path)
        # Named by its content too: another process never replaces it by something else.
        stored = self._store(path, f"{path.stem}-{source.sha256[:8]}.parquet")
        self.files.append(
            ArchivedFile(
                table=self._table.name,
                path=stored,
                rows=writer.rows,
                size_bytes=source.size_bytes,
                sha256=source.sha256,
                digest=str(self._digest),
                columns=tuple(name for name in self._columns if name not in self._table.added),
                first_rollout=self._rollouts[0],
                last_rollout=self._rollouts[1],
            )
        )
        path.unlink()


def _kind(table: ArchivedTable, name: str, kind: str) -> str:
    found = _KINDS.get(kind.removesuffix("[]"))
    if found is None:
        raise OpenManusError(f"{table.name}.{name}: a column of type {kind} cannot be archived yet")
    return f"{found}s" if kind.endswith("[]") else found
