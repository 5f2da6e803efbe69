-- Metrics in chunks of 496 points, as the recorder makes them. Those of a run with the same steps were logged together.

create temporary table filled_metrics on commit drop as
select r.id as run_id, 'train/loss' as name, 1 as shape, s.spiky_points as points, 1::bigint as apart, true as spiky
from pg_temp.sizes s join pg_temp.filled_runs r on r.number = s.runs - 1
union all
select r.id, case n when 1 then '<img src=x onerror=alert(1)>/loss' else
    (array['actor', 'critic', 'reward', 'timing', 'rollout'])[1 + n % 5] || '/' || (array['mean', 'max', 'std', 'p95'])[1 + n / 5 % 4] || '_' || n end,
  n, (s.points - s.spiky_points) / 199 + case when n <= (s.points - s.spiky_points) % 199 then 1 else 0 end, greatest(1, s.spiky_points * 199 / (s.points - s.spiky_points)), false
from pg_temp.sizes s join pg_temp.filled_runs r on r.number = s.runs - 1 cross join generate_series(1, 199) n
union all
select r.id, format('layers/%s/%s/head_%s', lpad((n / 30)::text, 3, '0'), (array['grad_norm', 'entropy', 'weight_norm'])[1 + n % 3], n / 3 % 10), n, 20, 1, false
from pg_temp.sizes s join pg_temp.filled_runs r on r.number = s.runs cross join generate_series(0, s.metric_names - 1) n
union all
select r.id, m.name, m.n::integer, s.steps, 1, false
from pg_temp.sizes s join pg_temp.filled_runs r on r.number = s.runs - 2
cross join unnest(array['train/loss', 'train/kl', 'train/grad_norm', 'train/learning_rate', 'reward/mean', 'reward/std', 'rollout/success_rate', 'rollout/turns',
  'timing/step_seconds', 'timing/rollout_seconds', 'tokens/prompt', 'tokens/completion']) with ordinality m (name, n)
union all
select r.id, m.name, m.n::integer, 20 + r.number % 200, 1, false
from pg_temp.sizes s join pg_temp.filled_runs r on r.number between s.runs - 2 - 300 and s.runs - 3
cross join unnest(array['train/loss', 'train/kl', 'reward/mean', 'rollout/success_rate', 'timing/step_seconds']) with ordinality m (name, n);

create temporary table filled_axes on commit drop as
select pg_temp.made_id(16, row_number() over (order by run_id, points, apart)) as id, run_id, points, apart
from pg_temp.filled_metrics group by run_id, points, apart having count(*) > 1;

create temporary table filled_chunks on commit drop as
select m.*, c as chunk, pg_temp.made_id(12, 1000000 + row_number() over (order by m.run_id, m.name, c)) as id,
  case when a.id is not null then pg_temp.made_id(17, dense_rank() over (order by a.id, c)) end as axis_id, c * 496 as low, least(m.points, c * 496 + 496) - 1 as high
from pg_temp.filled_metrics m
left join pg_temp.filled_axes a using (run_id, points, apart)
cross join lateral generate_series(0, (m.points - 1) / 496) c;

insert into public.metric_axes (id, training_run_id, steps, times, first_step, last_step, points)
select c.axis_id, c.run_id, p.steps, p.times, c.low * c.apart, c.high * c.apart, c.high - c.low + 1
from (select distinct axis_id, run_id, points, apart, low, high from pg_temp.filled_chunks where axis_id is not null) c
cross join lateral (
  select array_agg(i * c.apart order by i) as steps, array_agg(now() - interval '9 days' * (1 - i::double precision / c.points) order by i) as times
  from generate_series(c.low, c.high) i) p
order by c.run_id, c.low;

insert into public.metric_chunks (id, training_run_id, name, axis_id, steps, values, times, first_step, last_step)
select c.id, c.run_id, c.name, c.axis_id, p.steps, p.values, p.times, c.low * c.apart, c.high * c.apart
from pg_temp.filled_chunks c
cross join lateral (
  select array_agg(i * c.apart order by i) filter (where c.axis_id is null) as steps,
    array_agg(case
      when c.spiky and i in (c.points / 8, c.points / 2) then 1000 when c.spiky and i = c.points / 3 then -500
      when c.spiky and i = c.points * 7 / 9 then 'NaN' when c.spiky and i = c.points * 8 / 9 then 'Infinity'
      else (1 + c.shape % 7) * exp(-3.0 * i / c.points) + 0.3 * sin(i * (1 + c.shape % 5) / 40.0) + 0.2 * pg_temp.chance(i, 60 + c.shape) end::double precision order by i) as values,
    array_agg(now() - interval '9 days' * (1 - i::double precision / c.points) order by i) filter (where c.axis_id is null) as times
  from generate_series(c.low, c.high) i) p
order by c.run_id, c.name, c.chunk;
