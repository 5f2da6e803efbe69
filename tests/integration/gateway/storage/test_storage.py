"""Storage through supabase-py: the whole life of buckets and objects."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from storage3.exceptions import StorageApiError
from supabase import Client

from ..process import Gateway
from .conftest import Stored

MEBIBYTE = 1024 * 1024
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


def test_an_object_is_uploaded_downloaded_described_and_removed(stored: Stored, files: Any) -> None:
    before = stored.contents()
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
    assert stored.contents() == before, "nothing is left on disk"


def test_a_taken_name_is_refused_unless_overwriting_was_asked_for(stored: Stored, files: Any) -> None:
    files.upload("one.txt", b"first", TEXT)
    assert refusal(lambda: files.upload("one.txt", b"second", TEXT)) == ("409", "Duplicate")
    assert files.download("one.txt") == b"first"
    before = len(stored.contents())
    files.upload("one.txt", b"third", {**TEXT, "upsert": "true"})
    assert files.download("one.txt") == b"third"
    files.update("one.txt", b"fourth", TEXT)
    assert files.download("one.txt") == b"fourth"
    assert len(stored.contents()) == before, "replaced contents are removed"


def test_overwriting_at_once_leaves_one_whole_version(
    gateway: Gateway, stored: Stored, bucket: str, files: Any
) -> None:
    before = stored.contents()
    contents = [f"version {n} ".encode() * 1000 for n in range(24)]
    url = f"{gateway.url}/storage/v1/object/{bucket}/same.txt"
    headers = {"apikey": gateway.settings.secret_key, **TEXT}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda content: httpx.put(url, content=content, headers=headers, timeout=30), contents))
    assert {answer.status_code for answer in answers} == {200}
    assert files.download("same.txt") in contents
    assert len(stored.contents() - before) == 1


def test_readers_see_a_whole_version_while_it_is_replaced(gateway: Gateway, bucket: str, files: Any) -> None:
    contents = [bytes([65 + n]) * 50_000 for n in range(20)]
    url, headers = f"{gateway.url}/storage/v1/object/{bucket}/same.txt", {"apikey": gateway.settings.secret_key}
    files.upload("same.txt", contents[0], TEXT)

    def read(_: int) -> httpx.Response:
        return httpx.get(url, headers=headers, timeout=30)

    with ThreadPoolExecutor(5) as pool:
        reads = [pool.submit(read, n) for n in range(60)]
        for content in contents:
            httpx.put(url, content=content, headers={**headers, **TEXT}, timeout=30)
        answers = [answer.result() for answer in reads]
    assert {answer.status_code for answer in answers} == {200}
    assert all(answer.content in contents for answer in answers)


@pytest.mark.parametrize("size", [8 * MEBIBYTE - 1, 8 * MEBIBYTE, 8 * MEBIBYTE + 1, 20 * MEBIBYTE])
def test_large_objects_of_unknown_length_are_stored_whole_and_read_in_part(
    gateway: Gateway, http: httpx.Client, bucket: str, files: Any, size: int
) -> None:
    content = secrets.token_bytes(MEBIBYTE) * (size // MEBIBYTE + 1)
    content = content[:size]
    path, headers = f"/storage/v1/object/{bucket}/large.bin", {"apikey": gateway.settings.secret_key}
    blocks = (content[at : at + 700_001] for at in range(0, size, 700_001))
    sent = {**headers, "content-type": "application/octet-stream"}
    assert http.post(path, content=blocks, headers=sent).status_code == 200
    assert files.info("large.bin")["etag"] == f'"{hashlib.md5(content).hexdigest()}"'
    assert files.info("large.bin")["size"] == size
    assert http.get(path, headers=headers).content == content
    start = 8 * MEBIBYTE - 5
    part = http.get(path, headers={**headers, "Range": f"bytes={start}-{start + 9}"})
    assert (part.status_code, part.content) == (206, content[start : start + 10])
    files.copy("large.bin", "copy.bin")
    files.remove(["large.bin"])
    assert files.download("copy.bin") == content


def test_empty_and_binary_files_survive(files: Any) -> None:
    binary = bytes(range(256)) * 300 + b"\r\n--boundary\r\n\r\n--"
    for name, content in (("empty.bin", b""), ("binary.bin", binary), ("crlf.bin", b"\r\n" * 70_000)):
        files.upload(name, content)
        assert files.download(name) == content


def test_a_listing_sorts_folders_among_objects_by_name_and_before_them_by_date(files: Any) -> None:
    for name in ("b.txt", "A.txt", "z/one.txt", "c/d/deep.txt", "c/two.txt"):
        files.upload(name, name.encode(), TEXT)
    assert [(row["name"], row["id"] is None) for row in files.list()] == [
        ("A.txt", False),
        ("b.txt", False),
        ("c", True),
        ("z", True),
    ]
    by_date = {"sortBy": {"column": "created_at", "order": "desc"}}
    assert [row["name"] for row in files.list("", by_date)] == ["z", "c", "A.txt", "b.txt"]
    assert [row["name"] for row in files.list("c")] == ["d", "two.txt"]
    assert [row["metadata"]["size"] for row in files.list("c/d")] == [len("c/d/deep.txt")]
    descending = {"limit": 2, "offset": 1, "sortBy": {"column": "name", "order": "desc"}}
    assert [row["name"] for row in files.list("", descending)] == ["c", "b.txt"]
    assert [row["name"] for row in files.list("", {"search": "a"})] == ["A.txt"]
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
    assert [(item.key, item.name) for item in delimited.folders] == [("b", "b/"), ("d", "d/")]
    assert [item.name for item in delimited.objects] == ["a.txt", "c.txt"]


SORTED_KEYS = ["x/Z.txt", "x/a.txt", "x/b/one.txt", "x/b/two.txt", "x/b.txt", "x/c.txt", "y.txt"]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("column", ["name", "created_at", "updated_at"])
@pytest.mark.parametrize("with_delimiter", [True, False])
def test_pages_by_cursor_are_sorted_as_asked_and_complete(
    gateway: Gateway, http: httpx.Client, bucket: str, files: Any, column: str, order: str, with_delimiter: bool
) -> None:
    uploaded = [SORTED_KEYS[n] for n in (4, 0, 6, 2, 5, 1, 3)]
    for key in uploaded:
        files.upload(key, b"x", TEXT)
    files.update("x/b.txt", b"y", TEXT)  # the first to be created is the last to be changed
    below = [key for key in uploaded if key.startswith("x/")]
    if with_delimiter:
        below = [key for n, key in enumerate(below) if key.count("/") == 1 or "/b/" not in "".join(below[:n])]
        below = ["x/b/" if "/b/" in key else key for key in below]
    if column == "updated_at":
        below.sort(key=lambda key: key == "x/b.txt")
    elif column == "name":
        below.sort(key=lambda key: key.removesuffix("/"))
    expected = below if order == "asc" else below[::-1]

    body: dict[str, Any] = {"prefix": "x/", "limit": 2, "with_delimiter": with_delimiter}
    body["sortBy"] = {"column": column, "order": order}
    folders, objects, pages = [], [], 0
    while True:
        headers = {"apikey": gateway.settings.secret_key}
        page = http.post(f"/storage/v1/object/list-v2/{bucket}", json=body, headers=headers).json()
        folders += page["folders"]
        objects += page["objects"]
        pages += 1
        assert len(page["folders"]) + len(page["objects"]) <= 2
        if not page["hasNext"]:
            assert "nextCursor" not in page
            break
        body["cursor"] = page["nextCursor"]
    assert pages == -(-len(expected) // 2)
    assert [row["name"] for row in folders] == [key for key in expected if key.endswith("/")]
    assert [row["name"] for row in objects] == [key for key in expected if not key.endswith("/")]
    assert [row["key"] for row in folders] == ["b"] * len(folders)
    assert {"key" in row for row in objects} == {with_delimiter}


def test_a_cursor_or_an_order_that_cannot_be_is_refused(gateway: Gateway, http: httpx.Client, bucket: str) -> None:
    headers = {"apikey": gateway.settings.secret_key}
    for body in ({"cursor": "!"}, {"cursor": "e30="}, {"sortBy": {"column": "id"}}, {"limit": 0}, {"limit": "many"}):
        answer = http.post(f"/storage/v1/object/list-v2/{bucket}", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidRequest"), body


def test_dates_are_written_to_the_millisecond_in_utc(
    gateway: Gateway, http: httpx.Client, bucket: str, files: Any
) -> None:
    files.upload("one.txt", b"x", TEXT)
    listed, info = files.list()[0], files.info("one.txt")
    removed = files.remove(["one.txt"])[0]
    dates = [listed["created_at"], listed["updated_at"], info["created_at"], info["last_modified"]]
    dates += [removed["created_at"], removed["updated_at"]]
    answer = http.get(f"/storage/v1/bucket/{bucket}", headers={"apikey": gateway.settings.secret_key})
    dates += [answer.json()["created_at"], answer.json()["updated_at"]]
    for date in dates:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", date), dates


def test_an_object_without_metadata_of_its_user_has_an_empty_object_of_it(files: Any) -> None:
    files.upload("one.txt", b"x", TEXT)
    assert files.info("one.txt")["metadata"] == {}


def test_what_storage_does_not_serve_is_told_as_json(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key}
    unknown = http.get("/storage/v1/nowhere/at?all=1", headers=headers)
    assert (unknown.status_code, unknown.json()) == (
        404,
        {
            "statusCode": "404",
            "code": "InvalidRequest",
            "error": "Not Found",
            "message": "Route GET:/nowhere/at?all=1 not found",
        },
    )
    image = http.get("/storage/v1/render/image/public/a/b.png", headers=headers)
    assert (image.status_code, image.json()["code"]) == (403, "FeatureNotEnabled")


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
    disposition = httpx.get(named).headers["content-disposition"]
    assert disposition == "attachment; filename=name.txt; filename*=UTF-8''name.txt"
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
    for known, status in ((whole.headers["etag"], 206), (whole.headers["last-modified"], 206), ('"another"', 200)):
        answer = http.get(path, headers={**headers, "Range": "bytes=2-4", "If-Range": known})
        assert answer.status_code == status, "a part of another version would be mixed with this one"
    head = http.head(path, headers=headers)
    assert (head.status_code, head.headers["content-length"]) == (200, "10")
    assert head.headers["etag"] == whole.headers["etag"]


def test_a_public_bucket_is_read_without_a_key_and_a_private_one_is_not(admin: Client, bucket: str, files: Any) -> None:
    files.upload("one.txt", b"content", TEXT)
    url = files.get_public_url("one.txt")
    assert httpx.get(url).status_code == 400
    direct = url.replace("/object/public/", "/object/")
    private = httpx.get(direct)
    assert (private.status_code, private.json()["code"]) == (400, "NoSuchBucket")
    admin.storage.update_bucket(bucket, {"public": True})
    assert httpx.get(url).content == httpx.get(direct).content == b"content"
