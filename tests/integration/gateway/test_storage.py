"""Storage through supabase-py: the whole life of buckets and objects."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from storage3.exceptions import StorageApiError
from supabase import Client

from .process import Gateway

TEXT = {"content-type": "text/plain"}


@pytest.fixture
def bucket(admin: Client) -> Iterator[str]:
    name = f"bucket-{secrets.token_hex(4)}"
    admin.storage.create_bucket(name)
    yield name
    admin.storage.empty_bucket(name)
    admin.storage.delete_bucket(name)


@pytest.fixture
def files(admin: Client, bucket: str) -> Any:
    return admin.storage.from_(bucket)


def stored_files(gateway: Gateway) -> set[Path]:
    return {path for path in gateway.settings.storage_dir.rglob("*") if path.is_file()}


def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(StorageApiError) as caught:
        call()
    return str(caught.value.status), caught.value.code


def test_buckets_are_created_listed_changed_and_deleted(admin: Client) -> None:
    name = f"bucket-{secrets.token_hex(4)}"
    admin.storage.create_bucket(name, options={"file_size_limit": 1000, "allowed_mime_types": ["text/*"]})
    assert refusal(lambda: admin.storage.create_bucket(name)) == ("409", "Duplicate")
    found = admin.storage.get_bucket(name)
    assert (found.public, found.file_size_limit, found.allowed_mime_types) == (False, 1000, ["text/*"])
    assert name in [bucket.name for bucket in admin.storage.list_buckets()]
    admin.storage.update_bucket(name, {"public": True, "file_size_limit": 2000})
    changed = admin.storage.get_bucket(name)
    assert (changed.public, changed.file_size_limit, changed.allowed_mime_types) == (True, 2000, ["text/*"])
    admin.storage.from_(name).upload("a.txt", b"x", TEXT)
    assert refusal(lambda: admin.storage.delete_bucket(name))[0] == "409"
    admin.storage.empty_bucket(name)
    admin.storage.delete_bucket(name)
    assert refusal(lambda: admin.storage.get_bucket(name)) == ("404", "Bucket not found")


def test_an_object_is_uploaded_downloaded_described_and_removed(gateway: Gateway, files: Any) -> None:
    before = stored_files(gateway)
    options = {**TEXT, "cache-control": "60", "metadata": {"run": "7"}}
    assert files.upload("a/b/one.txt", b"hello", options).path == "a/b/one.txt"
    assert files.download("a/b/one.txt") == b"hello"
    info = files.info("a/b/one.txt")
    assert (info["size"], info["content_type"], info["cache_control"]) == (5, "text/plain", "max-age=60")
    assert info["etag"] == f'"{hashlib.md5(b"hello").hexdigest()}"'
    assert info["metadata"] == {"run": "7"}
    assert files.exists("a/b/one.txt")
    assert [row["name"] for row in files.remove(["a/b/one.txt", "none"])] == ["a/b/one.txt"]
    assert not files.exists("a/b/one.txt")
    assert refusal(lambda: files.download("a/b/one.txt")) == ("404", "not_found")
    assert stored_files(gateway) == before, "nothing is left on disk"


def test_a_taken_name_is_refused_unless_overwriting_was_asked_for(gateway: Gateway, files: Any) -> None:
    files.upload("one.txt", b"first", TEXT)
    assert refusal(lambda: files.upload("one.txt", b"second", TEXT)) == ("409", "Duplicate")
    assert files.download("one.txt") == b"first"
    before = len(stored_files(gateway))
    files.upload("one.txt", b"third", {**TEXT, "upsert": "true"})
    assert files.download("one.txt") == b"third"
    files.update("one.txt", b"fourth", TEXT)
    assert files.download("one.txt") == b"fourth"
    assert len(stored_files(gateway)) == before, "replaced contents are removed"


def test_overwriting_at_once_leaves_one_whole_version(gateway: Gateway, bucket: str, files: Any) -> None:
    before = stored_files(gateway)
    contents = [f"version {n} ".encode() * 1000 for n in range(24)]
    url = f"{gateway.url}/storage/v1/object/{bucket}/same.txt"
    headers = {"apikey": gateway.settings.secret_key, **TEXT}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda content: httpx.put(url, content=content, headers=headers, timeout=30), contents))
    assert {answer.status_code for answer in answers} == {200}
    assert files.download("same.txt") in contents
    assert len(stored_files(gateway) - before) == 1


def test_empty_and_binary_files_survive(files: Any) -> None:
    binary = bytes(range(256)) * 300 + b"\r\n--boundary\r\n\r\n--"
    for name, content in (("empty.bin", b""), ("binary.bin", binary), ("crlf.bin", b"\r\n" * 70_000)):
        files.upload(name, content)
        assert files.download(name) == content


def test_a_listing_shows_folders_first_and_pages(files: Any) -> None:
    for name in ("b.txt", "a.txt", "z/one.txt", "c/d/deep.txt", "c/two.txt"):
        files.upload(name, name.encode(), TEXT)
    assert [(row["name"], row["id"] is None) for row in files.list()] == [
        ("c", True),
        ("z", True),
        ("a.txt", False),
        ("b.txt", False),
    ]
    assert [row["name"] for row in files.list("c")] == ["d", "two.txt"]
    assert [row["metadata"]["size"] for row in files.list("c/d")] == [len("c/d/deep.txt")]
    descending = {"limit": 2, "offset": 1, "sortBy": {"column": "name", "order": "desc"}}
    assert [row["name"] for row in files.list("", descending)] == ["c", "b.txt"]
    assert [row["name"] for row in files.list("", {"search": "a"})] == ["a.txt"]
    assert files.list("nowhere") == []


def test_a_listing_by_cursor_visits_every_key_once(files: Any) -> None:
    names = sorted(["a.txt", "b/one.txt", "b/two.txt", "c.txt", "d/x.txt"])
    for name in names:
        files.upload(name, b"x", TEXT)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = files.list_v2({"limit": 2, **cursor})
        seen += [item.name for item in page.objects]
        if not page.hasNext:
            break
        cursor = {"cursor": page.nextCursor}
    assert seen == names
    delimited = files.list_v2({"with_delimiter": True})
    assert [item.name for item in delimited.folders] == ["b/", "d/"]
    assert [item.name for item in delimited.objects] == ["a.txt", "c.txt"]


def test_moving_and_copying_keep_the_content(files: Any) -> None:
    files.upload("one.txt", b"content", {**TEXT, "cache-control": "60"})
    files.copy("one.txt", "copy/two.txt")
    files.move("one.txt", "moved/three.txt")
    assert refusal(lambda: files.download("one.txt"))[0] == "404"
    assert files.download("copy/two.txt") == files.download("moved/three.txt") == b"content"
    assert files.info("copy/two.txt")["content_type"] == "text/plain"
    assert refusal(lambda: files.move("copy/two.txt", "moved/three.txt")) == ("409", "Duplicate")
    assert refusal(lambda: files.copy("copy/two.txt", "moved/three.txt")) == ("409", "Duplicate")
    assert refusal(lambda: files.copy("none", "five.txt")) == ("404", "not_found")
    files.remove(["moved/three.txt"])
    assert files.download("copy/two.txt") == b"content", "a copy does not depend on its original"


def test_a_signed_url_needs_no_key_and_opens_one_object(bucket: str, files: Any) -> None:
    files.upload("dir/one two.txt", b"content", TEXT)
    files.upload("dir/other.txt", b"other", TEXT)
    url = files.create_signed_url("dir/one two.txt", 60)["signedURL"]
    answer = httpx.get(url)
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"content", "text/plain")
    token = httpx.URL(url).params["token"]
    other = url.split("/object/")[0] + f"/object/sign/{bucket}/dir/other.txt"
    assert httpx.get(other, params={"token": token}).status_code == 400
    assert httpx.get(other).status_code == 400
    named = files.create_signed_url("dir/one two.txt", 60, {"download": "name.txt"})["signedURL"]
    assert 'filename="name.txt"' in httpx.get(named).headers["content-disposition"]
    many = files.create_signed_urls(["dir/other.txt", "none"], 60)
    assert httpx.get(many[0]["signedURL"]).content == b"other"
    assert many[1]["signedURL"] is None
    assert many[1]["error"]
    assert refusal(lambda: files.create_signed_url("none", 60)) == ("404", "not_found")


def test_an_expired_or_forged_signed_url_is_refused(
    gateway: Gateway, http: httpx.Client, bucket: str, files: Any
) -> None:
    files.upload("one.txt", b"content", TEXT)
    path = f"/storage/v1/object/sign/{bucket}/one.txt"
    # A token of a user, signed with the project's own secret, is not a URL's token.
    forged = gateway.settings.jwt(url=f"{bucket}/one.txt", purpose="download", role="service_role")
    assert http.get(path, params={"token": forged}).json()["error"] == "InvalidJWT"
    url = files.create_signed_url("one.txt", 1)["signedURL"]
    time.sleep(2.1)
    answer = httpx.get(url)
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidJWT")
    assert refusal(lambda: files.create_signed_url("one.txt", 0))[0] == "400"


def test_a_signed_upload_url_stores_one_object_once(files: Any) -> None:
    signed = files.create_signed_upload_url("up/one.txt")
    files.upload_to_signed_url("up/one.txt", signed["token"], b"content", TEXT)
    assert files.download("up/one.txt") == b"content"
    again = lambda: files.upload_to_signed_url("up/one.txt", signed["token"], b"again", TEXT)  # noqa: E731
    assert refusal(again) == ("409", "Duplicate")
    elsewhere = lambda: files.upload_to_signed_url("up/two.txt", signed["token"], b"x", TEXT)  # noqa: E731
    assert refusal(elsewhere) == ("400", "InvalidJWT")
    assert refusal(lambda: files.create_signed_upload_url("up/one.txt")) == ("409", "Duplicate")


def test_parts_and_unchanged_objects_are_answered_as_such(
    gateway: Gateway, http: httpx.Client, bucket: str, files: Any
) -> None:
    files.upload("one.txt", b"0123456789", TEXT)
    path, headers = f"/storage/v1/object/{bucket}/one.txt", {"apikey": gateway.settings.secret_key}
    for wanted, content, content_range in (
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
        ("bytes=5-99", b"56789", "bytes 5-9/10"),
    ):
        part = http.get(path, headers={**headers, "Range": wanted})
        assert (part.status_code, part.content, part.headers["content-range"]) == (206, content, content_range)
    beyond = http.get(path, headers={**headers, "Range": "bytes=10-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")
    whole = http.get(path, headers=headers)
    assert (whole.headers["content-length"], whole.headers["accept-ranges"]) == ("10", "bytes")
    assert http.get(path, headers={**headers, "If-None-Match": whole.headers["etag"]}).status_code == 304
    head = http.head(path, headers=headers)
    assert (head.status_code, head.headers["content-length"]) == (200, "10")
    assert head.headers["etag"] == whole.headers["etag"]


def test_a_public_bucket_is_read_without_a_key_and_a_private_one_is_not(admin: Client, bucket: str, files: Any) -> None:
    files.upload("one.txt", b"content", TEXT)
    url = files.get_public_url("one.txt")
    assert httpx.get(url).status_code == 400
    admin.storage.update_bucket(bucket, {"public": True})
    assert httpx.get(url).content == b"content"
