"""What is refused on this machine, before a byte leaves it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.errors import InvalidInput, LocalFileError, TooLargeError
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.storage import BUCKETS, StorageManager, uploads
from openmanus_rl.managers.storage.uploads import prepare

MIB = 1024 * 1024


class NoGateway:
    """Stands where a gateway would be; touching it is a failure."""

    @property
    def storage(self) -> Any:
        raise AssertionError("storage was reached")


manager = StorageManager.using(NoGateway())  # type: ignore[arg-type]


def sparse_file(path: Path, size_bytes: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_file_one_byte_over_the_limit_is_refused_unread(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(_file: Any) -> None:
        raise AssertionError("the file was read")

    monkeypatch.setattr(uploads, "fingerprint", unexpected)
    file = sparse_file(tmp_path / "big.bin", BUCKETS[bucket].limit_bytes + 1)
    with pytest.raises(TooLargeError) as caught:
        manager.upload_file(bucket, "a/big.bin", file)
    assert caught.value.details == {
        "size_bytes": BUCKETS[bucket].limit_bytes + 1,
        "limit_bytes": BUCKETS[bucket].limit_bytes,
    }
    assert str(file) in str(caught.value)
    assert bucket in str(caught.value)
    assert caught.value.hint


def test_the_refusal_names_the_file_its_size_the_limit_and_the_way_out(tmp_path: Path) -> None:
    file = sparse_file(tmp_path / "train.log", 12 * MIB)
    with pytest.raises(TooLargeError) as caught:
        manager.upload_log("run", "training", file)
    assert str(caught.value) == (
        f"{file}: 12 MB, but bucket logs takes at most 10 MB; compress it (gzip), or rotate it and upload the parts"
    )


def test_a_file_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    file = sparse_file(tmp_path / "full.log", BUCKETS["logs"].limit_bytes)
    assert prepare("logs", "run/full.log", file).source.size_bytes == BUCKETS["logs"].limit_bytes


def test_a_file_that_grows_over_the_limit_while_it_is_hashed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sparse_file(tmp_path / "growing.log", 5)
    hash_it = uploads.fingerprint

    def grow_and_hash(path: Any) -> Any:
        os.truncate(path, BUCKETS["logs"].limit_bytes + 1)
        return hash_it(path)

    monkeypatch.setattr(uploads, "fingerprint", grow_and_hash)
    with pytest.raises(TooLargeError):
        prepare("logs", "run/growing.log", file)


def test_bytes_over_the_limit_are_refused() -> None:
    with pytest.raises(TooLargeError, match=r"a/b\.txt"):
        manager.upload_bytes("logs", "a/b.txt", bytes(10 * MIB + 1))


def _missing(folder: Path) -> Path:
    return folder / "missing.json"


def _folder(folder: Path) -> Path:
    return folder


def _dangling_link(folder: Path) -> Path:
    link = folder / "link.json"
    link.symlink_to(folder / "nothing")
    return link


def _looping_link(folder: Path) -> Path:
    link = folder / "loop.json"
    link.symlink_to(link)
    return link


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.json")
    return folder / "pipe.json"


def _below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "train.json"


def _unreadable(_folder: Path) -> Path:
    # Unreadable for root too: its first page is mapped by nobody.
    path = Path("/proc/self/mem")
    if not path.exists():
        pytest.skip("needs /proc")
    return path


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_missing, "no such file"),
        (_folder, "is a folder, not a file; pack it first"),
        (_dangling_link, "no such file"),
        (_looping_link, "can't be read"),
        (_pipe, "is not a regular file"),
        (_below_a_file, "can't be read"),
        (_unreadable, "can't be read"),
    ],
)
def test_what_can_not_be_uploaded_is_named_and_never_sent(
    make: Callable[[Path], Path], told: str, tmp_path: Path
) -> None:
    path = make(tmp_path)
    with pytest.raises(LocalFileError, match=told) as caught:
        manager.upload_dataset("alfworld", "train", path)
    assert caught.value.path == str(path)


def test_a_path_with_a_null_byte_is_refused() -> None:
    with pytest.raises(LocalFileError, match="can't be read"):
        manager.upload_file("datasets", "a/b", "a\0b")


@pytest.mark.parametrize("file", [None, 3, b"path", object()])
def test_a_file_that_is_no_path_is_refused(file: Any) -> None:
    with pytest.raises(InvalidInput, match="a file's path is due"):
        manager.upload_dataset("alfworld", "train", file)
    with pytest.raises(InvalidInput, match="a file's path is due"):
        manager.upload_file("datasets", "alfworld/train", file)


@pytest.mark.parametrize(
    "call",
    [
        lambda: manager.upload_file("datasets", "../a", __file__),
        lambda: manager.upload_bytes("datasets", "../a", b""),
        lambda: manager.download_file("datasets", "../a", "x"),
        lambda: manager.download_bytes("datasets", "../a"),
        lambda: manager.get_file("datasets", "../a"),
        lambda: manager.file_exists("datasets", "../a"),
        lambda: manager.create_signed_url("datasets", "../a"),
        lambda: manager.delete_files("datasets", ["a", "../a"]),
    ],
)
def test_no_call_takes_a_path_out_of_the_bucket(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput, match=r"path '\.\./a'"):
        call()


def test_files_and_rows_go_through_the_same_gateway() -> None:
    client: Any = NoGateway()
    siblings = RolloutManager.using(client)._sibling(StorageManager)
    assert issubclass(siblings, StorageManager)
    assert siblings._client() is client
    assert RolloutManager._sibling(StorageManager) is StorageManager
