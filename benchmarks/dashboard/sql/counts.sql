-- What triggers would have kept, had they run: the groups' and the runs' counts, and the history of statuses.

create function pg_temp.exactly(reward double precision) returns numeric
language sql immutable
as $$ select case when internal.is_finite(reward) then reward::text::numeric end $$;

insert into public.rollout_groups (id, training_run_id, training_step_id, evaluation_id, task_id, number, task_description,
  rollout_count, completed_count, success_count, reward_count, reward_sum, reward_squares, created_at, updated_at)
select g.id, g.training_run_id,
  case when g.evaluation is null then pg_temp.made_id(7, (s.runs - 2) * 100000 + g.step) end,
  case when g.evaluation is not null then pg_temp.made_id(9, g.evaluation) end, g.task_id,
  row_number() over (partition by g.evaluation, g.step order by g.id) - 1, g.task_description,
  g.rollouts, g.completed, g.solved, g.rewards, coalesce(g.reward_sum, 0), coalesce(g.reward_squares, 0), g.first_at, g.last_at
from pg_temp.sizes s cross join (
  select o.group_id as id, o.training_run_id, o.task_id, o.task_description, o.step,
    case when o.source <> 'training' then o.step * 5 / (select steps from pg_temp.sizes) end as evaluation,
    count(*) as rollouts, count(*) filter (where internal.is_completed(o.status)) as completed, count(*) filter (where o.status = 'success') as solved,
    count(x.reward) as rewards, sum(x.reward) as reward_sum, sum(x.reward * x.reward) as reward_squares,
    min(o.created_at) as first_at, max(coalesce(o.finished_at, o.created_at)) as last_at
  from public.rollouts o cross join lateral (select pg_temp.exactly(o.total_reward) as reward) x
  where o.group_id in (select pg_temp.made_id(6, n) from pg_temp.sizes s, generate_series(0, s.large / 8 + 6 * s.evaluated_tasks - 1) n)
  group by o.group_id, o.training_run_id, o.task_id, o.task_description, o.step, o.source) g
order by g.id;

insert into public.rollout_stats as k
  (training_run_id, environment, shard, rollout_count, completed_count, success_count, reward_sum, reward_count, step_sum, step_count)
select o.training_run_id, o.environment, 0, count(*), count(*) filter (where c.completed), count(*) filter (where o.status = 'success'),
  coalesce(sum(x.reward) filter (where c.completed), 0), count(x.reward) filter (where c.completed),
  coalesce(sum(o.step_count) filter (where c.completed), 0), count(o.step_count) filter (where c.completed)
from public.rollouts o
cross join lateral (select internal.is_completed(o.status) as completed) c
cross join lateral (select pg_temp.exactly(o.total_reward) as reward) x
-- Only what was filled in: of what was there before, the counts are there as well.
where o.rewound_at is null and (o.training_run_id in (select id from pg_temp.filled_runs)
  or (o.training_run_id is null and o.id = pg_temp.made_id(5, o.episode_number)))
group by o.training_run_id, o.environment
order by o.training_run_id, o.environment
on conflict (training_run_id, environment, shard) do update set
  rollout_count = k.rollout_count + excluded.rollout_count, completed_count = k.completed_count + excluded.completed_count,
  success_count = k.success_count + excluded.success_count, reward_sum = k.reward_sum + excluded.reward_sum,
  reward_count = k.reward_count + excluded.reward_count, step_sum = k.step_sum + excluded.step_sum, step_count = k.step_count + excluded.step_count;

-- All runs and evaluations; of the rollouts, those that have turns.
insert into public.status_history (id, entity, entity_id, training_run_id, old_status, new_status, message, changed_by, changed_at)
select pg_temp.made_id(10, -3 * r.number - 2), 'training_runs', t.id, t.id, null, 'pending', null, t.owner_id, t.created_at
from pg_temp.filled_runs r join public.training_runs t using (id)
union all
select pg_temp.made_id(10, -3 * r.number - 1), 'training_runs', t.id, t.id, 'pending', 'running', null, t.owner_id, t.started_at
from pg_temp.filled_runs r join public.training_runs t using (id) where t.status <> 'pending'
union all
select t.status_change_id, 'training_runs', t.id, t.id, 'running', t.status, t.status_message, t.owner_id, t.finished_at
from pg_temp.filled_runs r join public.training_runs t using (id) where t.status not in ('pending', 'running')
union all
select e.status_change_id, 'evaluations', e.id, e.training_run_id, 'running', e.status, null, e.owner_id, e.finished_at
from public.evaluations e where e.id in (select pg_temp.made_id(9, n) from generate_series(0, 5) n)
union all
select pg_temp.made_id(10, 4 * o.episode_number + 2), 'rollouts', o.id, o.training_run_id, null, 'running', null, o.owner_id, o.started_at
from public.rollouts o join pg_temp.turned using (id)
union all
select o.status_change_id, 'rollouts', o.id, o.training_run_id, 'running', o.status, null, o.owner_id, o.finished_at
from public.rollouts o join pg_temp.turned using (id) where o.status <> 'running';

do $$
begin
  if to_regclass('public.activity') is not null then
    insert into public.activity (training_run_id, changed_at)
    select t.id, coalesce(t.heartbeat_at, t.updated_at) from public.training_runs t join pg_temp.filled_runs using (id)
    union all select null, now()
    on conflict (training_run_id) do update set changed_at = excluded.changed_at;
  end if;
  if exists (select 1 from pg_catalog.pg_attribute where attrelid = 'public.training_runs'::regclass and attname = 'baseline_id' and not attisdropped) then
    update public.training_runs set baseline_id = pg_temp.made_id(9, 0) where id = (
      select r.id from pg_temp.filled_runs r, pg_temp.sizes s where r.number = s.runs - 2);
  end if;
end
$$;
