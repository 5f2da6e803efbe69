"""Delete all records and stored files; users, members, keys and the schema stay."""

from __future__ import annotations

from typing import Any

from openmanus_rl.local import archive
from openmanus_rl.local.admin import Admin
from openmanus_rl.local.home import Home
from openmanus_rl.local.owner import note_operation
from openmanus_rl.transport.postgres import PostgresConnection

# Members are users of the installation, not recorded data; and who did what is kept for good.
_KEPT = ("members", "member_keys", "key_digests", "invitations", "invitation_digests", "audit_log")


def count_records(admin: Admin) -> dict[str, int]:
    """Count what a reset would remove."""
    with admin.session(attempt="count the records") as connection:
        counts = {
            "runs": "select count(*) from public.training_runs",
            "running": "select count(*) from public.training_runs where status = 'running'",
            "rollouts": "select count(*) from public.rollouts",
            "files": "select count(*) from storage.objects",
            "file_bytes": "select coalesce(sum((metadata ->> 'size')::bigint), 0)::bigint from storage.objects",
        }
        return {name: int(_single(connection, statement)) for name, statement in counts.items()}


def reset_record(home: Home, admin: Admin) -> None:
    """Delete every run, rollout, metric, task and stored object in one transaction, then the files on disk."""
    with admin.session(attempt="delete the records") as connection, connection.transaction():
        tables = connection.execute(
            "select string_agg(format('%%I.%%I', schemaname, tablename), ', ') from pg_catalog.pg_tables"
            " where schemaname in ('public', 'internal') and tablename <> all (%s)",
            [list(_KEPT)],
        ).fetchone()
        connection.execute(f"truncate {tables and tables[0]}".encode())
        # The row for records without a run is part of the schema.
        connection.execute(b"insert into public.activity (training_run_id) values (null)")
        removed = connection.execute(b"delete from storage.objects returning version::text").fetchall()
        note_operation(connection, "record.reset")
    for (version,) in removed:
        if version and archive.STORED.fullmatch(f"storage/{version}"):
            (home.storage / version[:2] / version).unlink(missing_ok=True)


def _single(connection: PostgresConnection, statement: str) -> Any:
    found = connection.execute(statement.encode()).fetchone()
    return found[0] if found else 0
