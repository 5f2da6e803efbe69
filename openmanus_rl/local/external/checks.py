"""Refuse a database that cannot be used, and name missing rights with the statements that grant them."""

from __future__ import annotations

from collections.abc import Iterator

from openmanus_rl.errors import ForbiddenError, SchemaMismatch, SettingsError, StackError
from openmanus_rl.local.external.facts import API_ROLES, Facts
from openmanus_rl.transport.postgres_names import quoted

OLDEST_VERSION = 15


def require_usable(facts: Facts, place: str) -> None:
    """Refuse a server that is too old, a Supabase project, or the database of an embedded stack."""
    if facts.version_number < OLDEST_VERSION * 10_000:
        raise StackError(
            f"{place} is Postgres {facts.version}, and openmanus-rl needs {OLDEST_VERSION} or newer",
            hint="upgrade the server, use another, or unset DATABASE_URL to use the embedded stack",
        )
    if facts.is_hosted:
        raise SettingsError(
            f"{place} is the database of a Supabase project, which has an API of its own: SUPABASE_URL is missing",
            setting="SUPABASE_URL",
            hint="set SUPABASE_URL and SUPABASE_SERVICE_ROLE_KEY beside DATABASE_URL",
        )
    if facts.is_embedded:
        raise SettingsError(
            f"{place} is the database of an embedded stack, which has a gateway of its own",
            setting="DATABASE_URL",
            hint="unset DATABASE_URL, or set all lines that `openmanus-rl status --env` prints for that stack",
        )
    if facts.encoding != "UTF8":
        statement = _statement("create database openmanus_rl owner {} encoding 'UTF8' template template0;", facts.login)
        raise StackError(
            f"{place} has the encoding {facts.encoding}, and the record holds text of any kind",
            hint=f"use a database in UTF8: {statement}",
        )


def require_owner(facts: Facts, place: str) -> None:
    """Refuse a database that another role has set up, unless this one acts for it."""
    if facts.acts_for_owner:
        return
    statement = _statement("grant {} to {};", facts.owner or "", facts.login)
    raise ForbiddenError(
        f'role "{facts.login}" may not use {place}, which role "{facts.owner}" has set up',
        hint=f"connect as that role, or let an administrator of the server run: {statement}",
        details={"statements": [statement]},
    )


def require_ready(facts: Facts, place: str, *, pending: int) -> None:
    """Refuse a database that has yet to be set up, or that is of an earlier version."""
    if not (facts.has_keys and facts.has_system_schema and facts.has_history):
        raise SchemaMismatch(
            f"{place} is not set up for openmanus-rl",
            hint="set it up with `openmanus-rl migrate`, or `openmanus-rl up --migrate`",
        )
    if pending:
        raise SchemaMismatch(
            f"{place} lacks {pending} migrations of this version",
            hint="apply them with `openmanus-rl migrate`, or `openmanus-rl up --migrate`",
        )


def require_rights(facts: Facts, place: str) -> None:
    """Refuse a setup that could not be completed, before anything is written."""
    if facts.is_read_only:
        raise StackError(
            f"{place} is read-only: a replica, or set so", hint="set DATABASE_URL to the address of the primary server"
        )
    require_owner(facts, place)
    statements = list(_missing(facts))
    if statements:
        raise ForbiddenError(
            f'role "{facts.login}" lacks rights on {place}; nothing was changed',
            hint="an administrator of the server grants them with: " + " ".join(statements),
            details={"statements": statements},
        )


def require_empty(facts: Facts, place: str) -> None:
    """Refuse a database in which somebody else's tables are; before the first migration only."""
    if facts.has_history or facts.has_keys or facts.has_system_schema or not facts.tables:
        return
    shown = ", ".join(facts.tables[:3]) + (" and more" if len(facts.tables) > 3 else "")
    raise SchemaMismatch(
        f"{place} holds tables that are not of openmanus-rl ({shown}); nothing was changed",
        hint=f"use a database of its own: {_statement('create database openmanus_rl owner {};', facts.login)}",
    )


def _missing(facts: Facts) -> Iterator[str]:
    """Yield the statements that grant what is missing."""
    role = facts.login
    absent = [name for name in API_ROLES if name not in facts.api_roles]
    if absent and not facts.may_create_roles:
        yield _statement("alter role {} createrole;", role)
        yield _without_createrole(absent, role)
    # Roles that another role made for another database of this server.
    elif not facts.is_superuser:
        unreachable = [name for name in facts.api_roles if name not in facts.roles_held + facts.roles_to_give]
        if unreachable:
            yield _statement("grant {} to {} with admin option;", unreachable, role)
    if not facts.may_create_schemas:
        yield _statement("grant create on database {} to {};", facts.database, role)
    if not facts.may_use_temporary_tables:
        yield _statement("grant temporary on database {} to {};", facts.database, role)
    if not facts.may_use_public:
        yield _statement("grant usage, create on schema public to {};", role)


def _without_createrole(absent: list[str], role: str) -> str:
    made = " ".join(f"create role {name} nologin;" for name in absent)
    return f"(or, to keep it from creating roles: {made} {_statement('grant {} to {};', list(API_ROLES), role)})"


def _statement(template: str, *names: str | list[str]) -> str:
    return template.format(*map(quoted, names))
