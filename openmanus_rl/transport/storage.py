"""Storage: uploads, downloads, lists, signs and removes files in buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import quote

from openmanus_rl.errors import BadResponse, InvalidInput, NotFoundError
from openmanus_rl.transport.filters import Page
from openmanus_rl.transport.http import read_object, read_rows
from openmanus_rl.transport.objects import Bucket, Entry, bucket_from, check_object_path, entry_from
from openmanus_rl.transport.storage_transfers import StorageTransfers

__all__ = ["Storage"]

_MAX_LIST_ROWS = 1000


class Storage(StorageTransfers):
    """The files of one Supabase, with the rights of one key or user."""

    def exists(self, bucket: str, path: str) -> bool:
        """Return whether the file exists and the caller may read it."""
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
        """Yield every file in a folder, recursively."""
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
        """Delete files and return the paths of those that existed."""
        for path in paths:
            check_object_path(path)
        if not paths:
            return []
        url = f"{self._url}/object/{quote(bucket, safe='')}"
        attempt = f"remove {len(paths)} files from {bucket}"
        rows = self._request("DELETE", url, attempt=attempt, read=read_rows, body={"prefixes": list(paths)})
        return [str(row["name"]) for row in rows if "name" in row]

    def signed_url(self, bucket: str, path: str, *, expires_in_seconds: int, download_name: str | None = None) -> str:
        """Return a URL that gives access to the file without a key until it expires."""
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
