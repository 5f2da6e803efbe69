"""Uploads and downloads: streamed, verified by checksum, and restarted if interrupted."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from openmanus_rl.errors import BadResponse, ConflictError
from openmanus_rl.transport.http import NO_BODY, HttpClient, read_object
from openmanus_rl.transport.objects import ObjectInfo, WholeCheck, check_object_path, info_from
from openmanus_rl.transport.transfer import CHUNK_BYTES, FileSource, Progress, bytes_in_pieces, fingerprint, write_aside
from openmanus_rl.transport.transfer_retry import Moved, TransferRetry
from openmanus_rl.transport.translate import error_from_response

__all__ = ["StorageTransfers"]

T = TypeVar("T")

Chunks = Callable[[Progress], Iterator[bytes]]


class StorageTransfers:
    """Uploads and downloads files, with the rights of one key or user."""

    def __init__(self, *, url: str, headers: Mapping[str, str], http: HttpClient) -> None:
        self._url = url
        self._headers = dict(headers)
        self._http = http
        self._retry = TransferRetry(http.retry)

    def upload(
        self,
        bucket: str,
        path: str,
        file: str | os.PathLike[str] | FileSource,
        *,
        content_type: str = "application/octet-stream",
        upsert: bool = False,
        metadata: Mapping[str, Any] | None = None,
        on_progress: Progress | None = None,
    ) -> ObjectInfo:
        """Stream a file into a bucket with its SHA-256 in the metadata; each retry reads it from the start.

        If the file changes meanwhile, nothing is stored and a `LocalFileError` is raised.
        """
        source = file if isinstance(file, FileSource) else fingerprint(file)
        info = _new_info(bucket, path, source.size_bytes, source.sha256, content_type, metadata)
        return self._put(info, source.chunks, upsert=upsert, on_progress=on_progress)

    def upload_bytes(
        self,
        bucket: str,
        path: str,
        content: bytes,
        *,
        content_type: str = "application/octet-stream",
        upsert: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> ObjectInfo:
        """Upload bytes from memory."""
        sha256 = hashlib.sha256(content).hexdigest()
        info = _new_info(bucket, path, len(content), sha256, content_type, metadata)
        return self._put(info, lambda on_progress: bytes_in_pieces(content, on_progress), upsert=upsert)

    def download(
        self,
        bucket: str,
        path: str,
        destination: str | os.PathLike[str],
        *,
        on_progress: Progress | None = None,
    ) -> ObjectInfo:
        """Stream a stored file to a local one, which appears only when complete and verified by its checksum.

        A download with another checksum is repeated once, then raises `ChecksumMismatch`.
        """
        check = WholeCheck(f"download {bucket}/{path}")
        target = Path(destination)

        def fetch(moved: Moved) -> ObjectInfo:
            # In each attempt: the file may have been replaced since the last one.
            info = self._look_up(bucket, path, retryable=False)
            digest = hashlib.sha256()
            received_bytes = 0
            with self._stream("GET", bucket, path, attempt=check.attempt) as response, write_aside(target) as file:
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    file.write(chunk)
                    digest.update(chunk)
                    received_bytes += len(chunk)
                    moved()
                    if on_progress is not None:
                        on_progress(received_bytes, info.size_bytes)
                check(info, received_bytes, digest.hexdigest())
            return info

        return self._retry.run(fetch)

    def download_bytes(self, bucket: str, path: str) -> bytes:
        """Return a stored file's bytes, verified as in `download`; for files that fit in memory."""
        check = WholeCheck(f"download {bucket}/{path}")

        def fetch(moved: Moved) -> bytes:
            info = self._look_up(bucket, path, retryable=False)
            pieces = []
            with self._stream("GET", bucket, path, attempt=check.attempt) as response:
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    pieces.append(chunk)
                    moved()
            content = b"".join(pieces)
            check(info, len(content), hashlib.sha256(content).hexdigest())
            return content

        return self._retry.run(fetch)

    def info(self, bucket: str, path: str) -> ObjectInfo:
        """Return a stored file's size, type and metadata."""
        return self._look_up(bucket, path, retryable=True)

    def _look_up(self, bucket: str, path: str, *, retryable: bool) -> ObjectInfo:
        attempt = f"look up {bucket}/{path}"
        url = self._object_url(bucket, path, "info")
        found = self._request("GET", url, attempt=attempt, read=read_object, retryable=retryable)
        return info_from(found, bucket=bucket, path=path, attempt=attempt)

    def _put(
        self, info: ObjectInfo, chunks: Chunks, *, upsert: bool, on_progress: Progress | None = None
    ) -> ObjectInfo:
        attempt = f"upload {info.bucket}/{info.path}"
        headers = {
            "Content-Type": info.content_type or "application/octet-stream",
            # Set, so that httpx does not send a chunked body and the server can refuse a large file at once.
            "Content-Length": str(info.size_bytes),
            "Cache-Control": "no-cache",
            "x-upsert": "true" if upsert else "false",
            "x-metadata": base64.b64encode(json.dumps(dict(info.metadata)).encode()).decode("ascii"),
        }

        def send(moved: Moved) -> None:
            def progressed(sent_bytes: int, total_bytes: int) -> None:
                moved()
                if on_progress is not None:
                    on_progress(sent_bytes, total_bytes)

            body = chunks(progressed)
            with self._stream("POST", info.bucket, info.path, attempt=attempt, headers=headers, body=body) as answer:
                answer.read()
                if "Key" not in read_object(answer, attempt):
                    raise BadResponse(f"{attempt}: the answer does not say where the file was put")

        try:
            self._retry.run(send)
        except ConflictError as error:
            # An earlier attempt may have succeeded and its response been lost: then the same file is there.
            if error.attempts == 1 or self.info(info.bucket, info.path).sha256 != info.sha256:
                raise
        return info

    @contextmanager
    def _stream(
        self,
        method: str,
        bucket: str,
        path: str,
        *,
        attempt: str,
        headers: Mapping[str, str] | None = None,
        body: Iterator[bytes] | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request and stream the response; errors raised inside the block are translated."""
        with (
            self._http.watched(attempt),
            self._http.client.stream(
                method,
                self._object_url(bucket, path),
                headers={**self._headers, **(headers or {})},
                content=body,
                # The maximum, since it limits each read and write and not the whole transfer.
                timeout=self._http.timeout(math.inf),
            ) as response,
        ):
            if not response.is_success:
                response.read()
                raise error_from_response(response, attempt)
            yield response

    def _request(
        self,
        method: str,
        url: str,
        *,
        attempt: str,
        read: Callable[[httpx.Response, str], T],
        body: Any = NO_BODY,
        retryable: bool = True,
    ) -> T:
        return self._http.request(
            method,
            url,
            attempt=attempt,
            read=lambda found: read(found, attempt),
            headers=self._headers,
            body=body,
            retryable=retryable,
        )

    def _object_url(self, bucket: str, path: str, action: str = "") -> str:
        check_object_path(path)
        route = f"object/{action}" if action else "object"
        return f"{self._url}/{route}/{quote(bucket, safe='')}/{quote(path, safe='/')}"


def _new_info(
    bucket: str, path: str, size_bytes: int, sha256: str, content_type: str, metadata: Mapping[str, Any] | None
) -> ObjectInfo:
    return ObjectInfo(
        bucket=bucket,
        path=path,
        size_bytes=size_bytes,
        content_type=content_type,
        etag=None,
        updated_at=None,
        metadata={**(metadata or {}), "sha256": sha256},
    )
