-- Training jobs, and the orchestrators that launch and follow them. Only the functions of jobs write these tables.

create table public.orchestrators (
  id uuid primary key default internal.new_id(),
  name text not null check (length(name) between 1 and 500),
  host text not null check (host <> ''),
  pid integer,
  version text,
  backends text[] not null default '{}',
  max_jobs integer not null default 1 check (max_jobs >= 1),
  state text not null default 'active' check (state in ('active', 'stopped')),
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  heartbeat_at timestamptz not null default now(),
  started_at timestamptz not null default now(),
  stopped_at timestamptz
);
comment on table public.orchestrators is 'A process that launches and follows training jobs. `backends` are the kinds of jobs that it can launch; `host` tells machines apart, since local jobs belong to theirs.';
create unique index orchestrators_by_heartbeat on public.orchestrators (heartbeat_at desc, id);
create unique index orchestrators_by_owner on public.orchestrators (owner_id, id);
select internal.protect('public.orchestrators', 'false', writable => false);

create table public.jobs (
  id uuid primary key default internal.new_id(),
  training_run_id uuid references public.training_runs (id) on delete set null,
  backend text not null check (backend in ('local', 'skypilot')),
  name text,
  status text not null default 'pending' check (status in ('pending', 'launching', 'queued', 'running', 'succeeded', 'failed', 'cancelled')),
  status_message text,
  status_change_id uuid,
  config jsonb not null default '{}',
  yaml text,
  external_id text,
  host text,
  orchestrator_id uuid,
  attempt integer not null default 1 check (attempt >= 1),
  restarts integer not null default 0 check (restarts >= 0),
  max_restarts integer not null default 3 check (max_restarts >= 0),
  exit_code integer,
  cost_usd numeric check (cost_usd >= 0),
  earlier_cost_usd numeric not null default 0 check (earlier_cost_usd >= 0),
  stop_requested_at timestamptz,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.jobs is 'A launch of a training run on a backend. An orchestrator holds it under a lease until it has ended.';
comment on column public.jobs.config is 'What was asked of the backend; see request_job.';
comment on column public.jobs.yaml is 'The task that SkyPilot is given, without secrets.';
comment on column public.jobs.external_id is 'Its name at the backend, of this attempt.';
comment on column public.jobs.host is 'The machine of a local job.';
comment on column public.jobs.cost_usd is 'Of all attempts, where the backend tells.';
comment on column public.jobs.earlier_cost_usd is 'Of the attempts before this one.';
comment on column public.jobs.attempt is 'How often it was launched: attempts that were lost, and retries.';
create unique index jobs_of_a_run on public.jobs (training_run_id, created_at desc, id);
create unique index jobs_by_age on public.jobs (created_at desc, id);
create unique index jobs_by_owner on public.jobs (owner_id, id);
create unique index active_jobs on public.jobs (created_at, id) where status in ('pending', 'launching', 'queued', 'running');
-- Two jobs of a run at the same time would write the same steps.
create unique index active_job_of_a_run on public.jobs (training_run_id) where status in ('pending', 'launching', 'queued', 'running');

select internal.track_status('public.jobs');
select internal.protect('public.jobs', 'false', 'internal.is_public_run(training_run_id)', writable => false);

create table public.job_logs (
  id uuid primary key default internal.new_id(),
  job_id uuid not null references public.jobs (id) on delete cascade,
  attempt integer not null,
  start bigint not null check (start >= 0),
  bytes integer not null check (bytes > 0),
  text text not null,
  created_at timestamptz not null default now(),
  unique (job_id, attempt, start)
);
comment on table public.job_logs is 'What a job printed, in pieces. `start` is where a piece begins in the log of its attempt, in bytes.';
select internal.protect('public.job_logs', 'false', writable => false);

-- Apart from jobs, as the leases of rollouts are: renewing one is no change of the job.
create table internal.orchestrator_leases (
  subject_id uuid primary key,
  lease_id uuid not null unique,
  orchestrator_id uuid not null,
  expires_at timestamptz not null
);
comment on table internal.orchestrator_leases is 'The jobs and sweeps that orchestrators hold now.';
create unique index orchestrator_leases_of_an_orchestrator on internal.orchestrator_leases (orchestrator_id, subject_id);

create table internal.job_attempts (
  job_id uuid not null references public.jobs (id) on delete cascade,
  attempt integer not null,
  token text not null,
  began_at timestamptz not null default now(),
  primary key (job_id, attempt)
);
comment on table internal.job_attempts is 'The process that trains in an attempt: the first that came.';

create function internal.is_active_job(status text) returns boolean
language sql immutable parallel safe set search_path = ''
as $$ select status in ('pending', 'launching', 'queued', 'running') $$;

create function internal.stop_jobs_of_deleted_run() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  update public.jobs j set status = 'cancelled', status_message = 'its run was deleted' where j.training_run_id = old.id and j.status = 'pending';
  update public.jobs j set stop_requested_at = coalesce(j.stop_requested_at, now()) where j.training_run_id = old.id and internal.is_active_job(j.status);
  return old;
end
$$;

create trigger stop_jobs before delete on public.training_runs for each row execute function internal.stop_jobs_of_deleted_run();

revoke execute on function internal.is_active_job, internal.stop_jobs_of_deleted_run from public;
grant execute on function internal.is_active_job to anon, authenticated, service_role;
