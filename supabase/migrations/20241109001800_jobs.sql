-- Training jobs: the backend they run on, what was asked of it, and their status there.

create table public.jobs (
  id uuid primary key default internal.new_id(),
  training_run_id uuid references public.training_runs (id) on delete set null,
  backend text not null check (backend <> ''),
  external_id text,
  name text,
  status text not null default 'pending' check (status in ('pending', 'queued', 'running', 'succeeded', 'failed', 'cancelled')),
  status_message text,
  status_change_id uuid,
  resources jsonb not null default '{}',
  spec jsonb not null default '{}',
  cost_usd numeric check (cost_usd >= 0),
  log_path text,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (backend, external_id)
);
comment on table public.jobs is 'A training job on a backend.';
create unique index jobs_of_a_run on public.jobs (training_run_id, created_at desc, id);
create unique index jobs_by_age on public.jobs (created_at desc, id);
create unique index jobs_by_owner on public.jobs (owner_id, id);

select internal.track_status('public.jobs');
select internal.protect('public.jobs', 'internal.owns_or_owns_run(training_run_id, owner_id)', 'internal.is_public_run(training_run_id)');
