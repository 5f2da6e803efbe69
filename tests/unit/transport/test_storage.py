"""Storage: streamed both ways, whole or not at all, and honest about every failure."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_httpx import HTTPXMock

from openmanus_rl.errors import (
    BadResponse,
    ChecksumMismatch,
    ConflictError,
    ForbiddenError,
    InvalidInput,
    LocalFileError,
    NotFoundError,
    TooLargeError,
    UnsupportedError,
)
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.objects import check_object_path
from openmanus_rl.transport.retry import RetryPolicy
from openmanus_rl.transport.transfer import fingerprint

from .conftest import KEY, URL

CONTENT = b"observation\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OBJECT_URL = f"{URL}/storage/v1/object/datasets/alfworld/train.json"
INFO_URL = f"{URL}/storage/v1/object/info/datasets/alfworld/train.json"
STORED = {"Key": "datasets/alfworld/train.json", "Id": "1"}


def info(**changes: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "name": "alfworld/train.json",
        "bucket_id": "datasets",
        "size": len(CONTENT),
        "content_type": "application/json",
        "etag": '"e"',
        "metadata": {"sha256": SHA256, "source": "test"},
        "last_modified": "2026-01-02T00:00:00Z",
        **changes,
    }


def refusal(status: str, error: str, message: str) -> dict[str, str]:
    return {"statusCode": status, "error": error, "message": message}


def serve_downloads(httpx_mock: HTTPXMock, *contents: bytes) -> None:
    """Answer each download with the next content, and what is recorded about the file always the same."""
    for content in contents:
        httpx_mock.add_response(url=INFO_URL, json=info())
        httpx_mock.add_response(url=OBJECT_URL, content=content)


@pytest.fixture
def local_file(tmp_path: Path) -> Path:
    path = tmp_path / "train.json"
    path.write_bytes(CONTENT)
    return path


def upload(client: Client, path: Path, **options: Any) -> Any:
    return client.storage.upload("datasets", "alfworld/train.json", path, **options)


def test_an_upload_states_its_size_type_and_checksum(client: Client, httpx_mock: HTTPXMock, local_file: Path) -> None:
    httpx_mock.add_response(json=STORED)
    seen: list[tuple[int, int]] = []

    stored = upload(
        client,
        local_file,
        content_type="application/json",
        upsert=True,
        metadata={"source": "tést"},
        on_progress=lambda done, total: seen.append((done, total)),
    )

    request = httpx_mock.get_requests()[0]
    assert str(request.url) == OBJECT_URL
    assert request.headers["content-length"] == str(len(CONTENT))
    assert "transfer-encoding" not in request.headers
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-upsert"] == "true"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(base64.b64decode(request.headers["x-metadata"])) == {"sha256": SHA256, "source": "tést"}
    assert stored.sha256 == SHA256
    assert stored.size_bytes == len(CONTENT)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


class Receiver(BaseHTTPRequestHandler):
    """A server that drops the first connection halfway and keeps what the second sends."""

    bodies: list[bytes]
    drop_first: bool

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        server: Any = self.server
        if not server.bodies and server.drop_first:
            server.bodies.append(self.rfile.read(length // 2))
            self.close_connection = True
            self.connection.close()
            return
        server.bodies.append(self.rfile.read(length))
        if len(server.bodies[-1]) < length:
            self.close_connection = True
            return
        body = json.dumps(STORED).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.bodies, server.drop_first = [], True
    # Then closing it waits until every request has been dealt with.
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_connection_that_breaks_during_an_upload_is_begun_anew(
    receiver: Any, retry: RetryPolicy, tmp_path: Path
) -> None:
    big = tmp_path / "big.bin"
    big.write_bytes(os.urandom(5_000_000))
    client = Client.from_url_and_key(f"http://127.0.0.1:{receiver.server_port}", KEY, retry=retry)

    client.storage.upload("model-checkpoints", "run/checkpoint_1.pt", big)

    assert len(receiver.bodies) == 2
    assert receiver.bodies[1] == big.read_bytes()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (refusal("404", "Bucket not found", "Bucket not found"), NotFoundError),
        (refusal("409", "Duplicate", "The resource already exists"), ConflictError),
        (refusal("413", "Payload too large", "The object exceeded the maximum allowed size"), TooLargeError),
        (refusal("415", "invalid_mime_type", "mime type text/html is not supported"), UnsupportedError),
        (refusal("403", "Unauthorized", "new row violates row-level security policy"), ForbiddenError),
    ],
)
def test_a_refused_upload_says_why(
    client: Client, httpx_mock: HTTPXMock, local_file: Path, body: dict[str, str], expected: type[Exception]
) -> None:
    httpx_mock.add_response(status_code=400, json=body)

    with pytest.raises(expected, match=r"upload datasets/alfworld/train\.json: "):
        upload(client, local_file)


def test_an_upload_that_landed_before_its_answer_was_lost_is_no_conflict(
    client: Client, httpx_mock: HTTPXMock, local_file: Path
) -> None:
    httpx_mock.add_exception(httpx.ReadTimeout("lost"))
    httpx_mock.add_response(status_code=400, json=refusal("409", "Duplicate", "The resource already exists"))
    httpx_mock.add_response(method="GET", json=info())

    assert upload(client, local_file).sha256 == SHA256


def test_another_file_under_the_same_name_stays_a_conflict_after_a_retry(
    client: Client, httpx_mock: HTTPXMock, local_file: Path
) -> None:
    httpx_mock.add_exception(httpx.ReadTimeout("lost"))
    httpx_mock.add_response(status_code=400, json=refusal("409", "Duplicate", "The resource already exists"))
    httpx_mock.add_response(method="GET", json=info(metadata={"sha256": "other"}))

    with pytest.raises(ConflictError):
        upload(client, local_file)


MIB = 1024 * 1024


def _grow(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"more")


def _shrink(file: Path) -> None:
    os.truncate(file, 10)


def _rewrite(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _rewrite_and_grow(file: Path) -> None:
    _rewrite(file)
    _grow(file)


def _rewrite_keeping_its_time(file: Path) -> None:
    before = file.stat()
    _rewrite(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [_grow, _shrink, _rewrite, _rewrite_and_grow, _rewrite_keeping_its_time])
@pytest.mark.parametrize("size_bytes", [100, MIB, 2 * MIB, 2 * MIB + 100])
def test_the_end_of_a_file_that_changed_is_withheld(
    change: Callable[[Path], None], size_bytes: int, tmp_path: Path
) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"x" * size_bytes)
    source = fingerprint(file)
    change(file)
    sent: list[bytes] = []

    with pytest.raises(LocalFileError, match="changed while it was being uploaded") as caught:
        sent.extend(source.chunks())

    assert sum(map(len, sent)) < size_bytes
    assert not caught.value.transient


def test_a_change_behind_what_was_already_sent_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(3 * MIB))
    # Some time ago: clocks of file systems are coarse.
    os.utime(file, ns=(1, 1))
    pieces = fingerprint(file).chunks()
    next(pieces)
    with file.open("r+b") as opened:
        opened.write(b"changed")

    with pytest.raises(LocalFileError, match="changed while it was being uploaded"):
        list(pieces)


@pytest.mark.parametrize("size_bytes", [0, 1, MIB, 3 * MIB + 17])
def test_the_pieces_of_a_file_are_the_file(size_bytes: int, tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(os.urandom(size_bytes))
    seen: list[int] = []

    pieces = list(fingerprint(file).chunks(lambda done, _total: seen.append(done)))

    assert b"".join(pieces) == file.read_bytes()
    assert seen[-1:] == ([size_bytes] if size_bytes else [])


def test_a_server_never_gets_all_of_a_file_that_changes_while_it_is_uploaded(
    receiver: Any, retry: RetryPolicy, tmp_path: Path
) -> None:
    receiver.drop_first = False
    big = tmp_path / "big.bin"
    big.write_bytes(bytes(3 * MIB))
    client = Client.from_url_and_key(f"http://127.0.0.1:{receiver.server_port}", KEY, retry=retry)

    with pytest.raises(LocalFileError, match="changed while it was being uploaded"):
        client.storage.upload("media", "a.bin", big, on_progress=lambda *_: _rewrite_last_byte(big))

    # On a busy machine the server may accept the connection only after its client has gone.
    deadline = time.monotonic() + 20
    while not receiver.bodies and time.monotonic() < deadline:
        time.sleep(0.01)
    receiver.shutdown()
    receiver.server_close()
    assert [len(body) < 3 * MIB for body in receiver.bodies] == [True]


def _rewrite_last_byte(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(b"!")


def test_a_file_that_is_not_there_is_named(client: Client, tmp_path: Path) -> None:
    with pytest.raises(LocalFileError, match=r"missing\.json: no such file"):
        upload(client, tmp_path / "missing.json")
    with pytest.raises(LocalFileError, match="is a folder"):
        upload(client, tmp_path)


def test_a_page_in_place_of_an_answer_is_not_a_stored_file(
    client: Client, httpx_mock: HTTPXMock, local_file: Path
) -> None:
    httpx_mock.add_response(text="<html>", headers={"content-type": "text/html"})
    httpx_mock.add_response(json=STORED)

    upload(client, local_file)

    assert len(httpx_mock.get_requests()) == 2


def test_a_download_arrives_whole_under_its_name(client: Client, httpx_mock: HTTPXMock, tmp_path: Path) -> None:
    serve_downloads(httpx_mock, CONTENT)
    target = tmp_path / "new folder" / "train.json"

    found = client.storage.download("datasets", "alfworld/train.json", target)

    assert target.read_bytes() == CONTENT
    assert found.content_type == "application/json"
    assert [path.name for path in target.parent.iterdir()] == ["train.json"]


@pytest.mark.parametrize("broken", [b"<html>Just a moment</html>", CONTENT[:-1], CONTENT[:-1] + b"!"])
def test_a_torn_or_changed_download_is_tried_again(
    client: Client, httpx_mock: HTTPXMock, tmp_path: Path, broken: bytes
) -> None:
    serve_downloads(httpx_mock, broken, CONTENT)

    client.storage.download("datasets", "alfworld/train.json", tmp_path / "train.json")

    assert (tmp_path / "train.json").read_bytes() == CONTENT


def test_a_download_that_never_succeeds_leaves_the_old_file_and_nothing_else(
    client: Client, httpx_mock: HTTPXMock, tmp_path: Path
) -> None:
    target = tmp_path / "train.json"
    target.write_text("old")
    httpx_mock.add_response(url=INFO_URL, json=info(), is_reusable=True)
    httpx_mock.add_response(url=OBJECT_URL, content=b"short", is_reusable=True)

    with pytest.raises(BadResponse, match=r"5 bytes arrived where 12000 were due.*gave up after"):
        client.storage.download("datasets", "alfworld/train.json", target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_is_stored_damaged_is_fetched_twice_and_then_refused_for_good(
    client: Client, httpx_mock: HTTPXMock, tmp_path: Path
) -> None:
    damaged = CONTENT[:-1] + b"!"
    serve_downloads(httpx_mock, damaged, damaged)

    with pytest.raises(ChecksumMismatch) as caught:
        client.storage.download("datasets", "alfworld/train.json", tmp_path / "train.json")

    actual = hashlib.sha256(damaged).hexdigest()
    assert not caught.value.transient
    assert caught.value.details == {
        "bucket": "datasets",
        "path": "alfworld/train.json",
        "expected": SHA256,
        "actual": actual,
    }
    assert str(caught.value) == (
        f"download datasets/alfworld/train.json: SHA-256 {actual} arrived where {SHA256} was recorded, twice; "
        "what is stored is damaged: upload the file again, or delete it"
    )
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_stored_damaged_are_refused_for_good(client: Client, httpx_mock: HTTPXMock) -> None:
    serve_downloads(httpx_mock, CONTENT[:-1] + b"!", CONTENT[:-1] + b"!")

    with pytest.raises(ChecksumMismatch):
        client.storage.download_bytes("datasets", "alfworld/train.json")


def test_a_file_replaced_between_looking_it_up_and_fetching_it_arrives_as_it_is_now(
    client: Client, httpx_mock: HTTPXMock, tmp_path: Path
) -> None:
    new = CONTENT.upper()
    replaced = info(metadata={"sha256": hashlib.sha256(new).hexdigest()})
    httpx_mock.add_response(url=INFO_URL, json=info())
    httpx_mock.add_response(url=INFO_URL, json=replaced, is_reusable=True)
    httpx_mock.add_response(url=OBJECT_URL, content=new, is_reusable=True)

    found = client.storage.download("datasets", "alfworld/train.json", tmp_path / "train.json")

    assert (tmp_path / "train.json").read_bytes() == new
    assert found.sha256 == hashlib.sha256(new).hexdigest()


def test_a_missing_object_is_not_found(client: Client, httpx_mock: HTTPXMock, tmp_path: Path) -> None:
    body = refusal("404", "not_found", "Object not found")
    httpx_mock.add_response(status_code=400, json=body, is_reusable=True)

    with pytest.raises(NotFoundError, match=r"look up datasets/nope\.json: Object not found"):
        client.storage.download("datasets", "nope.json", tmp_path / "x")
    assert client.storage.exists("datasets", "nope.json") is False
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(client: Client, httpx_mock: HTTPXMock, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    httpx_mock.add_response(json=info())
    httpx_mock.add_response(content=CONTENT)

    with pytest.raises(LocalFileError, match="can't be written"):
        client.storage.download("datasets", "alfworld/train.json", tmp_path / "file" / "train.json")


def test_lists_are_paged_and_tell_folders_from_files(client: Client, httpx_mock: HTTPXMock) -> None:
    rows = [
        {"name": "sub", "id": None, "metadata": None, "updated_at": None},
        {"name": "a.json", "id": "1", "metadata": {"size": 3, "mimetype": "application/json"}, "updated_at": "t"},
        {"name": "b.json", "id": "2", "metadata": {"size": 4}, "updated_at": "t"},
    ]
    httpx_mock.add_response(json=rows)

    page = client.storage.list_folder("datasets", "alfworld", limit=2, offset=4)

    assert [(entry.path, entry.is_folder, entry.size_bytes) for entry in page.rows] == [
        ("alfworld/sub", True, None),
        ("alfworld/a.json", False, 3),
    ]
    assert page.next_offset == 6
    assert json.loads(httpx_mock.get_requests()[0].content)["limit"] == 3


def test_walking_enters_every_folder(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=[{"name": "sub", "id": None}, {"name": "a.json", "id": "1", "metadata": {"size": 1}}])
    httpx_mock.add_response(json=[{"name": "b.json", "id": "2", "metadata": {"size": 2}}])

    assert [entry.path for entry in client.storage.walk("datasets")] == ["sub/b.json", "a.json"]


def test_removing_tells_what_was_there(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(method="DELETE", json=[{"name": "a.json"}])

    assert client.storage.remove("datasets", ["a.json", "gone.json"]) == ["a.json"]
    assert json.loads(httpx_mock.get_requests()[0].content) == {"prefixes": ["a.json", "gone.json"]}


def test_a_signed_url_is_complete(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json={"signedURL": "/object/sign/datasets/a.json?token=t"})

    url = client.storage.signed_url("datasets", "a.json", expires_in_seconds=60, download_name="a b.json")

    assert url == f"{URL}/storage/v1/object/sign/datasets/a.json?token=t&download=a%20b.json"
    assert json.loads(httpx_mock.get_requests()[0].content) == {"expiresIn": 60}


def test_a_buckets_limits_are_read(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(
        json={"id": "logs", "public": False, "file_size_limit": "10485760", "allowed_mime_types": ["text/plain"]}
    )

    bucket = client.storage.bucket("logs")

    assert (bucket.file_size_limit_bytes, bucket.allowed_mime_types) == (10_485_760, ("text/plain",))


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a\\b", "a\nb", "naïve", "a%2e", "x" * 901]
)
def test_a_path_that_leaves_its_folder_or_is_not_taken_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        check_object_path(path)


def test_a_path_with_spaces_is_quoted(client: Client, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(json=STORED)

    client.storage.upload_bytes("logs", "run 1/a?b.log", b"")

    assert httpx_mock.get_requests()[0].url.raw_path == b"/storage/v1/object/logs/run%201/a%3Fb.log"
