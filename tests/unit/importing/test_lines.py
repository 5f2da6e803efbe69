"""Lines of JSON, as they are found in the world."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from openmanus_rl.errors import LocalFileError
from openmanus_rl.importing.lines import BadLine, Line, LineFile


def read(path: Path, **options: int) -> list[Line | BadLine]:
    with LineFile(str(path), **options) as file:
        return list(file)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "some.jsonl"


def test_a_byte_order_mark_windows_line_ends_and_empty_lines_are_passed_over(written: Path) -> None:
    written.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"a": 2}\r\n{"a": 3}')

    found = read(written)

    assert [(line.number, line.value) for line in found if isinstance(line, Line)] == [
        (1, {"a": 1}),
        (4, {"a": 2}),
        (5, {"a": 3}),
    ]
    assert len(found) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": ', "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b"[1, 2]", "an object is expected, not a list"),
        (b'"text"', "an object is expected, not text"),
        (b"null", "an object is expected, not null"),
        (b'{"a": "\xff"}', "not UTF-8 text: byte 8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not JSON that can be read"),
    ],
)
def test_what_is_no_object_is_named_with_its_line_and_its_neighbours_are_read(
    written: Path, line: bytes, reason: str
) -> None:
    written.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 3}\n')

    first, bad, last = read(written)

    assert isinstance(bad, BadLine)
    assert bad.number == 2
    assert reason in bad.reason
    assert isinstance(first, Line)
    assert isinstance(last, Line)
    assert last.value == {"a": 3}


def test_a_line_that_is_too_long_is_refused_without_the_ones_after_it(written: Path) -> None:
    written.write_bytes(b'{"a": 1}\n' + json.dumps({"a": "x" * 1000}).encode() + b'\n{"a": 3}\n')

    _, long, last = read(written, max_line_bytes=100)

    assert isinstance(long, BadLine)
    assert "longer than 100 bytes" in long.reason
    assert isinstance(last, Line)
    assert (last.number, last.value) == (3, {"a": 3})


def test_what_postgres_can_not_hold_is_replaced_by_what_shows(written: Path) -> None:
    written.write_text(
        '{"nul": "a\\u0000b", "half": "\\ud800", "nan": NaN, "low": -Infinity, "big": 36893488147419103232}\n'
    )

    (line,) = read(written)

    assert isinstance(line, Line)
    assert line.value == {
        "nul": "a\u2400b",
        "half": "\ufffd",
        "nan": "NaN",
        "low": "-Infinity",
        "big": "36893488147419103232",
    }


def test_gzip_is_known_by_its_content_and_the_progress_is_that_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "named-otherwise"
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))

    with LineFile(str(path)) as file:
        found = list(file)
        assert file.read_bytes == path.stat().st_size

    assert [line.number for line in found] == [1, 2]


def test_a_gzip_file_that_breaks_off_gives_what_is_there_and_says_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl.gz"
    whole = gzip.compress(b"".join(json.dumps({"n": n, "text": str(n) * 50}).encode() + b"\n" for n in range(5000)))
    path.write_bytes(whole[: len(whole) // 2])

    *lines, end = read(path)

    assert lines
    assert all(isinstance(line, Line) for line in lines)
    assert isinstance(end, BadLine)
    assert end.number == len(lines) + 1
    assert "gzip" in end.reason


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_file_may_be_one_object_or_a_list_of_them(tmp_path: Path, indent: int | None) -> None:
    one, many = tmp_path / "one.json", tmp_path / "many.json"
    one.write_text(json.dumps({"a": {"b": float("nan")}}, indent=indent))
    many.write_text(json.dumps([{"a": 1}, {"a": 2}, 3], indent=indent))

    (whole,) = read(one)
    first, second, third = read(many)

    assert isinstance(whole, Line)
    assert whole.value == {"a": {"b": "NaN"}}
    assert isinstance(first, Line)
    assert isinstance(second, Line)
    assert (second.number, second.value) == (2, {"a": 2})
    assert third == BadLine(3, "an object is expected, not a number")


def test_a_json_file_may_also_hold_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a":\n')

    assert [type(line).__name__ for line in read(path)] == ["Line", "Line", "BadLine"]


def test_a_file_that_is_not_there_or_is_utf16_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"a": 1}', encoding="utf-16")

    with pytest.raises(LocalFileError, match=r"missing\.jsonl: it can't be read: No such file"):
        LineFile(str(tmp_path / "missing.jsonl"))
    with pytest.raises(LocalFileError, match=r"other\.jsonl: it is UTF-16 text; convert it to UTF-8"):
        LineFile(str(other))
