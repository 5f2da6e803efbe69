"""The roles that connect to the embedded Postgres. Only the start-up uses the superuser.

| role | connects | may |
|---|---|---|
| `postgres` | the start-up, to create the others | everything |
| `openmanus_owner` | `DATABASE_URL`, migrations | everything in this database, its own; create roles and databases |
| `authenticator` | the gateway | act as `anon`, `authenticated` and `service_role`; `auth` and `storage` |
| `openmanus_recorder` | the recorder | what `service_role` may: write and read the record |
"""

from __future__ import annotations

from openmanus_rl.local.keys import Keys
from openmanus_rl.local.ports import HOST
from openmanus_rl.transport.postgres import PostgresConnection, session

SUPERUSER = "postgres"
OWNER = "openmanus_owner"
API = "authenticator"
RECORDER = "openmanus_recorder"

# The attributes of each role. Every start sets them, and so reverts manual changes.
_ATTRIBUTES = {
    OWNER: "createdb createrole bypassrls inherit",
    API: "nocreatedb nocreaterole bypassrls inherit",
    RECORDER: "nocreatedb nocreaterole bypassrls inherit",
}

# Earlier versions did everything as the superuser: transfer what it owns. Event triggers, which watch the schema, stay,
# because only those of a superuser fire for everybody.
_TRANSFER_OWNERSHIP = f"""
do $$
declare
  command text;
begin
  for command in
    with spaces as (
      select oid, nspname from pg_catalog.pg_namespace
      where nspname !~ '^pg_' and nspname not in ('information_schema', 'extensions')
    )
    select format('alter schema %I owner to {OWNER}', nspname)
    from spaces join pg_catalog.pg_namespace using (oid, nspname) where nspowner = 10
    union all
    select format('alter %s %s owner to {OWNER}',
      case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
        when 'c' then 'type' else 'table' end, c.oid::regclass)
    from pg_catalog.pg_class c join spaces s on s.oid = c.relnamespace
    where c.relowner = 10 and c.relkind in ('r', 'p', 'v', 'm', 'S', 'c')
      and not exists (select 1 from pg_catalog.pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i', 'e'))
    union all
    select format('alter routine %s owner to {OWNER}', p.oid::regprocedure)
    from pg_catalog.pg_proc p join spaces s on s.oid = p.pronamespace
    where p.proowner = 10
      and not exists (select 1 from pg_catalog.pg_depend d where d.objid = p.oid and d.deptype = 'e')
    union all
    select format('alter type %s owner to {OWNER}', t.oid::regtype)
    from pg_catalog.pg_type t join spaces s on s.oid = t.typnamespace
    where t.typowner = 10 and t.typtype in ('e', 'd', 'r')
      and not exists (select 1 from pg_catalog.pg_depend d where d.objid = t.oid and d.deptype = 'e')
  loop
    execute command;
  end loop;
  if (select datdba from pg_catalog.pg_database where datname = current_database()) = 10 then
    execute format('alter database %I owner to {OWNER}', current_database());
  end if;
end $$
"""


# A schema that was created again, for example by restoring a dump, has no grants.
_GRANT_PUBLIC_USAGE = f"""
do $$
begin
  if to_regnamespace('public') is not null then
    grant usage on schema public to anon, authenticated, service_role, {API}, {RECORDER};
  end if;
end $$
"""

# Used by dumps, loads and benchmarks; none of these gives access beyond the database.
_AS_ON_HOSTED_PROJECTS = f"""
grant pg_monitor, pg_checkpoint to {OWNER};
grant set on parameter session_replication_role to {OWNER};
"""


def superuser_url(keys: Keys, port: int) -> str:
    """Return the superuser's URL, which only the start-up uses and which is not published."""
    return _url(SUPERUSER, keys.superuser_password, port)


def owner_url(keys: Keys, port: int) -> str:
    """Return the URL for users and their programs."""
    return _url(OWNER, keys.database_password, port)


def api_url(keys: Keys, port: int) -> str:
    """Return the URL for the gateway."""
    return _url(API, keys.api_password, port)


def recorder_url(keys: Keys, port: int) -> str:
    """Return the URL for the recorder."""
    return _url(RECORDER, keys.recorder_password, port)


def ensure_roles(keys: Keys, port: int) -> None:
    """Set the attributes and password of each role, and transfer to the owner what the superuser still owns."""
    passwords = {OWNER: keys.database_password, API: keys.api_password, RECORDER: keys.recorder_password}
    with session(superuser_url(keys, port), attempt="set up the database roles") as connection:
        connection.execute("set local statement_timeout = 0")
        for role, password in passwords.items():
            _configure_role(connection, role, password)
        connection.execute(_TRANSFER_OWNERSHIP)
        connection.execute(_GRANT_PUBLIC_USAGE)
        connection.execute(_AS_ON_HOSTED_PROJECTS)


def _configure_role(connection: PostgresConnection, role: str, password: str) -> None:
    # Hashed here, because the log of a failed statement must not contain a password.
    digest = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    attributes = f"login nosuperuser noreplication {_ATTRIBUTES[role]}"
    connection.execute(f"alter role {role} with {attributes} password '{digest}'".encode())


def _url(role: str, password: str, port: int) -> str:
    return f"postgresql://{role}:{password}@{HOST}:{port}/postgres"
