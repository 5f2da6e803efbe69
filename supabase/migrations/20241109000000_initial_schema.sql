-- The foundation: who belongs, how a status moves, who may read and change a table, and the training run that the rest hangs on.

create schema internal;
comment on schema internal is 'Rules and helpers. Not exposed by the API.';
grant usage on schema internal to anon, authenticated, service_role;

-- Ids ---------------------------------------------------------------------------------------------------------------------------

create function internal.new_id() returns uuid
language sql volatile set search_path = ''
as $$
  -- A UUIDv7: 48 bits of milliseconds, then random. Rows made together lie together in the index.
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1),
    'hex')::uuid
$$;

create function internal.touch_updated_at() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- Saying again what is known changes nothing.
  if new is distinct from old then
    new.updated_at := now();
  end if;
  return new;
end
$$;

-- Members -----------------------------------------------------------------------------------------------------------------------

create table public.members (
  user_id uuid primary key references auth.users (id) on delete cascade,
  role text not null check (role in ('viewer', 'editor', 'admin')),
  display_name text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.members is 'Who belongs to the workspace. Whoever merely signed up is not here and sees nothing.';

create trigger touch_updated_at before update on public.members
  for each row execute function internal.touch_updated_at();

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

-- Who may read and change a table -----------------------------------------------------------------------------------------------

create function internal.protect(target regclass, changes text, public_rows text default null, writable boolean default true)
returns void
language plpgsql set search_path = ''
as $$
-- Give a table its grants and policies. `changes` says, of a row, whether an editor owns it; `public_rows`, whether the
-- publishable key may see it.
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

-- How a status moves ------------------------------------------------------------------------------------------------------------

create function internal.next_statuses(entity text, status text) returns text[]
language sql immutable set search_path = ''
as $$
  -- Where a status may go; an empty list is final, NULL is no status of that table.
  select case entity
    when 'training_runs' then case status
      when 'pending' then array['running', 'completed', 'failed', 'cancelled', 'interrupted']
      when 'running' then array['completed', 'failed', 'cancelled', 'interrupted']
      when 'interrupted' then array['running', 'completed', 'failed', 'cancelled']
      when 'failed' then array['running', 'cancelled']
      when 'cancelled' then array['running']
      when 'completed' then array[]::text[]
    end
    when 'training_steps' then case status
      when 'pending' then array['running', 'completed', 'failed', 'interrupted']
      when 'running' then array['completed', 'failed', 'interrupted']
      when 'interrupted' then array['running', 'completed', 'failed']
      when 'failed' then array['running', 'completed']
      when 'completed' then array[]::text[]
    end
    when 'evaluations' then case status
      when 'pending' then array['running', 'completed', 'failed', 'cancelled', 'interrupted']
      when 'running' then array['completed', 'failed', 'cancelled', 'interrupted']
      when 'interrupted' then array['running', 'completed', 'failed', 'cancelled']
      when 'failed' then array['running', 'completed']
      when 'cancelled' then array['running']
      when 'completed' then array[]::text[]
    end
    when 'rollouts' then case
      when status = 'pending' then
        array['running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted']
      -- Back to pending: a worker's lease ran out and another may take it.
      when status = 'running' then
        array['pending', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted']
      when status = 'interrupted' then
        array['pending', 'running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled']
      when status in ('error', 'cancelled') then array['pending']
      -- Judged anew, but never run again.
      when status in ('success', 'failed', 'completed', 'truncated', 'timeout') then
        array_remove(array['success', 'failed', 'completed', 'truncated', 'timeout'], status)
    end
    when 'jobs' then case status
      when 'pending' then array['queued', 'running', 'succeeded', 'failed', 'cancelled']
      when 'queued' then array['pending', 'running', 'succeeded', 'failed', 'cancelled']
      when 'running' then array['queued', 'succeeded', 'failed', 'cancelled']
      when 'succeeded' then array[]::text[]
      when 'failed' then array[]::text[]
      when 'cancelled' then array[]::text[]
    end
  end
$$;

create function internal.guard_status() returns trigger
language plpgsql set search_path = ''
as $$
declare
  allowed text[] := internal.next_statuses(tg_table_name, old.status);
begin
  -- A status that doesn't exist is the CHECK's to refuse.
  if internal.next_statuses(tg_table_name, new.status) is null then
    return new;
  end if;
  if not new.status = any (allowed) then
    raise exception using
      errcode = 'OM409',
      message = format('%s %s: cannot go from %s to %s; %s', rtrim(replace(tg_table_name, '_', ' '), 's'), old.id, old.status, new.status,
        case when cardinality(allowed) = 0 then old.status || ' is final, create a new one'
             else 'from ' || old.status || ' it can go to ' || array_to_string(allowed, ', ') end),
      column = 'status',
      table = tg_table_name;
  end if;
  if new.status_change_id is not distinct from old.status_change_id then
    new.status_change_id := internal.new_id();
    -- Who changed the status and nothing else has left the last one's message behind.
    if new.status_message is not distinct from old.status_message then
      new.status_message := null;
    end if;
  end if;
  if new.status = 'running' then
    new.started_at := coalesce(new.started_at, now());
    new.finished_at := null;
  elsif new.status = 'pending' then
    new.finished_at := null;
  else
    new.finished_at := coalesce(new.finished_at, now());
  end if;
  return new;
end
$$;

create function internal.stamp_start() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.started_at := new.created_at;
  return new;
end
$$;

create table public.status_history (
  id uuid not null default internal.new_id(),
  entity text not null,
  entity_id uuid not null,
  training_run_id uuid,
  old_status text,
  new_status text not null,
  message text,
  changed_by uuid,
  -- The clock's time, not the transaction's: one batch may hold several changes of a row.
  changed_at timestamptz not null default clock_timestamp(),
  primary key (entity_id, id)
);
comment on table public.status_history is 'Every status change of every table with a status, written by one trigger. The id is the change''s own, so that a repeated change is known. It goes when the row goes.';
create unique index status_history_of_an_entity on public.status_history (entity_id, changed_at, id);
create unique index status_history_of_a_run on public.status_history (training_run_id, entity_id, id);

create function internal.record_status() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Once per statement. The trigger's argument names the column that holds the run.
begin
  if tg_op = 'INSERT' then
    execute format(
      'insert into public.status_history (id, entity, entity_id, training_run_id, new_status, message, changed_by)
       select coalesce(n.status_change_id, internal.new_id()), $1, n.id, n.%I, n.status, n.status_message, auth.uid()
       from new_rows n', tg_argv[0]) using tg_table_name;
  else
    execute format(
      'insert into public.status_history (id, entity, entity_id, training_run_id, old_status, new_status, message, changed_by)
       select coalesce(n.status_change_id, internal.new_id()), $1, n.id, n.%I, o.status, n.status, n.status_message, auth.uid()
       from new_rows n join old_rows o using (id)
       where n.status is distinct from o.status', tg_argv[0]) using tg_table_name;
  end if;
  return null;
end
$$;

create function internal.forget_status() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from public.status_history h using old_rows o where h.entity_id = o.id and h.entity = tg_table_name;
  return null;
end
$$;

create function internal.track_status(target regclass, run_column text default 'training_run_id') returns void
language plpgsql set search_path = ''
as $$
begin
  execute format('create trigger touch_updated_at before update on %s for each row execute function internal.touch_updated_at()', target);
  execute format('create trigger stamp_start before insert on %s for each row
    when (new.status = ''running'' and new.started_at is null) execute function internal.stamp_start()', target);
  execute format('create trigger guard_status before update on %s for each row
    when (old.status is distinct from new.status) execute function internal.guard_status()', target);
  execute format('create trigger record_first_status after insert on %s referencing new table as new_rows
    for each statement execute function internal.record_status(%L)', target, run_column);
  execute format('create trigger record_status after update on %s referencing old table as old_rows new table as new_rows
    for each statement execute function internal.record_status(%L)', target, run_column);
  execute format('create trigger forget_status after delete on %s referencing old table as old_rows
    for each statement execute function internal.forget_status()', target);
end
$$;

-- What a row hangs on -----------------------------------------------------------------------------------------------------------

create function internal.refuse_new_place() returns trigger
language plpgsql set search_path = ''
as $$
begin
  raise exception using errcode = 'OM409', table = tg_table_name, column = tg_argv[0],
    message = format('%s %s: it cannot move to another %s; create a new one',
      rtrim(replace(tg_table_name, '_', ' '), 's'), old.id, replace(regexp_replace(tg_argv[0], '_id$', ''), '_', ' '));
end
$$;

create function internal.pin(target regclass, variadic columns text[]) returns void
language plpgsql set search_path = ''
as $$
-- A row stays where it was put: what hangs on it carries the same run.
begin
  for i in 1 .. cardinality(columns) loop
    execute format('create trigger %I before update of %I on %s for each row when (old.%2$I is distinct from new.%2$I)
      execute function internal.refuse_new_place(%2$L)', 'pin_' || columns[i], columns[i], target);
  end loop;
end
$$;

create function internal.compress(target regclass, variadic columns text[]) returns void
language plpgsql set search_path = ''
as $$
-- lz4 where this server was built with it: twice as fast as pglz, about as small.
begin
  if 'lz4' = any ((select enumvals from pg_catalog.pg_settings where name = 'default_toast_compression')::text[]) then
    for i in 1 .. cardinality(columns) loop
      execute format('alter table %s alter column %I set compression lz4', target, columns[i]);
    end loop;
  end if;
end
$$;

-- Training runs -----------------------------------------------------------------------------------------------------------------

create table public.training_runs (
  id uuid primary key default internal.new_id(),
  name text not null check (length(name) between 1 and 500),
  run_name text unique check (length(run_name) between 1 and 500),
  algorithm text,
  environment text,
  description text,
  config jsonb not null default '{}',
  summary jsonb not null default '{}',
  metadata jsonb not null default '{}',
  tags text[] not null default '{}',
  status text not null default 'pending'
    check (status in ('pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
  status_message text,
  status_change_id uuid,
  current_step bigint check (current_step >= 0),
  total_steps bigint check (total_steps >= 0),
  progress double precision check (progress between 0 and 1),
  heartbeat_at timestamptz,
  heartbeat_timeout_seconds integer not null default 300 check (heartbeat_timeout_seconds > 0),
  visibility text not null default 'private' check (visibility in ('private', 'public')),
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.training_runs is 'One training run. run_name is the name by which a restarted script finds its run again.';
create unique index training_runs_by_age on public.training_runs (created_at desc, id);
create unique index training_runs_by_owner on public.training_runs (owner_id, created_at desc, id);
create unique index training_runs_by_status on public.training_runs (status, created_at desc, id);

select internal.track_status('public.training_runs', 'id');

create function internal.owns_run(run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from public.training_runs r where r.id = run_id and r.owner_id = auth.uid()) $$;

create function internal.is_public_run(run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from public.training_runs r where r.id = run_id and r.visibility = 'public') $$;

select internal.protect('public.training_runs', 'owner_id = (select auth.uid())', 'visibility = ''public''');

alter table public.status_history
  add constraint status_history_training_run_id_fkey foreign key (training_run_id) references public.training_runs (id) on delete cascade;
select internal.protect('public.status_history', 'false', 'internal.is_public_run(training_run_id)', writable => false);

create view public.run_overview with (security_invoker = true) as
select r.*,
  case
    when r.status = 'running'
      and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
    then 'stalled' else r.status
  end as shown_status
from public.training_runs r;
comment on view public.run_overview is 'Training runs with the status to show: a run that says it runs but whose heartbeat stopped is stalled.';
revoke all on public.run_overview from public, anon, authenticated, service_role;
grant select on public.run_overview to anon, authenticated, service_role;

create function public.heartbeat(run_id uuid, progress double precision default null, current_step bigint default null)
returns timestamptz
language plpgsql set search_path = ''
as $$
declare
  beat timestamptz;
begin
  update public.training_runs r
  set heartbeat_at = now(),
      progress = coalesce(heartbeat.progress, r.progress),
      current_step = coalesce(heartbeat.current_step, r.current_step)
  where r.id = run_id
  returning r.heartbeat_at into beat;
  if beat is null then
    raise exception using errcode = 'OM404', message = format('training run %s: unknown, or not yours to change', run_id), column = 'run_id';
  end if;
  return beat;
end
$$;
comment on function public.heartbeat is 'Say that a run is alive.';
revoke execute on function public.heartbeat from public, anon, authenticated, service_role;
grant execute on function public.heartbeat to authenticated, service_role;

-- Policies and defaults run as the caller, so these are the caller's to execute; the rest are the owner's.
revoke execute on all functions in schema internal from public;
grant execute on function internal.new_id, internal.is_member, internal.is_editor, internal.is_admin, internal.member_role,
  internal.owns_run, internal.is_public_run, internal.next_statuses to anon, authenticated, service_role;
