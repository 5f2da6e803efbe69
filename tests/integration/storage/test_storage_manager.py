"""Files at their places: up, down, listed, shared, deleted."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from openmanus_rl.errors import ConflictError, InvalidInput, NotFoundError, TooLargeError, UnsupportedError
from openmanus_rl.managers.storage import BUCKETS, StorageManager
from openmanus_rl.transport.client import Client

Manager = type[StorageManager]
MakeFile = Callable[..., Path]


def test_every_kind_of_file_goes_to_its_place_and_comes_back(
    manager: Manager, file: MakeFile, run_id: str, tmp_path: Path
) -> None:
    content = os.urandom(100_000)
    weights, table, log, picture = (file(name, content) for name in ("w.pt", "t.tar.gz", "l.log", "p.png"))
    placed = {
        "model-checkpoints": manager.upload_checkpoint(run_id, 7, weights),
        "datasets": manager.upload_dataset(environment=run_id, dataset_name="train_data", dataset_file=table),
        "logs": manager.upload_log(run_id, "training", str(log)),
        "evaluation-results": manager.upload_evaluation_result(run_id, "alfworld", file("r.json", content)),
        "media": manager.upload_media(run_id, "frame_1", picture, rollout_id="rollout"),
    }
    assert placed == {
        "model-checkpoints": f"{run_id}/checkpoint_7.pt",
        "datasets": f"{run_id}/train_data.tar.gz",
        "logs": f"{run_id}/training.log",
        "evaluation-results": f"{run_id}/alfworld_results.json",
        "media": f"{run_id}/rollout/frame_1.png",
    }
    # The archives of tasks are placed by the import of tasks, those of runs by archiving.
    assert placed.keys() == BUCKETS.keys() - {"task-files", "archives"}
    for bucket, path in placed.items():
        target = manager.download_file(bucket, path, tmp_path / "deep" / "down" / bucket)
        assert target.read_bytes() == content


def test_the_results_of_an_environment_with_a_slash_in_its_name_go_to_one_file(
    manager: Manager, file: MakeFile, run_id: str
) -> None:
    path = manager.upload_evaluation_result(run_id, "ALE/Pong-v5", file("r.json", b"{}"))
    assert path == f"{run_id}/ALE=2FPong-v5_results.json"
    assert [entry["path"] for entry in manager.list_files("evaluation-results", run_id)] == [path]
    assert manager.download_bytes("evaluation-results", path) == b"{}"
    with httpx.Client(trust_env=False) as anyone:
        assert anyone.get(manager.create_signed_url("evaluation-results", path)).content == b"{}"


def test_the_checksum_and_ones_own_metadata_are_kept(manager: Manager, file: MakeFile, run_id: str) -> None:
    path = manager.upload_checkpoint(run_id, 1, file("a.pt", b"weights"), metadata={"epoch": 3, "note": "größer"})
    found = manager.get_file("model-checkpoints", path)
    assert found["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert found["size_bytes"] == 7
    assert found["metadata"] == {"epoch": 3, "note": "größer", "sha256": found["sha256"]}
    assert (found["name"], found["path"]) == ("checkpoint_1.pt", path)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_limits_and_types_are_those_of_the_server(client: Client, bucket: str) -> None:
    on_server = client.storage.bucket(bucket)
    assert on_server.file_size_limit_bytes == BUCKETS[bucket].limit_bytes
    taken = on_server.allowed_mime_types
    assert BUCKETS[bucket].content_types == (None if taken is None else frozenset(taken))
    assert not on_server.public


@pytest.mark.parametrize("bucket", BUCKETS)
def test_every_sensible_kind_of_file_is_accepted(manager: Manager, bucket: str, run_id: str) -> None:
    extensions = ("json", "jsonl", "ndjson", "csv", "tsv", "parquet", "zip", "gz", "txt", "log", "pt", "png", "")
    for extension in extensions:
        path = manager.upload_bytes(bucket, f"{run_id}/file.{extension}".rstrip("."), extension.encode())
        assert manager.download_bytes(bucket, path) == extension.encode()


def test_a_type_that_the_server_refuses_is_an_error_of_ours(client: Client, run_id: str) -> None:
    with pytest.raises(UnsupportedError):
        client.storage.upload_bytes("datasets", f"{run_id}/a.png", b"", content_type="image/png")


def test_a_bucket_that_is_not_there_is_named_with_the_way_out(manager: Manager, file: MakeFile) -> None:
    for call in (
        lambda: manager.upload_file("no-such-bucket", "a.txt", file("a.txt")),
        lambda: manager.upload_bytes("no-such-bucket", "a.txt", b""),
    ):
        with pytest.raises(NotFoundError, match="there is no bucket no-such-bucket; make it first"):
            call()


def test_a_projects_own_lower_limit_is_named(manager: Manager, transport: Any, file: MakeFile, run_id: str) -> None:
    body = {
        "statusCode": "413",
        "error": "Payload too large",
        "message": "The object exceeded the maximum allowed size",
    }
    transport.failures = [lambda request, _: httpx.Response(400, json=body, request=request)]
    with pytest.raises(TooLargeError, match="raise the project's own limit"):
        manager.upload_checkpoint(run_id, 1, file("a.pt"))


def test_an_upload_replaces_what_is_there(manager: Manager, file: MakeFile, run_id: str) -> None:
    path = manager.upload_log(run_id, "training", file("a.log", b"first"))
    assert manager.upload_log(run_id, "training", file("a.log", b"second, longer")) == path
    assert manager.download_bytes("logs", path) == b"second, longer"
    assert len(manager.list_files("logs", run_id)) == 1


def test_an_upload_that_must_not_overwrite_conflicts_and_changes_nothing(
    manager: Manager, file: MakeFile, run_id: str
) -> None:
    path = manager.upload_log(run_id, "training", file("a.log", b"first"), overwrite=False)
    with pytest.raises(ConflictError, match="training"):
        manager.upload_log(run_id, "training", file("a.log", b"second"), overwrite=False)
    assert manager.download_bytes("logs", path) == b"first"


def test_an_empty_file_is_a_file(manager: Manager, file: MakeFile, run_id: str, tmp_path: Path) -> None:
    path = manager.upload_log(run_id, "training", file("a.log", b""))
    assert manager.download_file("logs", path, tmp_path / "back.log").read_bytes() == b""
    assert manager.get_file("logs", path)["size_bytes"] == 0


def test_unusual_names_survive_the_journey(manager: Manager, run_id: str) -> None:
    names = ["a b.txt", "it's (final).txt", "50+50=100, really?.txt", "a&b;c:d@e$f!g*.txt", "..dots.."]
    for name in names:
        manager.upload_bytes("media", f"{run_id}/{name}", name.encode())
    assert {entry["name"] for entry in manager.list_files("media", run_id)} == set(names)
    for name in names:
        assert manager.download_bytes("media", f"{run_id}/{name}") == name.encode()


def test_a_file_over_the_limit_is_refused_before_any_request(
    manager: Manager, transport: Any, run_id: str, tmp_path: Path
) -> None:
    large = tmp_path / "large.log"
    with large.open("wb") as opened:
        opened.truncate(BUCKETS["logs"].limit_bytes + 1)
    with pytest.raises(TooLargeError):
        manager.upload_log(run_id, "training", large)
    assert transport.requests == []


def test_a_file_of_exactly_the_limit_is_stored(manager: Manager, run_id: str, tmp_path: Path) -> None:
    full = tmp_path / "full.log"
    with full.open("wb") as opened:
        opened.truncate(BUCKETS["logs"].limit_bytes)
    path = manager.upload_log(run_id, "training", full)
    assert manager.get_file("logs", path)["size_bytes"] == BUCKETS["logs"].limit_bytes


def test_names_that_leave_their_folder_are_refused_before_any_request(
    manager: Manager, transport: Any, file: MakeFile, run_id: str
) -> None:
    source = file("a.json")
    for name in ("..", "../other", "/etc/passwd", "a/../b", "a//b", "a\\b", "", " a", "a\0", "%2e%2e"):
        with pytest.raises(InvalidInput):
            manager.upload_dataset(name, "train", source)
        with pytest.raises(InvalidInput):
            manager.upload_evaluation_result(run_id, name, source)
        with pytest.raises(InvalidInput):
            manager.upload_log(run_id, name, source)
    assert transport.requests == []


def test_progress_is_told_up_to_the_whole(manager: Manager, file: MakeFile, run_id: str, tmp_path: Path) -> None:
    size_bytes = 2_500_000
    up: list[tuple[int, int]] = []
    down: list[tuple[int, int]] = []
    path = manager.upload_checkpoint(
        run_id, 1, file("a.pt", bytes(size_bytes)), on_progress=lambda *moved: up.append(moved)
    )
    manager.download_file(
        "model-checkpoints", path, tmp_path / "back.pt", on_progress=lambda *moved: down.append(moved)
    )
    for calls in (up, down):
        assert len(calls) > 1
        assert calls == sorted(calls)
        assert calls[-1] == (size_bytes, size_bytes)


def test_a_download_into_a_folder_keeps_the_files_name(manager: Manager, run_id: str, tmp_path: Path) -> None:
    manager.upload_bytes("media", f"{run_id}/frames/one.png", b"png")
    assert manager.download_file("media", f"{run_id}/frames/one.png", tmp_path) == tmp_path / "one.png"
    assert (tmp_path / "one.png").read_bytes() == b"png"


def test_what_is_not_there_is_not_found_and_leaves_no_file(manager: Manager, run_id: str, tmp_path: Path) -> None:
    for call in (
        lambda: manager.download_file("logs", f"{run_id}/no.log", tmp_path / "no.log"),
        lambda: manager.download_bytes("logs", f"{run_id}/no.log"),
        lambda: manager.get_file("logs", f"{run_id}/no.log"),
        lambda: manager.create_signed_url("logs", f"{run_id}/no.log"),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert not manager.file_exists("logs", f"{run_id}/no.log")
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_more_than_a_hundred_is_paged_without_loss(manager: Manager, run_id: str) -> None:
    names = [f"frame_{number:03d}.txt" for number in range(105)]
    for name in names:
        manager.upload_bytes("media", f"{run_id}/{name}", name.encode())
    manager.upload_bytes("media", f"{run_id}/deeper/and/deeper.txt", b"")

    first = manager.list_files("media", run_id)
    assert (len(first), first.next_offset) == (100, 100)
    second = manager.list_files("media", run_id, offset=100)
    assert second.next_offset is None
    listed = [*first, *second]
    assert [entry["name"] for entry in listed if not entry["is_folder"]] == names
    assert [entry["path"] for entry in listed if entry["is_folder"]] == [f"{run_id}/deeper"]
    assert listed[-1]["size_bytes"] == len("frame_000.txt")
    assert listed[-1]["path"] == f"{run_id}/frame_104.txt"

    found = manager.list_files("media", run_id, search="frame_10", descending=True, limit=3)
    assert [entry["name"] for entry in found] == ["frame_104.txt", "frame_103.txt", "frame_102.txt"]
    everything = {entry["path"] for entry in manager.walk_files("media", run_id)}
    assert everything == {f"{run_id}/{name}" for name in (*names, "deeper/and/deeper.txt")}


def test_deleted_files_are_gone_and_the_others_stay(manager: Manager, run_id: str) -> None:
    one, two, three = (manager.upload_bytes("logs", f"{run_id}/{name}.log", b"x") for name in ("one", "two", "three"))
    assert sorted(manager.delete_files("logs", [one, two, f"{run_id}/never.log"])) == sorted([one, two])
    assert [entry["path"] for entry in manager.list_files("logs", run_id)] == [three]
    # One path given as text is one path, not its letters.
    assert manager.delete_files("logs", three) == [three]
    assert manager.delete_files("logs", []) == []


def test_a_signed_url_reads_without_a_key_until_it_expires(manager: Manager, run_id: str) -> None:
    path = manager.upload_bytes("media", f"{run_id}/a b.txt", b"shared")
    url = manager.create_signed_url("media", path)
    with httpx.Client(trust_env=False) as anyone:
        answer = anyone.get(url)
        assert (answer.status_code, answer.content) == (200, b"shared")
        named = anyone.get(manager.create_signed_url("media", path, download_name="frame.txt"))
        assert "frame.txt" in named.headers["content-disposition"]

        short = manager.create_signed_url("media", path, expires_in_seconds=1)
        deadline = time.monotonic() + 20
        while (expired := anyone.get(short)).is_success:
            assert time.monotonic() < deadline, "the URL does not expire"
            time.sleep(0.2)
        assert 400 <= expired.status_code < 500
        assert b"shared" not in expired.content
        assert anyone.get(url).is_success


def test_a_signed_url_opens_nothing_else(manager: Manager, run_id: str) -> None:
    manager.upload_bytes("media", f"{run_id}/secret.txt", b"secret")
    url = manager.create_signed_url("media", manager.upload_bytes("media", f"{run_id}/shared.txt", b"shared"))
    with httpx.Client(trust_env=False) as anyone:
        assert not anyone.get(url.replace("shared.txt", "secret.txt")).is_success
        assert not anyone.get(url.partition("?")[0]).is_success


def test_a_stranger_reads_and_writes_nothing(client: Client, manager: Manager, run_id: str) -> None:
    path = manager.upload_bytes("logs", f"{run_id}/a.log", b"mine")
    stranger = StorageManager.using(client.as_anonymous())
    assert not stranger.file_exists("logs", path)
    assert len(stranger.list_files("logs", run_id)) == 0
    assert stranger.delete_files("logs", [path]) == []
    assert manager.download_bytes("logs", path) == b"mine"
