"""Roles of a database that no superuser set up.

Only a superuser makes roles that row security does not hold for. So `service_role` is an ordinary role here, and every
table with row security has a policy that lets it do all: what the role may do is the same as on a hosted project.
"""

from __future__ import annotations

from openmanus_rl.local.external.facts import API_ROLES, Facts
from openmanus_rl.local.external.keys import DatabaseKeys
from openmanus_rl.transport.postgres import PostgresConnection
from openmanus_rl.transport.postgres_names import quoted

_POLICIES = """
do $$
declare
  target regclass;
begin
  for target in
    select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relrowsecurity and n.nspname in ('public', 'internal', 'realtime', 'storage')
      and pg_catalog.pg_has_role(c.relowner, 'usage')
      and not exists (
        select from pg_catalog.pg_policy p where p.polrelid = c.oid and p.polname = 'the secret key does all')
  loop
    execute format(
      'create policy "the secret key does all" on %s for all to service_role using (true) with check (true)', target);
  end loop;
end $$
"""


def ensure_api_roles(connection: PostgresConnection, facts: Facts, owner: str) -> None:
    """Create the roles that requests act as, and let the owner act as them."""
    for name in API_ROLES:
        if name not in facts.api_roles:
            connection.execute(f"create role {quoted(name)} nologin noinherit".encode())
    lacking = [name for name in API_ROLES if name not in facts.roles_held]
    if lacking and not facts.is_superuser:
        connection.execute(_grant(lacking, owner))


def ensure_gateway_role(connection: PostgresConnection, facts: Facts, keys: DatabaseKeys) -> None:
    """Create the role that gateways log in as; without the right to, they log in as whom DATABASE_URL names."""
    given = set(facts.roles_to_give) | (set(API_ROLES) - set(facts.api_roles))
    if not facts.may_create_roles or not given.issuperset(API_ROLES):
        return
    role = quoted(keys.role)
    known = connection.execute("select from pg_catalog.pg_roles where rolname = %s", [keys.role]).fetchone()
    if known is None:
        connection.execute(f"create role {role} nologin".encode())
    # Hashed here, because a server may log statements.
    digest = connection.pgconn.encrypt_password(keys.password.encode(), keys.role.encode(), b"scram-sha-256").decode()
    connection.execute(f"alter role {role} with login inherit password '{digest}'".encode())
    connection.execute(_grant(list(API_ROLES), keys.role))


def grant_to_gateway(connection: PostgresConnection, keys: DatabaseKeys) -> None:
    """Grant what the gateway itself reads and writes: accounts and sessions. All else it does as the caller."""
    if connection.execute("select from pg_catalog.pg_roles where rolname = %s", [keys.role]).fetchone() is None:
        return
    role, database = quoted(keys.role), quoted(connection.info.dbname)
    for statement in (
        f"grant connect on database {database} to {role}",
        f"grant usage on schema public, auth, storage, extensions to {role}",
        f"grant select, insert, update, delete on all tables in schema auth to {role}",
        f"grant select, insert, update, delete on storage.unreferenced_versions, storage.content_location to {role}",
    ):
        connection.execute(statement.encode())


def ensure_policies(connection: PostgresConnection) -> None:
    """Let `service_role` do all on every table with row security."""
    connection.execute(_POLICIES.encode())


def _grant(names: list[str], role: str) -> bytes:
    return f"grant {quoted(names)} to {quoted(role)}".encode()
