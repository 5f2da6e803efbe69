"""Reads the entries of tasks.json and of JSON lines, with one entry in memory at a time."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from openmanus_rl.errors import LocalFileError
from openmanus_rl.tasks.entries import BadEntry

__all__ = ["MAX_ENTRY_BYTES", "Found", "read_json_file"]

MAX_ENTRY_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_MARK = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"
_LINES = (".jsonl", ".ndjson")

Found = tuple[str, Any | BadEntry]
"""Where an entry is, and the entry or what is wrong with it."""


def read_json_file(path: Path) -> Iterator[Found]:
    """Yield the entries of a file: those of a list, of `{"tasks": […]}`, or one on each line."""
    try:
        with path.open("rb") as file:
            start = file.peek(4096).removeprefix(_MARK).lstrip()[:1]
            is_list = start == b"[" and path.suffix.lower() not in _LINES
            yield from _of_list(_Text(file), list_ends=True) if is_list else _of_lines_or_object(path, file)
    except OSError as error:
        raise LocalFileError(f"{path}: it can't be read: {error.strerror or error}", path=str(path)) from error


def _of_lines_or_object(path: Path, file: BufferedReader) -> Iterator[Found]:
    """Yield the lines, or the tasks of the one object that the file is."""
    if path.suffix.lower() not in _LINES:
        text = _Text(file)
        if text.skip_to_list("tasks"):
            yield from _of_list(text, list_ends=False)
            return
        file.seek(0)
    yield from _of_lines(file)


def _of_lines(file: BufferedReader) -> Iterator[Found]:
    number = 0
    while line := file.readline(MAX_ENTRY_BYTES + 1):
        number += 1
        where = f"line {number}"
        if len(line) > MAX_ENTRY_BYTES:
            while line and not line.endswith(b"\n"):
                line = file.readline(_CHUNK_BYTES)
            yield where, BadEntry(None, f"it is longer than {MAX_ENTRY_BYTES:,} bytes")
            continue
        if number == 1:
            line = line.removeprefix(_MARK)
        if line.strip():
            yield where, _parsed(line)


def _parsed(line: bytes) -> Any | BadEntry:
    try:
        return _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        return BadEntry(None, f"it is not UTF-8 text: byte {error.start + 1} fits nowhere")
    except (ValueError, RecursionError) as error:
        return BadEntry(None, _reason(error))


def _of_list(text: _Text, *, list_ends: bool) -> Iterator[Found]:
    """Yield the elements of a list; after one that is not JSON, nothing more can be read."""
    number = 0
    try:
        text.expect("[")
        if text.take("]"):
            return
        while True:
            number += 1
            yield f"entry {number}", text.value()
            if text.take("]"):
                break
            text.expect(",")
        if list_ends and text.next_character():
            raise BadEntry(None, "there is more text after the list")
    except BadEntry as error:
        yield f"entry {max(number, 1)}", BadEntry(None, f"{error}; nothing after it was read")


class _Text:
    """A file's text, decoded as it is read; what was taken is forgotten."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._buffer = ""
        self._position = 0
        self._is_whole = False

    def next_character(self) -> str:
        """Return the next character that is no space, without taking it; "" at the end."""
        while True:
            while self._position < len(self._buffer) and self._buffer[self._position] in _SPACE:
                self._position += 1
            if self._position < len(self._buffer):
                return self._buffer[self._position]
            if not self._read_more(_CHUNK_BYTES):
                return ""

    def take(self, character: str) -> bool:
        """Take a character if it comes next."""
        if self.next_character() != character:
            return False
        self._position += 1
        return True

    def expect(self, character: str) -> None:
        """Take a character that must come next."""
        if not self.take(character):
            found = self.next_character()
            raise BadEntry(
                None, f"it is not JSON: {character!r} is expected, not {found!r}" if found else "it breaks off"
            )

    def value(self) -> Any:
        """Take a JSON value."""
        self.next_character()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._position)
            except (ValueError, RecursionError) as error:
                # It may only be cut off here. Twice as much each time, so that a long one is not parsed too often.
                if self._size > MAX_ENTRY_BYTES:
                    raise BadEntry(None, f"it is longer than {MAX_ENTRY_BYTES:,} bytes, or not JSON") from None
                if isinstance(error, RecursionError) or not self._read_more(max(_CHUNK_BYTES, self._size)):
                    raise BadEntry(None, _reason(error)) from None
                continue
            # A number at the end of what was read may go on.
            if end < len(self._buffer) or not self._read_more(_CHUNK_BYTES):
                self._position = end
                return value

    def skip_to_list(self, key: str) -> bool:
        """Take an object up to the list under a key; return False if the text is no such object."""
        try:
            self.expect("{")
            while self.next_character() == '"':
                name = self.value()
                self.expect(":")
                if name == key:
                    return self.next_character() == "["
                self.value()
                if not self.take(","):
                    return False
        except BadEntry:
            pass
        return False

    @property
    def _size(self) -> int:
        return len(self._buffer) - self._position

    def _read_more(self, size: int) -> bool:
        """Read on, and return whether there was more."""
        if self._is_whole:
            return False
        data = self._file.read(size)
        self._is_whole = not data
        # A byte that is no UTF-8 becomes half a surrogate pair, which is refused in its entry.
        self._buffer = self._buffer[self._position :] + self._decoder.decode(data, final=self._is_whole)
        self._position = 0
        return bool(data)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON: {error.msg} at character {error.pos + 1}"
    return f"it is not JSON that can be read: {error}"


_DECODER = json.JSONDecoder(parse_constant=_refuse)
