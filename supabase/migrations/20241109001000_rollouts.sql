-- Rollouts, and the groups of rollouts that are compared with each other.

create table public.rollout_groups (
  id uuid primary key default internal.new_id(),
  training_run_id uuid references public.training_runs (id) on delete cascade,
  training_step_id uuid references public.training_steps (id) on delete cascade,
  evaluation_id uuid references public.evaluations (id) on delete cascade,
  task_id uuid references public.tasks (id) on delete set null,
  number integer not null check (number >= 0),
  task_description text,
  metadata jsonb not null default '{}',
  rollout_count integer not null default 0,
  completed_count integer not null default 0,
  success_count integer not null default 0,
  reward_count integer not null default 0,
  reward_sum numeric not null default 0,
  reward_squares numeric not null default 0,
  reward_mean double precision generated always as (internal.to_double(reward_sum / nullif(reward_count, 0))) stored,
  -- Divide once, at the end: squaring a rounded quotient would lose small deviations.
  reward_std double precision generated always as (internal.to_double(
    sqrt(greatest(reward_count * reward_squares - reward_sum * reward_sum, 0)) / nullif(reward_count, 0))) stored,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint rollout_groups_has_one_parent check (num_nonnulls(training_step_id, evaluation_id) = 1),
  unique (training_step_id, number),
  unique (evaluation_id, number)
);
comment on table public.rollout_groups is 'Rollouts of one task, compared with each other. The counts are over its rollouts; reward_std is the population standard deviation.';
create unique index rollout_groups_of_a_run on public.rollout_groups (training_run_id, id);
create unique index rollout_groups_of_a_task on public.rollout_groups (task_id, id);

