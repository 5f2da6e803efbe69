-- Where to look: one value.
with large as (select r.id from pg_temp.filled_runs r, pg_temp.sizes s where r.number = s.runs - 2),
-- With turns to compare: the newest groups of which every rollout has ended.
groups as (
  select g.id, g.training_step_id, g.reward_std from public.rollout_groups g
  where g.training_run_id = (select id from large) and g.training_step_id is not null and g.completed_count = 8
    and not exists (select 1 from public.rollouts o where o.group_id = g.id and o.id not in (select id from pg_temp.turned)))
select jsonb_build_object(
  'large_run', (select id from large),
  'metrics_run', (select r.id from pg_temp.filled_runs r, pg_temp.sizes s where r.number = s.runs - 1),
  'spiky_metric', 'train/loss',
  'many_metrics_run', (select r.id from pg_temp.filled_runs r, pg_temp.sizes s where r.number = s.runs),
  'hostile_run', (select r.id from pg_temp.filled_runs r, pg_temp.sizes s where r.number = s.runs - 3),
  'public_run', (select t.id from pg_temp.filled_runs join public.training_runs t using (id) where t.visibility = 'public' order by t.created_at desc, t.id limit 1),
  'stalled_run', (select t.id from pg_temp.filled_runs join public.run_overview t using (id) where t.shown_status = 'stalled' order by t.created_at desc, t.id limit 1),
  'long_rollout', (select pg_temp.made_id(5, rollouts - 1) from pg_temp.sizes),
  'big_output_rollout', (select pg_temp.made_id(5, rollouts - 2) from pg_temp.sizes),
  'hostile_rollout', (select pg_temp.made_id(5, rollouts - 3) from pg_temp.sizes),
  'token_rollout', (select id from pg_temp.turned where place = 1),
  'group', (select id from groups where reward_std > 0 order by id desc limit 1),
  'flat_group', (select id from groups where reward_std = 0 order by id desc limit 1),
  'step', (select n.step from groups g join public.training_steps n on n.id = g.training_step_id where g.reward_std > 0 order by g.id desc limit 1),
  'step_id', (select g.training_step_id from groups g where g.reward_std > 0 order by g.id desc limit 1),
  'task', (select id from pg_temp.filled_tasks where number = 1),
  'hostile_task', (select id from pg_temp.filled_tasks where number = 2),
  'evaluation', pg_temp.made_id(9, 5),
  'baseline', pg_temp.made_id(9, 0),
  'checkpoint', (select e.checkpoint_id from public.evaluations e where e.id = pg_temp.made_id(9, 5)),
  'sizes', (select to_jsonb(s) from pg_temp.sizes s))
