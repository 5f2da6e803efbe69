-- Progress and health of one run.

-- Progress ----------------------------------------------------------------------------------------------------------------------

create function internal.mean(total double precision, beyond numeric, n bigint) returns double precision
language sql immutable parallel safe set search_path = ''
as $$
  -- The mean of ordinary doubles and, computed exactly, of those so large that their sum would overflow.
  select case
    when n = 0 then null
    when beyond is null and (total = 0 or abs(total) > 1e-290) then total / n
    else internal.to_double((coalesce(total, 0)::text::numeric + coalesce(beyond, 0)) / n) end
$$;

create function internal.progress_of_run(run_id uuid, buckets integer) returns jsonb
language plpgsql stable security definer set search_path = '' set jit = off
as $$
-- The caller has checked that the user may read the run. Row security would check it again for each of a million rows.
declare
  low bigint;
  high bigint;
  width bigint;
begin
  select min(r.step), max(r.step) into low, high
  from public.rollouts r where r.training_run_id = run_id and r.rewound_at is null and r.source = 'training';
  -- At most the requested number, and one per step with fewer steps.
  width := (high - low) / buckets + 1;
  return (
  with stretches as (
    -- One index range per range of steps: its rows are adjacent there and need no sorting.
    select w.*, s.*
    from (
      select low + n * width as from_step, low + n * width + least(width - 1, high - low - n * width) as to_step
      from generate_series(0, (high - low) / width) n) w
    cross join lateral (
      select count(*) as rollouts, count(*) filter (where r.completed) as completed,
        count(*) filter (where r.status = 'success') as solved,
        count(*) filter (where r.status in ('truncated', 'timeout')) as truncated,
        count(*) filter (where r.status = 'error') as errors,
        percentile_cont(array[0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]) within group (order by r.reward) as rewards,
        internal.mean(sum(r.reward) filter (where abs(r.reward) < 1e100), sum(r.reward::text::numeric) filter (where abs(r.reward) >= 1e100),
          count(r.reward)) as reward_mean,
        avg(r.step_count) filter (where r.completed) as mean_turns
      from (
        -- internal.is_completed and is_finite, inlined: calling them for each row would take most of the time.
        select r.status, r.step_count, c.completed,
          case when c.completed and r.total_reward > '-infinity' and r.total_reward < 'infinity' then r.total_reward end as reward
        from public.rollouts r
        cross join lateral (select r.status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error') as completed) c
        where r.training_run_id = run_id and r.rewound_at is null and r.source = 'training'
          and r.step between w.from_step and w.to_step) r) s
    where s.rollouts > 0
  ), compared as (
    select (s.step - low) / width as stretch, count(*) as groups, count(*) filter (where g.reward_std = 0) as flat_groups
    from public.rollout_groups g join public.training_steps s on s.id = g.training_step_id
    where g.training_run_id = run_id and g.reward_count >= 2 and s.training_run_id = run_id and s.rewound_at is null
    group by 1
  )
  select jsonb_build_object(
    'buckets', coalesce(jsonb_agg(jsonb_build_object('from_step', s.from_step, 'to_step', s.to_step,
      'rollouts', s.rollouts, 'completed', s.completed, 'solved', s.solved, 'truncated', s.truncated, 'errors', s.errors,
      'reward_min', s.rewards[1], 'reward_p10', s.rewards[2], 'reward_p25', s.rewards[3], 'reward_p50', s.rewards[4],
      'reward_p75', s.rewards[5], 'reward_p90', s.rewards[6], 'reward_max', s.rewards[7], 'reward_mean', s.reward_mean,
      'mean_turns', s.mean_turns::double precision, 'groups', coalesce(c.groups, 0), 'flat_groups', coalesce(c.flat_groups, 0)) order by s.from_step), '[]'),
    'without_step', (
      select count(*) from public.rollouts r
      where r.training_run_id = run_id and r.rewound_at is null and r.source = 'training' and r.step is null))
  from stretches s left join compared c on c.stretch = (s.from_step - low) / width);
end
$$;

create function public.run_progress(training_run_id uuid, buckets integer default 100) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.require_run(training_run_id);
  if buckets is null or buckets not between 1 and 1000 then
    perform internal.fail('OM400', 'buckets', format('buckets is %s: 1 to 1000 are possible', coalesce(buckets::text, 'null')));
  end if;
  return internal.progress_of_run(training_run_id, buckets);
end
$$;
comment on function public.run_progress is 'Results of a run''s training rollouts by ranges of steps: counts, the distribution of rewards, and groups without variance.';

-- Health ------------------------------------------------------------------------------------------------------------------------

create function internal.health_of_run(run_id uuid, sample integer) returns jsonb
language plpgsql stable security definer set search_path = '' set jit = off
as $$
-- The caller has checked that the user may read the run, as above.
begin
  return (
  with newest as materialized (
    select r.id, r.status, r.step_count, r.step::numeric - r.policy_version as staleness, coalesce(r.started_at, r.created_at) as began,
      r.status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error') as completed,
      coalesce(r.finished_at, r.created_at) as ended
    from public.rollouts r where r.training_run_id = run_id and r.rewound_at is null order by r.created_at desc, r.id limit sample
  ), counted as (
    select count(*) as rollouts, count(*) filter (where n.completed) as completed, count(*) filter (where n.status = 'success') as solved,
      count(*) filter (where n.status in ('truncated', 'timeout')) as truncated, count(*) filter (where n.status = 'error') as errors,
      avg(n.staleness) as mean_staleness, max(n.staleness) as max_staleness, sum(n.step_count) filter (where n.completed) as turns,
      min(n.began) as window_from, max(n.ended) filter (where n.completed) as window_to
    from newest n
  ), called as (
    -- Bounded, so that the answer is fast: it is read again whenever the run changes.
    select count(*) as tool_calls, count(*) filter (where coalesce(not c.success, c.error_message is not null)) as tool_errors
    from (select a.id from newest n join public.agent_states a on a.rollout_id = n.id limit 2000) a
    join public.tool_calls c on c.agent_state_id = a.id
  ), compared as (
    select count(*) filter (where g.reward_count >= 2) as groups, count(*) filter (where g.reward_count >= 2 and g.reward_std = 0) as flat_groups
    from (select g.reward_count, g.reward_std from public.training_steps s join public.rollout_groups g on g.training_step_id = s.id
          where s.training_run_id = run_id and s.rewound_at is null order by s.step desc, g.number limit sample) g
  ), stepped as (
    select avg(s.seconds) as seconds_per_step, sum(s.tokens) / nullif(sum(s.seconds) filter (where s.tokens is not null), 0) as tokens_per_second
    from (select s.tokens, extract(epoch from s.finished_at - s.started_at) as seconds from public.training_steps s
          where s.training_run_id = run_id and s.rewound_at is null and s.status = 'completed' order by s.step desc limit 50) s
    where s.seconds > 0
  )
  select jsonb_build_object('rollouts', c.rollouts, 'completed', c.completed, 'solved', c.solved, 'truncated', c.truncated, 'errors', c.errors,
    'groups', g.groups, 'flat_groups', g.flat_groups,
    -- Of an archived run, as counted by the default sample when it was archived.
    'tool_calls', coalesce((k.figures ->> 'tool_calls')::bigint, t.tool_calls), 'tool_errors', coalesce((k.figures ->> 'tool_errors')::bigint, t.tool_errors),
    'mean_staleness', internal.to_double(c.mean_staleness), 'max_staleness', c.max_staleness,
    'rollouts_per_minute', internal.to_double(c.completed / w.minutes), 'turns_per_minute', internal.to_double(c.turns / w.minutes),
    'tokens_per_second', internal.to_double(s.tokens_per_second), 'seconds_per_step', internal.to_double(s.seconds_per_step),
    'window_from', c.window_from, 'window_to', c.window_to)
  from counted c cross join called t cross join compared g cross join stepped s
  left join public.archives k on k.training_run_id = run_id
  cross join lateral (select nullif(greatest(extract(epoch from c.window_to - c.window_from) / 60, 0), 0) as minutes) w);
end
$$;

create function public.run_health(training_run_id uuid, sample integer default 500) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.require_run(training_run_id);
  if sample is null or sample not between 1 and 10000 then
    perform internal.fail('OM400', 'sample', format('sample is %s: 1 to 10000 are possible', coalesce(sample::text, 'null')));
  end if;
  return internal.health_of_run(training_run_id, sample);
end
$$;
comment on function public.run_health is 'Health of a run by its newest rollouts, groups and steps: outcomes, tool errors, groups without variance, staleness and throughput.';

revoke execute on function internal.mean, internal.progress_of_run, internal.health_of_run from public;
grant execute on function internal.progress_of_run, internal.health_of_run to anon, authenticated, service_role;
revoke execute on function public.run_progress, public.run_health from public, anon, authenticated, service_role;
grant execute on function public.run_progress, public.run_health to anon, authenticated, service_role;
