"""Who may do what with files: every actor, in every bucket, through the storage API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from .actors import ACTORS, MAY_CHANGE, MAY_READ, OTHER, OWNER, PUBLISHABLE, SECRET, World, populated
from .writing import new_id

BUCKETS = ["datasets", "model-checkpoints", "logs", "evaluation-results", "media", "task-files", "archives"]
# What hangs on no run. The folder of a task is its owner's; files may come before their task.
WITHOUT_A_RUN = ("datasets", "task-files")
VERBS = ["upload", "read", "overwrite", "list", "move", "delete"]
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture(scope="module")
def world(stack: Any) -> Iterator[World]:
    with populated(
        stack.url, stack.database_url, publishable_key=stack.publishable_key, secret_key=stack.secret_key
    ) as world:
        yield world


def is_allowed(actor: str, bucket: str, verb: str, visibility: str) -> bool:
    """Say what the architecture says of a file in the folder of the owner's run, or the owner's among the datasets."""
    if verb in ("read", "list"):
        return actor in MAY_READ or (actor == PUBLISHABLE and visibility == "public" and bucket not in WITHOUT_A_RUN)
    if bucket == "archives":
        return actor == SECRET  # They hold what is no longer in the database.
    if verb == "upload" and bucket == "datasets" and actor == OTHER:
        return True  # Datasets are nobody's folder: each owns what it uploads.
    return actor in MAY_CHANGE


def folder_of(world: World, bucket: str, visibility: str) -> str:
    if bucket == "datasets":
        return "alfworld"
    kind = {"evaluation-results": "model_checkpoints", "task-files": "tasks"}.get(bucket, "training_runs")
    return str(world.records[visibility][kind]["id"])


def content(world: World, bucket: str, path: str) -> str | None:
    """Return what lies at a path, as the secret key sees it; None when nothing does."""
    answer = world.call(SECRET, "GET", f"/storage/v1/object/{bucket}/{path}")
    return answer.text if answer.status_code == 200 else None


def was_done(world: World, actor: str, bucket: str, verb: str, folder: str) -> tuple[bool, str]:
    """Try something through the API; say whether it happened, and what the answer was."""
    path = f"{folder}/{new_id()}.txt"
    url = f"/storage/v1/object/{bucket}/{path}"
    if verb != "upload":
        owner = SECRET if bucket == "archives" else OWNER
        placed = world.call(owner, "POST", url, content="the owner's", headers=TEXT)
        assert placed.status_code == 200, placed.text
    if verb == "upload":
        answer = world.call(actor, "POST", url, content="new", headers=TEXT)
        happened = content(world, bucket, path) == "new"
    elif verb == "read":
        answer = world.call(actor, "GET", url)
        happened = answer.text == "the owner's"
    elif verb == "overwrite":
        answer = world.call(actor, "PUT", url, content="changed", headers=TEXT | {"x-upsert": "true"})
        happened = content(world, bucket, path) == "changed"
    elif verb == "list":
        answer = world.call(actor, "POST", f"/storage/v1/object/list/{bucket}", json={"prefix": folder, "limit": 1000})
        happened = path.split("/")[1] in answer.text
    elif verb == "move":
        moved = f"{folder}/{new_id()}.txt"
        names = {"bucketId": bucket, "sourceKey": path, "destinationKey": moved}
        answer = world.call(actor, "POST", "/storage/v1/object/move", json=names)
        happened = content(world, bucket, moved) is not None
        world.call(SECRET, "DELETE", f"/storage/v1/object/{bucket}/{moved}")
    else:
        answer = world.call(actor, "DELETE", url)
        happened = content(world, bucket, path) is None
    world.call(SECRET, "DELETE", url)
    return happened, answer.text


def test_every_bucket_has_an_expectation(world: World) -> None:
    assert [
        found["id"] for found in world.db.execute("select id from storage.buckets where not public order by id")
    ] == sorted(BUCKETS)


@pytest.mark.parametrize("verb", VERBS)
def test_everybody_can_do_to_files_what_they_may_and_no_more(world: World, verb: str) -> None:
    wrong = []
    for bucket, visibility, actor in product(BUCKETS, ("private", "public"), ACTORS):
        if bucket in WITHOUT_A_RUN and visibility == "public":
            continue
        expected = is_allowed(actor, bucket, verb, visibility)
        happened, answer = was_done(world, actor, bucket, verb, folder_of(world, bucket, visibility))
        if happened != expected:
            place = "" if bucket in WITHOUT_A_RUN else f" of a {visibility} run"
            wrong.append(
                f"{actor}: {verb} in {bucket}{place}: {'' if happened else 'not '}possible; the API said {answer[:200]}"
            )
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("bucket", [bucket for bucket in BUCKETS if bucket != "archives"])
def test_a_file_cannot_be_moved_or_copied_into_anothers_folder(world: World, bucket: str) -> None:
    mine, target = f"{new_id()[:8]}-mine/a.txt", f"{folder_of(world, bucket, 'private')}/{new_id()}.txt"
    placed = world.call(OTHER, "POST", f"/storage/v1/object/{bucket}/{mine}", content="mine", headers=TEXT)
    assert placed.status_code == 200, placed.text
    names = {"bucketId": bucket, "sourceKey": mine, "destinationKey": target}
    for operation in ("copy", "move"):
        world.call(OTHER, "POST", f"/storage/v1/object/{operation}", json=names)
        # Among the datasets there are no folders to own.
        assert (content(world, bucket, target) is None) == (bucket != "datasets"), operation
        world.call(SECRET, "DELETE", f"/storage/v1/object/{bucket}/{target}")


@pytest.mark.parametrize("bucket", [bucket for bucket in BUCKETS if bucket not in WITHOUT_A_RUN])
def test_the_folder_of_what_does_not_exist_is_nobodys(world: World, bucket: str) -> None:
    path = f"{new_id()}/a.txt"
    world.call(OTHER, "POST", f"/storage/v1/object/{bucket}/{path}", content="squatted", headers=TEXT)
    assert content(world, bucket, path) is None


def test_a_bucket_of_ones_own_is_not_to_be_had(world: World) -> None:
    for actor in ACTORS[1:]:
        answer = world.call(
            actor, "POST", "/storage/v1/bucket", json={"id": f"mine-{new_id()}", "name": "mine", "public": True}
        )
        assert answer.status_code >= 400, actor
        answer = world.call(
            actor, "PUT", "/storage/v1/bucket/datasets", json={"id": "datasets", "name": "datasets", "public": True}
        )
        assert world.db.execute("select public from storage.buckets where id = 'datasets'").fetchone() == {
            "public": False
        }, actor
