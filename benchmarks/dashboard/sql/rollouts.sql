-- Rollouts by age. Of the newer half three in five are the large run's, in groups of 8; the others are spread over all runs, a few dozen each.
-- The last ones are those of the large run's evaluations: the baseline and five more, each task four times.

create function pg_temp.placed(low bigint, high bigint) returns table (
  n bigint, run_number bigint, group_number bigint, evaluation integer, task_number bigint, step bigint, made_at timestamptz,
  skill double precision, flat boolean)
language sql stable
as $$
  select p.n, p.runs - 2, p.k / 8, null::integer, case when pg_temp.chance(p.k / 8, 21) < 0.02 then 1 else 1 + floor(pg_temp.chance(p.k / 8, 22) * p.tasks)::bigint end,
    p.k / 8 * p.steps / (p.large / 8), p.made_at, 0.15 + 0.6 * p.k / p.large + 0.8 * (pg_temp.chance(p.k / 8, 23) - 0.5), pg_temp.chance(p.k / 8, 24) < 0.15
  from (
    select n, s.*, j / 5 * 3 + j % 5 as k, now() - interval '90 days' * (1 - (n + 1)::double precision / s.trained) as made_at
    from pg_temp.sizes s, generate_series(low, least(high, s.trained) - 1) n, lateral (select n - s.thin_only as j) place
    where j >= 0 and j % 5 < 3) p
  union all
  select p.n, case when pg_temp.chance(p.m, 25) >= 0.001 then 1 + r.number end, null, null,
    case when pg_temp.chance(p.n, 21) < 0.02 then 1 when pg_temp.chance(p.n, 21) < 0.9 then 1 + floor(pg_temp.chance(p.n, 22) * p.tasks)::bigint end,
    (p.m - r.number * p.thin / (p.runs - 3)) / 4, p.made_at, 0.1 + 0.8 * pg_temp.chance(r.number, 26), false
  from (
    select n, s.*, case when j < 0 then n else s.thin_only + j / 5 * 2 + j % 5 - 3 end as m,
      now() - interval '90 days' * (1 - (n + 1)::double precision / s.trained) as made_at
    from pg_temp.sizes s, generate_series(low, least(high, s.trained) - 1) n, lateral (select n - s.thin_only as j) place
    where j < 0 or j % 5 >= 3) p
  -- Every tenth run has none, its neighbour twice as many.
  cross join lateral (select p.m * (p.runs - 3) / p.thin as even) spread
  cross join lateral (select spread.even - (spread.even % 10 = 9)::integer as number) r
  union all
  select p.n, p.runs - 2, p.large / 8 + p.q / 4, (p.q / 4 / p.evaluated_tasks)::integer, 1 + p.q / 4 % p.evaluated_tasks,
    p.steps * (p.q / 4 / p.evaluated_tasks) / 5,
    now() - interval '20 minutes' - interval '44 days' * (1 - (p.q / 4 / p.evaluated_tasks) / 5.0) + p.q % (4 * p.evaluated_tasks) * interval '1 second',
    -- Mostly all four end alike.
    case when pg_temp.chance(p.q / 4 % p.evaluated_tasks, 27) + 0.4 * (pg_temp.chance(p.q / 4, 28) - 0.5) < 0.3 + 0.08 * (p.q / 4 / p.evaluated_tasks)
      then 0.9 else 0.1 end, false
  from (select n, s.*, n - s.trained as q from pg_temp.sizes s, generate_series(greatest(low, s.trained), high - 1) n) p
$$;

create function pg_temp.add_rollouts(low bigint, high bigint) returns void
language sql volatile set jit = off
as $$
  insert into public.rollouts (id, training_run_id, group_id, task_id, source, environment, episode_number, task_description, status, status_change_id,
    total_reward, step_count, error, model, policy_version, seed, worker_id, owner_id, step, started_at, finished_at, created_at, updated_at)
  select pg_temp.made_id(5, p.n), r.id, case when p.group_number is not null then pg_temp.made_id(6, p.group_number) end, t.id,
    case p.evaluation when 0 then 'baseline' else case when p.evaluation is null then 'training' else 'evaluation' end end,
    coalesce(r.environment, t.environment, 'gaia'), p.n, t.description, o.status, pg_temp.made_id(10, 4 * p.n + 3),
    case when o.status in ('error', 'cancelled', 'running') then null
         when p.flat then (o.status = 'success')::integer
         when p.n % 50021 = 7 then 'NaN' when p.n % 100043 = 9 then 'Infinity'
         when o.status = 'success' then round((0.7 + 0.3 * pg_temp.chance(p.n, 33))::numeric, 3)
         else round((0.4 * pg_temp.chance(p.n, 33))::numeric, 3) end::double precision,
    case when o.status = 'running' then null
         when p.evaluation is not null or p.n >= s.trained - s.turned then 1 + floor(4 * pg_temp.chance(p.n, 34))
         else 1 + floor(30 * pg_temp.chance(p.n, 34) ^ 2) end::integer,
    case when o.status = 'error' then pg_temp.pick(array['EnvironmentError: the browser closed unexpectedly', 'TimeoutError: no answer within 30 s',
      'ValueError: could not parse the action', 'ConnectionResetError: [Errno 104] Connection reset by peer'], p.n, 35) end,
    r.model, case when p.evaluation is null then greatest(0, p.step - floor(4 * pg_temp.chance(p.n, 36) ^ 3)::bigint) end, p.n % 1000,
    pg_temp.made_id(9, p.n % 16), pg_temp.made_id(1, 1 + r.number % 6), p.step, p.made_at,
    case when o.status <> 'running' then p.made_at + f.seconds * interval '1 second' end, p.made_at, p.made_at
  from pg_temp.sizes s cross join pg_temp.placed(low, high) p
  left join pg_temp.filled_runs r on r.number = p.run_number
  left join pg_temp.filled_tasks t on t.number = p.task_number
  cross join lateral (select 4 + 20 * pg_temp.chance(p.n, 37) as seconds) f
  cross join lateral (select case
    when p.evaluation is null and p.n >= s.trained - 40 and pg_temp.chance(p.n, 38) < 0.7 then 'running'
    when p.flat then case when pg_temp.chance(p.group_number, 31) < p.skill then 'success' else 'failed' end
    when pg_temp.chance(p.n, 31) < p.skill then 'success'
    when p.evaluation is not null then 'failed'
    else pg_temp.pick(array['failed', 'failed', 'failed', 'failed', 'failed', 'failed', 'failed', 'truncated', 'truncated', 'timeout', 'completed',
      'error', 'failed', 'failed', 'failed', 'failed', 'truncated', 'failed', 'failed', 'cancelled'], p.n, 32) end as status) o
  -- By age, as they would have come: the larger indexes grow at their end.
  order by p.n
$$;
