"""Back up the stack of this machine while it runs: its database, and the files that are here."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from openmanus_rl import __version__
from openmanus_rl.errors import StackError
from openmanus_rl.local import archive
from openmanus_rl.local.admin import Admin
from openmanus_rl.local.archive import DATABASE, FORMAT, FORMAT_VERSION, HEADER, MANIFEST, ArchiveWriter
from openmanus_rl.local.contents import HOLD_LOCK, contents_elsewhere
from openmanus_rl.local.home import Home
from openmanus_rl.transport.contents import GatewayContents
from openmanus_rl.transport.postgres import PostgresConnection

_SNAPSHOT_ATTEMPTS = 20
_HELD = ".backup-"
# All tables except those of Postgres itself and those that belong to an extension, which creates them.
TABLES = """
select format('%I.%I', n.nspname, c.relname) from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  and not exists (select from pg_catalog.pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by 1
"""
SIZES = """
select version::text, max((metadata ->> 'size')::bigint) from storage.objects where version is not null
group by version order by version
"""
VERSIONS = "select distinct version::text from storage.objects where version is not null"


class BackupProgress:
    """Receives the progress of a backup or a restore."""

    def phase(self, text: str, total: int | None = None) -> None:
        """A new phase began; `total` is its size in bytes, if known."""

    def moved(self, size: int) -> None:
        """Another `size` bytes of the phase are done."""


@dataclass
class Snapshot:
    """A snapshot of the database, with hard links to the stored files that it references, so that they stay."""

    id: str
    held: Path
    versions: list[str]
    missing: list[str] = field(default_factory=list)


def take_backup(
    home: Home, admin: Admin, target: Path, *, overwrite: bool = False, progress: BackupProgress
) -> dict[str, Any]:
    """Write a consistent copy of the database and its stored files, verify it, and return its manifest."""
    _require_target(target, overwrite=overwrite)
    _drop_left_over(home)
    elsewhere = contents_elsewhere(home, admin)
    try:
        held = _held_snapshot(home, admin) if elsewhere is None else _snapshot_without_removals(admin)
        with held as (connection, snapshot):
            _write(admin, connection, snapshot, target, progress, elsewhere)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StackError(
                f"not enough disk space in {target.parent} for the backup; nothing was written; "
                "free some space, or choose another disk"
            ) from error
        raise StackError(f"{target} could not be written: {error.strerror or error}") from error
    finally:
        if elsewhere is not None:
            elsewhere.close()
    progress.phase("Checking the file", target.stat().st_size)
    try:
        return archive.check_archive(target, moved=progress.moved)
    except StackError:
        target.rename(target.with_name(f"{target.name}.damaged"))
        raise


def _require_target(target: Path, *, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise StackError(f"{target.parent} is not a folder; make it first, or choose another place for the backup")
    if target.is_dir():
        raise StackError(f"{target} is a folder; name a file in it, such as {target / 'openmanus-rl.backup'}")
    if target.exists() and not overwrite:
        raise StackError(f"{target} exists already; choose another name, or replace it with --force")


def _write(
    admin: Admin,
    connection: PostgresConnection,
    snapshot: Snapshot,
    target: Path,
    progress: BackupProgress,
    elsewhere: GatewayContents | None,
) -> None:
    about = {"version": __version__, "made_at": datetime.now(UTC).isoformat(timespec="seconds")}
    with archive.new_archive(target, moved=progress.moved) as writer:
        writer.add_json(HEADER, {"format": FORMAT, "format_version": FORMAT_VERSION} | about)
        progress.phase("Writing the database")
        _dump(admin, snapshot, writer)
        described = about | _describe(connection, admin)
        if elsewhere is None:
            _add_held_files(snapshot, writer, progress)
        else:
            _add_contents(connection, snapshot, writer, progress, elsewhere)
        manifest = described | {"missing": snapshot.missing, "members": dict(writer.members)}
        writer.add_json(MANIFEST, manifest)


def _add_held_files(snapshot: Snapshot, writer: ArchiveWriter, progress: BackupProgress) -> None:
    files = [snapshot.held / version for version in snapshot.versions]
    progress.phase("Writing the files", sum(path.stat().st_size for path in files))
    for path in files:
        writer.add_file(f"storage/{path.name}", path)


def _add_contents(
    connection: PostgresConnection,
    snapshot: Snapshot,
    writer: ArchiveWriter,
    progress: BackupProgress,
    elsewhere: GatewayContents,
) -> None:
    sizes = connection.execute(SIZES.encode()).fetchall()
    progress.phase("Writing the files", sum(size for _, size in sizes))
    for version, size in sizes:
        with elsewhere.reading(version, size) as content:
            if content is None:
                snapshot.missing.append(version)
            else:
                writer.add_sized(f"storage/{version}", content, size)


def _dump(admin: Admin, snapshot: Snapshot, writer: ArchiveWriter) -> None:
    options = [f"--snapshot={snapshot.id}", "--format=custom", "--no-password", *admin.dump_arguments]
    with admin.running("pg_dump", *options, stdout=subprocess.PIPE, attempt="back up the database") as process:
        assert process.stdout is not None
        writer.add_stream(DATABASE, process.stdout)


def _describe(connection: PostgresConnection, admin: Admin) -> dict[str, Any]:
    """Return the versions, roles and row counts at the snapshot, which a restore verifies."""
    schemas = list(admin.schemas)
    tables = [row[0] for row in connection.execute(TABLES) if not schemas or row[0].split(".")[0] in schemas]
    rows = {table: _single(connection, f"select count(*) from {table}") for table in tables}
    roles = [row[0] for row in connection.execute("select rolname from pg_catalog.pg_roles where rolname !~ '^pg_'")]
    latest = "select max(version) from supabase_migrations.schema_migrations"
    return {
        "postgres_version": _single(connection, "show server_version"),
        "migration": _single(connection, latest),
        "roles": sorted(roles) if not schemas else _roles_named(connection, schemas),
        "rows": rows,
        "external": bool(schemas),
    }


def _roles_named(connection: PostgresConnection, schemas: list[str]) -> list[str]:
    """Return the roles that are granted something in some schemas; a server has others, which are not ours to tell."""
    rows = connection.execute(
        "select distinct g.grantee::regrole::text from pg_catalog.pg_namespace n"
        " left join pg_catalog.pg_class c on c.relnamespace = n.oid"
        " cross join lateral (select * from aclexplode(n.nspacl) union select * from aclexplode(c.relacl)) g"
        " where n.nspname = any (%s) and g.grantee <> 0 order by 1",
        [schemas],
    )
    return [row[0] for row in rows]


def _single(connection: PostgresConnection, statement: str) -> Any:
    found = connection.execute(statement.encode()).fetchone()
    return found[0] if found else None


@contextmanager
def _held_snapshot(home: Home, admin: Admin) -> Iterator[tuple[PostgresConnection, Snapshot]]:
    """Take a snapshot of the database and hard-link each stored file that it references."""
    held = home.storage / f"{_HELD}{os.getpid()}"
    held.mkdir(mode=0o700, exist_ok=True)
    try:
        with admin.session(attempt="back up the database") as connection:
            for attempt in range(1, _SNAPSHOT_ATTEMPTS + 1):
                connection.execute("begin isolation level repeatable read read only")
                snapshot = _hold(home, connection, held)
                # A file was removed after the snapshot and before its link was made: a new snapshot does not name it.
                if not snapshot.missing or attempt == _SNAPSHOT_ATTEMPTS or _still_missing(admin, snapshot):
                    yield connection, snapshot
                    connection.execute("commit")
                    return
                connection.execute("rollback")
    finally:
        shutil.rmtree(held, ignore_errors=True)


@contextmanager
def _snapshot_without_removals(admin: Admin) -> Iterator[tuple[PostgresConnection, Snapshot]]:
    """Take a snapshot of the database, and let no gateway remove a content that it references meanwhile."""
    with admin.session(attempt="back up the database") as connection:
        # Before the snapshot: what is removed now was deleted earlier, and the snapshot does not reference it.
        connection.execute("select pg_advisory_lock(%s)", [HOLD_LOCK])
        connection.execute("begin isolation level repeatable read read only")
        exported = str(_single(connection, "select pg_export_snapshot()"))
        yield connection, Snapshot(id=exported, held=Path(), versions=[])
        connection.execute("commit")


def _hold(home: Home, connection: PostgresConnection, held: Path) -> Snapshot:
    exported = str(_single(connection, "select pg_export_snapshot()"))
    snapshot = Snapshot(id=exported, held=held, versions=[])
    for (version,) in connection.execute(VERSIONS.encode()):
        if not (held / version).exists():  # Linked by an earlier attempt.
            try:
                os.link(home.storage / version[:2] / version, held / version)
            except FileNotFoundError:
                snapshot.missing.append(version)
                continue
        snapshot.versions.append(version)
    return snapshot


def _still_missing(admin: Admin, snapshot: Snapshot) -> bool:
    """Return whether the database still references the missing files: they were lost earlier, so do not retry."""
    with admin.session(attempt="back up the database") as connection:
        named = {row[0] for row in connection.execute(VERSIONS.encode())}
    return named.issuperset(snapshot.missing)


def _drop_left_over(home: Home) -> None:
    """Remove the links that killed backups left behind."""
    for folder in home.storage.glob(f"{_HELD}*"):
        pid = folder.name.removeprefix(_HELD)
        if not pid.isdigit() or not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
