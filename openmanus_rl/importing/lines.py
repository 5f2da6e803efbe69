"""Reads files of JSON lines, with one line in memory at a time."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import orjson

from openmanus_rl.errors import LocalFileError
from openmanus_rl.spool.lines import dump_line

__all__ = [
    "MAX_LINE_BYTES",
    "BadLine",
    "Line",
    "LineError",
    "LineFile",
    "describe",
    "is_stream",
    "read_object",
    "storable",
]

MAX_LINE_BYTES = 64 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_GZIP_MARK = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Damage that is only detected while reading.
_GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)


class LineError(ValueError):
    """A line is invalid; the message says why."""


@dataclass(frozen=True)
class Line:
    """A line with a JSON object."""

    number: int
    text: bytes
    value: dict[str, Any]


@dataclass(frozen=True)
class BadLine:
    """A line without a JSON object, and why."""

    number: int
    reason: str


class LineFile:
    """A file of JSON lines, or standard input, plain or gzipped; a `.json` file may also be one whole document."""

    def __init__(self, path: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.path = path
        self._max_line_bytes = max_line_bytes
        self._passed_bytes = 0
        self._raw = _open(path)
        start = self._raw.peek(2)[:2]
        if start in _UTF16_MARKS:
            self._raw.close()
            raise LocalFileError(f"{path}: it is UTF-16 text", path=path, hint="convert it to UTF-8 first")
        self._is_gzip = start == _GZIP_MARK
        self._text: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=self._raw)) if self._is_gzip else self._raw

    @property
    def read_bytes(self) -> int:
        """How many bytes have been read, counted as they are on disk."""
        return self._raw.tell() if self._is_gzip and self._raw.seekable() else self._passed_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.path != "-":
            self._raw.close()

    def __iter__(self) -> Iterator[Line | BadLine]:
        """Yield every non-empty line; an unreadable one as a `BadLine` with the reason."""
        number = 0
        try:
            for number, text in self._texts():
                yield _read(number, text, self._max_line_bytes)
        except _GZIP_ERRORS as error:
            yield BadLine(number + 1, f"the gzip file breaks off or is damaged here: {error}")
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        if self.path.removesuffix(".gz").endswith(".json"):
            yield from self._documents()
            return
        number = 0
        while line := self._next_line():
            number += 1
            text = (line.removeprefix(_UTF8_MARK) if number == 1 else line).strip()
            if text:
                yield number, text

    def _next_line(self) -> bytes:
        """Return the next line; one that is too long is truncated just beyond the limit."""
        line = self._text.readline(self._max_line_bytes + 1)
        self._passed_bytes += len(line)
        part = line
        while len(part) > self._max_line_bytes and not part.endswith(b"\n"):
            part = self._text.readline(self._max_line_bytes + 1)
            self._passed_bytes += len(part)
        return line

    def _documents(self) -> Iterator[tuple[int, bytes]]:
        """Yield the object or list of objects that the whole file is, else its lines."""
        whole = self._text.read(self._max_line_bytes + 1)
        self._passed_bytes += len(whole)
        if len(whole) > self._max_line_bytes:
            yield 1, whole
            return
        whole = whole.removeprefix(_UTF8_MARK)
        try:
            found = orjson.loads(whole)
        except orjson.JSONDecodeError:
            lines = whole.splitlines() if _is_object(whole.strip().partition(b"\n")[0]) else [whole]
            yield from ((number, text) for number, line in enumerate(lines, start=1) if (text := line.strip()))
            return
        objects = found if isinstance(found, list) else [found]
        yield from ((number, orjson.dumps(value)) for number, value in enumerate(objects, start=1))


def is_stream(path: str) -> bool:
    """Return whether this is standard input, a pipe or a terminal: readable once, and of unknown size."""
    return path == "-" or Path(path).is_fifo() or Path(path).is_char_device()


def _open(path: str) -> BufferedReader:
    if path == "-":
        return cast(BufferedReader, sys.stdin.buffer)
    try:
        return cast(BufferedReader, open(path, "rb", _BUFFER_BYTES))  # closed with the LineFile
    except OSError as error:
        raise _unreadable(path, error) from error


def read_object(text: bytes) -> dict[str, Any]:
    """Return the object of a line, without values that Postgres can't store; raise a `LineError` if invalid."""
    try:
        value = orjson.loads(text)
        if b"\\u0000" in text:
            value = storable(value)
    except orjson.JSONDecodeError:
        value = _read_leniently(text)
    if not isinstance(value, dict):
        raise LineError(f"an object is expected, not {describe(value)}")
    return value


def describe(value: Any) -> str:
    """Return the JSON type of a value in words."""
    names = {"str": "text", "list": "a list", "dict": "an object", "NoneType": "null", "bool": "true or false"}
    return names.get(type(value).__name__, "a number")


def _read(number: int, text: bytes, max_line_bytes: int) -> Line | BadLine:
    if len(text) > max_line_bytes:
        return BadLine(number, f"it is longer than {max_line_bytes:,} bytes")
    try:
        return Line(number, text, read_object(text))
    except LineError as error:
        return BadLine(number, str(error))


def _is_object(text: bytes) -> bool:
    try:
        read_object(text)
    except LineError:
        return False
    return True


def _read_leniently(text: bytes) -> Any:
    """Read JSON with Python's extensions: NaN and infinities (as their names), lone surrogates, long integers."""
    try:
        return storable(json.loads(text.decode("utf-8"), parse_constant=str))
    except UnicodeDecodeError as error:
        raise LineError(f"it is not UTF-8 text: byte {error.start + 1} is invalid") from error
    except json.JSONDecodeError as error:
        raise LineError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from error
    except ValueError as error:
        raise LineError(f"it is not JSON that can be read: {error}") from error
    except RecursionError as error:
        raise LineError("it is nested too deeply") from error


def storable(value: Any) -> Any:
    """Return a value with characters that Postgres can't store replaced by visible ones."""
    return orjson.loads(dump_line("import", value))[2]


def _unreadable(path: str, error: OSError) -> LocalFileError:
    name = "standard input" if path == "-" else path
    return LocalFileError(f"{name}: it can't be read: {error.strerror or error}", path=path)
