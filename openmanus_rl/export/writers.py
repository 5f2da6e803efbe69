"""Writes rows as Parquet and JSONL, in batches."""

from __future__ import annotations

import json
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Protocol, Self

from openmanus_rl.errors import OpenManusError
from openmanus_rl.export.kinds import Fields
from openmanus_rl.transport.rest import Row

__all__ = ["JsonLinesWriter", "ParquetWriter", "Writer", "require_pyarrow"]

# A row group is kept in memory until it is written; small ones are slow to read.
_ROW_GROUP_BYTES = 4 * 1024 * 1024
# Estimated size of a row without its texts.
_ROW_BYTES = 200
# Control characters beyond ASCII, and those that change the direction of text. JSON allows them in strings, but some
# readers, such as `str.splitlines`, end a line at some of them, and terminals interpret others.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


class Writer(Protocol):
    """Writes rows one by one; all of them are in the stream when its block ends."""

    rows: int

    def __init__(self, stream: IO[bytes], fields: Fields) -> None: ...
    def write(self, row: Row) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class JsonLinesWriter:
    """Writes one JSON object per line, with NaN and infinities as Python, pandas and `datasets` write them."""

    def __init__(self, stream: IO[bytes], _fields: Fields) -> None:
        self.rows = 0
        self._stream = stream

    def write(self, row: Row) -> None:
        """Write one line."""
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_plain)
        self._stream.write(line.translate(_ESCAPED).encode() + b"\n")
        self.rows += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stream.flush()


class ParquetWriter:
    """Writes row groups of some megabytes, with fixed columns."""

    def __init__(self, stream: IO[bytes], fields: Fields) -> None:
        require_pyarrow()
        import pyarrow.parquet  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self.rows = 0
        self._schema = _schema(fields)
        self._file = pyarrow.parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._waiting: list[Row] = []
        self._waiting_bytes = 0

    def write(self, row: Row) -> None:
        """Add one row; write the row group when it is full."""
        self._waiting.append(row)
        self._waiting_bytes += _weight(row)
        self.rows += 1
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._write_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._waiting:
                self._write_group()
        finally:
            self._file.close()

    def _write_group(self) -> None:
        import pyarrow

        self._file.write_table(pyarrow.Table.from_pylist(self._waiting, schema=self._schema))
        self._waiting, self._waiting_bytes = [], 0


def require_pyarrow() -> None:
    """Raise an error that says how to install pyarrow if it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise OpenManusError(
            "Parquet needs pyarrow, which is not installed",
            code="missing_extra",
            hint="pip install 'openmanus-rl[export]', or export to .jsonl",
        ) from error


def _schema(fields: Fields) -> Any:
    import pyarrow

    return pyarrow.schema([(name, _arrow_type(kind)) for name, kind in fields])


def _arrow_type(kind: Any) -> Any:
    import pyarrow

    if not isinstance(kind, str):
        return pyarrow.list_(pyarrow.struct([(name, _arrow_type(inner)) for name, inner in kind]))
    types = {
        "text": pyarrow.string(),
        "json": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "texts": pyarrow.list_(pyarrow.string()),
        "integers": pyarrow.list_(pyarrow.int64()),
        "numbers": pyarrow.list_(pyarrow.float64()),
        "booleans": pyarrow.list_(pyarrow.bool_()),
        "times": pyarrow.list_(pyarrow.timestamp("us", tz="UTC")),
    }
    return types[kind]


def _weight(value: Any) -> int:
    """Return the approximate size of a row in bytes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return _ROW_BYTES + sum(_weight(part) for part in value.values())
    if isinstance(value, list):
        return 8 * len(value) + (sum(map(_weight, value)) if value and isinstance(value[0], (str, dict)) else 0)
    return 0


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} has no place in an export")
