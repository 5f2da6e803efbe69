"""The buckets, with their size limits and media types."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

__all__ = [
    "ARCHIVES",
    "BUCKETS",
    "DATASETS",
    "EVALUATION_RESULTS",
    "LOGS",
    "MEDIA",
    "MODEL_CHECKPOINTS",
    "TASK_FILES",
    "BucketRules",
    "content_type_for",
    "format_size",
]

DATASETS = "datasets"
MODEL_CHECKPOINTS = "model-checkpoints"
LOGS = "logs"
EVALUATION_RESULTS = "evaluation-results"
MEDIA = "media"
TASK_FILES = "task-files"
ARCHIVES = "archives"

_MIB = 1024 * 1024
_BINARY = "application/octet-stream"
_TEXT = "text/plain"
_LOG_TYPES = frozenset(
    {
        "application/gzip",
        "application/json",
        "application/jsonl",
        _BINARY,
        "application/x-ndjson",
        "application/zip",
        "text/csv",
        _TEXT,
    }
)
_TABLE_TYPES = _LOG_TYPES | {"application/vnd.apache.parquet"}


@dataclass(frozen=True)
class BucketRules:
    """What a bucket accepts; `content_types` is None if it accepts every type."""

    limit_bytes: int
    content_types: frozenset[str] | None
    advice_when_too_large: str


# The same limits and types are in the storage migration, where the server enforces them.
BUCKETS: dict[str, BucketRules] = {
    DATASETS: BucketRules(50 * _MIB, _TABLE_TYPES, "split it into several files, or compress it (parquet, .jsonl.gz)"),
    MODEL_CHECKPOINTS: BucketRules(1024 * _MIB, None, "save the weights in shards, or without the optimizer's state"),
    LOGS: BucketRules(10 * _MIB, _LOG_TYPES, "compress it (gzip), or rotate it and upload the parts"),
    EVALUATION_RESULTS: BucketRules(50 * _MIB, _TABLE_TYPES, "split it into several files, or compress it"),
    MEDIA: BucketRules(500 * _MIB, None, "shorten or re-encode it"),
    TASK_FILES: BucketRules(500 * _MIB, None, "leave out of the task's folder what can be downloaded instead"),
    ARCHIVES: BucketRules(500 * _MIB, None, "`openmanus-rl archive` splits what it writes"),
}

_TYPES_BY_EXTENSION = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/x-ndjson",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".txt": _TEXT,
    ".log": _TEXT,
    ".md": _TEXT,
    ".yaml": _TEXT,
    ".yml": _TEXT,
    ".parquet": "application/vnd.apache.parquet",
    ".zip": "application/zip",
    ".gz": "application/gzip",
    ".tgz": "application/gzip",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".mov": "video/quicktime",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
}


def content_type_for(bucket: str, path: str) -> str:
    """Return the media type of a path's extension, or the nearest one that the bucket accepts."""
    found = _TYPES_BY_EXTENSION.get(PurePosixPath(path).suffix.lower(), _BINARY)
    rules = BUCKETS.get(bucket)
    if rules is None or rules.content_types is None or found in rules.content_types:
        return found
    return _TEXT if found.startswith("text/") else _BINARY


def format_size(size_bytes: int) -> str:
    """Return a human-readable size, in the units of the limits: 1 MB is 1024 x 1024 bytes."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    size = size_bytes / 1024
    for unit in ("KB", "MB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GB"
