"""`migrate`: set a database up, or upgrade its schema to this version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmanus_rl.cli.console import messages, output, print_json
from openmanus_rl.errors import SettingsError
from openmanus_rl.local import launch
from openmanus_rl.local.assets import find_assets, find_deno
from openmanus_rl.local.home import Home
from openmanus_rl.settings import load_settings

if TYPE_CHECKING:
    from openmanus_rl.local.migrations import Migration


def migrate(
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url", help="Database to migrate. Default: DATABASE_URL, or the running embedded stack."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List pending migrations without applying them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")] = False,
) -> None:
    """Apply pending migrations to a database. Uses the same history table as the Supabase CLI.

    In a Postgres that is not Supabase's, what a Supabase project has is made first: roles, the schemas auth and
    storage, and the keys. No superuser is needed; if the role lacks a right, nothing is changed, and the statement that
    grants it is printed.
    """
    # Imported here because it loads every database client, which other commands do not need.
    from openmanus_rl.local import migrations
    from openmanus_rl.local.external.setup import is_external, set_up

    url = database_url or _configured_database()
    assets = find_assets()
    folder = assets.migrations

    def on_apply(migration: Migration) -> None:
        messages.print(f"Applying {migration.path.name} …")

    if dry_run:
        result = migrations.plan(url, folder=folder)
    elif is_external(url):
        result = set_up(url, assets=assets, deno=find_deno(), on_apply=on_apply)
    else:
        result = migrations.migrate(url, folder=folder, on_apply=on_apply)
    names = [migration.path.name for migration in result.pending]
    if as_json:
        print_json(_report(result.applied, names, dry_run=dry_run))
        return
    for name in names if dry_run else []:
        output.print(f"would apply {name}")
    if not names:
        output.print(f"Up to date: {len(result.applied)} migrations")
    elif not dry_run:
        output.print(f"Applied {len(names)} migrations")


def _configured_database() -> str:
    settings = load_settings()
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    running = launch.find_or_replace(Home(settings.home.resolve())) if settings.is_embedded else None
    if running is None:
        raise SettingsError(
            "DATABASE_URL is not set and no embedded stack is running",
            setting="DATABASE_URL",
            hint="give --database-url, set DATABASE_URL, or run `openmanus-rl up`",
        )
    return running.database_url


def _report(applied: list[str], names: list[str], *, dry_run: bool) -> dict[str, Any]:
    return {"already_applied": applied, "pending" if dry_run else "applied": names}
