"""`members`: who belongs to the workspace, and as what."""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.markup import escape

from openmanus_rl.cli import audit, invitations
from openmanus_rl.cli.console import output, print_json
from openmanus_rl.cli.links import AddressOption, dashboard_address
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.rendering import ago, new_table, print_table
from openmanus_rl.cli.roles import ROLES, RoleOption, as_role, check_role
from openmanus_rl.connections import get_client
from openmanus_rl.errors import ConflictError, NotFoundError
from openmanus_rl.managers.members import Account, MemberManager

app = typer.Typer(
    no_args_is_help=True,
    help="Manage the members of the workspace. A viewer reads; an editor also records and changes its own runs; "
    "an admin changes everything. Requires the secret (service role) key.",
)
app.command("invite")(invitations.invite)
app.command("invitations")(invitations.list_invitations)
app.command("uninvite")(invitations.uninvite)

WhoArgument = Annotated[str, typer.Argument(metavar="EMAIL|USER_ID", help="Email address or user id of the account.")]

_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_LEAST_PASSWORD_LENGTH = 8


@app.command("list")
def list_members(as_json: JsonOption = False) -> None:
    """List all members and their roles."""
    members = MemberManager.list_accounts()
    if as_json:
        print_json(members)
        return
    if not members:
        output.print("No members yet; invite one with `openmanus-rl members invite EMAIL --role editor`")
        return
    table = new_table("id", "email", "role", "name", "joined", "last sign-in", "keys", right=("keys",))
    for member in members:
        name, email = escape(member["display_name"] or ""), escape(member["email"] or "")
        is_known = member["keys"] is not None
        seen = ago(member["last_sign_in_at"]) if member["last_sign_in_at"] else "never" if is_known else "–"
        joined, keys = ago(member["created_at"]), str(member["keys"]) if is_known else "–"
        table.add_row(member["user_id"], email, member["role"], name, joined, seen, keys)
    print_table(table)


@app.command()
def add(
    who: WhoArgument,
    role: RoleOption = "viewer",
    password: Annotated[
        str | None,
        typer.Option("--password", help="Password of a new account. Default: a random one, printed once."),
    ] = None,
    display_name: Annotated[str | None, typer.Option("--display-name", help="Display name of the member.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Add a member. If the email address has no account, one is created and its password printed.

    \b
    openmanus-rl members add ada@example.org --role editor
    openmanus-rl members add 0b4e1a9c-5d0f-4c7e-9a54-6f1f1b6f3c21 --role admin
    """
    user = _find_user(who)
    generated: str | None = None
    if user is None:
        if password is None:
            password = generated = secrets.token_urlsafe(12)
        elif len(password) < _LEAST_PASSWORD_LENGTH:
            raise typer.BadParameter(
                f"at least {_LEAST_PASSWORD_LENGTH} characters are required", param_hint="--password"
            )
        user = get_client().users.create(who.strip(), password=password)
        created = True
    else:
        if password is not None:
            raise typer.BadParameter(
                f"{who} already has an account; its password is not changed", param_hint="--password"
            )
        present = MemberManager.find_member(user["id"])
        if present is not None:
            raise ConflictError(
                f"{who} is already a member with the role {present['role']}",
                field="user_id",
                hint=f"change it with `openmanus-rl members set-role {who} {role}`",
            )
        created = False
    member = MemberManager.save_member(user["id"], as_role(role), display_name=display_name)
    if as_json:
        print_json({**member, "email": user.get("email"), "account_created": created, "password": generated})
        return
    output.print(f"[bold green]{escape(user.get('email') or who)}[/] is now a member with the role {role}")
    if generated is not None:
        output.print(f"Password of the new account, shown only once: [bold]{escape(generated)}[/]")


@app.command("set-role")
def set_role(
    who: WhoArgument,
    role: Annotated[str, typer.Argument(help=f"One of {', '.join(ROLES)}.", callback=check_role)],
    as_json: JsonOption = False,
) -> None:
    """Change a member's role.

    \b
    openmanus-rl members set-role ada@example.org admin
    """
    member = MemberManager.save_member(_find_member(who)["user_id"], as_role(role))
    if as_json:
        print_json(member)
    else:
        output.print(f"[bold green]{escape(who)}[/] is now {role}")


@app.command()
def remove(who: WhoArgument, as_json: JsonOption = False) -> None:
    """Remove a member, whose keys then work no more. The account and everything it recorded are kept.

    \b
    openmanus-rl members remove ada@example.org
    """
    member = _find_member(who)
    MemberManager.remove_member(member["user_id"])
    if as_json:
        print_json({"removed": member["user_id"]})
    else:
        output.print(f"{escape(who)} is no longer a member")


@app.command()
def link(who: WhoArgument, address: AddressOption = None, as_json: JsonOption = False) -> None:
    """Print a link that signs in as a member, valid once and for one day, e.g. when the password is forgotten.

    \b
    openmanus-rl members link ada@example.org
    """
    base = dashboard_address(address)
    email, token = MemberManager.make_sign_in_token(_find_member(who)["user_id"])
    made = f"{base}#token_hash={token}"
    print_json({"email": email, "link": made}) if as_json else output.print(escape(made), soft_wrap=True)


app.command("log")(audit.log)


def _find_member(who: str) -> Account:
    member = MemberManager.find_account(_checked(who))
    if member is None:
        raise NotFoundError(f"{who} is not a member", field="user_id", hint="see `openmanus-rl members list`")
    return member


def _find_user(who: str) -> dict[str, Any] | None:
    """Return the account of an id or an address; None if the address has none yet."""
    wanted = _checked(who)
    return get_client().users.find_by_email(wanted) if "@" in wanted else get_client().users.get(wanted)


def _checked(who: str) -> str:
    """Return an e-mail address or a user's id as it is compared."""
    who = who.strip()
    if _EMAIL.fullmatch(who):
        return who
    try:
        return str(UUID(who))
    except ValueError as error:
        raise typer.BadParameter(
            f"{who!r} is neither an email address nor a user id", param_hint="EMAIL|USER_ID"
        ) from error
