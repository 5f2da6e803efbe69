"""Storage: files in buckets, moved in pieces, with checksums, and paged lists."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx

from openmanus_rl.errors import BadResponse, ConflictError, InvalidInput, NotFoundError
from openmanus_rl.gateway.filters import Page
from openmanus_rl.gateway.http import NO_BODY, HttpDoor, read_object, read_rows
from openmanus_rl.gateway.objects import (
    Bucket,
    Entry,
    ObjectInfo,
    bucket_from,
    check_object_path,
    check_whole,
    entry_from,
    info_from,
)
from openmanus_rl.gateway.transfer import CHUNK_BYTES, FileSource, Progress, fingerprint, write_aside
from openmanus_rl.gateway.translate import error_from_response

__all__ = ["Storage"]

T = TypeVar("T")

_MAX_LIST_ROWS = 1000


class Storage:
    """Uploads, downloads and lists the files of one Supabase as one caller."""

    def __init__(
        self, *, url: str, headers: Mapping[str, str], door: HttpDoor, transfer_limit_seconds: float = 600.0
    ) -> None:
        self._url = url
        self._headers = dict(headers)
        self._door = door
        # A large file takes longer than a row: its own limit for starting over.
        self._transfer_retry = replace(door.retry, limit_seconds=max(transfer_limit_seconds, door.retry.limit_seconds))

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
        """Stream a file into a bucket with its SHA-256 in the metadata; each retry reads it from the start."""
        source = file if isinstance(file, FileSource) else fingerprint(file)
        return self._put(
            bucket,
            path,
            lambda: source.chunks(on_progress),
            size_bytes=source.size_bytes,
            sha256=source.sha256,
            content_type=content_type,
            upsert=upsert,
            metadata=metadata,
        )

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
        """Upload what is already in memory."""
        return self._put(
            bucket,
            path,
            lambda: iter([content] if content else []),
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            content_type=content_type,
            upsert=upsert,
            metadata=metadata,
        )

    def download(
        self,
        bucket: str,
        path: str,
        destination: str | os.PathLike[str],
        *,
        on_progress: Progress | None = None,
    ) -> ObjectInfo:
        """Stream a stored file to a local one, which appears only when complete and equal to its checksum."""
        info = self.info(bucket, path)
        target = Path(destination)
        attempt = f"download {bucket}/{path}"

        def fetch(response: httpx.Response) -> None:
            digest = hashlib.sha256()
            received_bytes = 0
            with write_aside(target) as file:
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    file.write(chunk)
                    digest.update(chunk)
                    received_bytes += len(chunk)
                    if on_progress is not None:
                        on_progress(received_bytes, info.size_bytes)
                check_whole(info, attempt, received_bytes, digest.hexdigest())

        self._stream("GET", self._object_url(bucket, path), attempt=attempt, read=fetch)
        return info

    def download_bytes(self, bucket: str, path: str) -> bytes:
        """Return a stored file's bytes; for files that fit in memory."""
        info = self.info(bucket, path)
        attempt = f"download {bucket}/{path}"

        def fetch(response: httpx.Response) -> bytes:
            content = response.read()
            check_whole(info, attempt, len(content), hashlib.sha256(content).hexdigest())
            return content

        return self._stream("GET", self._object_url(bucket, path), attempt=attempt, read=fetch)

    def info(self, bucket: str, path: str) -> ObjectInfo:
        """Return a stored file's size, type and metadata."""
        attempt = f"look up {bucket}/{path}"
        found = self._request("GET", self._object_url(bucket, path, "info"), attempt=attempt, read=read_object)
        return info_from(found, bucket=bucket, path=path, attempt=attempt)

    def exists(self, bucket: str, path: str) -> bool:
        """Whether there is such a file that the caller may see."""
        try:
            self.info(bucket, path)
        except NotFoundError:
            return False
        return True

    def list_folder(
        self,
        bucket: str,
        folder: str = "",
        *,
        limit: int = 100,
        offset: int = 0,
        search: str = "",
        sort_by: Literal["name", "created_at", "updated_at"] = "name",
        descending: bool = False,
    ) -> Page[Entry]:
        """Return a page of the files and folders directly in a folder."""
        if not 1 <= limit < _MAX_LIST_ROWS:
            raise InvalidInput(f"limit {limit} is not between 1 and {_MAX_LIST_ROWS - 1}", field="limit")
        folder = folder.strip("/")
        if folder:
            check_object_path(folder)
        body = {
            "prefix": folder,
            "limit": limit + 1,
            "offset": offset,
            "search": search,
            "sortBy": {"column": sort_by, "order": "desc" if descending else "asc"},
        }
        url = f"{self._url}/object/list/{quote(bucket, safe='')}"
        rows = self._request("POST", url, attempt=f"list {bucket}/{folder}", read=read_rows, body=body)
        entries = [entry_from(row, folder=folder) for row in rows[:limit]]
        return Page(rows=entries, total=None, next_offset=offset + limit if len(rows) > limit else None)

    def walk(self, bucket: str, folder: str = "") -> Iterator[Entry]:
        """Yield every file under a folder, however deep."""
        offset: int | None = 0
        while offset is not None:
            page = self.list_folder(bucket, folder, limit=500, offset=offset)
            for entry in page.rows:
                if entry.is_folder:
                    yield from self.walk(bucket, entry.path)
                else:
                    yield entry
            offset = page.next_offset

    def remove(self, bucket: str, paths: Sequence[str]) -> list[str]:
        """Delete files and return the paths of those that were there."""
        for path in paths:
            check_object_path(path)
        if not paths:
            return []
        url = f"{self._url}/object/{quote(bucket, safe='')}"
        attempt = f"remove {len(paths)} files from {bucket}"
        rows = self._request("DELETE", url, attempt=attempt, read=read_rows, body={"prefixes": list(paths)})
        return [str(row["name"]) for row in rows if "name" in row]

    def signed_url(self, bucket: str, path: str, *, expires_in_seconds: int, download_name: str | None = None) -> str:
        """Return a URL that reads the file without a key until it expires."""
        if expires_in_seconds < 1:
            raise InvalidInput("a signed URL must last at least a second", field="expires_in_seconds")
        attempt = f"sign {bucket}/{path}"
        url = self._object_url(bucket, path, "sign")
        answer = self._request("POST", url, attempt=attempt, read=read_object, body={"expiresIn": expires_in_seconds})
        relative = answer.get("signedURL")
        if not isinstance(relative, str):
            raise BadResponse(f"{attempt}: the answer holds no URL")
        signed = f"{self._url}/{relative.lstrip('/')}"
        return signed if download_name is None else f"{signed}&download={quote(download_name, safe='')}"

    def bucket(self, name: str) -> Bucket:
        """Return a bucket's limits."""
        url = f"{self._url}/bucket/{quote(name, safe='')}"
        row = self._request("GET", url, attempt=f"look up bucket {name}", read=read_object)
        return bucket_from(row, name=name)

    def _put(
        self,
        bucket: str,
        path: str,
        chunks: Callable[[], Iterator[bytes]],
        *,
        size_bytes: int,
        sha256: str,
        content_type: str,
        upsert: bool,
        metadata: Mapping[str, Any] | None,
    ) -> ObjectInfo:
        attempt = f"upload {bucket}/{path}"
        recorded = {**(metadata or {}), "sha256": sha256}
        headers = {
            "Content-Type": content_type,
            # Stated, so that httpx sends no chunked body and the server can refuse it by size at once.
            "Content-Length": str(size_bytes),
            "Cache-Control": "no-cache",
            "x-upsert": "true" if upsert else "false",
            "x-metadata": base64.b64encode(json.dumps(recorded).encode()).decode("ascii"),
        }
        try:
            self._stream(
                "POST",
                self._object_url(bucket, path),
                attempt=attempt,
                read=partial(_check_stored, attempt=attempt),
                headers=headers,
                chunks=chunks,
            )
        except ConflictError as error:
            # An earlier attempt may have landed although its answer was lost: then this very file is there.
            if error.attempts == 1 or self.info(bucket, path).sha256 != sha256:
                raise
        return ObjectInfo(
            bucket=bucket,
            path=path,
            size_bytes=size_bytes,
            content_type=content_type,
            etag=None,
            updated_at=None,
            metadata=recorded,
        )

    def _stream(
        self,
        method: str,
        url: str,
        *,
        attempt: str,
        read: Callable[[httpx.Response], T],
        headers: Mapping[str, str] | None = None,
        chunks: Callable[[], Iterator[bytes]] | None = None,
    ) -> T:
        """Send and receive in pieces; `read` runs inside the attempt, so that a torn download is retried."""

        def send(remaining_seconds: float) -> T:
            with (
                self._door.watched(attempt),
                self._door.client.stream(
                    method,
                    url,
                    headers={**self._headers, **(headers or {})},
                    content=chunks() if chunks is not None else None,
                    timeout=self._door.timeout(remaining_seconds),
                ) as response,
            ):
                if not response.is_success:
                    response.read()
                    raise error_from_response(response, attempt)
                return read(response)

        return self._transfer_retry.run(send)

    def _request(
        self, method: str, url: str, *, attempt: str, read: Callable[[httpx.Response, str], T], body: Any = NO_BODY
    ) -> T:
        return self._door.request(
            method, url, attempt=attempt, read=lambda found: read(found, attempt), headers=self._headers, body=body
        )

    def _object_url(self, bucket: str, path: str, action: str = "") -> str:
        check_object_path(path)
        route = f"object/{action}" if action else "object"
        return f"{self._url}/{route}/{quote(bucket, safe='')}/{quote(path, safe='/')}"


def _check_stored(response: httpx.Response, attempt: str) -> None:
    response.read()
    if "Key" not in read_object(response, attempt):
        raise BadResponse(f"{attempt}: the answer does not say where the file was put")
