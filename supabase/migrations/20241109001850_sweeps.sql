-- Sweeps: searches over the parameters of a run. Each trial is a run with a job of its own.

create table public.sweeps (
  id uuid primary key default internal.new_id(),
  name text not null check (length(name) between 1 and 500),
  method text not null check (method in ('grid', 'random', 'bayesian', 'seeds')),
  template jsonb not null,
  space jsonb not null,
  metric text not null check (metric <> ''),
  direction text not null default 'maximize' check (direction in ('maximize', 'minimize')),
  max_trials integer not null check (max_trials between 1 and 10000),
  max_concurrent integer not null default 1 check (max_concurrent between 1 and 1000),
  seed bigint not null default 0,
  early_stopping jsonb,
  job_config jsonb not null default '{}',
  status text not null default 'pending' check (status in ('pending', 'running', 'completed', 'failed', 'cancelled')),
  status_message text,
  status_change_id uuid,
  next_trial integer not null default 0,
  importances jsonb,
  orchestrator_id uuid,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.sweeps is 'A search over the parameters of a run: a grid, random, Bayesian, or several seeds of one configuration.';
comment on column public.sweeps.template is 'The run that is varied: {name, algorithm, environment, config}.';
comment on column public.sweeps.space is 'The values of each parameter, by its path in the configuration: {"hyperparameters.learning_rate": {"min": 1e-5, "max": 1e-2, "log": true}}.';
comment on column public.sweeps.importances is 'How much each parameter mattered for the metric so far, from 0 to 1.';
create unique index sweeps_by_age on public.sweeps (created_at desc, id);
create unique index sweeps_by_owner on public.sweeps (owner_id, id);
create unique index active_sweeps on public.sweeps (created_at, id) where status in ('pending', 'running');

create table public.sweep_trials (
  id uuid primary key default internal.new_id(),
  sweep_id uuid not null references public.sweeps (id) on delete cascade,
  trial integer not null check (trial >= 0),
  training_run_id uuid references public.training_runs (id) on delete set null,
  parameters jsonb not null,
  pruned_at timestamptz,
  created_at timestamptz not null default now(),
  unique (sweep_id, trial)
);
comment on table public.sweep_trials is 'A run of a sweep and its parameters. `pruned_at` says that it was stopped early, since others did better.';
create unique index sweep_trials_of_a_run on public.sweep_trials (training_run_id, id);

select internal.track_status('public.sweeps', '');
select internal.protect('public.sweeps', 'false', writable => false);
select internal.protect('public.sweep_trials', 'false', 'internal.is_public_run(training_run_id)', writable => false);
