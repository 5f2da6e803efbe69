"""Archives runs: writes their rows to files, proves that the files hold exactly these rows, and only then removes them.

    begin_archive    the run takes no more turns and points; its rows cannot change from here on
    write, upload    Parquet files of bounded size, a slice of rollouts at a time
    read back        each file is downloaded and copied to a temporary table, whose digest must be the one of the rows
    finish_archive   one transaction removes the rows and says where they are now

Killed at any point, the next archive of the run starts at the beginning: until the last transaction commits, the
tables hold everything. Restoring is one transaction too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from openmanus_rl.archiving.manifest import Archived, ArchivedFile, manifest_of, manifest_path
from openmanus_rl.archiving.writing import FileParts
from openmanus_rl.connections import find_database_url
from openmanus_rl.errors import (
    ChecksumMismatch,
    NotFoundError,
    OpenManusError,
    SettingsError,
    TransientError,
)
from openmanus_rl.export.writers import require_pyarrow
from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.storage import StorageManager
from openmanus_rl.managers.storage.buckets import ARCHIVES
from openmanus_rl.records.rows import Archive
from openmanus_rl.settings import load_settings
from openmanus_rl.transport.archive_rows import ARCHIVED, COPIED, Content, hold_run
from openmanus_rl.transport.transfer import fingerprint

__all__ = ["Archiver", "Candidate", "Progress", "time_before"]

Progress = Callable[[str, int, int], None]
"""Called with what is done at the moment, how much of it is done, and how much there is."""

_TABLES = {table.name: table for table in (*ARCHIVED, COPIED)}
_READ_ROWS = 500
_LOADED_FOR = timedelta(days=1)

_CANDIDATES = """
select coalesce(jsonb_agg(jsonb_build_object(
  'id', r.id, 'name', r.name, 'finished_at', r.finished_at, 'is_begun', r.archive_status is not null)
  order by r.finished_at, r.id), '[]')
from public.training_runs r
where r.archive_status = 'writing' or (
  r.archive_status is null and r.status in ('completed', 'failed', 'cancelled', 'interrupted')
  and coalesce(r.finished_at, r.updated_at) < %s)
