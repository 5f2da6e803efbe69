"""The file of a backup says when it is not whole, or not for this version."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from openmanus_rl.errors import StackError
from openmanus_rl.local import archive, restore
from openmanus_rl.local.archive import DATABASE, FORMAT, FORMAT_VERSION, HEADER, MANIFEST


def write(path: Path, *, dump: bytes = b"dump", header: dict[str, object] | None = None) -> dict[str, object]:
    with archive.new_archive(path, moved=lambda _: None) as writer:
        writer.add_json(HEADER, header or {"format": FORMAT, "format_version": FORMAT_VERSION})
        writer.add_stream(DATABASE, io.BytesIO(dump))
        manifest = {"migration": "1", "version": "1.0", "members": dict(writer.members)}
        writer.add_json(MANIFEST, manifest)
    return manifest


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 3 * 2**20 + 7])
def test_a_stream_of_any_length_is_a_member_like_any_other(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.backup"
    dump = bytes(n % 251 for n in range(size))
    manifest = write(path, dump=dump)
    assert archive.check_archive(path) == manifest
    with tarfile.open(path) as tar:
        content = tar.extractfile(DATABASE)
        assert content is not None
        assert content.read() == dump


def test_every_flipped_bit_of_the_content_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.backup"
    write(path, dump=b"d" * 700)
    whole = path.read_bytes()
    start = whole.index(b"d" * 700)
    for position in range(start, start + 700, 97):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        with pytest.raises(StackError, match="damaged"):
            archive.check_archive(path)


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.backup"
    with pytest.raises(FileNotFoundError), archive.new_archive(path, moved=lambda _: None) as writer:
        writer.add_file(DATABASE, tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_a_form_of_a_later_version_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.backup"
    write(path, header={"format": FORMAT, "format_version": 2, "version": "9.0"})
    with pytest.raises(StackError, match=r"9\.0.*pip install --upgrade"):
        archive.check_archive(path)


def test_a_database_of_a_later_version_is_not_restored(tmp_path: Path) -> None:
    manifest = {"migration": "99990101000000", "version": "9.0"}
    with pytest.raises(StackError, match=r"9\.0.*newer.*pip install --upgrade"):
        restore.require_readable(tmp_path / "x.backup", manifest)
