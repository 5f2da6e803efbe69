"""`StorageManager`: the workspace's files, at conventional paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, SupportsIndex, TypedDict

from openmanus_rl.managers.base import GatewayUser
from openmanus_rl.managers.storage import names
from openmanus_rl.managers.storage.buckets import (
    DATASETS,
    EVALUATION_RESULTS,
    LOGS,
    MEDIA,
    MODEL_CHECKPOINTS,
    content_type_for,
)
from openmanus_rl.managers.storage.uploads import FilePath, advised, check_size, file_name, prepare, send
from openmanus_rl.transport.filters import Page
from openmanus_rl.transport.objects import Entry, ObjectInfo
from openmanus_rl.transport.transfer import Progress

__all__ = ["FileInfo", "ListedFile", "StorageManager"]

Metadata = Mapping[str, Any]


class FileInfo(TypedDict):
    """A stored file; `sha256` is known if it was uploaded by this package."""

    bucket: str
    path: str
    name: str
    size_bytes: int
    content_type: str | None
    updated_at: str | None
    sha256: str | None
    metadata: dict[str, Any]


class ListedFile(TypedDict):
    """An entry of a folder: a file, or a folder, which has no size."""

    bucket: str
    path: str
    name: str
    is_folder: bool
    size_bytes: int | None
    content_type: str | None
    updated_at: str | None


class StorageManager(GatewayUser):
    """Uploads, downloads and lists files; use the class itself, or `using(client)` for another Supabase.

    Uploads are streamed with their SHA-256, replace an existing file by default, and return the object's path.
    """

    @classmethod
    def upload_checkpoint(
        cls,
        training_run_id: names.Name,
        checkpoint_number: SupportsIndex,
        checkpoint_file: FilePath,
        *,
        overwrite: bool = True,
        metadata: Metadata | None = None,
        on_progress: Progress | None = None,
    ) -> str:
        """Upload weights as `{training_run_id}/checkpoint_{n}{ext}`; `ModelCheckpointManager` records them."""
        path = names.checkpoint_path(training_run_id, checkpoint_number, file_name(checkpoint_file))
        return cls.upload_file(
            MODEL_CHECKPOINTS, path, checkpoint_file, overwrite=overwrite, metadata=metadata, on_progress=on_progress
        )

    @classmethod
    def upload_dataset(
        cls,
        environment: str,
        dataset_name: str,
        dataset_file: FilePath,
        *,
        overwrite: bool = True,
        metadata: Metadata | None = None,
        on_progress: Progress | None = None,
    ) -> str:
        """Upload a dataset as `{environment}/{dataset_name}{ext}`.

        A slash in the environment's name is written `=2F`: `ALE/Pong-v5` goes to `ALE=2FPong-v5/train.json`.
        """
        path = names.dataset_path(environment, dataset_name, file_name(dataset_file))
        return cls.upload_file(
            DATASETS, path, dataset_file, overwrite=overwrite, metadata=metadata, on_progress=on_progress
        )

    @classmethod
    def upload_log(
        cls,
        training_run_id: names.Name,
        log_type: str,
        log_file: FilePath,
        *,
        overwrite: bool = True,
        metadata: Metadata | None = None,
        on_progress: Progress | None = None,
    ) -> str:
        """Upload a log as `{training_run_id}/{log_type}{ext}`."""
        path = names.log_path(training_run_id, log_type, file_name(log_file))
        return cls.upload_file(LOGS, path, log_file, overwrite=overwrite, metadata=metadata, on_progress=on_progress)

    @classmethod
    def upload_evaluation_result(
        cls,
        checkpoint_id: names.Name,
        environment: str,
        result_file: FilePath,
        *,
        overwrite: bool = True,
        metadata: Metadata | None = None,
        on_progress: Progress | None = None,
    ) -> str:
        """Upload an evaluation's results as `{checkpoint_id}/{environment}_results{ext}`.

        A slash in the environment's name is written `=2F`: `ALE/Pong-v5` gives `ALE=2FPong-v5_results.json`.
        """
        path = names.evaluation_result_path(checkpoint_id, environment, file_name(result_file))
        return cls.upload_file(
            EVALUATION_RESULTS, path, result_file, overwrite=overwrite, metadata=metadata, on_progress=on_progress
        )

    @classmethod
    def upload_media(
        cls,
        training_run_id: names.Name,
        media_name: str,
        media_file: FilePath,
        *,
        rollout_id: names.Name | None = None,
        overwrite: bool = True,
        metadata: Metadata | None = None,
        on_progress: Progress | None = None,
    ) -> str:
        """Upload a frame, screenshot or video as `{training_run_id}/[{rollout_id}/]{media_name}{ext}`."""
        path = names.media_path(training_run_id, media_name, file_name(media_file), rollout_id=rollout_id)
        return cls.upload_file(MEDIA, path, media_file, overwrite=overwrite, metadata=metadata, on_progress=on_progress)

    @classmethod
    def upload_file(
        cls,
        bucket: str,
        path: str,
        file: FilePath,
        *,
        overwrite: bool = True,
        metadata: Metadata | None = None,
        on_progress: Progress | None = None,
    ) -> str:
        """Upload a file to any path; `on_progress` is called with the bytes sent and the total."""
        prepared = prepare(bucket, path, file)
        storage = cls._client().storage
        return send(storage, prepared, overwrite=overwrite, metadata=metadata, on_progress=on_progress).path

    @classmethod
    def upload_bytes(
        cls, bucket: str, path: str, content: bytes, *, overwrite: bool = True, metadata: Metadata | None = None
    ) -> str:
        """Upload bytes from memory, such as a rendered frame."""
        names.check_path(path)
        check_size(bucket, path, len(content))
        storage = cls._client().storage
        content_type = content_type_for(bucket, path)
        with advised(bucket):
            storage.upload_bytes(bucket, path, content, content_type=content_type, upsert=overwrite, metadata=metadata)
        return path

    @classmethod
    def download_file(
        cls, bucket: str, path: str, destination: FilePath, *, on_progress: Progress | None = None
    ) -> Path:
        """Download to a file, or into an existing folder; it appears only when complete and verified."""
        names.check_path(path)
        target = Path(destination)
        if target.is_dir():
            target = target / path.rpartition("/")[2]
        cls._client().storage.download(bucket, path, target, on_progress=on_progress)
        return target

    @classmethod
    def download_bytes(cls, bucket: str, path: str) -> bytes:
        """Return a small file's content, verified by its checksum."""
        names.check_path(path)
        return cls._client().storage.download_bytes(bucket, path)

    @classmethod
    def list_files(
        cls,
        bucket: str,
        prefix: str = "",
        *,
        limit: int = 100,
        offset: int = 0,
        search: str = "",
        sort_by: Literal["name", "created_at", "updated_at"] = "name",
        descending: bool = False,
    ) -> Page[ListedFile]:
        """Return a page of the entries directly in the folder `prefix`; `search` is a prefix of names."""
        page = cls._client().storage.list_folder(
            bucket, prefix, limit=limit, offset=offset, search=search, sort_by=sort_by, descending=descending
        )
        rows = [_listed(bucket, entry) for entry in page.rows]
        return Page(rows=rows, total=page.total, next_offset=page.next_offset)

    @classmethod
    def walk_files(cls, bucket: str, prefix: str = "") -> Iterator[ListedFile]:
        """Yield every file in the folder `prefix`, recursively."""
        for entry in cls._client().storage.walk(bucket, prefix):
            yield _listed(bucket, entry)

    @classmethod
    def get_file(cls, bucket: str, path: str) -> FileInfo:
        """Return a file's size, type, checksum and metadata; a missing file raises `NotFoundError`."""
        names.check_path(path)
        return _info(cls._client().storage.info(bucket, path))

    @classmethod
    def file_exists(cls, bucket: str, path: str) -> bool:
        """Return whether the file exists and the caller may read it."""
        names.check_path(path)
        return cls._client().storage.exists(bucket, path)

    @classmethod
    def create_signed_url(
        cls, bucket: str, path: str, *, expires_in_seconds: int = 3600, download_name: str | None = None
    ) -> str:
        """Return a URL that gives access to the file without a key until it expires."""
        names.check_path(path)
        return cls._client().storage.signed_url(
            bucket, path, expires_in_seconds=expires_in_seconds, download_name=download_name
        )

    @classmethod
    def delete_files(cls, bucket: str, paths: Sequence[str]) -> list[str]:
        """Delete files and return the paths of those that existed."""
        # A single path: a string is a sequence of characters, which is never meant.
        checked = [names.check_path(path) for path in ([paths] if isinstance(paths, str) else paths)]
        return cls._client().storage.remove(bucket, checked)


def _info(found: ObjectInfo) -> FileInfo:
    return FileInfo(
        bucket=found.bucket,
        path=found.path,
        name=found.path.rpartition("/")[2],
        size_bytes=found.size_bytes,
        content_type=found.content_type,
        updated_at=found.updated_at,
        sha256=found.sha256,
        metadata=dict(found.metadata),
    )


def _listed(bucket: str, entry: Entry) -> ListedFile:
    return ListedFile(
        bucket=bucket,
        path=entry.path,
        name=entry.path.rpartition("/")[2],
        is_folder=entry.is_folder,
        size_bytes=entry.size_bytes,
        content_type=entry.content_type,
        updated_at=entry.updated_at,
    )
