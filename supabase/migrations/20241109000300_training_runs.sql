-- Training runs, which most other tables reference.

create table public.training_runs (
  id uuid primary key default internal.new_id(),
  name text not null check (length(name) between 1 and 500),
  run_name text unique check (length(run_name) between 1 and 500),
  algorithm text,
  environment text,
  environment_version integer check (environment_version >= 1),
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
  timeline integer not null default 0,
  rewinds bigint[],
  -- Evaluations reference runs: this foreign key is added after their table.
  baseline_id uuid,
  stop_requested_at timestamptz,
  heartbeat_at timestamptz,
  heartbeat_timeout_seconds integer not null default 300 check (heartbeat_timeout_seconds > 0),
  archive_status text check (archive_status in ('writing', 'archived')),
  visibility text not null default 'private' check (visibility in ('private', 'public')),
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.training_runs is 'One training run. run_name is the name by which a restarted script finds its run again.';
comment on column public.training_runs.environment_version is 'The version of the environment in `environments` that it trained on.';
comment on column public.training_runs.stop_requested_at is 'When it was asked to stop after the current step; see stop_run.';
comment on column public.training_runs.archive_status is 'writing: its turns and metric points are being copied to an archive; archived: they are in the archive and no longer in the database. Null: neither. See archives.';
comment on column public.training_runs.timeline is 'How often the run was rewound.';
comment on column public.training_runs.rewinds is 'The steps to which the run was rewound, oldest first. A record with more of them than the database rewinds the run.';
comment on column public.training_runs.baseline_id is 'The evaluation with which the run''s evaluations are compared.';
create unique index training_runs_by_age on public.training_runs (created_at desc, id);
create unique index training_runs_by_name on public.training_runs (name, id);
create unique index training_runs_by_algorithm on public.training_runs (algorithm, created_at desc, id);
create unique index training_runs_by_environment on public.training_runs (environment, created_at desc, id);
create unique index training_runs_by_status on public.training_runs (status, created_at desc, id);
create unique index training_runs_by_owner on public.training_runs (owner_id, created_at desc, id);
create unique index training_runs_by_baseline on public.training_runs (baseline_id, id);

-- Completed is final, except for resume_run, which names the run that it resumes.
select internal.track_status('public.training_runs', 'id', $$current_setting('openmanus_rl.resuming', true) is distinct from new.id::text$$);

create function internal.forget_stop() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.stop_requested_at := null;
  return new;
end
$$;

-- A run that begins, or is resumed, has not been asked to stop.
create trigger forget_stop before update on public.training_runs for each row
  when (new.status = 'running' and old.status_change_id is distinct from new.status_change_id and old.stop_requested_at is not null)
  execute function internal.forget_stop();

-- Access ------------------------------------------------------------------------------------------------------------------------

create function internal.owns_run(run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from public.training_runs r where r.id = run_id and r.owner_id = auth.uid()) $$;

create function internal.is_public_run(run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from public.training_runs r where r.id = run_id and r.visibility = 'public') $$;

create function internal.require_run(run_id uuid) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if not exists (select 1 from public.training_runs r where r.id = run_id) then
    perform internal.fail('OM404', 'training_run_id', format('training run %s: unknown id', run_id));
  end if;
end
$$;

select internal.protect('public.training_runs', 'owner_id = (select auth.uid())', 'visibility = ''public''');
select internal.reserve('public.training_runs', 'stop_requested_at', 'archive_status');

-- Heartbeat ---------------------------------------------------------------------------------------------------------------------

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
    perform internal.fail('OM404', 'run_id', format('training run %s: unknown, or not yours to change', run_id));
  end if;
  return beat;
end
$$;
comment on function public.heartbeat is 'Record a heartbeat of a run.';

revoke execute on function internal.forget_stop, internal.owns_run, internal.is_public_run, internal.require_run from public;
grant execute on function internal.owns_run, internal.is_public_run, internal.require_run to anon, authenticated, service_role;
revoke execute on function public.heartbeat from public, anon, authenticated, service_role;
grant execute on function public.heartbeat to authenticated, service_role;
