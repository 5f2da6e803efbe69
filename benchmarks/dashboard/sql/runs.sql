-- The runs, with what their rollouts tell of them; some of them have none.

create temporary table run_facts on commit drop as
select o.training_run_id as id, min(o.created_at) as first_at, max(o.created_at) as last_at, max(o.step) as last_step
from public.rollouts o where o.training_run_id is not null and o.source = 'training' group by o.training_run_id;

insert into public.training_runs (id, name, run_name, algorithm, environment, description, config, summary, tags, status, status_message, status_change_id,
  current_step, total_steps, progress, heartbeat_at, heartbeat_timeout_seconds, visibility, owner_id, started_at, finished_at, created_at, updated_at)
select r.id,
  case r.number - s.runs when -2 then 'The large run' when -1 then 'A million points' when 0 then 'Thousands of metrics'
    else case when r.number = s.runs - 3 then current_setting('fill.hostile')
    else format('%s-%s-%s', lower(r.algorithm), r.environment, r.number) end end,
  case when r.number % 4 = 0 then 'run-' || current_setting('fill.seed') || '-' || r.number end, r.algorithm, r.environment,
  case when r.number % 3 = 0 then 'Does a lower KL weight help? Compare with the run before.' end,
  c.config, case when w.status = 'completed' then jsonb_build_object('best_success_rate', round(pg_temp.chance(r.number, 41)::numeric, 3)) else '{}' end,
  array_remove(array[pg_temp.pick(array['baseline', 'ablation', 'sweep', 'paper'], r.number, 42), case when r.number % 7 = 0 then 'keep' end,
    case when r.number = s.runs - 3 then '<script>tag</script>' end], null),
  w.status, case w.status when 'failed' then pg_temp.pick(array['CUDA out of memory', 'the loss became NaN at the last step', 'node lost'], r.number, 43) end,
  pg_temp.made_id(10, -3 * r.number), d.current_step, d.total_steps,
  case when w.status = 'completed' then 1 else least(1, d.current_step::double precision / d.total_steps) end,
  case when w.status = 'pending' then null when w.fresh then now() else d.last_at + interval '1 minute' end,
  -- Nobody sends heartbeats: those that are to look alive do so for a month.
  case when w.fresh then 2592000 else 300 end,
  case when r.number % 50 = 7 then 'public' else 'private' end,
  case when r.number % 20 <> 1 then pg_temp.made_id(1, 1 + r.number % 6) end,
  case when w.status <> 'pending' then d.first_at end, case when w.status not in ('pending', 'running') then d.last_at + interval '2 minutes' end,
  d.first_at - interval '1 minute', d.last_at
from pg_temp.sizes s cross join pg_temp.filled_runs r
left join pg_temp.run_facts f on f.id = r.id
cross join lateral (select
  coalesce(f.first_at, now() - case when r.special then interval '9 days' else interval '90 days' * (1 - r.number::double precision / s.runs) end) as first_at,
  coalesce(f.last_at, now() - case when r.special then interval '1 minute' else interval '89 days' * (1 - r.number::double precision / s.runs) end) as last_at,
  case r.number - s.runs when -1 then s.spiky_points when 0 then 20 else coalesce(f.last_step, 0) end as current_step,
  case when r.number = s.runs - 2 then s.steps * 5 / 4 when r.number > s.runs - 2 then s.spiky_points * 2
       else coalesce(f.last_step, 0) + 1 + floor(10 * pg_temp.chance(r.number, 44) ^ 4)::bigint end as total_steps) d
cross join lateral (select pg_temp.chance(r.number, 45) as at, r.special or d.last_at > now() - interval '1 day' as recent) u
cross join lateral (select
  case when r.number = 3 or u.recent and u.at < 0.9 or r.special then 'running' when f.id is null and u.at < 0.3 then 'pending' when u.at < 0.62 then 'completed'
       when u.at < 0.82 then 'failed' when u.at < 0.92 then 'cancelled' when u.at < 0.97 then 'interrupted' else 'running' end as status,
  -- The others that say they run have stalled.
  r.special or (r.number <> 3 and u.recent and u.at < 0.5) as fresh) w
cross join lateral (select jsonb_build_object('model', r.model, 'algorithm', r.algorithm, 'learning_rate', round((1e-6 * (1 + 9 * pg_temp.chance(r.number, 46)))::numeric, 8),
    'kl_weight', (array[0, 0.001, 0.01])[1 + r.number % 3], 'group_size', 8, 'seed', r.number % 5,
    'optimizer', jsonb_build_object('name', 'adamw', 'betas', array[0.9, 0.95], 'weight_decay', 0.01))
  -- Some are long: every layer has its say.
  || case when r.number % 25 = 0 or r.special then (select jsonb_build_object('layers', jsonb_object_agg('layer_' || l, jsonb_build_object('rank', 8 + l % 4, 'dropout', 0.05 * (l % 3),
    'targets', array['q_proj', 'k_proj', 'v_proj']))) from generate_series(1, 20 + r.number % 200) l) else '{}' end as config) c
order by d.first_at;

insert into public.training_steps (id, training_run_id, step, phase, status, rollout_progress, training_progress, loss, kl, grad_norm, reward_mean, reward_std, tokens,
  started_at, finished_at, created_at, updated_at)
select pg_temp.made_id(7, r.number * 100000 + o.step), r.id, o.step, 'training',
  case when l.open then 'running' else 'completed' end, 1, case when l.open then 0.4 else 1 end,
  0.8 * exp(-o.step / 300.0) + 0.1 * pg_temp.chance(o.step, 51), 0.02 + 0.01 * pg_temp.chance(o.step, 52), 1 + pg_temp.chance(o.step, 53),
  o.reward_mean, o.reward_std, 40000 + floor(20000 * pg_temp.chance(o.step, 54))::bigint,
  o.first_at, case when not l.open then o.last_at end, o.first_at, o.last_at
from (
  select o.training_run_id, o.step, min(o.created_at) as first_at, max(coalesce(o.finished_at, o.created_at)) as last_at,
    avg(o.total_reward) filter (where internal.is_finite(o.total_reward)) as reward_mean,
    stddev_pop(o.total_reward) filter (where internal.is_finite(o.total_reward)) as reward_std
  from public.rollouts o
  where o.source = 'training' and o.training_run_id in (
    select r.id from pg_temp.filled_runs r, pg_temp.sizes s where r.special or r.number > s.runs - 3 - 200)
  group by o.training_run_id, o.step) o
join pg_temp.filled_runs r on r.id = o.training_run_id
join pg_temp.run_facts f on f.id = r.id
cross join lateral (select r.special and o.step = f.last_step as open) l
order by r.number, o.step;
