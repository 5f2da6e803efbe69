"""Stored files that are not in the home: how a backup reads them, and a restore writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openmanus_rl.errors import StackError
from openmanus_rl.local.admin import Admin
from openmanus_rl.local.home import Home
from openmanus_rl.local.stack_file import read_stack
from openmanus_rl.transport.contents import GatewayContents
from openmanus_rl.transport.postgres import PostgresConnection

HOLD_LOCK = 7_301_956_220_413
"""While a backup holds this lock, the gateways remove no content; the number is in `storage/versions.ts` too."""
_LOCATION = "select location from storage.content_location where location <> 'folder'"


def contents_elsewhere(home: Home, admin: Admin) -> GatewayContents | None:
    """Return access to the stored files through the gateway; None if they are in the home."""
    if current_location(admin) is None:
        return None
    running = read_stack(home)
    if running is None:
        raise StackError(f"the stack in {home.root} does not run; start it with `openmanus-rl up`")
    return GatewayContents(running.url, running.secret_key)


def current_location(admin: Admin) -> str | None:
    """Return where the files of the database are; None if they are in the home."""
    with admin.session(attempt="find the stored files") as connection:
        # A database that an earlier version made does not have the table.
        if not _has_location(connection):
            return None
        found = connection.execute(_LOCATION.encode()).fetchone()
    return str(found[0]) if found else None


def relocate(connection: PostgresConnection, location: str | None) -> None:
    """Let a restored database know that its files are where those of the current one are."""
    if _has_location(connection):
        connection.execute(
            "insert into storage.content_location (location) values (%s)"
            " on conflict (is_only) do update set location = excluded.location",
            [location or "folder"],
        )


def announce(connection: PostgresConnection, versions: Iterable[str]) -> None:
    """Say which contents a restore is about to write: should it be killed, the gateway's sweep removes them."""
    if _has_location(connection):
        connection.execute(
            "insert into storage.unreferenced_versions (version, is_discarded, had_object, collect_after)"
            " select v, false, false, now() + interval '7 days' from unnest(%s::text[]) v",
            [list(versions)],
        )


def rename(connection: PostgresConnection, renamed: Mapping[str, str]) -> None:
    """Give the objects of a restored database the versions that their contents were written as."""
    connection.execute(
        "update storage.objects o set version = r.written"
        " from unnest(%s::text[], %s::text[]) r (dumped, written) where o.version = r.dumped",
        [list(renamed), list(renamed.values())],
    )
    if _has_location(connection):
        # Nobody writes them any more: whoever did was connected to the database of then.
        connection.execute(
            b"update storage.unreferenced_versions set is_discarded = true, had_object = false, collect_after = now()"
        )


def discard(connection: PostgresConnection, versions: Iterable[str]) -> None:
    """Leave contents that no object has to the gateway's sweep."""
    connection.execute(
        "insert into storage.unreferenced_versions (version, is_discarded, had_object, collect_after)"
        " select v, true, false, now() from unnest(%s::text[]) v"
        " on conflict (version) do update set is_discarded = true, had_object = false, collect_after = now()",
        [list(versions)],
    )


def unswept(connection: PostgresConnection) -> set[str]:
    """Return the contents that no object of a database has and that are still there."""
    if not _has_location(connection):
        return set()
    return {row[0] for row in connection.execute(b"select version from storage.unreferenced_versions")}


def _has_location(connection: PostgresConnection) -> bool:
    found = connection.execute(b"select to_regclass('storage.content_location') is not null").fetchone()
    return bool(found and found[0])
