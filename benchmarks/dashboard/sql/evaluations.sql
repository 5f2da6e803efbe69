-- Checkpoints, and the large run's evaluations: a baseline of the model before training, then five of its checkpoints.

create temporary table filled_checkpoints on commit drop as
select pg_temp.made_id(8, r.number * 100 + c) as id, r.number, r.id as run_id, r.environment, c, f.last_step * c / n.checkpoints as step,
  f.first_at + (f.last_at - f.first_at) * (c::double precision / n.checkpoints) as made_at
from pg_temp.sizes s join pg_temp.filled_runs r on r.number between s.runs - 2 - 300 and s.runs - 2
join pg_temp.run_facts f on f.id = r.id
cross join lateral (select case when r.special then 20 else 3 end as checkpoints) n
cross join lateral generate_series(1, n.checkpoints) c;

insert into public.model_checkpoints (id, training_run_id, checkpoint_number, step, storage_path, size_bytes, checksum, metrics, created_at, updated_at)
select id, run_id, c, step, format('%s/checkpoint-%s.safetensors', run_id, c), 8000000000 + c * 12345, md5(id::text),
  jsonb_build_object('reward', round(pg_temp.chance(number * 100 + c, 71)::numeric, 3)), made_at, made_at
from pg_temp.filled_checkpoints;

insert into public.evaluations (id, training_run_id, checkpoint_id, kind, name, step, model, environment, status, status_change_id, progress, owner_id,
  success_rate, mean_reward, mean_turns, measured, started_at, finished_at, created_at, updated_at)
select pg_temp.made_id(9, e), r.id, case when e > 0 then pg_temp.made_id(8, r.number * 100 + e * 4) end, case e when 0 then 'baseline' else 'eval' end,
  case e when 0 then 'Before training' else 'Checkpoint ' || e * 4 end, s.steps * e / 5, r.model, r.environment, 'completed', pg_temp.made_id(10, -3000000 - e), 1,
  pg_temp.made_id(1, 1 + r.number % 6), g.success_rate, g.mean_reward, g.mean_turns, array['success_rate', 'mean_reward', 'mean_turns'],
  g.first_at, g.last_at, g.first_at, g.last_at
from pg_temp.sizes s join pg_temp.filled_runs r on r.number = s.runs - 2 cross join generate_series(0, 5) e
cross join lateral (
  select avg((o.status = 'success')::integer) as success_rate, avg(o.total_reward) filter (where internal.is_finite(o.total_reward)) as mean_reward,
    avg(o.step_count) as mean_turns, min(o.created_at) as first_at, max(coalesce(o.finished_at, o.created_at)) as last_at
  from generate_series(0, s.evaluated_tasks * 4 - 1) q
  join public.rollouts o on o.id = pg_temp.made_id(5, s.trained + e * s.evaluated_tasks * 4 + q)) g;

insert into public.evaluation_results (id, checkpoint_id, training_run_id, evaluation_id, environment, episode_count, success_rate, mean_reward, mean_turns, created_at)
select pg_temp.made_id(13, e.step), e.checkpoint_id, e.training_run_id, e.id, e.environment, s.evaluated_tasks * 4, e.success_rate, e.mean_reward, e.mean_turns, e.created_at
from pg_temp.sizes s cross join public.evaluations e
where e.checkpoint_id is not null and e.id in (select pg_temp.made_id(9, n) from generate_series(1, 5) n);

-- How the other runs' checkpoints did on a few tasks, without rollouts.
insert into public.evaluation_results (id, checkpoint_id, training_run_id, task_id, environment, episode_count, success_rate, mean_reward, mean_turns, created_at)
select pg_temp.made_id(14, c.number * 100 + c.c * 10 + t.number), c.id, c.run_id, t.id, t.environment, 8,
  round((least(1, c.c * 0.3 * pg_temp.chance(c.number, 72)))::numeric, 3), round(pg_temp.chance(c.number + c.c, 73)::numeric, 3), 4, c.made_at
from pg_temp.filled_checkpoints c join pg_temp.filled_tasks t on t.number <= 5 where c.c <= 3;
