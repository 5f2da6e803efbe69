"""Rows as Parquet and as JSONL, a stretch at a time."""

from __future__ import annotations

import json
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Protocol, Self

from openmanus_rl.errors import OpenManusError
from openmanus_rl.export.kinds import Fields
from openmanus_rl.transport.rest import Row

__all__ = ["JsonLinesWriter", "ParquetWriter", "Writer", "require_pyarrow"]

# A row group is held in memory until it is written; readers like them not too small.
_ROW_GROUP_BYTES = 4 * 1024 * 1024
# What a row weighs beside its texts.
_ROW_BYTES = 200
# JSON lets these stand in a text, but some readers, `str.splitlines` among them, end a line at some, and a terminal
# obeys others: control characters beyond ASCII, and those that turn the direction of writing.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


class Writer(Protocol):
    """Takes rows one by one; what it was given is in the stream when its block ends."""

    rows: int

    def __init__(self, stream: IO[bytes], fields: Fields) -> None: ...
    def write(self, row: Row) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class JsonLinesWriter:
    """One JSON object a line; NaN and the infinities as Python, pandas and `datasets` write and read them."""

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
    """Row groups of some megabytes, with the columns of the kind whatever the rows hold."""

    def __init__(self, stream: IO[bytes], fields: Fields) -> None:
        require_pyarrow()
        import pyarrow.parquet  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self.rows = 0
        self._schema = _schema(fields)
        self._file = pyarrow.parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._waiting: list[Row] = []
        self._waiting_bytes = 0

    def write(self, row: Row) -> None:
        """Take one row; a full row group is written."""
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
    """Say how to get pyarrow if it is not there."""
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
    }
    return types[kind]


def _weight(value: Any) -> int:
    """Return roughly how many bytes a row holds."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return _ROW_BYTES + sum(_weight(part) for part in value.values())
    if isinstance(value, list):
        return sum(_weight(part) for part in value)
    return 0


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} has no place in an export")
