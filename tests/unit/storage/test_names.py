"""Where files lie, and which names are refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from openmanus_rl.errors import InvalidInput
from openmanus_rl.managers.storage import names

RUN = "0192f0a0-7c1e-7aaa-8bbb-0123456789ab"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (names.dataset_path("alfworld", "train_data", "train.json"), "alfworld/train_data.json"),
        (names.checkpoint_path(RUN, 1, "checkpoint.pt"), f"{RUN}/checkpoint_1.pt"),
        (names.checkpoint_path(RUN, 0, "weights"), f"{RUN}/checkpoint_0"),
        (names.log_path(RUN, "training", "today.log"), f"{RUN}/training.log"),
        (names.evaluation_result_path(RUN, "alfworld", "r.parquet"), f"{RUN}/alfworld_results.parquet"),
        (names.dataset_path("ALE/Pong-v5", "train", "a.json"), "ALE=2FPong-v5/train.json"),
        (names.evaluation_result_path(RUN, "ALE/Pong-v5", "r.json"), f"{RUN}/ALE=2FPong-v5_results.json"),
        (names.evaluation_result_path(RUN, "a=1;b:2", "r.json"), f"{RUN}/a=1;b:2_results.json"),
        (names.media_path(RUN, "step_1", "x.png"), f"{RUN}/step_1.png"),
        (names.media_path(RUN, "video", "x.mp4", rollout_id="r1"), f"{RUN}/r1/video.mp4"),
    ],
)
def test_paths_are_those_of_the_contract(made: str, expected: str) -> None:
    assert made == expected


@pytest.mark.parametrize("given", [UUID(RUN), RUN.upper(), RUN])
def test_an_id_is_written_as_the_access_policies_read_it(given: Any) -> None:
    assert names.log_path(given, "training", "a.log") == f"{RUN}/training.log"


@pytest.mark.parametrize(
    ("file_name", "extension"),
    [
        ("checkpoint.pt", ".pt"),
        ("policy.tar.gz", ".tar.gz"),
        ("train.jsonl.gz", ".jsonl.gz"),
        ("v1.2.jsonl.zst", ".jsonl.zst"),
        ("policy.v3.safetensors", ".safetensors"),
        ("epoch-3.gz", ".gz"),
        ("policy-0.95.gz", ".gz"),
        ("policy-0.95", ""),
        ("training.log.1", ""),
        ("video.MP4", ".MP4"),
        ("archive.7z", ".7z"),
        ("weights", ""),
        (".hidden", ""),
        ("ends with a dot.", ""),
        ("notes.final version", ""),
        ("naïve.jsön", ""),
    ],
)
def test_the_extension_is_kept(file_name: str, extension: str) -> None:
    assert names.extension_of(file_name) == extension


ENVIRONMENTS = [
    "alfworld", "CartPole-v1", "ALE/Pong-v5", "a/b/c", "a=b", "=", "a=/b", "a=3D", "a=2F", "a=2Fb/c", "a=3D2F",
    "a=3D/2F", "a==2F", "a=3D3D2F", "a=3Db", "a=2f",
]  # fmt: skip


def test_an_environments_name_comes_back_from_its_path() -> None:
    written = [names.environment_in_path(name) for name in ENVIRONMENTS]
    assert not any("/" in name for name in written)
    assert len(set(written)) == len(ENVIRONMENTS)
    assert [names.environment_of_path(name) for name in written] == ENVIRONMENTS


@pytest.mark.parametrize("folder", ["alfworld", "a=b", "a=3D", "a=3Db", "a=2Fb", "a=3D2Fb", "a==2Fb", "a=2f"])
def test_a_folders_name_stays_its_own_by_way_of_the_environment(folder: str) -> None:
    assert names.environment_in_path(names.environment_of_path(folder)) == folder


def test_an_environment_whose_name_gets_too_long_in_a_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match="longer than 255 characters"):
        names.environment_in_path("a/" * 120 + "b")


BAD_NAMES = {
    "empty": "",
    "parent": "..",
    "here": ".",
    "parent in front": "../other",
    "parent within": "a/../../b",
    "absolute": "/etc/passwd",
    "ends with a slash": "a/",
    "empty within": "a//b",
    "backslash": "a\\b",
    "null": "a\0b",
    "newline": "a\nb",
    "delete": "a\x7fb",
    "leading space": " a",
    "trailing space": "a ",
    "only a space": " ",
    "outside ASCII": "größe",
    "percent": "%2e%2e",
    "hash": "a#b",
    "quote": 'a"b',
    "tilde": "~",
    "too long": "a" * 256,
    "number": 7,
    "nothing": None,
    "bytes": b"a",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
@pytest.mark.parametrize(
    "make",
    [
        lambda name: names.dataset_path(name, "train", "a.json"),
        lambda name: names.dataset_path("alfworld", name, "a.json"),
        lambda name: names.checkpoint_path(name, 1, "a.pt"),
        lambda name: names.log_path(name, "training", "a.log"),
        lambda name: names.log_path(RUN, name, "a.log"),
        lambda name: names.evaluation_result_path(name, "alfworld", "a.json"),
        lambda name: names.evaluation_result_path(RUN, name, "a.json"),
        lambda name: names.media_path(name, "frame", "a.png"),
        lambda name: names.media_path(RUN, name, "a.png"),
    ],
    ids=["environment", "dataset", "run", "log run", "log", "checkpoint", "evaluated", "media run", "media"],
)
def test_a_name_that_is_not_one_safe_name_is_refused(make: Any, name: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        make(name)
    assert caught.value.field
    assert caught.value.hint


@pytest.mark.parametrize(
    "make",
    [
        lambda name: names.dataset_path("alfworld", name, "a.json"),
        lambda name: names.log_path(name, "training", "a.log"),
        lambda name: names.evaluation_result_path(name, "alfworld", "a.json"),
        lambda name: names.media_path(RUN, name, "a.png"),
    ],
)
def test_only_an_environments_name_may_hold_a_slash(make: Any) -> None:
    with pytest.raises(InvalidInput, match="'a/b' holds a /"):
        make("a/b")


def test_a_refused_name_is_named_with_its_field() -> None:
    with pytest.raises(InvalidInput, match=r"environment '\.\.' leads to another folder") as caught:
        names.dataset_path("..", "train", "a.json")
    assert caught.value.field == "environment"


@pytest.mark.parametrize(
    "path", ["", "/", "a//b", "/a", "a/", "../a", "a/../b", "a/./b", "a\\..\\b", "a/ b", "a /b", "a\tb", "ä", None, 3]
)
def test_a_path_that_leaves_its_folder_or_that_storage_refuses_is_refused(path: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        names.check_path(path)
    assert caught.value.field == "path"


@pytest.mark.parametrize("path", ["a", "a/b/c.json", "run 1/it's (final).txt", "...", "a..b", "CartPole-v1/x=1;y,z"])
def test_an_unusual_but_safe_path_is_taken(path: str) -> None:
    assert names.check_path(path) == path


@pytest.mark.parametrize("number", [-1, True, 1.0, "1", None])
def test_a_checkpoint_number_is_a_whole_number_from_zero(number: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        names.checkpoint_path(RUN, number, "a.pt")
    assert caught.value.field == "checkpoint_number"


def test_a_number_of_another_library_is_taken() -> None:
    class Number:
        def __index__(self) -> int:
            return 12

    assert names.checkpoint_path(RUN, Number(), "a.pt") == f"{RUN}/checkpoint_12.pt"
