-- Who did what: written by the database's own functions and triggers, read by admins, changed by nobody.

create table public.audit_log (
  id uuid primary key default internal.new_id(),
  happened_at timestamptz not null default clock_timestamp(),
  action text not null,
  actor_kind text not null check (actor_kind in ('member', 'key', 'secret_key', 'system')),
  actor_id uuid,
  actor_name text,
  key_id uuid,
  key_name text,
  subject text,
  subject_id uuid,
  subject_name text,
  details jsonb not null default '{}'
);
comment on table public.audit_log is 'Who did what, and when. `actor_kind` is how: as a member, with a member''s key, with the secret key, or the system itself (also a direct connection to the database). Names are those of that time; ids stay when what they name is gone.';
create unique index audit_log_by_time on public.audit_log (happened_at desc, id);

alter table public.audit_log enable row level security;
revoke all on table public.audit_log from public, anon, authenticated, service_role;
grant select on table public.audit_log to authenticated, service_role;
create policy "admins read the audit log" on public.audit_log
  for select to authenticated using ((select internal.is_admin()));

-- Writing -----------------------------------------------------------------------------------------------------------------------

create function internal.name_of_user(of_user_id uuid) returns text
language sql stable security definer set search_path = ''
as $$
  select coalesce(
    (select m.display_name from public.members m where m.user_id = of_user_id), (select u.email from auth.users u where u.id = of_user_id))
$$;

create function internal.note(action text, subject text default null, subject_id uuid default null, subject_name text default null, details jsonb default '{}')
returns void
language plpgsql volatile security definer set search_path = ''
as $$
#variable_conflict use_variable
declare
  -- Where the system acts for somebody who has just shown who they are, as when an invitation is accepted.
  acting constant uuid := nullif(current_setting('openmanus_rl.acting', true), '')::uuid;
  actor constant uuid := coalesce(acting, auth.uid());
  used_key constant uuid := case when acting is null then internal.key_id() end;
begin
  insert into public.audit_log (action, actor_kind, actor_id, actor_name, key_id, key_name, subject, subject_id, subject_name, details)
  values (action,
    case when used_key is not null then 'key' when actor is not null then 'member' when auth.jwt() ->> 'role' = 'service_role' then 'secret_key' else 'system' end,
    actor, internal.name_of_user(actor), used_key, (select k.name from public.member_keys k where k.id = used_key),
    subject, subject_id, left(subject_name, 500), details);
end
$$;

create function internal.note_many(action text, subject text, subject_ids uuid[]) returns void
language plpgsql volatile set search_path = ''
as $$
begin
  -- One entry for one request, which may be about thousands.
  if cardinality(subject_ids) > 0 then
    perform internal.note(action, subject, subject_ids[1], null,
      case when cardinality(subject_ids) > 1 then jsonb_build_object('count', cardinality(subject_ids), 'ids', to_jsonb(subject_ids[:100])) else '{}' end);
  end if;
end
$$;

-- Members and their keys --------------------------------------------------------------------------------------------------------

create function internal.note_member() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    perform internal.note('member.added', 'members', new.user_id, internal.name_of_user(new.user_id), jsonb_build_object('role', new.role));
  elsif tg_op = 'DELETE' then
    perform internal.note('member.removed', 'members', old.user_id, coalesce(old.display_name, internal.name_of_user(old.user_id)), jsonb_build_object('role', old.role));
  else
    perform internal.note('member.role_changed', 'members', new.user_id, internal.name_of_user(new.user_id), jsonb_build_object('from', old.role, 'to', new.role));
  end if;
  return null;
end
$$;

create trigger note_member after insert or delete on public.members for each row execute function internal.note_member();
create trigger note_role after update on public.members for each row when (old.role is distinct from new.role) execute function internal.note_member();

create function internal.remove_member_first() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  -- With the account goes the address, by which the log names its member.
  delete from public.members m where m.user_id = old.id;
  return old;
end
$$;

create trigger remove_member_first before delete on auth.users for each row execute function internal.remove_member_first();

create function internal.note_key() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.note(case tg_op when 'INSERT' then 'key.created' else 'key.revoked' end, 'member_keys', new.id, new.name,
    jsonb_build_object('member', internal.name_of_user(new.member_id), 'prefix', new.prefix, 'role', new.role, 'expires_at', new.expires_at));
  return null;
end
$$;

create trigger note_new_key after insert on public.member_keys for each row execute function internal.note_key();
create trigger note_revoked_key after update on public.member_keys for each row
  when (old.revoked_at is null and new.revoked_at is not null) execute function internal.note_key();

-- Sign-ins ----------------------------------------------------------------------------------------------------------------------

create function internal.note_sign_in() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if exists (select 1 from public.members m where m.user_id = new.id) then
    perform set_config('openmanus_rl.acting', new.id::text, true);
    perform internal.note('sign_in.succeeded');
    perform set_config('openmanus_rl.acting', '', true);
  end if;
  return null;
end
$$;

-- Supabase Auth, hosted or embedded, writes it with every sign-in, and not when a session is renewed.
create trigger note_sign_in after update of last_sign_in_at on auth.users for each row
  when (new.last_sign_in_at is distinct from old.last_sign_in_at) execute function internal.note_sign_in();

create function internal.note_failed_sign_in(of_email text) returns void
language plpgsql volatile security definer set search_path = ''
as $$
-- Called by the embedded gateway; hosted projects keep failures in the log of Auth. At most one entry for an account in ten minutes.
declare
  failed public.members;
begin
  select m.* into failed from public.members m join auth.users u on u.id = m.user_id where u.email = of_email;
  if failed.user_id is not null and not exists (
    select 1 from public.audit_log a where a.happened_at > now() - interval '10 minutes' and a.action = 'sign_in.failed' and a.subject_id = failed.user_id) then
    insert into public.audit_log (action, actor_kind, subject, subject_id, subject_name)
    values ('sign_in.failed', 'system', 'members', failed.user_id, internal.name_of_user(failed.user_id));
  end if;
end
$$;

revoke execute on function internal.name_of_user, internal.note, internal.note_many, internal.note_member, internal.remove_member_first, internal.note_key, internal.note_sign_in,
  internal.note_failed_sign_in from public;
grant execute on function internal.note, internal.note_many to authenticated, service_role;
grant execute on function internal.note_failed_sign_in to service_role;
