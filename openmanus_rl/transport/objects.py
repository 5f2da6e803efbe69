"""Buckets and files as Storage describes them, and the paths that it accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openmanus_rl.errors import BadResponse, ChecksumMismatch, InvalidInput

__all__ = ["Bucket", "Entry", "ObjectInfo", "check_object_path"]

# What hosted Storage accepts in a path; the embedded one accepts more, so this is checked for both.
_OBJECT_PATH = re.compile(r"[A-Za-z0-9_/!\-.*'() &$@=;:+,?]+")


@dataclass(frozen=True)
class Bucket:
    """A bucket and what it accepts; None means no limit of its own."""

    name: str
    public: bool
    file_size_limit_bytes: int | None
    allowed_mime_types: tuple[str, ...] | None


@dataclass(frozen=True)
class ObjectInfo:
    """A stored file; `sha256` is known if it was uploaded by this package."""

    bucket: str
    path: str
    size_bytes: int
    content_type: str | None
    etag: str | None
    updated_at: str | None
    metadata: Mapping[str, Any]

    @property
    def sha256(self) -> str | None:
        """The checksum that the uploader recorded."""
        found = self.metadata.get("sha256")
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Entry:
    """An entry of a folder: a file, or a folder, which has no size."""

    path: str
    is_folder: bool
    size_bytes: int | None
    content_type: str | None
    updated_at: str | None


def check_object_path(path: str) -> str:
    """Return the path if it stays in its folder and Storage accepts it, else raise `InvalidInput`."""
    segments = path.split("/")
    if not path or any(segment in ("", ".", "..") for segment in segments):
        raise InvalidInput(f"{path!r} is not a path inside a bucket", field="path", hint="use names joined by single /")
    if not _OBJECT_PATH.fullmatch(path) or len(path) > 900:
        raise InvalidInput(
            f"{path!r} holds characters that Storage does not take, or is too long",
            field="path",
            hint="use letters, digits, spaces and !-_.*'()&$@=;:+,?",
        )
    return path


def bucket_from(row: Mapping[str, Any], *, name: str) -> Bucket:
    """Read the answer of `GET /bucket/{name}`."""
    types = row.get("allowed_mime_types")
    limit = row.get("file_size_limit")
    return Bucket(
        name=name,
        public=bool(row.get("public")),
        file_size_limit_bytes=int(limit) if limit is not None else None,
        allowed_mime_types=tuple(types) if types else None,
    )


def info_from(row: Mapping[str, Any], *, bucket: str, path: str, attempt: str) -> ObjectInfo:
    """Read the answer of `GET /object/info`."""
    size = row.get("size")
    if not isinstance(size, int):
        raise BadResponse(f"{attempt}: the answer holds no size", hint="is this Supabase Storage up to date?")
    metadata = row.get("metadata")
    return ObjectInfo(
        bucket=bucket,
        path=path,
        size_bytes=size,
        content_type=row.get("content_type"),
        etag=row.get("etag"),
        updated_at=row.get("last_modified"),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def entry_from(row: Mapping[str, Any], *, folder: str) -> Entry:
    """Read one row of `POST /object/list`, whose names are relative to the folder; a folder has no id."""
    metadata = row.get("metadata") or {}
    size = metadata.get("size")
    return Entry(
        path=f"{folder}/{row.get('name')}" if folder else str(row.get("name")),
        is_folder=row.get("id") is None,
        size_bytes=size if isinstance(size, int) else None,
        content_type=metadata.get("mimetype"),
        updated_at=row.get("updated_at"),
    )


class WholeCheck:
    """Verifies the attempts of one download: a mismatch is retried once, in case it occurred in transit."""

    def __init__(self, attempt: str) -> None:
        self.attempt = attempt
        self._seen_mismatch = False

    def __call__(self, info: ObjectInfo, received_bytes: int, sha256: str) -> None:
        """Raise an error if the file is incomplete or has another checksum."""
        if received_bytes != info.size_bytes:
            raise BadResponse(f"{self.attempt}: {received_bytes} bytes arrived where {info.size_bytes} were due")
        if info.sha256 is None or sha256 == info.sha256:
            return
        message = f"{self.attempt}: SHA-256 {sha256} arrived where {info.sha256} was recorded"
        if not self._seen_mismatch:
            # Damaged in transit, or replaced between the lookup and the download: retry.
            self._seen_mismatch = True
            raise BadResponse(message)
        raise ChecksumMismatch(
            f"{message}, twice",
            details={"bucket": info.bucket, "path": info.path, "expected": info.sha256, "actual": sha256},
            hint="what is stored is damaged: upload the file again, or delete it",
        )
