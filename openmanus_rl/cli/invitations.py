"""`members invite`, `members invitations` and `members uninvite`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from openmanus_rl.cli.console import output, print_json
from openmanus_rl.cli.links import AddressOption, dashboard_address
from openmanus_rl.cli.options import JsonOption, LimitOption, OffsetOption, read_expiry
from openmanus_rl.cli.rendering import ago, new_table, print_table
from openmanus_rl.cli.roles import RoleOption, as_role
from openmanus_rl.errors import NotFoundError
from openmanus_rl.managers.members import InvitationManager
from openmanus_rl.records.rows import Invitation
from openmanus_rl.transport.filters import Filter

__all__ = ["invite", "list_invitations", "uninvite"]

EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="Email address of the person.")]


def invite(
    email: EmailArgument,
    role: RoleOption = "viewer",
    expires: Annotated[str, typer.Option("--expires", help="How long the link lasts, e.g. 12h or 7d.")] = "7d",
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Invite somebody and print a link, which makes an account and a member once.

    Send the link to the person: whoever opens it first chooses the name and the password. Inviting the same address
    again replaces the link.

    \b
    openmanus-rl members invite ada@example.org --role editor
    openmanus-rl members invite ada@example.org --expires 12h --json
    """
    expires_at = read_expiry("--expires", expires)
    base = dashboard_address(address)
    invitation, token = InvitationManager.invite(email, as_role(role), expires_at=expires_at)
    link = f"{base}invitation#token={token}"
    if as_json:
        print_json({**invitation, "link": link})
        return
    output.print(
        f"[bold green]{escape(invitation['email'])}[/] is invited as {role}; the link works once, for {expires}:"
    )
    output.print(escape(link), soft_wrap=True)


def list_invitations(
    everything: Annotated[
        bool, typer.Option("--all", help="Include those that were accepted, revoked or have expired.")
    ] = False,
    limit: LimitOption = 100,
    offset: OffsetOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List invitations that are open, newest first."""
    page = InvitationManager.list_invitations(open_only=not everything, limit=limit, offset=offset)
    if as_json:
        print_json([dict(row) for row in page.rows])
        return
    if not page.rows:
        hint = "admins and the secret key alone see them, and make one with `openmanus-rl members invite EMAIL`"
        output.print(f"No invitations to show; {hint}")
        return
    table = new_table("id", "email", "role", "state", "made", "expires")
    for row in page.rows:
        state = _state(row)
        table.add_row(row["id"], escape(row["email"]), row["role"], state, ago(row["created_at"]), row["expires_at"])
    print_table(table)


def uninvite(email: EmailArgument, as_json: JsonOption = False) -> None:
    """Revoke the open invitation of an email address; its link works no more.

    \b
    openmanus-rl members uninvite ada@example.org
    """
    wanted = Filter.eq("email", email.strip().lower())
    page = InvitationManager.list_invitations(open_only=True, filters=[wanted], limit=1)
    if not page.rows:
        raise NotFoundError(
            f"{email} has no open invitation", field="email", hint="see `openmanus-rl members invitations --all`"
        )
    revoked = InvitationManager.revoke(page.rows[0]["id"])
    print_json(dict(revoked)) if as_json else output.print(f"The invitation of {escape(email)} is revoked")


def _state(row: Invitation) -> str:
    if row["accepted_at"]:
        return "accepted"
    return "revoked" if row["revoked_at"] else "open or expired"
