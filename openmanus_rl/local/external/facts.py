"""What a database is, and what the role that connects to it may do."""

from __future__ import annotations

from dataclasses import dataclass, fields

from openmanus_rl.transport.postgres import PostgresConnection

API_ROLES = ("anon", "authenticated", "service_role")
"""The roles that requests act as, named as in every Supabase. They belong to the whole server, and cannot log in."""
PRIVATE_SCHEMA = "openmanus_rl"
"""What only the owner reads: the keys that all gateways of the database share."""

# Whoever has both rights on a role may give it to others: until Postgres 15 by CREATEROLE alone.
_FACTS = """
with me as (select * from pg_catalog.pg_roles where rolname = current_user),
owner as (
  select n.nspowner from pg_catalog.pg_namespace n where n.nspname in ('openmanus_rl', 'internal', 'auth')
  order by array_position(array['openmanus_rl', 'internal', 'auth'], n.nspname::text) limit 1
),
present as (
  -- Not by to_regclass, which fails for a schema that is not ours to use.
  select array(
    select n.nspname || '.' || c.relname from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('openmanus_rl', 'auth', 'supabase_migrations') and c.relkind = 'r'
  ) as names
),
api as (select r.oid, r.rolname from pg_catalog.pg_roles r where r.rolname = any (%(api_roles)s))
select
  current_setting('server_version_num')::int as version_number,
  current_setting('server_version') as version,
  current_database()::text as database,
  session_user::text as login,
  current_setting('server_encoding') as encoding,
  pg_catalog.pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' as is_read_only,
  me.rolsuper as is_superuser,
  me.rolcreaterole or me.rolsuper as may_create_roles,
  has_database_privilege(current_database(), 'create') as may_create_schemas,
  has_database_privilege(current_database(), 'temp') as may_use_temporary_tables,
  coalesce(has_schema_privilege(to_regnamespace('public'), 'create'), false) as may_use_public,
  array(select rolname::text from api) as api_roles,
  array(select rolname::text from api where pg_has_role(oid, 'member')) as roles_held,
  array(
    select api.rolname::text from api where me.rolsuper
      or (me.rolcreaterole and current_setting('server_version_num')::int < 160000)
      or exists (select from pg_catalog.pg_auth_members m where m.roleid = api.oid and m.admin_option
        and pg_has_role(m.member, 'usage'))
  ) as roles_to_give,
  (select pg_get_userbyid(nspowner)::text from owner) as owner,
  coalesce((select pg_has_role(nspowner, 'member') from owner), true) as acts_for_owner,
  exists (select from pg_catalog.pg_roles where rolname = 'supabase_auth_admin') as is_hosted,
  'openmanus_rl.gateway' = any (present.names) as has_keys,
  'auth.sign_in_links' = any (present.names) as has_system_schema,
  'supabase_migrations.schema_migrations' = any (present.names) as has_history,
  array(
    select n.nspname || '.' || c.relname from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('public', 'internal', 'auth', 'storage') and c.relkind in ('r', 'p', 'v', 'm', 'f')
      and not exists (select from pg_catalog.pg_depend d where d.objid = c.oid and d.deptype = 'e')
    order by 1 limit 4
  ) as tables
from me, present
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found; rights are those of the role that connected."""

    version_number: int
    version: str
    database: str
    login: str
    encoding: str
    is_read_only: bool
    is_superuser: bool
    may_create_roles: bool
    may_create_schemas: bool
    may_use_temporary_tables: bool
    may_use_public: bool
    api_roles: list[str]
    roles_held: list[str]
    roles_to_give: list[str]
    owner: str | None
    """The role that owns what is set up; None before that."""
    acts_for_owner: bool
    is_hosted: bool
    """Whether the server is a Supabase project, hosted or self-hosted, which has an API of its own."""
    has_keys: bool
    has_system_schema: bool
    has_history: bool
    tables: list[str]
    """The first tables in the schemas that are needed."""

    @property
    def is_embedded(self) -> bool:
        """Whether it is the database of an embedded stack, which has a gateway of its own."""
        return self.owner == "openmanus_owner" and not self.has_keys


def read_facts(connection: PostgresConnection) -> Facts:
    """Look at the database without changing it."""
    row = connection.execute(_FACTS, {"api_roles": list(API_ROLES)}).fetchone()
    assert row is not None, "every connection has a role"
    return Facts(**{field.name: value for field, value in zip(fields(Facts), row, strict=True)})
