-- Members of the workspace, the keys that act for them, and the row security of every other table.

create table public.members (
  user_id uuid primary key references auth.users (id) on delete cascade,
  role text not null check (role in ('viewer', 'editor', 'admin')),
  display_name text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.members is 'Members of the workspace. A user who has only signed up is not a member and sees nothing.';

create trigger touch_updated_at before update on public.members
  for each row execute function internal.touch_updated_at();

create function internal.refuse_another_user() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- The log would not tell who went and who came.
  perform internal.fail('OM409', 'user_id', format('member %s: cannot become another user; remove the member and add the other', old.user_id));
end
$$;

create trigger refuse_another_user before update on public.members
  for each row when (old.user_id is distinct from new.user_id) execute function internal.refuse_another_user();
revoke execute on function internal.refuse_another_user from public;

create table public.member_keys (
  id uuid primary key default internal.new_id(),
  member_id uuid not null references public.members (user_id) on delete cascade,
  name text not null check (length(name) between 1 and 200),
  prefix text not null,
  role text not null check (role in ('viewer', 'editor', 'admin')),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
comment on table public.member_keys is 'Keys with which trainers and workers act for a member, with at most the role of the key and of the member. Of the key itself only a digest is kept, apart. `last_used_at` is exact to five minutes.';
create unique index member_keys_of_a_member on public.member_keys (member_id, id);

-- Roles -------------------------------------------------------------------------------------------------------------------------

create function internal.key_id() returns uuid
language sql stable set search_path = ''
-- The gateway puts the claim into the token of a request that came with a key.
as $$ select nullif(auth.jwt() ->> 'key_id', '')::uuid $$;

create function internal.member_role() returns text
language sql stable security definer set search_path = ''
as $$
  -- In the order of the alphabet a wider role comes before a narrower one: the greatest is the one that both the member and the key have.
  select case when internal.key_id() is null then m.role else (
    select greatest(m.role, k.role) from public.member_keys k
    where k.id = internal.key_id() and k.member_id = m.user_id and k.revoked_at is null and coalesce(k.expires_at > now(), true)) end
  from public.members m where m.user_id = auth.uid()
$$;

create function internal.is_member() returns boolean
language sql stable set search_path = ''
as $$ select internal.member_role() is not null $$;

create function internal.is_editor() returns boolean
language sql stable set search_path = ''
as $$ select coalesce(internal.member_role() in ('editor', 'admin'), false) $$;

create function internal.is_admin() returns boolean
language sql stable set search_path = ''
as $$ select coalesce(internal.member_role() = 'admin', false) $$;

create function internal.manages_members() returns boolean
language sql stable set search_path = ''
-- Not with a key, however wide: who finds one must not be able to let others in, or to stay when it is revoked.
as $$ select internal.is_admin() and internal.key_id() is null $$;

create function internal.refuse_dead_key() returns void
language plpgsql stable set search_path = ''
as $$
-- For what is sent in batches: refused as a whole it is sent again with another key; record by record it would be refused for good.
begin
  if internal.key_id() is not null and internal.member_role() is null then
    raise sqlstate 'PGRST' using message = '{"code": "PGRST301", "message": "the key was revoked or has expired", "hint": "make a new one on the page Keys of the dashboard"}',
      detail = '{"status": 401, "headers": {}}';
  end if;
end
$$;

revoke execute on function internal.key_id, internal.member_role, internal.is_member, internal.is_editor, internal.is_admin, internal.manages_members,
  internal.refuse_dead_key from public;
grant execute on function internal.key_id, internal.member_role, internal.is_member, internal.is_editor, internal.is_admin, internal.manages_members,
  internal.refuse_dead_key to anon, authenticated, service_role;

-- Row security ------------------------------------------------------------------------------------------------------------------

create function internal.protect(target regclass, changes text, public_rows text default null, writable boolean default true)
returns void
language plpgsql set search_path = ''
as $$
-- Give a table its grants and policies. `changes` is the condition for an editor to own a row; `public_rows` the condition for the
-- publishable key to read it.
declare
  label text := replace((select relname from pg_catalog.pg_class where oid = target), '_', ' ');
  may_change text := format('(select internal.is_admin()) or ((select internal.is_editor()) and (%s))', changes);
begin
  execute format('alter table %s enable row level security', target);
  execute format('revoke all on table %s from public, anon, authenticated, service_role', target);
  execute format('grant select, insert, update, delete on table %s to service_role', target);
  execute format('grant select on table %s to authenticated', target);
  execute format('create policy %I on %s for select to authenticated using ((select internal.is_member()))',
    'members read ' || label, target);

  if public_rows is not null then
    execute format('grant select on table %s to anon', target);
    execute format('create policy %I on %s for select to anon using (%s)',
      'anyone reads ' || label || ' of public runs', target, public_rows);
  end if;

  if writable then
    execute format('grant insert, update, delete on table %s to authenticated', target);
    execute format('create policy %I on %s for insert to authenticated with check (%s)',
      'editors add ' || label || ' to what they own', target, may_change);
    execute format('create policy %I on %s for update to authenticated using (%s) with check (%s)',
      'owners change their ' || label, target, may_change, may_change);
    execute format('create policy %I on %s for delete to authenticated using (%s)',
      'owners delete their ' || label, target, may_change);
  end if;
end
$$;

create function internal.reserve(target regclass, variadic columns text[]) returns void
language plpgsql set search_path = ''
as $$
-- Columns that only the database's own functions and triggers write. Called after protect.
declare
  others text := (
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_catalog.pg_attribute a
    where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and not (a.attname = any (columns)));
begin
  execute format('revoke insert, update on %s from authenticated, service_role', target);
  execute format('grant insert (%1$s), update (%1$s) on %2$s to authenticated, service_role', others, target);
end
$$;

revoke execute on function internal.protect, internal.reserve from public;

-- Not by internal.protect: only admins change members, and only functions change keys.
alter table public.members enable row level security;
revoke all on table public.members from public, anon, authenticated, service_role;
grant select, insert, update, delete on table public.members to authenticated, service_role;
create policy "members read members" on public.members
  for select to authenticated using ((select internal.is_member()));
create policy "admins add members" on public.members
  for insert to authenticated with check ((select internal.manages_members()));
create policy "admins change members" on public.members
  for update to authenticated using ((select internal.manages_members())) with check ((select internal.manages_members()));
create policy "admins remove members" on public.members
  for delete to authenticated using ((select internal.manages_members()));

alter table public.member_keys enable row level security;
revoke all on table public.member_keys from public, anon, authenticated, service_role;
grant select on table public.member_keys to authenticated, service_role;
create policy "members read their keys" on public.member_keys
  for select to authenticated using ((select internal.is_admin()) or ((select internal.is_member()) and member_id = (select auth.uid())));

-- The last admin ----------------------------------------------------------------------------------------------------------------

create function internal.queue_for_members() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- One after the other: of two admins who remove each other at once, the second must see what the first did.
  perform pg_advisory_xact_lock(hashtextextended('openmanus-rl members', 0));
  return null;
end
$$;

create function internal.keep_an_admin() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if exists (select 1 from old_rows o where o.role = 'admin') and not exists (select 1 from public.members m where m.role = 'admin') then
    perform internal.fail('OM409', 'role', 'this is the last admin: make somebody else an admin first');
  end if;
  return null;
end
$$;

create trigger queue_for_members before update or delete on public.members
  for each statement execute function internal.queue_for_members();
create trigger keep_an_admin_on_update after update on public.members referencing old table as old_rows
  for each statement execute function internal.keep_an_admin();
create trigger keep_an_admin_on_delete after delete on public.members referencing old table as old_rows
  for each statement execute function internal.keep_an_admin();

revoke execute on function internal.queue_for_members, internal.keep_an_admin from public;
