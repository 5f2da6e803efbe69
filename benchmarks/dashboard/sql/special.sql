-- The newest rollouts, which get turns.
create temporary table turned on commit drop as
select row_number() over (order by o.created_at desc, o.id) as place, o.id, o.training_run_id, o.group_id,
  o.status, o.total_reward, o.step_count, o.model, o.policy_version, o.created_at
from pg_temp.sizes s cross join generate_series(s.trained - s.turned, s.rollouts - 4) n
join public.rollouts o on o.id = pg_temp.made_id(5, n)
order by o.created_at desc, o.id limit (select turned from pg_temp.sizes);
create unique index on pg_temp.turned (id);

-- Rollouts that are hard to show: their turns follow. They belong to the run of many points and to the hostile one.
insert into public.rollouts (id, training_run_id, task_id, environment, episode_number, task_description, status, status_change_id, total_reward, step_count,
  model, policy_version, agent, owner_id, step, started_at, finished_at, created_at, updated_at)
select pg_temp.made_id(5, s.rollouts - 1 - p.n), r.id, t.id, r.environment, s.rollouts - 1 - p.n, t.description, 'success',
  pg_temp.made_id(10, 4 * (s.rollouts - 1 - p.n) + 3), 1, p.turns, r.model, 0, p.name, pg_temp.made_id(1, 1), 0,
  made_at, now(), made_at, now()
from pg_temp.sizes s
cross join lateral (values (0, 'long_rollout', s.long_turns, 1), (1, 'big_output_rollout', 3, 1), (2, 'hostile_rollout', s.hostile_turns, 3)) p (n, name, turns, back)
join pg_temp.filled_runs r on r.number = s.runs - p.back
join pg_temp.filled_tasks t on t.number = case p.n when 2 then 2 else 3 end
cross join lateral (select now() - (p.n + 1) * interval '30 minutes' as made_at) m;
