"""A task's files are packed the same way each time, and no archive gets anything out of its folder."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmanus_rl.errors import InvalidInput, LocalFileError, OpenManusError, TooLargeError
from openmanus_rl.tasks.archives import pack_folder, unpack_archive


def make(folder: Path) -> Path:
    (folder / "tests/deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "task.toml").write_text("[task]\n")
    (folder / "tests/test.sh").write_text("#!/bin/sh\n")
    (folder / "tests/test.sh").chmod(0o700)
    (folder / "tests/deep/größe ☃.txt").write_bytes(bytes(range(256)) * 1000)
    (folder / "tests/deep/up").symlink_to("../../task.toml")
    (folder / ("x" * 200)).write_text("long")
    return folder


def snapshot(folder: Path) -> dict[str, tuple[str, bytes | str]]:
    found: dict[str, tuple[str, bytes | str]] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", "")
        else:
            found[name] = ("program" if os.access(path, os.X_OK) else "file", path.read_bytes())
    return found


def test_what_was_packed_is_unpacked(tmp_path: Path) -> None:
    folder = make(tmp_path / "task")

    packed = pack_folder(folder, tmp_path / "a.tar.gz")
    names = unpack_archive(packed.path, tmp_path / "there/out")

    assert snapshot(tmp_path / "there/out") == snapshot(folder)
    assert names == sorted(snapshot(folder))
    assert packed.size_bytes == packed.path.stat().st_size


def test_equal_folders_give_equal_archives(tmp_path: Path) -> None:
    one, other = make(tmp_path / "one"), make(tmp_path / "other")
    for path in other.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    (other / "tests/test.sh").chmod(0o755)

    first, second = pack_folder(one, tmp_path / "1.tar.gz"), pack_folder(other, tmp_path / "2.tar.gz")

    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256
    (other / "task.toml").write_text("[tasks]")
    assert pack_folder(other, tmp_path / "3.tar.gz").sha256 != first.sha256


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "tests/../../outside", "tests/.."])
def test_links_that_may_leave_the_folder_are_not_packed(tmp_path: Path, target: str) -> None:
    folder = make(tmp_path / "task")
    (folder / "link").symlink_to(target)

    with pytest.raises(InvalidInput):
        pack_folder(folder, tmp_path / "a.tar.gz")


def test_pipes_and_names_that_are_no_text_are_not_packed(tmp_path: Path) -> None:
    folder = make(tmp_path / "task")
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidInput):
        pack_folder(folder, tmp_path / "a.tar.gz")
    (folder / "pipe").unlink()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("x")
    with pytest.raises(InvalidInput):
        pack_folder(folder, tmp_path / "a.tar.gz")


def test_too_large_folders_are_not_packed(tmp_path: Path) -> None:
    folder = make(tmp_path / "task")

    with pytest.raises(TooLargeError):
        pack_folder(folder, tmp_path / "a.tar.gz", max_bytes=1000)
    with pytest.raises(TooLargeError):
        pack_folder(folder, tmp_path / "a.tar.gz", max_files=3)
    with pytest.raises(LocalFileError):
        pack_folder(tmp_path / "nowhere", tmp_path / "a.tar.gz")


Make = Callable[[tarfile.TarFile], None]


def member(name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> Make:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return lambda tar: tar.addfile(info, io.BytesIO(data))


def sized(name: str, size: int) -> Make:
    """Return a header that claims more than there is."""
    info = tarfile.TarInfo(name)
    info.size = size
    return lambda tar: tar.fileobj.write(info.tobuf())  # type: ignore[union-attr]


HOSTILE = {
    "an absolute name": [member("/tmp/owned", b"x")],
    "a name with ..": [member("a/../../owned", b"x")],
    "a link to elsewhere": [member("link", kind=tarfile.SYMTYPE, link="/etc")],
    "a link upwards": [member("link", kind=tarfile.SYMTYPE, link="..")],
    "a file through a link": [member("d", kind=tarfile.SYMTYPE, link="."), member("d/owned", b"x")],
    "links that only together leave": [
        member("here", kind=tarfile.SYMTYPE, link="."),
        member("out", kind=tarfile.SYMTYPE, link="here/.."),
    ],
    "a hard link": [member("hard", kind=tarfile.LNKTYPE, link="/etc/passwd")],
    "a device": [member("null", kind=tarfile.CHRTYPE)],
    "a pipe": [member("pipe", kind=tarfile.FIFOTYPE)],
    "a name twice": [member("a", b"1"), member("a", b"2")],
    "a file that is a folder": [member("a", b"1"), member("a/b", b"2")],
    "a name that is no text": [member("\udcff", b"x")],
    "a size beyond all limits": [sized("a", 10**12)],
    "a header beyond all limits": [sized("././@PaxHeader", 10**9)],
    "a file that breaks off": [sized("a", 500_000)],
    "too many files": [member(str(number)) for number in range(200)],
    "too many bytes": [member("zeros", bytes(3_000_000))],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "in/a.tar.gz"
    archive.parent.mkdir()
    with (
        gzip.open(archive, "wb") as packed,
        tarfile.open(fileobj=packed, mode="w", errors="surrogateescape") as tar,
    ):
        for add in HOSTILE[name]:
            add(tar)

    with pytest.raises(OpenManusError):
        unpack_archive(archive, tmp_path / "out", max_bytes=1_000_000, max_files=100)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_a_small_archive_that_unpacks_to_much_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.tar.gz"
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 10**9
    with gzip.open(bomb, "wb", compresslevel=1) as packed:
        packed.write(info.tobuf())
        packed.write(bytes(50_000_000))

    with pytest.raises(TooLargeError):
        unpack_archive(bomb, tmp_path / "out")


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    packed = pack_folder(make(tmp_path / "task"), tmp_path / "a.tar.gz")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")

    with pytest.raises(LocalFileError):
        unpack_archive(packed.path, tmp_path / "out")
    assert (tmp_path / "out/mine").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=3000), is_packed=st.booleans(), place=st.integers(0, 2000), flip=st.integers(1, 255))
def test_damaged_archives_are_refused_or_unpacked_inside(
    tmp_path: Path, data: bytes, is_packed: bool, place: int, flip: int
) -> None:
    folder = tmp_path / "task"
    if not folder.exists():
        make(folder)
    plain = gzip.decompress(pack_folder(folder, tmp_path / "a.tar.gz").path.read_bytes())
    damaged = bytearray(data if is_packed else plain)
    if damaged:
        damaged[place % len(damaged)] ^= flip
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(bytes(damaged), compresslevel=1) if place % 5 else bytes(damaged))
    out = tmp_path / "in/out"

    try:
        unpack_archive(tmp_path / "b.tar.gz", out)
    except OpenManusError:
        assert not out.exists()
    else:
        assert all(path.resolve().is_relative_to(out.resolve()) for path in out.rglob("*"))
        __import__("shutil").rmtree(out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "b.tar.gz", "in", "task"]
