-- Two evaluations compared task by task.

create function internal.task_label(of_task_id uuid, otherwise text) returns text
language plpgsql stable set search_path = ''
as $$
begin
  if of_task_id is null or not has_table_privilege('public.tasks', 'select') then
    return left(otherwise, 200);
  end if;
  return left(coalesce((select coalesce(t.name, t.description) from public.tasks t where t.id = of_task_id), otherwise), 200);
end
$$;

create function internal.tasks_of_evaluation(of_evaluation_id uuid)
returns table (task_id uuid, description text, rollouts bigint, rate double precision)
language sql stable set search_path = '' set jit = off
as $$
  with by_rollouts as (
    select k.task_id, case when k.task_id is null then k.description end as key, min(k.description) as description, count(*) as rollouts,
      -- Without a judged rollout the success rate is unknown, not 0.
      case when bool_or(k.status <> 'completed') then avg((k.status = 'success')::integer) end as rate
    from (
      select coalesce(r.task_id, g.task_id) as task_id, coalesce(r.task_description, g.task_description) as description, r.status
      from public.evaluations e join public.rollout_groups g on g.evaluation_id = e.id join public.rollouts r on r.group_id = g.id
      -- An evaluation that a rewind hid is compared with its hidden rollouts.
      where e.id = of_evaluation_id and (r.rewound_at is null or e.rewound_at is not null)
        and r.status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error')) k
    where k.task_id is not null or k.description is not null
    group by 1, 2
  )
  select b.task_id, b.description, b.rollouts, b.rate::double precision from by_rollouts b
  union all
  -- Recorded results, for tasks without rollouts.
  select r.task_id, null, sum(coalesce(r.episode_count, 1)), sum(r.success_rate * coalesce(r.episode_count, 1)) / nullif(sum(coalesce(r.episode_count, 1)) filter (where r.success_rate is not null), 0)
  from public.evaluation_results r
  where r.evaluation_id = of_evaluation_id and r.task_id is not null and not exists (select 1 from by_rollouts b where b.task_id = r.task_id)
  group by r.task_id
$$;

create function internal.evaluation_summary(of_evaluation_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  answer jsonb := (
    select jsonb_build_object('id', e.id, 'name', e.name, 'kind', e.kind, 'step', e.step, 'model', e.model, 'status', e.status,
      'success_rate', e.success_rate, 'mean_reward', e.mean_reward, 'mean_turns', e.mean_turns, 'created_at', e.created_at)
    from public.evaluations e where e.id = of_evaluation_id);
begin
  if answer is null then
    perform internal.fail('OM404', 'evaluation_id', format('evaluation %s: unknown id', of_evaluation_id));
  end if;
  return answer;
end
$$;

create function public.compare_evaluations(evaluation_id uuid, baseline_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
declare
  answer jsonb := jsonb_build_object('evaluation', internal.evaluation_summary(evaluation_id), 'baseline', internal.evaluation_summary(baseline_id));
begin
  return answer || (
  with compared as (
    select coalesce(n.task_id, b.task_id) as task_id, coalesce(n.description, b.description) as description,
      b.rate as baseline_rate, n.rate, coalesce(b.rollouts, 0) as baseline_rollouts, coalesce(n.rollouts, 0) as rollouts,
      case when b.rollouts is null then 'new' when n.rollouts is null then 'missing'
        when b.rate < 0.5 and n.rate >= 0.5 then 'solved' when b.rate >= 0.5 and n.rate < 0.5 then 'broken' else 'same' end as change
    from internal.tasks_of_evaluation(compare_evaluations.evaluation_id) n
    full join internal.tasks_of_evaluation(compare_evaluations.baseline_id) b
      on coalesce(n.task_id::text, n.description) = coalesce(b.task_id::text, b.description)
  ), labelled as (
    select c.*, internal.task_label(c.task_id, c.description) as task from compared c
  ), shown as (
    select l.*, row_number() over (order by l.change <> 'broken', l.change <> 'solved', l.task, l.task_id) as place from labelled l
  )
  select jsonb_build_object(
    'tasks', coalesce(jsonb_agg(jsonb_build_object('task_id', s.task_id, 'task', s.task, 'baseline_rate', s.baseline_rate, 'rate', s.rate,
      'baseline_rollouts', s.baseline_rollouts, 'rollouts', s.rollouts, 'change', s.change) order by s.place) filter (where s.place <= 2000), '[]'),
    'newly_solved', count(*) filter (where s.change = 'solved'), 'newly_broken', count(*) filter (where s.change = 'broken'))
  from shown s);
end
$$;
comment on function public.compare_evaluations is 'Compare two evaluations by task: which tasks are newly solved and which newly broken. A task is solved if at least half of its rollouts succeeded.';

revoke execute on function internal.task_label, internal.tasks_of_evaluation, internal.evaluation_summary from public;
grant execute on function internal.task_label, internal.tasks_of_evaluation, internal.evaluation_summary
  to anon, authenticated, service_role;
revoke execute on function public.compare_evaluations from public, anon, authenticated, service_role;
grant execute on function public.compare_evaluations to anon, authenticated, service_role;
