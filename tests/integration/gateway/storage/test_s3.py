"""Objects in S3: what happens when it is wrong, away, or left in the middle of something."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import psycopg
import pytest
from storage3.exceptions import StorageApiError
from supabase import Client, create_client

from openmanus_rl.local.contents import HOLD_LOCK

from ...s3_server import BUCKET, Relay, S3Server, s3_server
from ..process import Gateway, GatewaySettings, eventually

MEBIBYTE = 1024 * 1024
TEXT = {"content-type": "text/plain"}


@pytest.fixture(scope="module")
def relay(s3: S3Server) -> Iterator[Relay]:
    """A way to the S3 server that can be closed."""
    relay = Relay(s3.port)
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def gateway(s3_settings: GatewaySettings, relay: Relay) -> Iterator[Gateway]:
    """A gateway whose objects are in S3, behind the relay."""
    endpoint = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{relay.port}"}
    with Gateway(replace(s3_settings, object_storage={**s3_settings.object_storage, **endpoint})) as running:
        yield running


@pytest.fixture
def bucket(admin: Client) -> Iterator[str]:
    name = f"s3-{secrets.token_hex(4)}"
    admin.storage.create_bucket(name)
    yield name
    admin.storage.empty_bucket(name)
    admin.storage.delete_bucket(name)


@pytest.fixture
def files(admin: Client, bucket: str) -> Any:
    return admin.storage.from_(bucket)


def ledger(sql: psycopg.Connection) -> list[str]:
    return [row[0] for row in sql.execute("select version from storage.unreferenced_versions").fetchall()]


def refusal_at_start(settings: GatewaySettings, **changes: str) -> str:
    """Start a gateway that must not start, and return what it says."""
    wrong = replace(settings, object_storage={**settings.object_storage, **changes})
    done = subprocess.run(
        [*wrong.command, "serve"], env=wrong.environment, stdin=subprocess.PIPE, capture_output=True, timeout=120
    )
    assert done.returncode == 1
    return done.stderr.decode()


def test_a_missing_bucket_or_an_endpoint_that_is_away_is_told_at_the_start(
    s3_settings: GatewaySettings, sql: psycopg.Connection
) -> None:
    assert sql.execute("select count(*) from storage.objects").fetchone() == (0,)
    said = refusal_at_start(s3_settings, OPENMANUS_RL_STORAGE="s3://nowhere/files")
    assert "bucket nowhere" in said
    assert "does not exist; create it, or name another in OPENMANUS_RL_STORAGE" in said
    closed = Relay(1)
    closed.close()
    said = refusal_at_start(s3_settings, AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{closed.port}")
    assert "cannot be reached" in said
    assert "check AWS_ENDPOINT_URL_S3" in said


def test_wrong_credentials_are_told_at_the_start(s3_settings: GatewaySettings) -> None:
    with s3_server() as strict:
        iam = strict.service("iam")
        iam.create_user(UserName="recorder")
        key = iam.create_access_key(UserName="recorder")["AccessKey"]
        policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:List*","Resource":"*"}]}'
        iam.put_user_policy(UserName="recorder", PolicyName="lists", PolicyDocument=policy)
        httpx.post(f"{strict.url}/moto-api/reset-auth", content=b"0")
        settings = replace(s3_settings, object_storage=strict.settings)
        assert "does not know the key testing; correct AWS_ACCESS_KEY_ID" in refusal_at_start(settings)
        known = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": "wrong"}
        assert "correct AWS_SECRET_ACCESS_KEY" in refusal_at_start(settings, **known)
        known["AWS_SECRET_ACCESS_KEY"] = key["SecretAccessKey"]
        said = refusal_at_start(settings, **known)
        assert "to list, write or delete objects" in said
        assert "s3:PutObject" in said
        assert key["SecretAccessKey"] not in said


def test_a_database_is_not_served_with_another_place_than_its_files_are_in(
    s3_settings: GatewaySettings, files: Any
) -> None:
    files.upload("one.txt", b"here", TEXT)
    said = refusal_at_start(s3_settings, OPENMANUS_RL_STORAGE=f"s3://{BUCKET}/elsewhere")
    assert f"the files of this database are in s3://{BUCKET}/files, not in s3://{BUCKET}/elsewhere" in said
    assert f"set OPENMANUS_RL_STORAGE=s3://{BUCKET}/files" in said
    folder = replace(s3_settings, object_storage={})
    assert "not in a folder of the machine" in refusal_at_start(folder)


def test_a_gateway_whose_place_was_changed_by_another_stores_nothing(
    gateway: Gateway, s3: S3Server, bucket: str, sql: psycopg.Connection
) -> None:
    url, headers = f"{gateway.url}/storage/v1/object/{bucket}/a.txt", {"apikey": gateway.settings.secret_key, **TEXT}
    sql.execute("update storage.content_location set location = 'folder'")
    try:
        refused = httpx.post(url, content=b"x", headers=headers, timeout=60)
        assert (refused.status_code, refused.json()["error"]) == (503, "StoreMoved")
        assert s3.object_keys() == set()
    finally:
        sql.execute("update storage.content_location set location = %s", (f"s3://{BUCKET}/files",))
    assert httpx.post(url, content=b"x", headers=headers, timeout=60).status_code == 200


def test_gateways_on_one_database_and_one_bucket_read_each_others_files(
    gateway: Gateway, s3_settings: GatewaySettings, bucket: str, files: Any
) -> None:
    with Gateway(replace(s3_settings, storage_dir=s3_settings.dashboard_dir)) as other:
        theirs = create_client(other.url, other.settings.secret_key).storage.from_(bucket)
        files.upload("ours.txt", b"ours", TEXT)
        assert theirs.download("ours.txt") == b"ours"
        theirs.upload("ours.txt", b"theirs", {**TEXT, "upsert": "true"})
        theirs.move("ours.txt", "moved.txt")
        assert files.download("moved.txt") == b"theirs"
        signed = files.create_signed_url("moved.txt", 60)["signedURL"].replace(gateway.url, other.url)
        assert httpx.get(signed).content == b"theirs"


def test_every_body_is_sent_with_its_length(relay: Relay, files: Any) -> None:
    relay.seen = b""
    files.upload("one.txt", b"content", TEXT)
    files.upload("large.bin", b"x" * (9 * MEBIBYTE))
    sent = relay.seen.lower()
    assert sent.count(b"\r\ncontent-length: ") >= 4
    # AWS itself refuses a body of unknown length.
    assert b"transfer-encoding" not in sent


def test_while_s3_is_away_the_answer_is_503_and_nothing_is_lost(
    relay: Relay, s3: S3Server, gateway: Gateway, bucket: str, files: Any, sql: psycopg.Connection
) -> None:
    files.upload("before.txt", b"before", TEXT)
    files.upload("gone.txt", b"gone", TEXT)
    headers = {"apikey": gateway.settings.secret_key, **TEXT}
    url = f"{gateway.url}/storage/v1/object/{bucket}"

    def torn() -> Iterator[bytes]:
        for _ in range(9):
            yield b"x" * MEBIBYTE
        eventually(s3.unfinished_uploads)
        relay.close()
        yield b"x" * 9 * MEBIBYTE

    try:
        assert httpx.put(f"{url}/large.bin", content=torn(), headers=headers, timeout=60).status_code == 503
        refused = httpx.put(f"{url}/before.txt", content=b"after", headers=headers, timeout=60)
        assert (refused.status_code, refused.json()["error"]) == (503, "StoreUnavailable")
        assert httpx.get(f"{url}/before.txt", headers=headers, timeout=60).status_code == 503
        assert [row["name"] for row in files.list()] == ["before.txt", "gone.txt"], "lists come from the database"
        assert [row["name"] for row in files.remove(["gone.txt"])] == ["gone.txt"], "what is deleted is removed later"
        assert len(ledger(sql)) >= 2
    finally:
        relay.open()
    assert files.download("before.txt") == b"before"
    assert httpx.put(f"{url}/before.txt", content=b"after", headers=headers, timeout=60).status_code == 200
    assert files.download("before.txt") == b"after"
    sql.execute("update storage.unreferenced_versions set collect_after = now()")
    with Gateway(gateway.settings):
        eventually(lambda: not ledger(sql))
    assert (len(s3.object_keys()), s3.unfinished_uploads()) == (1, [])


def test_what_a_killed_gateway_left_is_removed_and_nothing_else(
    s3: S3Server, s3_settings: GatewaySettings, bucket: str, sql: psycopg.Connection
) -> None:
    with Gateway(s3_settings) as killed:
        headers = {"apikey": killed.settings.secret_key, **TEXT}
        url = f"{killed.url}/storage/v1/object/{bucket}"

        def endless() -> Iterator[bytes]:
            for _ in range(20):
                yield b"x" * MEBIBYTE
            eventually(s3.unfinished_uploads)
            killed.process.kill()
            yield b"x" * MEBIBYTE

        with pytest.raises(httpx.TransportError):
            httpx.put(f"{url}/torn.bin", content=endless(), headers=headers, timeout=60)
    (announced,) = ledger(sql)
    assert s3.unfinished_uploads() == [f"files/{announced}"]
    # Another was killed after S3 had its object, and before the database had its row.
    complete = "00000000-0000-4000-8000-000000000000"
    sql.execute(
        "insert into storage.unreferenced_versions values (%s, false, false, now() + interval '1 hour')", (complete,)
    )
    for key in (f"files/{complete}", "files/11111111-1111-4111-8111-111111111111", "other/file"):
        s3.client.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    with Gateway(s3_settings) as restarted:
        admin = create_client(restarted.url, restarted.settings.secret_key)
        assert admin.storage.from_(bucket).list() == [], "half an object is never seen"
        assert s3.unfinished_uploads(), "what may still be written is left alone"
    sql.execute("update storage.unreferenced_versions set collect_after = now()")
    with Gateway(s3_settings):
        eventually(lambda: not ledger(sql))
    assert s3.unfinished_uploads() == []
    assert s3.object_keys() == {"files/11111111-1111-4111-8111-111111111111", "other/file"}
    for key in s3.object_keys():
        s3.client.delete_object(Bucket=BUCKET, Key=key)


def test_a_version_that_was_swept_is_given_to_no_object(
    gateway: Gateway, bucket: str, files: Any, sql: psycopg.Connection
) -> None:
    def slow() -> Iterator[bytes]:
        yield b"x"
        eventually(lambda: ledger(sql))
        sql.execute("update storage.unreferenced_versions set is_discarded = true")
        yield b"y"

    headers = {"apikey": gateway.settings.secret_key, **TEXT}
    answer = httpx.put(f"{gateway.url}/storage/v1/object/{bucket}/a.txt", content=slow(), headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["error"]) == (503, "UploadAbandoned")
    with pytest.raises(StorageApiError):
        files.download("a.txt")


def test_contents_by_version_take_the_secret_key_only(
    gateway: Gateway, http: httpx.Client, bucket: str, files: Any, sql: psycopg.Connection
) -> None:
    files.upload("one.txt", b"content", TEXT)
    row = sql.execute("select version from storage.objects where bucket_id = %s", (bucket,)).fetchone()
    assert row is not None
    path = f"/gateway/contents/{row[0]}?size=7"
    assert http.get(path).status_code == 401
    assert http.get(path, headers={"apikey": gateway.settings.publishable_key}).status_code == 403
    assert http.put(path, headers={"apikey": gateway.settings.publishable_key}).status_code == 403
    headers = {"apikey": gateway.settings.secret_key}
    assert http.get(path, headers=headers).content == b"content"
    missing = "/gateway/contents/00000000-0000-4000-8000-000000000000?size=7"
    assert http.get(missing, headers=headers).status_code == 404


def test_while_a_backup_holds_the_contents_none_is_removed(s3: S3Server, files: Any, sql: psycopg.Connection) -> None:
    files.upload("one.txt", b"content", TEXT)
    sql.execute("select pg_advisory_lock(%s)", (HOLD_LOCK,))
    files.remove(["one.txt"])
    assert len(s3.object_keys()) == len(ledger(sql)) == 1
    sql.execute("select pg_advisory_unlock(%s)", (HOLD_LOCK,))