create table public.rollouts (
  id uuid primary key default internal.new_id(),
  training_run_id uuid references public.training_runs (id) on delete cascade,
  group_id uuid references public.rollout_groups (id) on delete cascade,
  task_id uuid references public.tasks (id) on delete set null,
  source text not null default 'training' check (source in ('training', 'evaluation', 'baseline', 'manual', 'import')),
  environment text not null check (environment <> ''),
  episode_number bigint check (episode_number >= 0),
  step bigint check (step >= 0),
  task_description text,
  status text not null default 'running' check (status in
    ('pending', 'provisioning', 'running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted')),
  status_message text,
  status_change_id uuid,
  total_reward double precision,
  step_count integer check (step_count >= 0),
  result jsonb,
  error text,
  agent text,
  model text,
  policy_version bigint,
  seed bigint,
  input_tokens bigint check (input_tokens >= 0),
  output_tokens bigint check (output_tokens >= 0),
  cost_usd double precision check (cost_usd >= 0),
  video_path text,
  logs_path text,
  metadata jsonb not null default '{}',
  -- Of the queue. Only its functions write these columns.
  request jsonb,
  priority smallint not null default 0,
  worker_id uuid,
  lease_id uuid,
  attempt integer not null default 1 check (attempt >= 1),
  max_attempts smallint not null default 3 check (max_attempts >= 1),
  attempt_of uuid references public.rollouts (id) on delete cascade,
  cancel_requested_at timestamptz,
  delete_requested boolean not null default false,
  cache_key text,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  timeline integer not null default 0,
  rewound_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.rollouts is 'One episode. success and failed are judged, completed is not; truncated, timeout and error ended early.';
comment on column public.rollouts.request is 'What was asked of the queue: options of the agent, limits, provider. Null for rollouts that are recorded and not asked for.';
comment on column public.rollouts.lease_id is 'The lease of the worker that has, or had last, this rollout. Only records written under it are accepted until the rollout ends.';
comment on column public.rollouts.attempt_of is 'The rollout that a lost attempt belongs to: its worker died, and its turns were set aside here.';
comment on column public.rollouts.cache_key is 'Equal for rollouts of the same task, environment, agent, model and seed, in the same versions.';
comment on column public.rollouts.logs_path is 'Logs of the environment, in the bucket media.';
comment on column public.rollouts.step is 'The training step of the rollout: its group''s, or the one that was given.';
comment on column public.rollouts.rewound_at is 'When a rewind of the run hid the rollout; null if it is visible.';
create unique index rollouts_by_age on public.rollouts (created_at desc, id);
create unique index rollouts_by_status on public.rollouts (status, created_at desc, id);
create unique index rollouts_by_owner on public.rollouts (owner_id, id);
create unique index rollouts_of_an_environment on public.rollouts (environment, created_at desc, id);
create unique index rollouts_of_a_task on public.rollouts (task_id, created_at desc, id);
create unique index rollouts_of_a_group on public.rollouts (group_id, id);
create unique index rollouts_of_a_run on public.rollouts (training_run_id, created_at desc, id);
create unique index rollouts_of_a_run_and_environment on public.rollouts (training_run_id, environment, created_at desc, id);
create unique index rollouts_of_a_run_by_reward on public.rollouts (training_run_id, total_reward, id);
-- Includes all that run_progress reads, so that it reads only the index.
create unique index rollouts_of_a_run_and_step on public.rollouts (training_run_id, step, id)
  include (source, status, total_reward, step_count) where rewound_at is null;
create unique index rollouts_running on public.rollouts (training_run_id, id) where status = 'running';
-- The queue: few rows of many.
-- By provider: a worker that cannot start an environment does not read past those who wait for it.
create unique index rollouts_waiting on public.rollouts ((request ->> 'provider'), priority desc, created_at, id) where status = 'pending' and request is not null;
create unique index rollouts_of_an_attempt on public.rollouts (attempt_of, id) where attempt_of is not null;
-- What can answer a request that may reuse it: not what waits, of which there may be thousands with one key.
create unique index rollouts_by_cache_key on public.rollouts (cache_key, created_at desc, id)
  where cache_key is not null and status in ('success', 'failed', 'completed') and rewound_at is null;

select internal.track_status('public.rollouts');
select internal.pin('public.rollouts', 'training_run_id', 'group_id');
select internal.pin('public.rollout_groups', 'training_run_id', 'training_step_id', 'evaluation_id');
-- Column by column: generated columns are not computed yet in a BEFORE trigger, and would always look changed.
create trigger touch_updated_at before update on public.rollout_groups for each row
  when ((old.task_id, old.number, old.task_description, old.metadata, old.created_at,
         old.rollout_count, old.completed_count, old.success_count, old.reward_count, old.reward_sum) is distinct from
        (new.task_id, new.number, new.task_description, new.metadata, new.created_at,
         new.rollout_count, new.completed_count, new.success_count, new.reward_count, new.reward_sum))
  execute function internal.touch_updated_at();

-- Access ------------------------------------------------------------------------------------------------------------------------

create function internal.owns_group_parent(of_run_id uuid, of_step_id uuid, of_evaluation_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select case
    when of_step_id is not null then exists (
      select 1 from public.training_steps s where s.id = of_step_id and s.training_run_id = of_run_id and internal.owns_run(of_run_id))
    else exists (
      select 1 from public.evaluations e
      where e.id = of_evaluation_id and e.training_run_id is not distinct from of_run_id
        and internal.owns_or_owns_run(e.training_run_id, e.owner_id))
  end
$$;

create function internal.owns_group(of_group_id uuid, of_run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select exists (
    select 1 from public.rollout_groups g
    where g.id = of_group_id and g.training_run_id is not distinct from of_run_id
      and internal.owns_group_parent(g.training_run_id, g.training_step_id, g.evaluation_id))
$$;

create function internal.owns_rollout(of_rollout_id uuid, of_run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select exists (
    select 1 from public.rollouts r
    where r.id = of_rollout_id and r.training_run_id is not distinct from of_run_id
      and internal.owns_or_owns_run(r.training_run_id, r.owner_id))
$$;

create function internal.require_rollout(rollout_id uuid) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if not exists (select 1 from public.rollouts r where r.id = rollout_id) then
    perform internal.fail('OM404', 'rollout_id', format('rollout %s: unknown id', rollout_id));
  end if;
end
$$;

revoke execute on function internal.owns_group_parent, internal.owns_group, internal.owns_rollout, internal.require_rollout from public;
grant execute on function internal.require_rollout to anon, authenticated, service_role;
grant execute on function internal.owns_group_parent, internal.owns_group, internal.owns_rollout to authenticated, service_role;

select internal.protect('public.rollout_groups', 'internal.owns_group_parent(training_run_id, training_step_id, evaluation_id)',
  'internal.is_public_run(training_run_id)');
select internal.reserve('public.rollout_groups', 'rollout_count', 'completed_count', 'success_count', 'reward_count', 'reward_sum',
  'reward_squares');
select internal.protect('public.rollouts',
  'internal.owns_or_owns_run(training_run_id, owner_id) and (group_id is null or internal.owns_group(group_id, training_run_id))',
  'internal.is_public_run(training_run_id)');
select internal.reserve('public.rollouts', 'request', 'priority', 'worker_id', 'lease_id', 'attempt', 'max_attempts', 'attempt_of', 'cancel_requested_at',
  'delete_requested', 'cache_key');
