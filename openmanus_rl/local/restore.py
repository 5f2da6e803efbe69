"""Restore a backup: load it into a new database, and swap the two once it is complete."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openmanus_rl.errors import ConflictError, OpenManusError, StackError
from openmanus_rl.local import archive, migrations
from openmanus_rl.local.admin import DATABASE as CURRENT
from openmanus_rl.local.admin import Admin
from openmanus_rl.local.archive import HashedStream
from openmanus_rl.local.assets import find_assets
from openmanus_rl.local.backup import VERSIONS, BackupProgress
from openmanus_rl.local.contents import (
    announce,
    contents_elsewhere,
    current_location,
    discard,
    relocate,
    rename,
    unswept,
)
from openmanus_rl.local.home import Home
from openmanus_rl.local.owner import note_operation
from openmanus_rl.transport.contents import GatewayContents
from openmanus_rl.transport.postgres import PostgresConnection

_NEW, _OLD = "restoring_", "before_restore_"
# A database cannot be renamed by a connection to it.
_OUTSIDE = "template1"
_LOCK_KEY = 7_301_956_220_412
_SWAP_ATTEMPTS = 10


def restore_backup(
    home: Home, admin: Admin, path: Path, manifest: dict[str, Any], *, progress: BackupProgress
) -> dict[str, Any]:
    """Replace the database and the stored files with those of a checked backup, completely or not at all."""
    require_readable(path, manifest)
    mark = os.urandom(4).hex()
    new, old = f"{_NEW}{mark}", f"{_OLD}{mark}"
    # New names: the gateway may at this moment be removing contents that were deleted since the backup.
    renamed = {version: str(uuid.uuid4()) for version in stored_versions(manifest)}
    with _alone(admin) as outside:
        _clear_left_over(home, admin, outside)
        location = current_location(admin)
        outside.execute(f"create database {new} template template0".encode())
        try:
            progress.phase("Loading the database and the files", path.stat().st_size)
            with admin.session(attempt="restore the stored files") as connection:
                announce(connection, renamed.values())
            _load(home, admin, path, new, manifest, renamed, moved=progress.moved)
            progress.phase("Checking what was loaded")
            _compare(admin, new, manifest)
            migrations.migrate(admin.url(new), folder=find_assets().migrations, place=f"the database in {path}")
            with admin.session(new, attempt="restore the database") as connection:
                rename(connection, renamed)
                relocate(connection, location)
                note_operation(connection, "record.restored")
            _copy_properties(outside, new)
            progress.phase("Swapping the databases")
            _swap(admin, outside, new=new, old=old)
        except BaseException:
            _undo(home, admin, new, renamed.values())
            raise
        _finish(home, admin, outside, old)
    return {"rows": sum(manifest["rows"].values()), "files": len(stored_versions(manifest))}


def require_readable(path: Path, manifest: dict[str, Any]) -> None:
    """Refuse a backup of a newer version, before anything is changed."""
    known = migrations.find_migrations(find_assets().migrations)[-1].version
    if str(manifest.get("migration")) > known:
        raise StackError(
            f"{path} was made by openmanus-rl {manifest.get('version')}, whose schema is newer than this version's; "
            "run `pip install --upgrade openmanus-rl`"
        )


def holds_records(admin: Admin) -> bool:
    """Return whether the running stack holds data that a restore would replace."""
    with admin.session(attempt="check whether the database is empty") as connection:
        found = connection.execute(
            b"select exists (select from public.training_runs) or exists (select from public.rollouts)"
            b" or exists (select from public.environments) or exists (select from storage.objects)"
            b" or (select count(*) > 1 from auth.users)"
        ).fetchone()
    return bool(found and found[0])


def stored_versions(manifest: dict[str, Any]) -> list[str]:
    """Return the versions of the stored objects in a backup."""
    return [match[1] for name in manifest["members"] if (match := archive.STORED.fullmatch(name))]


@contextmanager
def _alone(admin: Admin) -> Iterator[PostgresConnection]:
    with admin.session(_OUTSIDE, attempt="restore the database") as connection:
        taken = connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
        if not taken or not taken[0]:
            raise ConflictError("another restore is running; wait until it has ended")
        yield connection


def _load(
    home: Home,
    admin: Admin,
    path: Path,
    new: str,
    manifest: dict[str, Any],
    renamed: Mapping[str, str],
    *,
    moved: archive.Moved,
) -> None:
    _make_roles(admin, manifest["roles"])
    elsewhere = contents_elsewhere(home, admin)
    try:
        for name, content in archive.read_members(path, moved=moved):
            if name == archive.DATABASE:
                _load_database(admin, new, content, keeps_owners=not manifest.get("external"))
            elif match := archive.STORED.fullmatch(name):
                _store(home, elsewhere, renamed[match[1]], content)
            else:
                content.drain()
                continue
            # The file was checked before, but may have changed since.
            if content.hexdigest() != manifest["members"][name]["sha256"]:
                raise StackError(f"{path}: {name} changed while it was read; nothing was restored; try again")
    finally:
        if elsewhere is not None:
            elsewhere.close()


def _make_roles(admin: Admin, names: list[str]) -> None:
    """Create the roles that the dump refers to, if they do not exist; they cannot log in."""
    with admin.session(attempt="restore the database's roles") as connection:
        known = {row[0] for row in connection.execute("select rolname from pg_catalog.pg_roles")}
        for name in sorted(set(names) - known):
            quoted = name.replace('"', '""')
            connection.execute(f'create role "{quoted}" nologin'.encode())


def _load_database(admin: Admin, new: str, content: HashedStream, *, keeps_owners: bool) -> None:
    options = ["--exit-on-error", "--single-transaction", "--no-password", f"--dbname={new}"]
    if not keeps_owners:
        # The start that follows gives all to the owner of the embedded database.
        options.append("--no-owner")
        with admin.session(new, attempt="restore the database") as connection:
            connection.execute(b"drop schema public")  # A dump of single schemas creates it.
    with admin.running("pg_restore", *options, stdin=subprocess.PIPE, attempt="restore the database") as process:
        assert process.stdin is not None
        for block in content.blocks():
            process.stdin.write(block)
    content.drain()


def _store(home: Home, elsewhere: GatewayContents | None, version: str, content: HashedStream) -> None:
    """Write a stored file, in the store or in the home."""
    if elsewhere is not None:
        elsewhere.write(version, content.blocks())
        return
    folder = home.storage / version[:2]
    folder.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f"{version}.", suffix=".uploading")
    try:
        with os.fdopen(handle, "wb") as file:
            for block in content.blocks():
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / version)
        archive.sync_folder(folder)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _compare(admin: Admin, new: str, manifest: dict[str, Any]) -> None:
    with admin.session(new, attempt="check the restored database") as connection:
        for table, expected in manifest["rows"].items():
            found = connection.execute(f"select count(*) from {table}".encode()).fetchone()
            if found is None or found[0] != expected:
                raise StackError(
                    f"table {table} has {expected} rows in the backup, and {found and found[0]} were loaded; "
                    "nothing was restored"
                )


# The owner, privileges and settings of a database, as statements for another one.
_PROPERTIES = """
with present as (select oid, datdba, datacl from pg_catalog.pg_database where datname = %(present)s::text),
settings as (
  select s.setrole, split_part(c, '=', 1) as name, quote_literal(substr(c, strpos(c, '=') + 1)) as value
  from pg_catalog.pg_db_role_setting s, unnest(s.setconfig) c where s.setdatabase = (select oid from present)
)
select format('alter database %%I owner to %%s', %(new)s::text, datdba::regrole) from present
union all
select format('revoke all on database %%I from public', %(new)s::text) from present where datacl is not null
union all
select format('grant %%s on database %%I to %%s', a.privilege_type, %(new)s::text,
  case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
from present, aclexplode(datacl) a
union all
select format('alter role %%s in database %%I set %%I = %%s', setrole::regrole, %(new)s::text, name, value)
from settings where setrole <> 0
union all
select format('alter database %%I set %%I = %%s', %(new)s::text, name, value) from settings where setrole = 0
"""


def _copy_properties(outside: PostgresConnection, new: str) -> None:
    """Copy the owner, privileges and settings of the current database, which a dump does not contain."""
    for (statement,) in outside.execute(_PROPERTIES, {"present": CURRENT, "new": new}).fetchall():
        outside.execute(statement.encode())


def _swap(admin: Admin, outside: PostgresConnection, *, new: str, old: str) -> None:
    """Rename both in one transaction; the first rename blocks new connections and waits for the others to end."""
    done = threading.Event()
    thread = threading.Thread(target=_disconnect_all, args=(admin, new, done), name="restore-disconnect", daemon=True)
    thread.start()
    try:
        for attempt in range(1, _SWAP_ATTEMPTS + 1):
            try:
                with outside.transaction():
                    outside.execute(f"alter database {CURRENT} rename to {old}".encode())
                    outside.execute(f"alter database {new} rename to {CURRENT}".encode())
                return
            except Exception as error:
                if getattr(error, "sqlstate", None) != "55006" or attempt == _SWAP_ATTEMPTS:
                    raise
    finally:
        done.set()
        thread.join()


def _disconnect_all(admin: Admin, new: str, done: threading.Event) -> None:
    with admin.session(_OUTSIDE, attempt="disconnect the clients of the database") as connection:
        while not done.wait(0.05):
            connection.execute(
                "select pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where datname in (%s, %s)",
                [CURRENT, new],
            )


def _finish(home: Home, admin: Admin, outside: PostgresConnection, old: str) -> None:
    """Drop the replaced database, and delete the files that only it references."""
    with admin.session(old, attempt="list the files of the replaced database") as connection:
        named_before = {row[0] for row in connection.execute(VERSIONS.encode())} | unswept(connection)
    outside.execute(f"drop database {old} with (force)".encode())
    _remove_unreferenced(home, admin, named_before)


def _undo(home: Home, admin: Admin, new: str, written: Iterable[str]) -> None:
    """Remove what a failed restore had loaded; if Postgres is unreachable, the next restore does it."""
    with suppress(OpenManusError):
        with admin.session(_OUTSIDE, attempt="remove a failed restore") as connection:
            connection.execute(f"drop database if exists {new} with (force)".encode())
        _remove_unreferenced(home, admin, set(written))


def _remove_unreferenced(home: Home, admin: Admin, versions: set[str]) -> None:
    with admin.session(attempt="list the stored files") as connection:
        named = {row[0] for row in connection.execute(VERSIONS.encode())}
        if current_location(admin) is not None:
            discard(connection, versions - named)
            return
    for version in versions - named:
        if archive.STORED.fullmatch(f"storage/{version}"):
            (home.storage / version[:2] / version).unlink(missing_ok=True)


def _clear_left_over(home: Home, admin: Admin, outside: PostgresConnection) -> None:
    """Clean up after killed restores: finish one that had swapped the databases, discard any other."""
    names = [row[0] for row in outside.execute("select datname from pg_catalog.pg_database").fetchall()]
    for name in names:
        if name.startswith(_OLD):
            _finish(home, admin, outside, name)
        elif name.startswith(_NEW):
            outside.execute(f"drop database {name} with (force)".encode())
