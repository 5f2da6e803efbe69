"""`keys`: the keys with which trainers and workers act for a member."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from openmanus_rl.cli.console import output, print_json
from openmanus_rl.cli.options import JsonOption, LimitOption, OffsetOption, read_expiry
from openmanus_rl.cli.rendering import ago, new_table, print_table
from openmanus_rl.cli.roles import ROLES, as_role, check_role
from openmanus_rl.errors import InvalidInput, NotFoundError, UnsupportedError
from openmanus_rl.local.owner import OWNER_EMAIL
from openmanus_rl.managers.members import KeyManager, MemberManager
from openmanus_rl.records.rows import MemberKey
from openmanus_rl.settings import load_settings

app = typer.Typer(
    no_args_is_help=True,
    help="Manage the keys of members. On another machine SUPABASE_URL and such a key, as SUPABASE_KEY, are all that a "
    "trainer or worker needs: it acts as the member, and what it records is the member's.",
)

_MemberOption = Annotated[
    str | None,
    typer.Option("--member", metavar="EMAIL|USER_ID", help="Member. Default: the owner of the embedded stack."),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for, such as the machine that uses it.")],
    member: _MemberOption = None,
    expires: Annotated[str, typer.Option("--expires", help="How long it lasts, e.g. 12h, 90d or never.")] = "90d",
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            help=f"One of {', '.join(ROLES)}; at most the member's. Default: the member's, and no more than editor.",
            callback=check_role,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key for a member and print it once. Requires the secret key; members do it in the dashboard.

    \b
    openmanus-rl keys create gpu-box --member ada@example.org
    openmanus-rl keys create reports --role viewer --expires never
    """
    expires_at = read_expiry("--expires", expires, may_be_never=True)
    if load_settings().project_ref is not None:
        raise UnsupportedError(
            "hosted projects accept only their own keys", hint="use the secret key there; see docs/team.md#keys"
        )
    member_id = find_member_id(member)
    row, key = KeyManager.create_key(
        name, member_id=member_id, role=as_role(role) if role else None, expires_at=expires_at
    )
    if as_json:
        print_json({**row, "key": key})
        return
    ends = f"until {row['expires_at']}" if row["expires_at"] else "until it is revoked"
    output.print(f"[bold green]{escape(name)}[/] acts as {row['role']} {ends}. The key, shown only once:")
    output.print(f"SUPABASE_KEY={key}", soft_wrap=True)


@app.command("list")
def list_keys(
    member: Annotated[
        str | None, typer.Option("--member", metavar="EMAIL|USER_ID", help="Only keys of this member.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include keys that were revoked or have expired.")] = False,
    limit: LimitOption = 100,
    offset: OffsetOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List keys, newest first: all of them with the secret key, one's own with a member's key."""
    page = KeyManager.list_keys(member_id=find_member_id(member) if member else None, limit=limit, offset=offset)
    rows = [row for row in page.rows if everything or _state(row) == "active"]
    if as_json:
        print_json([dict(row) for row in rows])
        return
    if not rows:
        output.print("No keys; create one with `openmanus-rl keys create NAME`")
        return
    names = {one["user_id"]: one["email"] or one["display_name"] or "" for one in MemberManager.list_accounts()}
    table = new_table("id", "name", "member", "key", "role", "state", "last used", "expires")
    for row in rows:
        used = ago(row["last_used_at"]) if row["last_used_at"] else "never"
        owner = escape(names.get(row["member_id"], row["member_id"]))
        ends = row["expires_at"] or "never"
        table.add_row(row["id"], escape(row["name"]), owner, f"{row['prefix']}…", row["role"], _state(row), used, ends)
    print_table(table)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID|NAME|PREFIX", help="Id, name or beginning of the key.")],
    as_json: JsonOption = False,
) -> None:
    """Revoke a key at once and for good.

    \b
    openmanus-rl keys revoke gpu-box
    """
    found = _find_key(key)
    revoked = KeyManager.revoke_key(found["id"])
    if as_json:
        print_json(dict(revoked))
    else:
        output.print(f"The key {escape(revoked['name'])} ({revoked['prefix']}…) is revoked")


def find_member_id(who: str | None) -> str:
    """Return the id of a member by e-mail address or id; by default of the owner of the embedded stack."""
    if who is None and not load_settings().is_embedded:
        raise typer.BadParameter("is required: whose key it is to be", param_hint="--member")
    found = MemberManager.find_account(who or OWNER_EMAIL)
    if found is None:
        hint = "see `openmanus-rl members list`" if who else "`openmanus-rl dashboard` makes the owner; or use --member"
        raise NotFoundError(f"{who or OWNER_EMAIL} is not a member", field="member_id", hint=hint)
    return str(found["user_id"])


def _find_key(wanted: str) -> MemberKey:
    offset: int | None = 0
    found: list[MemberKey] = []
    while offset is not None:
        page = KeyManager.list_keys(limit=1000, offset=offset)
        # Not more of the key than its prefix is looked at: it may have been pasted whole.
        found += [row for row in page.rows if wanted in (row["id"], row["name"]) or wanted.startswith(row["prefix"])]
        offset = page.next_offset
    active = [row for row in found if _state(row) == "active"] or found[:1]
    if not active:
        raise NotFoundError("there is no such key", field="key_id", hint="see `openmanus-rl keys list --all`")
    if len(active) > 1:
        ids = ", ".join(row["id"] for row in active)
        raise InvalidInput(f"{len(active)} keys have this name", field="key_id", hint=f"give an id: {ids}")
    return active[0]


def _state(row: MemberKey) -> str:
    if row["revoked_at"]:
        return "revoked"
    ended = row["expires_at"] and datetime.fromisoformat(row["expires_at"]) <= datetime.now(UTC)
    return "expired" if ended else "active"
