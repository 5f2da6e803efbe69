-- Tasks with the results of their rollouts: lately, over time and by checkpoint. Tasks belong to the workspace: these functions are not
-- for the publishable key.

-- The list ----------------------------------------------------------------------------------------------------------------------

create function internal.task_row(of_task_id uuid, recent integer) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  return (
    select jsonb_build_object('id', t.id, 'external_id', t.external_id, 'environment', t.environment, 'name', t.name,
      'description', left(t.description, 300), 'expected_answer', left(t.expected_answer, 300), 'split', t.split,
      'created_at', t.created_at, 'updated_at', t.updated_at,
      'validators', (select count(*) from public.validators v where v.task_id = t.id and v.retired_at is null),
      'rollouts', n.rollouts, 'solved', n.solved, 'completed', n.completed, 'success_rate', n.solved::double precision / nullif(n.completed, 0),
      'mean_reward', n.mean_reward, 'last_rollout_at', n.last_at)
    from public.tasks t cross join lateral (
      select count(*) as rollouts, count(*) filter (where r.status = 'success') as solved, count(*) filter (where internal.is_completed(r.status)) as completed,
        avg(r.total_reward) filter (where internal.is_completed(r.status) and internal.is_finite(r.total_reward)) as mean_reward, max(r.created_at) as last_at
      from (select r.status, r.total_reward, r.created_at from public.rollouts r
            where r.task_id = t.id and r.rewound_at is null order by r.created_at desc, r.id limit recent) r) n
    where t.id = of_task_id);
end
$$;

create function internal.task_conditions(f jsonb, after jsonb) returns text
language sql immutable set search_path = ''
as $$
  select 'true' || coalesce(string_agg(' and ' || format(c.condition, c.value, after ->> 'id'), ''), '')
  from (values
    ('t.environment = %L', f ->> 'environment'), ('t.split = %L', f ->> 'split'),
    ('(t.name ~* %1$L or t.description ~* %1$L or t.external_id ~* %1$L)', internal.literal_pattern(f ->> 'search')),
    ('t.created_at <= %1$L::timestamptz and (t.created_at < %1$L::timestamptz or t.id > %2$L::uuid)', after ->> 'created_at')) c (condition, value)
  where c.value is not null
$$;

create function public.list_tasks(filters jsonb default '{}', after jsonb default null, page_size integer default 50, recent integer default 100) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
declare
  f jsonb := internal.checked_filters(filters, '{"search": "text", "environment": "text", "split": "text"}');
  ids uuid[];
begin
  perform internal.check_range('page_size', page_size, 1, 1000), internal.check_range('recent', recent, 1, 1000);
  execute format('select array(select t.id from public.tasks t where %s order by t.created_at desc, t.id limit %s)',
    internal.task_conditions(f, internal.checked_cursor(after, 'created_at')), page_size + 1) into ids;
  return jsonb_build_object(
    'tasks', (select coalesce(jsonb_agg(internal.task_row(i.id, recent) order by i.place), '[]') from unnest(ids[:page_size]) with ordinality i (id, place)),
    'next', (select jsonb_build_object('created_at', t.created_at, 'id', t.id) from public.tasks t where cardinality(ids) > page_size and t.id = ids[page_size]));
end
$$;
comment on function public.list_tasks is 'Tasks, newest first, a page at a time, each with the results of its newest rollouts: {tasks, next}.';

create function public.task_facets() returns jsonb
language sql stable set search_path = ''
as $$
  select jsonb_build_object(
    'environments', (select coalesce(jsonb_agg(e.environment order by e.environment), '[]') from (select distinct t.environment from public.tasks t where t.environment is not null) e),
    'splits', (select coalesce(jsonb_agg(s.split order by s.split), '[]') from (select distinct t.split from public.tasks t where t.split is not null) s))
$$;
comment on function public.task_facets is 'The environments and splits of tasks.';

-- History -----------------------------------------------------------------------------------------------------------------------

create function internal.rollouts_of_task(of_task_id uuid, sample integer)
returns table (id uuid, training_run_id uuid, group_id uuid, created_at timestamptz, solved boolean, completed boolean, reward double precision)
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_column
begin
  return query
  select r.id, r.training_run_id, r.group_id, r.created_at, r.status = 'success', internal.is_completed(r.status),
    case when internal.is_completed(r.status) and internal.is_finite(r.total_reward) then r.total_reward end
  from public.rollouts r where r.task_id = of_task_id and r.rewound_at is null order by r.created_at desc, r.id limit sample;
end
$$;

