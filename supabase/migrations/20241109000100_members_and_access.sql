-- Members of the workspace, and the row security of every other table.

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

-- Roles -------------------------------------------------------------------------------------------------------------------------

create function internal.member_role() returns text
language sql stable security definer set search_path = ''
as $$ select m.role from public.members m where m.user_id = auth.uid() $$;

create function internal.is_member() returns boolean
language sql stable set search_path = ''
as $$ select internal.member_role() is not null $$;

create function internal.is_editor() returns boolean
language sql stable set search_path = ''
as $$ select coalesce(internal.member_role() in ('editor', 'admin'), false) $$;

create function internal.is_admin() returns boolean
language sql stable set search_path = ''
as $$ select coalesce(internal.member_role() = 'admin', false) $$;

revoke execute on function internal.member_role, internal.is_member, internal.is_editor, internal.is_admin from public;
grant execute on function internal.member_role, internal.is_member, internal.is_editor, internal.is_admin
  to anon, authenticated, service_role;

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

-- Not by internal.protect: only admins change members.
alter table public.members enable row level security;
revoke all on table public.members from public, anon, authenticated, service_role;
grant select, insert, update, delete on table public.members to authenticated, service_role;
create policy "members read members" on public.members
  for select to authenticated using ((select internal.is_member()));
create policy "admins add members" on public.members
  for insert to authenticated with check ((select internal.is_admin()));
create policy "admins change members" on public.members
  for update to authenticated using ((select internal.is_admin())) with check ((select internal.is_admin()));
create policy "admins remove members" on public.members
  for delete to authenticated using ((select internal.is_admin()));