"""


@dataclass(frozen=True)
class Candidate:
    """A run that can be archived."""

    id: str
    name: str
    finished_at: str | None
    is_begun: bool
    """Whether archiving it was begun before, and did not end."""


class Archiver:
    """Archives and restores runs, over a direct connection to Postgres; close it after use."""

    def __init__(self, database_url: str | None = None) -> None:
        """Use the database of the settings, or another one."""
        require_pyarrow()
        self._database_url = database_url or _database_url()
        self._content = Content(self._database_url)

    def __enter__(self) -> Archiver:
        return self

    def __exit__(self, *_: object) -> None:
        self._content.close()

    def find_runs(self, *, older_than: timedelta) -> list[Candidate]:
        """Return the runs that finished longer ago, and those whose archiving was interrupted, oldest first."""
        before = time_before(older_than)
        found = self._content.call(_CANDIDATES, [before], attempt="find runs to archive")
        return [Candidate(**row) for row in found]

    def measure(self, run_id: str) -> tuple[dict[str, int], int]:
        """Return how many rows of each table would move, and their size in the database."""
        measured = {table.name: self._content.measure(table, run_id) for table in ARCHIVED}
        return {name: rows for name, (rows, _) in measured.items()}, sum(size for _, size in measured.values())

    def check(self, run_id: str, *, finished_before: datetime | None = None) -> None:
        """Raise the error with which `archive` would refuse the run, and change nothing."""
        statement = "select internal.begin_archive(%s, %s)"
        self._content.call(statement, [run_id, finished_before], attempt=f"archive run {run_id}", undo=True)

    def unload(self) -> int:
        """Remove what was loaded from archives to be read, more than a day ago; return of how many runs."""
        before = datetime.now(UTC) - _LOADED_FOR
        return int(self._content.call("select internal.unload_archives(%s)", [before], attempt="unload archives"))

    # Archiving

    def archive(
        self, run_id: str, *, finished_before: datetime | None = None, on_progress: Progress | None = None
    ) -> Archived:
        """Move the turns and metric points of a finished run to files."""
        told = on_progress or _silent
        with hold_run(self._database_url, run_id):
            attempt = f"archive run {run_id}"
            self._content.call("select internal.begin_archive(%s, %s)", [run_id, finished_before], attempt=attempt)
            try:
                return self._move(run_id, told)
            except BaseException:
                # Until the last transaction commits, the tables hold everything: let the run be written to again.
                with suppress(OpenManusError):
                    self._content.call("select internal.cancel_archive(%s)", [run_id], attempt=attempt)
                raise

    def _move(self, run_id: str, told: Progress) -> Archived:
        run = self._read_run(run_id)
        with tempfile.TemporaryDirectory(prefix="openmanus-rl-archive-") as folder:
            parts = self._write(run_id, Path(folder), told)
            files = [file for part in parts.values() for file in part.files]
            row_counts = {table.name: parts[table.name].rows for table in ARCHIVED}
            types = {name: self._content.file_columns(_TABLES[name]) for name in parts}
            StorageManager.upload_bytes(
                ARCHIVES, manifest_path(run_id), manifest_of(run, files, types, row_counts), overwrite=True
            )
            self._prove(files, Path(folder), told)
        size_bytes = sum(file.size_bytes for file in files)
        database_bytes = sum(parts[table.name].database_bytes for table in ARCHIVED)
        told("removing", 0, 1)
        self._remove_rows(run_id, [file.as_dict() for file in files], row_counts, size_bytes, database_bytes)
        told("removing", 1, 1)
        self._remove_others(run_id, {file.path for file in files} | {manifest_path(run_id)})
        return Archived(run_id, str(run["name"]), row_counts, size_bytes, database_bytes, len(files))

    def _read_run(self, run_id: str) -> dict[str, Any]:
        statement = "select to_jsonb(r) - 'archive_status' from public.training_runs r where r.id = %s"
        run = self._content.call(statement, [run_id], attempt=f"read run {run_id}")
        if run is None:
            raise NotFoundError(f"run {run_id}: it was deleted meanwhile", field="training_run_id")
        return dict(run)

    def _write(self, run_id: str, folder: Path, told: Progress) -> dict[str, FileParts]:
        def store(path: Path, name: str) -> str:
            return StorageManager.upload_file(ARCHIVES, f"{run_id}/{name}", path, overwrite=True)

        slices = list(self._content.rollouts(run_id))
        with _exact(run_id), ExitStack() as stack:
            parts = {
                table.name: stack.enter_context(FileParts(table, self._content.file_columns(table), folder, store))
                for table in _TABLES.values()
            }
            for done, rollouts in enumerate(slices):
                told("writing turns", done, len(slices))
                for table in _TABLES.values():
                    if table.by_rollout:
                        parts[table.name].add(self._content.read(table, rollouts))
            told("writing metrics", 0, 1)
            for table in ARCHIVED:
                if not table.by_rollout:
                    parts[table.name].add(self._content.read(table, run_id))
        return parts

    def _prove(self, files: list[ArchivedFile], folder: Path, told: Progress) -> None:
        """Read every file back from storage, and compare what Postgres makes of it with the rows."""
        for done, file in enumerate(files):
            told("checking files", done, len(files))
            attempt = f"check {file.path}"
            with self._downloaded(file, folder) as path, self._content.transaction(attempt) as connection:
                self._stage(connection, file, path)

    def _remove_rows(self, run_id: str, files: list[dict[str, Any]], *facts: Any) -> None:
        attempt = f"archive run {run_id}: remove its rows"
        try:
            statement = "select internal.finish_archive(%s, %s, %s, %s, %s)"
            self._content.call(statement, [run_id, files, *facts], attempt=attempt)
        except TransientError:
            # The connection may have been lost after the commit.
            done = "select exists (select 1 from public.archives a where a.training_run_id = %s and a.files = %s)"
            if not self._content.call(done, [run_id, files], attempt=attempt):
                raise

    def _remove_others(self, run_id: str, kept: set[str]) -> None:
        found = [entry["path"] for entry in StorageManager.walk_files(ARCHIVES, run_id)]
        StorageManager.delete_files(ARCHIVES, [path for path in found if path not in kept])

    # Checking and restoring

    def verify(self, run_id: str, *, on_progress: Progress | None = None) -> list[ArchivedFile]:
        """Check that every file of an archive is there, unchanged and readable; return the files."""
        told = on_progress or _silent
        archive = _archive_of(run_id)
        files = [ArchivedFile.from_dict(file) for file in archive["files"]]
        with tempfile.TemporaryDirectory(prefix="openmanus-rl-archive-") as folder:
            self._prove(files, Path(folder), told)
        return files

    def restore(self, run_id: str, *, on_progress: Progress | None = None) -> Archived:
        """Put the rows of an archive back, exactly as they were; the files are removed then."""
        told = on_progress or _silent
        with hold_run(self._database_url, run_id):
            attempt = f"restore run {run_id}"
            run = self._read_run(run_id)
            if self._content.call("select internal.cancel_archive(%s)", [run_id], attempt=attempt):
                # It was only being written: all rows are there.
                self._remove_others(run_id, set())
                return Archived(run_id, str(run["name"]), {}, 0, 0, 0)
            archive = _archive_of(run_id)
            files = [ArchivedFile.from_dict(file) for file in archive["files"] if file["table"] != COPIED.name]
            restored = self._put_back(run_id, files, told, attempt)
            self._remove_others(run_id, set())
        counts = {table.name: restored.get(table.name, 0) for table in ARCHIVED}
        left_out = sum(file.rows for file in files) - sum(counts.values())
        return Archived(
            run_id, str(run["name"]), counts, archive["archive_bytes"], archive["database_bytes"], len(files), left_out
        )

    def _put_back(self, run_id: str, files: list[ArchivedFile], told: Progress, attempt: str) -> dict[str, int]:
        restored: dict[str, int] = {}
        with (
            tempfile.TemporaryDirectory(prefix="openmanus-rl-archive-") as folder,
            self._content.transaction(attempt) as connection,
        ):
            connection.execute("select internal.begin_restore(%s)", [run_id])
            # Turns before their parts, which need them.
            for done, file in enumerate(sorted(files, key=lambda file: list(_TABLES).index(file.table))):
                told("restoring", done, len(files))
                with self._downloaded(file, Path(folder)) as path:
                    self._stage(connection, file, path)
                row = connection.execute("select internal.insert_archived(%s, %s)", [file.table, run_id]).fetchone()
                restored[file.table] = restored.get(file.table, 0) + int(row[0] if row else 0)
            connection.execute("select internal.finish_restore(%s)", [run_id])
        return restored

    def _stage(self, connection: Any, file: ArchivedFile, path: Path) -> None:
        """Copy a file to a temporary table, and raise an error if it does not hold the rows that were archived."""
        table = _TABLES[file.table]
        found = self._content.stage(connection, table, file.columns, _rows(path))
        if found != (file.rows, int(file.digest)):
            raise ChecksumMismatch(
                f"{file.path}: it holds {found[0]} rows with the digest {found[1]}, "
                f"not the {file.rows} rows with the digest {file.digest} of the database",
                hint="nothing was removed; report this with the version of Postgres and pyarrow",
            )

    @contextmanager
    def _downloaded(self, file: ArchivedFile, folder: Path) -> Iterator[Path]:
        path = StorageManager.download_file(ARCHIVES, file.path, folder / "read-back.parquet")
        try:
            if fingerprint(path).sha256 != file.sha256:
                raise ChecksumMismatch(
                    f"{file.path}: it is not the file that was archived",
                    hint="bring it back from a backup of the bucket archives",
                )
            yield path
        finally:
            path.unlink()


def time_before(age: timedelta) -> datetime:
    """Return the time that is this long ago; the first one there is, if it would be before that."""
    now = datetime.now(UTC)
    first = datetime.min.replace(tzinfo=UTC)
    return now - age if age < now - first else first


def _archive_of(run_id: str) -> Archive:
    archive = ArchiveManager.find_archive(run_id)
    if archive is None:
        raise NotFoundError(
            f"run {run_id}: it is not archived",
            field="training_run_id",
            hint="`openmanus-rl archive list` lists those that are",
        )
    return archive


@contextmanager
def _exact(run_id: str) -> Iterator[None]:
    """Say which run has a value that Parquet cannot hold, such as an infinite time or a matrix."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    try:
        yield
    except (pyarrow.ArrowException, OverflowError) as error:
        raise OpenManusError(
            f"run {run_id}: a value cannot be written to Parquet exactly, so nothing was moved: {error}",
            code="not_archivable",
            hint="change or delete the row, or leave the run in the database",
        ) from error


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_READ_ROWS):
            yield from batch.to_pylist()


def _database_url() -> str:
    found = find_database_url(load_settings())
    if found is None:
        raise SettingsError(
            "archives are written over a direct connection to Postgres, and DATABASE_URL is not set",
            setting="DATABASE_URL",
            hint="set it to the connection string of the project: Supabase dashboard, Connect",
        )
    return found


def _silent(_phase: str, _done: int, _total: int) -> None:
    pass
