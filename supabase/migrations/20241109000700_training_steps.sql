-- Training steps: each collects rollouts, then trains on them.

create table public.training_steps (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null references public.training_runs (id) on delete cascade,
  step bigint not null check (step >= 0),
  phase text check (phase in ('rollout', 'training')),
  status text not null default 'running' check (status in ('pending', 'running', 'completed', 'failed', 'interrupted')),
  status_message text,
  status_change_id uuid,
  rollout_progress double precision check (rollout_progress between 0 and 1),
  training_progress double precision check (training_progress between 0 and 1),
  loss double precision,
  kl double precision,
  grad_norm double precision,
  reward_mean double precision,
  reward_std double precision,
  tokens bigint check (tokens >= 0),
  metrics jsonb not null default '{}',
  timeline integer not null default 0,
  rewound_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.training_steps is 'A step of a training run.';
create unique index training_steps_of_a_run on public.training_steps (training_run_id, step, id);
-- A number is unique among the steps that no rewind has hidden.
create unique index training_steps_that_count on public.training_steps (training_run_id, step) where rewound_at is null;

select internal.track_status('public.training_steps');
select internal.pin('public.training_steps', 'training_run_id');
select internal.protect('public.training_steps', 'internal.owns_run(training_run_id)', 'internal.is_public_run(training_run_id)');
