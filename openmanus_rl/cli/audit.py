"""`members log`: who did what."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape

from openmanus_rl.cli.console import output, print_json
from openmanus_rl.cli.keys import find_member_id
from openmanus_rl.cli.options import JsonOption, LimitOption, OffsetOption
from openmanus_rl.cli.rendering import new_table, print_table
from openmanus_rl.managers.members import AuditManager
from openmanus_rl.records.rows import AuditLog

__all__ = ["log"]


def log(
    member: Annotated[
        str | None, typer.Option("--member", metavar="EMAIL|USER_ID", help="Only what this member did.")
    ] = None,
    action: Annotated[list[str] | None, typer.Option("--action", help="Only this action, e.g. run.deleted.")] = None,
    limit: LimitOption = 50,
    offset: OffsetOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Show the audit log, newest first: who did what, as a member, with which key, or with the secret key.

    \b
    openmanus-rl members log --member ada@example.org
    openmanus-rl members log --action run.deleted --json
    """
    page = AuditManager.list_entries(
        action=action or None,
        actor_id=find_member_id(member) if member else None,
        limit=limit,
        offset=offset,
    )
    if as_json:
        print_json([dict(row) for row in page.rows])
        return
    if not page.rows:
        output.print("Nothing to show; admins and the secret key alone read the log")
        return
    table = new_table("when", "who", "action", "subject", "details")
    for row in page.rows:
        subject = row["subject_name"] or row["subject_id"] or ""
        details = json.dumps(row["details"], ensure_ascii=False) if row["details"] else ""
        table.add_row(row["happened_at"], escape(_who(row)), row["action"], escape(str(subject)), escape(details))
    print_table(table)


def _who(row: AuditLog) -> str:
    name = row["actor_name"] or row["actor_id"] or ""
    if row["actor_kind"] == "key":
        return f"{name} (key {row['key_name'] or row['key_id']})"
    return {"secret_key": "the secret key", "system": "the system"}.get(row["actor_kind"], str(name))
