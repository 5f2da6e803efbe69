/**
 * What a hosted Supabase database has before the first migration: roles, `auth`, `storage`, schema reload.
 *
 * In the embedded Postgres a superuser makes all of it: `authenticator` is whom the gateway connects as;
 * `openmanus_owner` and `openmanus_recorder` are explained in `openmanus_rl/local/roles.py`, which lets them in. In any
 * other Postgres an ordinary role makes it, for which `openmanus_rl/local/external/` makes the roles.
 */
import { getAuthSchemaSql, getStorageSchemaSql } from "@supabase/lite";
import type { GatewayConnection } from "./database.ts";
import { VERSIONS_SQL } from "./storage/versions.ts";

const EMBEDDED_ROLES_SQL = `
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
`;

const SCHEMAS_SQL = `
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
alter table auth.sign_in_links add column if not exists kind text not null default 'magiclink';
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
`;

// The version of an external database may have come with a backup of it; this one is always made by the version that runs.
const EMBEDDED_GRANTS_SQL = `
comment on schema auth is null;
grant usage on schema auth, storage, extensions to authenticator, openmanus_owner;
grant select, insert, update, delete on all tables in schema auth to authenticator, openmanus_owner;
grant select, insert, update, delete on storage.unreferenced_versions, storage.content_location
  to authenticator, openmanus_owner;
-- As on hosted projects: the migrations watch for sign-ins.
grant trigger on auth.users to openmanus_owner;
`;

// Hosted projects tell PostgREST of every change to the schema with event triggers of this name. Temporary tables are no
// such change. Where only superusers may make event triggers, the gateway looks for changes itself.
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
exception when insufficient_privilege then
  null;
end $$;
`;

// As on hosted projects: tables whose changes are told, and policies for private channels.
const REALTIME_SQL = `
do $$
begin
  if not exists (select from pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
end $$;
create schema if not exists realtime;
create table if not exists realtime.messages (
  id uuid primary key default gen_random_uuid(),
  topic text not null,
  extension text not null,
  payload jsonb,
  event text,
  private boolean default false,
  inserted_at timestamp not null default now(),
  updated_at timestamp not null default now()
);
alter table realtime.messages enable row level security;
create or replace function realtime.topic() returns text language sql stable set search_path = '' as $$
  select nullif(current_setting('realtime.topic', true), '')
$$;
grant usage on schema realtime to anon, authenticated, service_role;
grant select, insert, update on realtime.messages to anon, authenticated;
grant all on realtime.messages to service_role;
`;

const EMBEDDED_REALTIME_SQL = `
alter role authenticator with replication;
alter publication supabase_realtime owner to openmanus_owner;
alter table realtime.messages owner to openmanus_owner;
grant usage, create on schema realtime to openmanus_owner;
`;

const COMMON_SQL = [
  SCHEMAS_SQL,
  getAuthSchemaSql(),
  getStorageSchemaSql(),
  AUTH_FUNCTIONS_SQL,
  SIGN_IN_LINKS_SQL,
  SESSION_METHODS_SQL,
  GRANTS_SQL,
  VERSIONS_SQL,
  SCHEMA_WATCH_SQL,
  REALTIME_SQL,
];

/** Create what is missing in the embedded Postgres, in one transaction; running it again changes nothing. */
export async function ensureSystemSchema(connection: GatewayConnection): Promise<void> {
  await connection.driver.begin(async (transaction) => {
    // Two stacks on one database must not create the same role at once.
    await transaction`select pg_advisory_xact_lock(hashtext('openmanus-rl system schema'))`;
    for (const statement of [EMBEDDED_ROLES_SQL, ...COMMON_SQL, EMBEDDED_GRANTS_SQL, EMBEDDED_REALTIME_SQL]) {
      await transaction.unsafe(statement);
    }
  });
}

/** The statements that create what is missing in another Postgres, as an ordinary role, and note of which version it is. */
export async function adoptionStatements(): Promise<string[]> {
  return [...COMMON_SQL, `comment on schema auth is '${MARK}${await version()}'`];
}

/** Refuse a database whose system schema was made by another version; the embedded one is made anew at every upgrade. */
export async function requireSystemSchema(connection: GatewayConnection): Promise<void> {
  const [row] = await connection.driver<{ mark: string | null }[]>`
    select obj_description(to_regnamespace('auth'), 'pg_namespace') as mark`;
  if (!row.mark?.startsWith(MARK) || row.mark === MARK + await version()) return;
  throw new Error("the schemas auth and storage are of another version; run `openmanus-rl migrate`");
}

const MARK = "openmanus-rl system schema ";

async function version(): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(COMMON_SQL.join("\n")));
  return new Uint8Array(digest).toHex().slice(0, 16);
}
