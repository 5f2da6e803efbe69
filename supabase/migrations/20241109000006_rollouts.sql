-- Rollouts, the groups they come in, and their counts, which are kept as rollouts come and go.

create function internal.to_double(value numeric) returns double precision
language sql immutable parallel safe set search_path = ''
as $$
  -- Postgres refuses to convert what is closer to zero than a double can be.
  select case when abs(value) < 1e-300 then 0 else value::double precision end
$$;
revoke execute on function internal.to_double from public;
grant execute on function internal.to_double to anon, authenticated, service_role;

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
  -- One division, at the end: a quotient that is rounded before it is squared would drown a small deviation.
  reward_std double precision generated always as (internal.to_double(
    sqrt(greatest(reward_count * reward_squares - reward_sum * reward_sum, 0)) / nullif(reward_count, 0))) stored,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint rollout_groups_has_one_parent check (num_nonnulls(training_step_id, evaluation_id) = 1),
  unique (training_step_id, number),
  unique (evaluation_id, number)
);
comment on table public.rollout_groups is 'Rollouts of one task, compared with each other. The counts are over its rollouts; reward_std is that of the population.';
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
  task_description text,
  status text not null default 'running' check (status in
    ('pending', 'running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted')),
  status_message text,
  status_change_id uuid,
  total_reward double precision,
  step_count integer check (step_count >= 0),
  result jsonb,
  error text,
  model text,
  policy_version bigint,
  seed bigint,
  video_path text,
  metadata jsonb not null default '{}',
  worker_id text,
  lease_expires_at timestamptz,
  attempt integer not null default 1 check (attempt >= 1),
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.rollouts is 'One episode. success and failed are judged, completed is not; truncated, timeout and error ended early.';
create unique index rollouts_by_age on public.rollouts (created_at desc, id);
create unique index rollouts_of_a_run on public.rollouts (training_run_id, created_at desc, id);
create unique index rollouts_of_a_run_and_environment on public.rollouts (training_run_id, environment, created_at desc, id);
create unique index rollouts_of_an_environment on public.rollouts (environment, created_at desc, id);
create unique index rollouts_of_a_group on public.rollouts (group_id, id);
create unique index rollouts_of_a_task on public.rollouts (task_id, id);
create unique index rollouts_by_owner on public.rollouts (owner_id, id);
create unique index rollouts_waiting on public.rollouts (created_at, id) where status = 'pending';

select internal.track_status('public.rollouts');
select internal.pin('public.rollouts', 'training_run_id', 'group_id');
select internal.pin('public.rollout_groups', 'training_run_id', 'training_step_id', 'evaluation_id');
-- Column by column: those that Postgres computes are not there yet, and would look changed every time.
create trigger touch_updated_at before update on public.rollout_groups for each row
  when ((old.task_id, old.number, old.task_description, old.metadata, old.created_at,
         old.rollout_count, old.completed_count, old.success_count, old.reward_count, old.reward_sum) is distinct from
        (new.task_id, new.number, new.task_description, new.metadata, new.created_at,
         new.rollout_count, new.completed_count, new.success_count, new.reward_count, new.reward_sum))
  execute function internal.touch_updated_at();

-- Counts ------------------------------------------------------------------------------------------------------------------------

create table public.rollout_stats (
  id bigint generated always as identity primary key,
  training_run_id uuid references public.training_runs (id) on delete cascade,
  environment text not null,
  -- Several rows a run, one a writer, so that concurrent writers do not wait for each other; readers add them up.
  shard smallint not null,
  rollout_count bigint not null default 0,
  completed_count bigint not null default 0,
  success_count bigint not null default 0,
  -- Exact, so that what is added and later taken away leaves nothing behind.
  reward_sum numeric not null default 0,
  reward_count bigint not null default 0,
  step_sum bigint not null default 0,
  step_count bigint not null default 0,
  unique nulls not distinct (training_run_id, environment, shard)
);
comment on table public.rollout_stats is 'Counts of rollouts by run and environment, kept by a trigger, so that reading them costs the same for any number of rollouts.';
-- With the id: a second index that two writers could collide on would defeat `on conflict` below.
create unique index rollout_stats_of_an_environment on public.rollout_stats (environment, id);

create function internal.is_completed(status text) returns boolean
language sql immutable parallel safe set search_path = ''
as $$ select status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error') $$;

create function internal.is_finite(value double precision) returns boolean
language sql immutable parallel safe set search_path = ''
as $$ select value > '-infinity'::double precision and value < 'infinity'::double precision $$;

