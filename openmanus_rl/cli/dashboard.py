"""`dashboard`: print a sign-in link, or export the dashboard as static files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.markup import escape

from openmanus_rl import __version__
from openmanus_rl.cli.console import messages, output, print_error, print_json
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.stack import NOT_RUNNING, names_another
from openmanus_rl.errors import NotFoundError, SettingsError, StackError
from openmanus_rl.local import launch
from openmanus_rl.local.assets import find_assets
from openmanus_rl.local.dashboard_export import export_dashboard
from openmanus_rl.local.owner import OWNER_EMAIL, sign_in_link
from openmanus_rl.local.places import home_of
from openmanus_rl.settings import Settings, key_kind, load_settings


def dashboard(
    address: Annotated[
        str | None, typer.Option("--address", help="Hosted project: URL where the dashboard is deployed.")
    ] = None,
    email: Annotated[str | None, typer.Option("--email", help="Hosted project: account to sign in to.")] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="DIR", help="Write the dashboard as static files for the project in the settings."
        ),
    ] = None,
    base: Annotated[str, typer.Option("--base", help="With --export: URL path under which it will be served.")] = "/",
    force: Annotated[
        bool, typer.Option("--force", help="With --export: write into a folder that is not empty.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print a sign-in link to the dashboard, valid once and for one day; exit code 3 if the stack is not running.

    \b
    openmanus-rl dashboard
    openmanus-rl dashboard --address https://runs.example.org/ --email ada@example.org
    openmanus-rl dashboard --export site --base /openmanus-rl/
    """
    settings = load_settings()
    if export is not None:
        _export(settings, export, base=base, force=force, as_json=as_json)
        return
    running = launch.find_or_replace(home_of(settings))
    if names_another(settings, running):
        link, who = _hosted_link(settings, address, email)
    elif address is not None or email is not None:
        raise typer.BadParameter(
            "is for hosted projects only; set SUPABASE_URL and its keys", param_hint="--address/--email"
        )
    elif running is None:
        message = "nothing is running here; start it with `openmanus-rl up`"
        print_json({"running": False, "message": message}) if as_json else print_error(message)
        raise typer.Exit(NOT_RUNNING)
    else:
        link, who = sign_in_link(running), OWNER_EMAIL
        if find_assets().dashboard is None:
            messages.print("This installation has no dashboard; build it with scripts/build_dashboard")
    if as_json:
        print_json({"running": True, "dashboard_url": link, "email": who})
    else:
        output.print(escape(link))


def _hosted_link(settings: Settings, address: str | None, email: str | None) -> tuple[str, str]:
    for option, value, what in (
        ("--address", address, "the URL where the dashboard is deployed (`--export` writes the files to deploy)"),
        ("--email", email, "the account to sign in to"),
    ):
        if value is None:
            raise typer.BadParameter(f"is required: {what}", param_hint=option)
    assert address is not None
    assert email is not None
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.fragment:
        raise typer.BadParameter(f"{address!r} is not a URL such as https://runs.example.org/", param_hint="--address")
    settings.require_service_role_key()

    # Imported here because it loads every database client, which the embedded stack's link does not need.
    from openmanus_rl.connections import get_client

    users = get_client().users
    if users.find_by_email(email) is None:
        raise NotFoundError(
            f"{email} has no account at {settings.require_url()}",
            hint=f"`openmanus-rl members add {email} --role viewer` creates one",
        )
    return f"{address}#token_hash={users.make_sign_in_token(email)}", email


def _export(settings: Settings, folder: Path, *, base: str, force: bool, as_json: bool) -> None:
    if not (base.startswith("/") and base.endswith("/")):
        raise typer.BadParameter(f"{base!r} must begin and end with a slash", param_hint="--base")
    source = find_assets().dashboard
    if source is None:
        raise StackError(
            "this installation has no dashboard to export; build it with scripts/build_dashboard, or install a wheel"
        )
    if settings.url is None:
        raise SettingsError(
            "SUPABASE_URL is missing: the exported files are for one hosted project",
            setting="SUPABASE_URL",
            hint="set SUPABASE_URL and SUPABASE_ANON_KEY; the embedded stack serves its dashboard itself",
        )
    key = settings.require_anon_key()
    # Checked again because the key is published here.
    if key_kind(key).privileged:
        raise SettingsError("SUPABASE_ANON_KEY is not a publishable key", setting="SUPABASE_ANON_KEY")
    config = {"supabaseUrl": settings.url, "publishableKey": key, "embedded": False, "version": __version__}
    export_dashboard(source, folder, config=config, base=base, force=force)
    if as_json:
        print_json({"exported": str(folder), "base": base, "supabaseUrl": settings.url})
    else:
        output.print(
            f"Wrote the dashboard of {escape(settings.url)} to {escape(str(folder))}; serve it under {escape(base)}"
        )