create function internal.task_by_checkpoint(of_task_id uuid, sample integer) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  return (
    with measured as (
      select e.checkpoint_id, count(*) as rollouts, count(*) filter (where r.completed) as completed, count(*) filter (where r.solved) as solved, avg(r.reward) as mean_reward
      from internal.rollouts_of_task(of_task_id, sample) r
      join public.rollout_groups g on g.id = r.group_id join public.evaluations e on e.id = g.evaluation_id
      where e.checkpoint_id is not null group by e.checkpoint_id
    ), told as (
      -- Recorded results, for checkpoints without rollouts.
      select s.checkpoint_id, sum(s.episode_count) as rollouts, sum(s.episode_count) as completed, round(sum(s.success_rate * s.episode_count)) as solved,
        coalesce(sum(s.success_rate * s.episode_count) / nullif(sum(s.episode_count) filter (where s.success_rate is not null), 0), avg(s.success_rate)) as success_rate,
        avg(s.mean_reward) filter (where internal.is_finite(s.mean_reward)) as mean_reward
      from public.evaluation_results s
      where s.task_id = of_task_id and not exists (select 1 from measured m where m.checkpoint_id = s.checkpoint_id) group by s.checkpoint_id
    ), both_kinds as (
      select m.checkpoint_id, m.rollouts, m.completed, m.solved, m.solved::double precision / nullif(m.completed, 0) as success_rate, m.mean_reward from measured m
      union all
      select t.checkpoint_id, t.rollouts, t.completed, t.solved, t.success_rate, t.mean_reward from told t)
    select coalesce(jsonb_agg(jsonb_build_object('checkpoint_id', l.id, 'checkpoint_number', l.checkpoint_number, 'training_run_id', l.training_run_id,
      'run_name', l.name, 'step', l.step, 'rollouts', l.rollouts, 'completed', l.completed, 'solved', l.solved, 'success_rate', l.success_rate,
      'mean_reward', l.mean_reward) order by l.began_at, l.training_run_id, l.checkpoint_number, l.id), '[]')
    from (
      -- The latest, since there may be thousands.
      select c.id, c.checkpoint_number, c.training_run_id, r.name, r.created_at as began_at, c.step, b.rollouts, b.completed, b.solved, b.success_rate, b.mean_reward
      from both_kinds b join public.model_checkpoints c on c.id = b.checkpoint_id left join public.training_runs r on r.id = c.training_run_id
      where c.rewound_at is null order by c.created_at desc, c.id limit 200) l);
end
$$;

create function public.task_history(task_id uuid, buckets integer default 60, sample integer default 5000) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_variable
begin
  perform internal.check_range('buckets', buckets, 1, 1000), internal.check_range('sample', sample, 1, 100000);
  if not exists (select 1 from public.tasks t where t.id = task_id) then
    perform internal.fail('OM404', 'task_id', format('task %s: unknown id', task_id));
  end if;
  return (
    with rollouts as materialized (select * from internal.rollouts_of_task(task_id, sample)
    ), bounds as (
      select min(extract(epoch from r.created_at)) as low, max(extract(epoch from r.created_at)) as high from rollouts r
    ), placed as (
      select r.*, case when b.high > b.low then least(width_bucket(extract(epoch from r.created_at), b.low, b.high, buckets), buckets) else 1 end as bucket
      from rollouts r cross join bounds b
    ), over_time as (
      select p.bucket, min(p.created_at) as low, max(p.created_at) as high, count(*) as rollouts, count(*) filter (where p.completed) as completed,
        count(*) filter (where p.solved) as solved, avg(p.reward) as mean_reward
      from placed p group by p.bucket
    ), by_run as (
      select p.training_run_id, t.name, count(*) as rollouts, count(*) filter (where p.completed) as completed, count(*) filter (where p.solved) as solved,
        avg(p.reward) as mean_reward, max(p.created_at) as last_at
      from placed p left join public.training_runs t on t.id = p.training_run_id group by p.training_run_id, t.name
      -- The latest, since a task may be part of thousands of runs.
      order by last_at desc, p.training_run_id limit 100)
    select jsonb_build_object(
      'sample', (select count(*) from rollouts),
      'over_time', (select coalesce(jsonb_agg(jsonb_build_object('from', o.low, 'to', o.high, 'rollouts', o.rollouts, 'completed', o.completed,
        'solved', o.solved, 'mean_reward', o.mean_reward) order by o.bucket), '[]') from over_time o),
      'by_checkpoint', internal.task_by_checkpoint(task_id, sample),
      'by_run', (select coalesce(jsonb_agg(jsonb_build_object('training_run_id', b.training_run_id, 'run_name', b.name, 'rollouts', b.rollouts,
        'completed', b.completed, 'solved', b.solved, 'mean_reward', b.mean_reward, 'last_at', b.last_at) order by b.last_at desc, b.training_run_id), '[]') from by_run b)));
end
$$;
comment on function public.task_history is 'Results of the newest rollouts of a task: over time, by checkpoint and by run.';

revoke execute on function internal.task_row, internal.task_conditions, internal.rollouts_of_task, internal.task_by_checkpoint from public;
grant execute on function internal.task_row, internal.task_conditions, internal.rollouts_of_task, internal.task_by_checkpoint
  to authenticated, service_role;
revoke execute on function public.list_tasks, public.task_facets, public.task_history from public, anon, authenticated, service_role;
grant execute on function public.list_tasks, public.task_facets, public.task_history to authenticated, service_role;
