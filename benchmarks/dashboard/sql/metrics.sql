-- Metrics in chunks of 256 points, as the recorder makes them.

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

insert into public.metric_chunks (id, training_run_id, name, steps, values, times, first_step, last_step)
select pg_temp.made_id(12, 1000000 + row_number() over (order by m.run_id, m.name, i / 256)), m.run_id, m.name,
  array_agg(i * m.apart order by i),
  array_agg(case
    when m.spiky and i in (points / 8, points / 2) then 1000 when m.spiky and i = points / 3 then -500
    when m.spiky and i = points * 7 / 9 then 'NaN' when m.spiky and i = points * 8 / 9 then 'Infinity'
    else (1 + m.shape % 7) * exp(-3.0 * i / m.points) + 0.3 * sin(i * (1 + m.shape % 5) / 40.0) + 0.2 * pg_temp.chance(i, 60 + m.shape) end::double precision order by i),
  array_agg(now() - interval '9 days' * (1 - i::double precision / m.points) order by i),
  min(i) * m.apart, max(i) * m.apart
from pg_temp.filled_metrics m cross join lateral generate_series(0, m.points - 1) i
group by m.run_id, m.name, i / 256, m.apart
order by m.run_id, m.name, i / 256;
