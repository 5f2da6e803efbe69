-- Rewards of a rollout by component, and the verdicts of its task's validators.

create table public.rewards (
  id uuid primary key default internal.new_id(),
  rollout_id uuid not null references public.rollouts (id) on delete cascade,
  training_run_id uuid,
  step_number integer check (step_number >= 0),
  reward_type text not null default 'step' check (reward_type <> ''),
  reward double precision not null,
  details jsonb,
  created_at timestamptz not null default now(),
  unique nulls not distinct (rollout_id, step_number, reward_type)
);
comment on table public.rewards is 'A component of the reward of a step, or of the whole rollout where step_number is NULL.';

create table public.validations (
  id uuid primary key default internal.new_id(),
  rollout_id uuid not null references public.rollouts (id) on delete cascade,
  training_run_id uuid,
  validator_id uuid references public.validators (id) on delete set null,
  validator_name text not null default 'default' check (validator_name <> ''),
  verdict text not null check (verdict in ('pass', 'fail', 'error')),
  score double precision,
  expected text,
  actual text,
  message text,
  details jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique nulls not distinct (rollout_id, validator_id, validator_name)
);
comment on table public.validations is 'What a validator said of a rollout.';
create unique index validations_of_a_validator on public.validations (validator_id, id);

create trigger touch_updated_at before update on public.validations for each row execute function internal.touch_updated_at();
select internal.compress('public.rewards', 'details');
select internal.compress('public.validations', 'expected', 'actual', 'details');
select internal.pin('public.rewards', 'rollout_id', 'training_run_id');
select internal.pin('public.validations', 'rollout_id', 'training_run_id');
select internal.protect('public.rewards', 'internal.owns_rollout(rollout_id, training_run_id)', 'internal.is_public_run(training_run_id)');
select internal.protect('public.validations', 'internal.owns_rollout(rollout_id, training_run_id)', 'internal.is_public_run(training_run_id)');
