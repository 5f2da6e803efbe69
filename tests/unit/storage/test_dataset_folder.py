"""What of a folder is a dataset, and what happens to the rest when one file fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.errors import AuthError, ConnectionFailed, InvalidInput, LocalFileError, NotFoundError, ServerError
from openmanus_rl.managers.storage.dataset_folder import scan_datasets, upload_datasets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("alfworld/train.json", "alfworld/test.json", "webshop/train.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


class FailingStorage:
    """A storage whose uploads fail with what it is given, path by path."""

    def __init__(self, **failures: Exception) -> None:
        self.failures = failures
        self.tried: list[str] = []

    def info(self, _bucket: str, path: str) -> None:
        raise NotFoundError(f"no {path}")

    def upload(self, _bucket: str, path: str, *_: Any, **__: Any) -> None:
        self.tried.append(path)
        name = path.rpartition("/")[2].partition(".")[0]
        if name in self.failures:
            raise self.failures[name]


def test_the_files_of_every_environment_are_found_in_order(folder: Path) -> None:
    found = [(file.environment, file.file.name, file.size_bytes) for file in scan_datasets(folder).files]
    assert found == [("alfworld", "test.json", 18), ("alfworld", "train.json", 19), ("webshop", "train.csv", 17)]


def test_only_the_environments_asked_for_are_found(folder: Path) -> None:
    assert {file.environment for file in scan_datasets(folder, environments=["webshop"]).files} == {"webshop"}


def test_a_folder_stands_for_an_environment_with_a_slash_in_its_name(folder: Path) -> None:
    (folder / "ALE=2FPong-v5").mkdir()
    (folder / "ALE=2FPong-v5" / "train.json").touch()
    found = scan_datasets(folder, environments=["ALE/Pong-v5"])
    assert [file.environment for file in found.files] == ["ALE/Pong-v5"]
    outcomes = upload_datasets(FailingStorage(), found.files)  # type: ignore[arg-type]
    assert [outcome.path for outcome in outcomes] == ["ALE=2FPong-v5/train.json"]


def test_an_environment_that_is_not_there_is_named_with_those_that_are(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no folder for environment chess; the folders there: alfworld, webshop"):
        scan_datasets(folder, environments=["alfworld", "chess"])


def test_hidden_and_nested_and_stray_files_are_skipped_and_told(folder: Path) -> None:
    (folder / "README.md").touch()
    (folder / ".git").mkdir()
    (folder / "alfworld" / ".DS_Store").touch()
    (folder / "alfworld" / "raw").mkdir()
    found = scan_datasets(folder)
    assert len(found.files) == 3
    assert {(skipped.file.relative_to(folder).as_posix(), skipped.reason) for skipped in found.skipped} == {
        (".git", "hidden"),
        ("README.md", "a file outside an environment's folder"),
        ("alfworld/.DS_Store", "hidden"),
        ("alfworld/raw", "a folder within one"),
    }


@pytest.mark.parametrize(("name", "told"), [("missing", "no such folder"), ("file", "is not a folder")])
def test_a_folder_that_is_none_is_an_error(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalFileError, match=told):
        scan_datasets(tmp_path / name)


def test_an_empty_folder_holds_no_datasets(tmp_path: Path) -> None:
    assert scan_datasets(tmp_path).files == ()


def test_a_file_that_fails_stops_no_other(folder: Path) -> None:
    storage = FailingStorage(test=ServerError("the server is not well"))
    outcomes = list(upload_datasets(storage, scan_datasets(folder).files))  # type: ignore[arg-type]
    assert [outcome.status for outcome in outcomes] == ["failed", "uploaded", "uploaded"]
    assert outcomes[0].reason == "the server is not well"


@pytest.mark.parametrize("error", [AuthError("wrong key"), ConnectionFailed("nobody there")])
def test_a_server_that_takes_nothing_is_not_asked_again_for_each_file(folder: Path, error: Exception) -> None:
    storage = FailingStorage(test=error)
    outcomes = list(upload_datasets(storage, scan_datasets(folder).files))  # type: ignore[arg-type]
    assert [outcome.status for outcome in outcomes] == ["failed"] * 3
    assert [outcome.reason for outcome in outcomes] == [str(error)] + [f"not tried: {error}"] * 2
    assert storage.tried == ["alfworld/test.json"]


def test_a_dry_run_uploads_nothing(folder: Path) -> None:
    storage = FailingStorage()
    outcomes = list(upload_datasets(storage, scan_datasets(folder).files, dry_run=True))  # type: ignore[arg-type]
    assert [outcome.status for outcome in outcomes] == ["would upload"] * 3
    assert storage.tried == []


def test_a_file_keeps_its_name_whatever_its_extension(tmp_path: Path) -> None:
    (tmp_path / "alfworld").mkdir()
    names = ["a.tar.gz", "b.v1.2", "c", "d.JSONL"]
    for name in names:
        (tmp_path / "alfworld" / name).touch()
    outcomes = upload_datasets(FailingStorage(), scan_datasets(tmp_path).files)  # type: ignore[arg-type]
    assert [outcome.path for outcome in outcomes] == [f"alfworld/{name}" for name in names]
