-- Evaluations of a model on a set of tasks, beside training or as a baseline, and results by checkpoint.

create table public.evaluations (
  id uuid primary key default internal.new_id(),
  training_run_id uuid references public.training_runs (id) on delete cascade,
  checkpoint_id uuid references public.model_checkpoints (id) on delete set null,
  kind text not null default 'eval' check (kind in ('eval', 'baseline')),
  name text,
  step bigint check (step >= 0),
  model text,
  environment text,
  status text not null default 'running' check (status in ('pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
  status_message text,
  status_change_id uuid,
  progress double precision check (progress between 0 and 1),
  success_rate double precision check (success_rate between 0 and 1),
  mean_reward double precision,
  mean_turns double precision check (mean_turns >= 0),
  measured text[] not null default '{}',
  is_queued boolean not null default false,
  metadata jsonb not null default '{}',
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  timeline integer not null default 0,
  rewound_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.evaluations is 'An evaluation of a model. Figures that are not given when it completes are computed from its rollouts.';
comment on column public.evaluations.is_queued is 'Whether its rollouts were asked of the queue: it ends when all of them have.';
comment on column public.evaluations.measured is 'Which of success_rate, mean_reward and mean_turns are computed from the rollouts.';
create unique index evaluations_of_a_run on public.evaluations (training_run_id, created_at desc, id);
create unique index evaluations_of_a_checkpoint on public.evaluations (checkpoint_id, id);
create unique index evaluations_by_owner on public.evaluations (owner_id, id);

-- Runs and evaluations reference each other.
alter table public.training_runs
  add constraint training_runs_baseline_id_fkey foreign key (baseline_id) references public.evaluations (id) on delete set null;

create table public.evaluation_results (
  id uuid primary key default internal.new_id(),
  checkpoint_id uuid not null references public.model_checkpoints (id) on delete cascade,
  training_run_id uuid,
  evaluation_id uuid references public.evaluations (id) on delete cascade,
  -- Deleted with its task: without one, the row would be the result on all tasks.
  task_id uuid references public.tasks (id) on delete cascade,
  environment text not null check (environment <> ''),
  episode_count integer check (episode_count >= 0),
  success_rate double precision check (success_rate between 0 and 1),
  mean_reward double precision,
  mean_turns double precision check (mean_turns >= 0),
  result_path text,
  metrics jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique nulls not distinct (checkpoint_id, environment, evaluation_id, task_id)
);
comment on table public.evaluation_results is 'A checkpoint''s result in an environment, on one task or on all. result_path is within the bucket evaluation-results.';
create unique index evaluation_results_of_an_evaluation on public.evaluation_results (evaluation_id, id);
create unique index evaluation_results_of_a_task on public.evaluation_results (task_id, id);

select internal.track_status('public.evaluations');
create trigger touch_updated_at before update on public.evaluation_results for each row execute function internal.touch_updated_at();
select internal.pin('public.evaluations', 'training_run_id');
select internal.pin('public.evaluation_results', 'checkpoint_id', 'training_run_id', 'evaluation_id');

-- Access ------------------------------------------------------------------------------------------------------------------------

create function internal.owns_or_owns_run(run_id uuid, row_owner uuid) returns boolean
language sql stable set search_path = ''
as $$
  -- A row of a run belongs to the run's owner, a row without a run to its creator.
  select case when run_id is null then row_owner = auth.uid() else internal.owns_run(run_id) end
$$;

create function internal.owns_evaluation(of_evaluation_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select exists (select 1 from public.evaluations e
                 where e.id = of_evaluation_id and internal.owns_or_owns_run(e.training_run_id, e.owner_id))
$$;

create function internal.owns_checkpoint(of_checkpoint_id uuid, of_run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select exists (select 1 from public.model_checkpoints c
                 where c.id = of_checkpoint_id and c.training_run_id = of_run_id and internal.owns_run(c.training_run_id))
$$;

revoke execute on function internal.owns_or_owns_run, internal.owns_evaluation, internal.owns_checkpoint from public;
grant execute on function internal.owns_or_owns_run, internal.owns_evaluation, internal.owns_checkpoint to authenticated, service_role;

select internal.protect('public.evaluations', 'internal.owns_or_owns_run(training_run_id, owner_id)', 'internal.is_public_run(training_run_id)');
select internal.protect('public.evaluation_results',
  'internal.owns_checkpoint(checkpoint_id, training_run_id) and (evaluation_id is null or internal.owns_evaluation(evaluation_id))',
  'internal.is_public_run(training_run_id)');
select internal.reserve('public.evaluations', 'is_queued');
