-- Counts of rollouts by run, environment and group, kept by triggers so that reading them costs the same for any number of rollouts.

create table public.rollout_stats (
  id bigint generated always as identity primary key,
  training_run_id uuid references public.training_runs (id) on delete cascade,
  environment text not null,
  -- Several rows per run, one per writer, so that concurrent writers do not wait for each other; readers add them up.
  shard smallint not null,
  rollout_count bigint not null default 0,
  completed_count bigint not null default 0,
  success_count bigint not null default 0,
  -- Exact, so that adding and later subtracting a reward leaves zero.
  reward_sum numeric not null default 0,
  reward_count bigint not null default 0,
  step_sum bigint not null default 0,
  step_count bigint not null default 0,
  unique nulls not distinct (training_run_id, environment, shard)
);
comment on table public.rollout_stats is 'Counts of rollouts by run and environment, maintained by a trigger, so that reading them costs the same for any number of rollouts.';
-- With the id: a second index that two writers could collide on would defeat `on conflict` below.
create unique index rollout_stats_of_an_environment on public.rollout_stats (environment, id);

select internal.protect('public.rollout_stats', 'false', 'internal.is_public_run(training_run_id)', writable => false);
revoke all on sequence public.rollout_stats_id_seq from anon, authenticated, service_role;

-- Counting ----------------------------------------------------------------------------------------------------------------------

create function internal.is_completed(status text) returns boolean
language sql immutable parallel safe set search_path = ''
as $$ select status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error') $$;

create function internal.count_rollouts() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Runs once per statement and changes each count once. Rollouts that a rewind hid still count in their group, which is hidden with its step,
-- but no longer in their run.
declare
  -- A rollout that begins, or waits again, counts as it did.
  counted constant text := 'id, training_run_id, group_id, environment, internal.is_completed(status) as completed, status = ''success'' as solved,
    total_reward, step_count, rewound_at is not null as hidden';
  changed constant text := format($sql$
    select c.*,
      -- Through text: the direct cast keeps 15 digits and fails for the largest double.
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
  if tg_op = 'UPDATE' then
    -- Not by a join: the plan that is kept for a session's first update, of one row, would compare thousands of rows with each other.
    if not exists (
      select n.id, n.training_run_id, n.group_id, n.environment, internal.is_completed(n.status), n.status = 'success', n.total_reward, n.step_count,
        n.rewound_at is null from new_rows n
      except all
      select o.id, o.training_run_id, o.group_id, o.environment, internal.is_completed(o.status), o.status = 'success', o.total_reward, o.step_count,
        o.rewound_at is null from old_rows o) then
      return null;
    end if;
  elsif tg_op = 'INSERT' then
    -- A batch of changes also inserts what is new in it: nothing.
    if not exists (select 1 from new_rows) then
      return null;
    end if;
  end if;
  execute format($sql$
    insert into public.rollout_stats as s
      (training_run_id, environment, shard, rollout_count, completed_count, success_count, reward_sum, reward_count, step_sum, step_count)
    select c.training_run_id, c.environment, pg_backend_pid() %% 16, sum(c.sign),
      coalesce(sum(c.sign) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.solved), 0),
      coalesce(sum(c.sign * c.reward) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.completed and c.reward is not null), 0),
      coalesce(sum(c.sign * c.step_count) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.completed and c.step_count is not null), 0)
    from (%s) c
    -- Skip runs that are being deleted.
    where not c.hidden and (c.training_run_id is null or exists (select 1 from public.training_runs r where r.id = c.training_run_id))
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

  -- One group at a time, in one order, so that two writers of the same groups cannot deadlock.
  for d in execute format($sql$
    select c.group_id, sum(c.sign) as rollout_count,
      coalesce(sum(c.sign) filter (where c.completed), 0) as completed_count,
      coalesce(sum(c.sign) filter (where c.solved), 0) as success_count,
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

-- Reading -----------------------------------------------------------------------------------------------------------------------

create function public.run_metrics(training_run_id uuid default null, environment text default null, rollout_limit integer default 100)
returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  answer jsonb;
  recent jsonb;
begin
  if rollout_limit is null or rollout_limit not between 0 and 1000 then
    perform internal.fail('OM400', 'rollout_limit', format('rollout_limit is %s: 0 to 1000 are possible', coalesce(rollout_limit::text, 'null')));
  end if;
  if training_run_id is not null then
    perform internal.require_run(training_run_id);
  end if;

  select jsonb_build_object(
    'total_rollouts', coalesce(sum(s.rollout_count), 0),
    'completed_rollouts', coalesce(sum(s.completed_count), 0),
    'successful_rollouts', coalesce(sum(s.success_count), 0),
    'success_rate', internal.to_double(sum(s.success_count) / nullif(sum(s.completed_count), 0)),
    'average_reward', internal.to_double(sum(s.reward_sum) / nullif(sum(s.reward_count), 0)),
    'average_steps', internal.to_double(sum(s.step_sum) / nullif(sum(s.step_count), 0)))
  into answer
  from public.rollout_stats s
  where (training_run_id is null or s.training_run_id = training_run_id)
    and (environment is null or s.environment = environment);

  -- Four queries, each on its own index: one query for all of them would read the whole table.
  if training_run_id is not null and environment is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.training_run_id = training_run_id
      and r.environment = environment and r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  elsif training_run_id is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.training_run_id = training_run_id
      and r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  elsif environment is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.environment = environment
      and r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  else
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  end if;
  return answer || jsonb_build_object('rollouts', coalesce(recent, '[]'));
end
$$;
comment on function public.run_metrics is 'Counts, success rate and averages of a run''s rollouts, and the newest of them.';

revoke execute on function internal.is_completed, internal.count_rollouts from public;
grant execute on function internal.is_completed to anon, authenticated, service_role;
revoke execute on function public.run_metrics from public, anon, authenticated, service_role;
grant execute on function public.run_metrics to anon, authenticated, service_role;
