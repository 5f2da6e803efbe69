/**
 * What a hosted Supabase database has before the first migration: roles, `auth`, `storage`, schema reload.
 *
 * `authenticator` is whom the gateway connects as; `openmanus_owner` and `openmanus_recorder` are explained in
 * `openmanus_rl/local/roles.py`, which lets them in.
 */
import { getAuthSchemaSql, getStorageSchemaSql } from "@supabase/lite";
import type { GatewayConnection } from "./database.ts";

const ROLES_SQL = `
do $$
begin
  if not exists (select from pg_roles where rolname = 'anon') then
    create role anon nologin noinherit;
  end if;
  if not exists (select from pg_roles where rolname = 'authenticated') then
    create role authenticated nologin noinherit;
  end if;
  if not exists (select from pg_roles where rolname = 'service_role') then
    create role service_role nologin noinherit bypassrls;
  end if;
  if not exists (select from pg_roles where rolname = 'authenticator') then
    create role authenticator nologin bypassrls;
  end if;
  if not exists (select from pg_roles where rolname = 'openmanus_owner') then
    create role openmanus_owner nologin createdb createrole bypassrls;
  end if;
  if not exists (select from pg_roles where rolname = 'openmanus_recorder') then
    create role openmanus_recorder nologin bypassrls;
  end if;
end $$;
grant anon, authenticated, service_role to authenticator, openmanus_owner;
grant service_role to openmanus_recorder;
alter role anon set statement_timeout = '3s';
alter role authenticated set statement_timeout = '8s';
alter role authenticator set statement_timeout = '60s';
create schema if not exists auth;
create schema if not exists extensions;
`;

// The claims come from request.jwt.claims, as on hosted projects; policies and functions read them through these.
const AUTH_FUNCTIONS_SQL = `
create or replace function auth.jwt() returns jsonb language sql stable set search_path = '' as $$
  select coalesce(nullif(current_setting('request.jwt.claims', true), ''), '{}')::jsonb
$$;
create or replace function auth.uid() returns uuid language sql stable set search_path = '' as $$
  select nullif(auth.jwt() ->> 'sub', '')::uuid
$$;
create or replace function auth.role() returns text language sql stable set search_path = '' as $$
  select nullif(auth.jwt() ->> 'role', '')
$$;
create or replace function auth.email() returns text language sql stable set search_path = '' as $$
  select nullif(auth.jwt() ->> 'email', '')
$$;
`;

// Of a link only a digest is kept: whoever reads the table can sign in with none of them.
const SIGN_IN_LINKS_SQL = `
create table if not exists auth.sign_in_links (
  token_digest text primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  expires_at timestamptz not null
);
`;

// As on hosted projects: how the user of each session signed in, which tokens tell as `amr`.
const SESSION_METHODS_SQL = `
create table if not exists auth.mfa_amr_claims (
  id uuid primary key,
  session_id uuid not null references auth.sessions (id) on delete cascade,
  authentication_method text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint mfa_amr_claims_session_id_authentication_method_pkey unique (session_id, authentication_method)
);
`;

// No default privileges: on hosted projects a new table is granted to no API role either.
const GRANTS_SQL = `
grant usage on schema public, auth, storage, extensions to anon, authenticated, service_role;
grant all on storage.buckets, storage.objects to anon, authenticated, service_role;
grant execute on all functions in schema storage to anon, authenticated, service_role;
grant usage on schema auth, storage, extensions to authenticator, openmanus_owner;
grant select, insert, update, delete on all tables in schema auth to authenticator, openmanus_owner;
`;

// Hosted projects tell PostgREST of every change to the schema with event triggers of this name. Temporary tables are no such change.
const SCHEMA_WATCH_SQL = `
create or replace function extensions.pgrst_ddl_watch() returns event_trigger
language plpgsql set search_path = '' as $$
begin
  if tg_event = 'sql_drop' then
    if not exists (select from pg_event_trigger_dropped_objects() o where not o.is_temporary) then
      return;
    end if;
  elsif not exists (
    select from pg_event_trigger_ddl_commands() c where c.command_tag <> 'GRANT' and c.schema_name is distinct from 'pg_temp'
  ) then
    return;
  end if;
  notify pgrst, 'reload schema';
end $$;
do $$
begin
  if not exists (select from pg_event_trigger where evtname = 'pgrst_ddl_watch') then
    create event trigger pgrst_ddl_watch on ddl_command_end execute function extensions.pgrst_ddl_watch();
  end if;
  if not exists (select from pg_event_trigger where evtname = 'pgrst_drop_watch') then
    create event trigger pgrst_drop_watch on sql_drop execute function extensions.pgrst_ddl_watch();
  end if;
end $$;
`;

/** Create what is missing, in one transaction; running it again changes nothing. */
export async function ensureSystemSchema(connection: GatewayConnection): Promise<void> {
  const statements = [
    ROLES_SQL,
    getAuthSchemaSql(),
    getStorageSchemaSql(),
    AUTH_FUNCTIONS_SQL,
    SIGN_IN_LINKS_SQL,
    SESSION_METHODS_SQL,
    GRANTS_SQL,
    SCHEMA_WATCH_SQL,
  ];
  await connection.driver.begin(async (transaction) => {
    // Two stacks on one database must not create the same role at once.
    await transaction`select pg_advisory_xact_lock(hashtext('openmanus-rl system schema'))`;
    for (const statement of statements) await transaction.unsafe(statement);
  });
}
