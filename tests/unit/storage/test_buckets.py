"""Sizes and media types."""

from __future__ import annotations

import pytest

from openmanus_rl.managers.storage.buckets import BUCKETS, content_type_for, format_size


@pytest.mark.parametrize(
    ("file_name", "content_type"),
    [
        ("a.json", "application/json"),
        ("a.jsonl", "application/jsonl"),
        ("a.csv", "text/csv"),
        ("a.parquet", "application/vnd.apache.parquet"),
        ("a.zip", "application/zip"),
        ("a.jsonl.gz", "application/gzip"),
        ("a.TXT", "text/plain"),
        ("a.tsv", "text/plain"),
        ("a.png", "application/octet-stream"),
        ("a.unheard-of", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
def test_a_datasets_type_follows_from_its_extension(file_name: str, content_type: str) -> None:
    assert content_type_for("datasets", f"alfworld/{file_name}") == content_type


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("extension", ["json", "csv", "tsv", "parquet", "gz", "png", "mp4", "pt", "html"])
def test_no_type_is_sent_that_the_bucket_refuses(bucket: str, extension: str) -> None:
    taken = BUCKETS[bucket].content_types
    assert taken is None or content_type_for(bucket, f"a.{extension}") in taken


def test_a_page_is_not_stored_as_one_that_a_browser_runs() -> None:
    assert content_type_for("media", "a.html") == content_type_for("media", "a.svg") == "application/octet-stream"


def test_a_bucket_of_ones_own_takes_the_type_as_it_is() -> None:
    assert content_type_for("my-bucket", "a.png") == "image/png"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KB"),
        (52428800, "50 MB"),
        (1073741824, "1 GB"),
        (5 << 40, "5120 GB"),
    ],
)
def test_sizes_are_told_in_the_units_of_the_limits(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text
