"""Exports to files, which are written to a temporary file and renamed when complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from openmanus_rl.connections import get_client
from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.export.kinds import KINDS
from openmanus_rl.export.reading import Progress, Reader
from openmanus_rl.export.selection import Selection
from openmanus_rl.export.writers import JsonLinesWriter, ParquetWriter, Writer, require_pyarrow
from openmanus_rl.transport.client import Client

__all__ = ["FORMATS", "export_to_file", "export_to_stream"]

FORMATS: dict[str, type[Writer]] = {".parquet": ParquetWriter, ".jsonl": JsonLinesWriter}
"""File name extensions and their writers."""


def export_to_file(
    kind: str,
    path: str | Path,
    *,
    selection: Selection | None = None,
    overwrite: bool = False,
    on_progress: Progress | None = None,
    client: Client | None = None,
) -> int:
    """Write the rows of a kind to a .parquet or .jsonl file, which appears once complete; return how many."""
    target = Path(path)
    selection = selection or Selection()
    _check(kind, selection)
    writer_type = _writer_for(target)
    _refuse_existing(target, overwrite=overwrite)
    with _written_aside(target, overwrite=overwrite) as stream:
        return _copy(kind, writer_type, stream, selection, on_progress, client)


def export_to_stream(
    kind: str,
    stream: IO[bytes],
    *,
    selection: Selection | None = None,
    on_progress: Progress | None = None,
    client: Client | None = None,
) -> int:
    """Write the rows of a kind to a stream as JSONL; return how many."""
    selection = selection or Selection()
    _check(kind, selection)
    return _copy(kind, JsonLinesWriter, stream, selection, on_progress, client)


def _copy(
    kind: str,
    writer_type: type[Writer],
    stream: IO[bytes],
    selection: Selection,
    on_progress: Progress | None,
    client: Client | None,
) -> int:
    reader = Reader(client or get_client(), selection, on_progress=on_progress)
    reader.check_archived(kind)
    with writer_type(stream, KINDS[kind]) as writer:
        for row in islice(reader.read(kind), selection.limit):
            writer.write(row)
    return writer.rows


def _check(kind: str, selection: Selection) -> None:
    if kind not in KINDS:
        raise InvalidInput(f"{kind!r} can't be exported; choose one of {', '.join(KINDS)}", field="kind")
    selection.check(kind)


def _writer_for(target: Path) -> type[Writer]:
    writer_type = FORMATS.get(target.suffix.lower())
    if writer_type is None:
        raise InvalidInput(
            f"{target}: the name tells the format, and must end in {' or '.join(FORMATS)}",
            field="out",
            hint="or give - to write JSONL to the standard output",
        )
    if writer_type is ParquetWriter:
        # Checked before reading, so that a long export does not fail at its end.
        require_pyarrow()
    return writer_type


def _refuse_existing(target: Path, *, overwrite: bool) -> None:
    if target.exists() and not overwrite:
        raise LocalFileError(f"{target}: exists already", path=str(target), hint="replace it with --force")


@contextmanager
def _written_aside(target: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Open a temporary file next to the target that replaces it if the block succeeds, and is deleted if not."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        try:
            with aside.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            _refuse_existing(target, overwrite=overwrite)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise LocalFileError(f"{target}: can't be written: {error.strerror or error}", path=str(target)) from error
