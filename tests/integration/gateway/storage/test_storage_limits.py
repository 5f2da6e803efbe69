"""What Storage refuses, and that large objects cost no memory."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from storage3.exceptions import StorageApiError
from supabase import Client

from ..process import Gateway, eventually
from .conftest import Stored

MEBIBYTE = 1024 * 1024
TEXT = {"content-type": "text/plain"}


@pytest.fixture
def bucket(admin: Client) -> Iterator[str]:
    name = f"limits-{secrets.token_hex(4)}"
    types = ["text/plain", "image/*"]
    admin.storage.create_bucket(name, options={"file_size_limit": 1000, "allowed_mime_types": types})
    yield name
    admin.storage.empty_bucket(name)
    admin.storage.delete_bucket(name)


def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(StorageApiError) as caught:
        call()
    return str(caught.value.status), caught.value.code


@pytest.mark.parametrize("size", [1001, 70_000, 20 * MEBIBYTE])
def test_a_file_over_the_limit_is_413_and_leaves_nothing(stored: Stored, admin: Client, bucket: str, size: int) -> None:
    files = admin.storage.from_(bucket)
    files.upload("fits.txt", b"x" * 1000, TEXT)
    before = stored.contents()
    assert refusal(lambda: files.upload("big.txt", b"x" * size, TEXT)) == ("413", "Payload too large")
    assert not files.exists("big.txt")
    assert (stored.contents(), stored.unfinished()) == (before, [])


def test_a_stream_of_unknown_length_is_cut_off_at_the_limit(gateway: Gateway, http: httpx.Client, bucket: str) -> None:
    headers = {"apikey": gateway.settings.secret_key, "content-type": "text/plain"}
    chunks = (b"x" * 100_000 for _ in range(100))
    answer = http.post(f"/storage/v1/object/{bucket}/big.txt", content=chunks, headers=headers)
    assert answer.json()["statusCode"] == "413"


def test_a_media_type_the_bucket_does_not_take_is_415(admin: Client, bucket: str) -> None:
    files = admin.storage.from_(bucket)
    assert refusal(lambda: files.upload("a.json", b"{}", {"content-type": "application/json"}))[0] == "415"
    files.upload("a.png", b"png", {"content-type": "image/png"})
    files.upload("a.txt", b"txt", {"content-type": "text/plain; charset=utf-8"})


@pytest.mark.parametrize("key", ["..%2F..%2Fetc", "a%2F..%2F..%2Fb", "a%2F%2Fb", "%2Fetc", ".", "a%00b", "a%5Cb%0A"])
def test_a_name_that_leaves_its_folder_is_refused(gateway: Gateway, http: httpx.Client, bucket: str, key: str) -> None:
    headers = {"apikey": gateway.settings.secret_key, **TEXT}
    for path in (f"/storage/v1/object/{bucket}/{key}", f"/storage/v1/object/{bucket}/folder%2F{key}"):
        answer = http.post(path, content=b"x", headers=headers)
        assert answer.status_code in (400, 404, 405), answer.text
    body = {"bucketId": bucket, "sourceKey": "a", "destinationKey": "../../b"}
    assert http.post("/storage/v1/object/move", json=body, headers=headers).json()["error"] == "InvalidKey"
    assert not list(gateway.settings.storage_dir.parent.rglob("etc"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cacheControl", "1\nX-Own: 1"),
        ("cacheControl", "час"),
        ("contentType", "text/plain\r\nX-Own: 1"),
        ("metadata", '{"a": "\\u0000"}'),
        ("metadata", '{"\\ud800": 1}'),
    ],
)
def test_what_could_not_be_told_with_an_object_is_refused(
    gateway: Gateway, http: httpx.Client, bucket: str, field: str, value: str
) -> None:
    headers, path = {"apikey": gateway.settings.secret_key}, f"/storage/v1/object/{bucket}/odd.txt"
    answer = http.post(path, data={field: value}, files={"": ("odd.txt", b"x", "text/plain")}, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidRequest")
    encoded = base64.b64encode(value.encode()).decode()
    if field == "metadata":
        answer = http.post(path, content=b"x", headers={**headers, **TEXT, "x-metadata": encoded})
        assert (answer.status_code, answer.json()["error"]) == (400, "InvalidRequest")
    assert http.get(path, headers=headers).json()["error"] == "not_found"
    assert http.get(f"{path}%00", headers=headers).json()["error"] == "InvalidRequest"


def test_names_that_hosted_storage_refuses_are_refused(admin: Client, bucket: str) -> None:
    assert refusal(lambda: admin.storage.from_(bucket).upload("日本.txt", b"x", TEXT)) == ("400", "InvalidKey")
    assert refusal(lambda: admin.storage.create_bucket("a/b"))[0] == "400"


def test_objects_obey_the_policies_of_the_caller(
    admin: Client, anon: Client, member: Client, bucket: str, sql: psycopg.Connection
) -> None:
    user = member.auth.get_user()
    assert user is not None
    folder = user.user.id
    sql.execute(
        """
        create policy "members read and write their folder" on storage.objects for all to authenticated
          using ((storage.foldername(name))[1] = (select auth.uid())::text)
          with check ((storage.foldername(name))[1] = (select auth.uid())::text);
        create policy "anyone reads what is shown" on storage.objects for select to anon
          using ((storage.foldername(name))[1] = 'shown');
        """
    )
    try:
        admin.storage.from_(bucket).upload("secret/one.txt", b"secret", TEXT)
        admin.storage.from_(bucket).upload("shown/two.txt", b"shown", TEXT)
        own = member.storage.from_(bucket)
        own.upload(f"{folder}/mine.txt", b"mine", TEXT)
        own.upload(f"{folder}/mine.txt", b"changed", {**TEXT, "upsert": "true"})
        assert own.download(f"{folder}/mine.txt") == b"changed"
        assert [row["name"] for row in own.list()] == [folder]
        assert refusal(lambda: own.upload("secret/mine.txt", b"x", TEXT)) == ("403", "Unauthorized")
        assert refusal(lambda: own.update("secret/one.txt", b"x", TEXT)) == ("403", "Unauthorized")
        assert refusal(lambda: own.download("secret/one.txt"))[0] == "404"
        assert refusal(lambda: own.create_signed_url("secret/one.txt", 60))[0] == "404"
        assert refusal(lambda: own.create_signed_upload_url("secret/x.txt"))[0] == "403"
        assert refusal(lambda: own.move(f"{folder}/mine.txt", "secret/mine.txt"))[0] == "403"
        assert refusal(lambda: own.copy("secret/one.txt", f"{folder}/stolen.txt"))[0] == "404"
        assert own.remove(["secret/one.txt"]) == []
        assert admin.storage.from_(bucket).exists("secret/one.txt")
        owner = sql.execute("select owner_id from storage.objects where name = %s", (f"{folder}/mine.txt",)).fetchone()
        assert owner == (folder,)
        public = anon.storage.from_(bucket)
        assert public.download("shown/two.txt") == b"shown"
        assert refusal(lambda: public.download("secret/one.txt"))[0] == "404"
        assert refusal(lambda: public.upload("shown/x.txt", b"x", TEXT)) == ("403", "Unauthorized")
        assert public.remove(["shown/two.txt"]) == []
        assert refusal(lambda: public.update("shown/two.txt", b"x", TEXT)) == ("403", "Unauthorized")
        assert refusal(lambda: anon.storage.create_bucket("mine"))[0] == "403"
        assert anon.storage.list_buckets() == []
    finally:
        sql.execute(
            'drop policy "members read and write their folder" on storage.objects;'
            'drop policy "anyone reads what is shown" on storage.objects'
        )


def test_three_hundred_megabytes_up_and_down_do_not_grow_the_gateway(
    gateway: Gateway, http: httpx.Client, admin: Client, tmp_path: Path
) -> None:
    name = f"large-{secrets.token_hex(4)}"
    admin.storage.create_bucket(name, options={"file_size_limit": 400 * MEBIBYTE})
    source = tmp_path / "large.bin"
    block, digest = secrets.token_bytes(MEBIBYTE), hashlib.md5()
    with source.open("wb") as file:
        for number in range(300):
            chunk = number.to_bytes(4, "big") + block[4:]
            file.write(chunk)
            digest.update(chunk)
    before = gateway.memory_bytes()
    peak_file = Path(f"/proc/{gateway.process.pid}/clear_refs")
    peak_file.write_text("5")  # start counting the peak afresh
    files = admin.storage.from_(name)
    files.upload("large.bin", source, {"content-type": "application/octet-stream"})
    assert files.info("large.bin")["etag"] == f'"{digest.hexdigest()}"'
    received = hashlib.md5()
    headers = {"apikey": gateway.settings.secret_key}
    with http.stream("GET", f"/storage/v1/object/{name}/large.bin", headers=headers) as answer:
        for part in answer.iter_bytes():
            received.update(part)
    assert received.hexdigest() == digest.hexdigest()
    assert gateway.peak_memory_bytes() - before < 150 * MEBIBYTE
    source.unlink()
    admin.storage.empty_bucket(name)
    admin.storage.delete_bucket(name)


def test_an_interrupted_upload_leaves_no_object_and_no_file(
    gateway: Gateway, stored: Stored, admin: Client, bucket: str
) -> None:
    before = stored.contents()

    def torn() -> Iterator[bytes]:
        yield b"x" * 500
        raise RuntimeError("the client went away")

    url = f"{gateway.url}/storage/v1/object/{bucket}/torn.txt"
    headers = {"apikey": gateway.settings.secret_key, "content-type": "text/plain"}
    with pytest.raises(RuntimeError, match="went away"):
        httpx.post(url, content=torn(), headers=headers)
    admin.storage.from_(bucket).upload("after.txt", b"x", TEXT)
    assert not admin.storage.from_(bucket).exists("torn.txt")
    eventually(lambda: not stored.unfinished())
    admin.storage.from_(bucket).remove(["after.txt"])
    assert stored.contents() == before