create function internal.count_rollouts() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Once per statement: what it added counts up, what it took away counts down, as one change to each count.
declare
  counted constant text := 'id, training_run_id, group_id, environment, status, total_reward, step_count';
  changed constant text := format($sql$
    select c.*, internal.is_completed(c.status) as completed,
      -- Through text: the direct way keeps 15 digits and rounds the largest double up to none.
      case when internal.is_finite(c.total_reward) then c.total_reward::text::numeric end as reward
    from (%s) c $sql$, case tg_op
    when 'INSERT' then format('select 1 as sign, %s from new_rows', counted)
    when 'DELETE' then format('select -1 as sign, %s from old_rows', counted)
    else format('select 1 as sign, added.* from (select %1$s from new_rows except all select %1$s from old_rows) added
                 union all
                 select -1 as sign, removed.* from (select %1$s from old_rows except all select %1$s from new_rows) removed', counted)
  end);
  d record;
begin
  execute format($sql$
    insert into public.rollout_stats as s
      (training_run_id, environment, shard, rollout_count, completed_count, success_count, reward_sum, reward_count, step_sum, step_count)
    select c.training_run_id, c.environment, pg_backend_pid() %% 16, sum(c.sign),
      coalesce(sum(c.sign) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.status = 'success'), 0),
      coalesce(sum(c.sign * c.reward) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.completed and c.reward is not null), 0),
      coalesce(sum(c.sign * c.step_count) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.completed and c.step_count is not null), 0)
    from (%s) c
    -- Of a run that is being deleted there is nothing left to count.
    where c.training_run_id is null or exists (select 1 from public.training_runs r where r.id = c.training_run_id)
    group by c.training_run_id, c.environment
    order by c.training_run_id, c.environment
    on conflict (training_run_id, environment, shard) do update set
      rollout_count = s.rollout_count + excluded.rollout_count,
      completed_count = s.completed_count + excluded.completed_count,
      success_count = s.success_count + excluded.success_count,
      reward_sum = s.reward_sum + excluded.reward_sum,
      reward_count = s.reward_count + excluded.reward_count,
      step_sum = s.step_sum + excluded.step_sum,
      step_count = s.step_count + excluded.step_count
  $sql$, changed);

  -- One after the other, in one order: so two writers of the same groups wait for each other, and never in a circle.
  for d in execute format($sql$
    select c.group_id, sum(c.sign) as rollout_count,
      coalesce(sum(c.sign) filter (where c.completed), 0) as completed_count,
      coalesce(sum(c.sign) filter (where c.status = 'success'), 0) as success_count,
      coalesce(sum(c.sign) filter (where c.reward is not null), 0) as reward_count,
      coalesce(sum(c.sign * c.reward), 0) as reward_sum,
      coalesce(sum(c.sign * c.reward * c.reward), 0) as reward_squares
    from (%s) c where c.group_id is not null
    group by c.group_id
    order by c.group_id
  $sql$, changed) loop
    update public.rollout_groups g set
      rollout_count = g.rollout_count + d.rollout_count,
      completed_count = g.completed_count + d.completed_count,
      success_count = g.success_count + d.success_count,
      reward_count = g.reward_count + d.reward_count,
      reward_sum = g.reward_sum + d.reward_sum,
      reward_squares = g.reward_squares + d.reward_squares
    where g.id = d.group_id;
  end loop;
  return null;
end
$$;

create trigger count_added_rollouts after insert on public.rollouts referencing new table as new_rows
  for each statement execute function internal.count_rollouts();
create trigger count_changed_rollouts after update on public.rollouts referencing old table as old_rows new table as new_rows
  for each statement execute function internal.count_rollouts();
create trigger count_removed_rollouts after delete on public.rollouts referencing old table as old_rows
  for each statement execute function internal.count_rollouts();

-- Who may touch them ------------------------------------------------------------------------------------------------------------

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

revoke execute on function internal.count_rollouts, internal.is_completed, internal.is_finite, internal.owns_group_parent,
  internal.owns_group, internal.owns_rollout from public;
grant execute on function internal.is_completed, internal.is_finite, internal.owns_group_parent, internal.owns_group,
  internal.owns_rollout to authenticated, service_role;

select internal.protect('public.rollout_groups', 'internal.owns_group_parent(training_run_id, training_step_id, evaluation_id)',
  'internal.is_public_run(training_run_id)');
-- The counts are the trigger's alone.
revoke insert, update on public.rollout_groups from authenticated, service_role;
grant insert (id, training_run_id, training_step_id, evaluation_id, task_id, number, task_description, metadata, created_at, updated_at),
  update (id, training_run_id, training_step_id, evaluation_id, task_id, number, task_description, metadata, created_at, updated_at)
  on public.rollout_groups to authenticated, service_role;
select internal.protect('public.rollouts',
  'internal.owns_or_owns_run(training_run_id, owner_id) and (group_id is null or internal.owns_group(group_id, training_run_id))',
  'internal.is_public_run(training_run_id)');
select internal.protect('public.rollout_stats', 'false', 'internal.is_public_run(training_run_id)', writable => false);
revoke all on sequence public.rollout_stats_id_seq from anon, authenticated, service_role;

-- An evaluation that completes without saying how it went is measured by its rollouts.
create function internal.measure_evaluation() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  select coalesce(new.success_rate, avg((r.status = 'success')::integer)),
         coalesce(new.mean_reward, avg(r.total_reward) filter (where internal.is_finite(r.total_reward))),
         coalesce(new.mean_turns, avg(r.step_count))
  into new.success_rate, new.mean_reward, new.mean_turns
  from public.rollouts r join public.rollout_groups g on g.id = r.group_id
  where g.evaluation_id = new.id and internal.is_completed(r.status);
  return new;
end
$$;
revoke execute on function internal.measure_evaluation from public;
create trigger measure_evaluation before update on public.evaluations for each row
  when (new.status = 'completed' and old.status <> 'completed') execute function internal.measure_evaluation();
