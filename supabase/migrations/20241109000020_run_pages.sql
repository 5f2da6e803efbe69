-- What the pages of runs read: the list, what it can be filtered by, how a run comes along, and how an evaluation compares with another.

alter table public.training_runs add column baseline_id uuid references public.evaluations (id) on delete set null;
comment on column public.training_runs.baseline_id is 'The evaluation that those of the run are compared with.';
create unique index training_runs_by_baseline on public.training_runs (baseline_id, id);
create unique index training_runs_by_name on public.training_runs (name, id);
create unique index training_runs_by_algorithm on public.training_runs (algorithm, created_at desc, id);
create unique index training_runs_by_environment on public.training_runs (environment, created_at desc, id);
select internal.define_merge('training_runs');

-- All that run_progress reads, so that it never looks at the rollouts themselves.
create unique index rollouts_of_a_run_and_step on public.rollouts (training_run_id, step, id)
  include (source, status, total_reward, step_count) where rewound_at is null;

drop view public.run_overview;
create view public.run_overview with (security_invoker = true) as
select r.*,
  case
    when r.status = 'running'
      and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
    then 'stalled' else r.status
  end as shown_status
from public.training_runs r;
comment on view public.run_overview is 'Training runs with the status to show: a run that says it runs but whose heartbeat stopped is stalled.';
revoke all on public.run_overview from public, anon, authenticated, service_role;
grant select on public.run_overview to anon, authenticated, service_role;

-- The list ----------------------------------------------------------------------------------------------------------------------

create function internal.name_of_member(of_user_id uuid) returns text
language plpgsql stable set search_path = ''
as $$
begin
  -- Who may not read members, such as a visitor of a public run, learns no names, and is not refused the rest for it.
  if of_user_id is null or not has_table_privilege('public.members', 'select') then
    return null;
  end if;
  return (select m.display_name from public.members m where m.user_id = of_user_id);
end
$$;

create view public.run_list with (security_invoker = true) as
select r.id, r.name, r.run_name, r.algorithm, r.environment, r.description, r.tags, r.status, r.shown_status,
  r.status_message, at.step as current_step, r.total_steps,
  coalesce(r.progress, case when at.step >= 0 and r.total_steps > 0 then least(at.step::double precision / r.total_steps, 1) end) as progress, r.heartbeat_at, r.heartbeat_timeout_seconds, r.visibility, r.owner_id,
  internal.name_of_member(r.owner_id) as owner_name,
  r.baseline_id, r.timeline, r.started_at, r.finished_at, r.created_at, r.updated_at,
  s.rollout_count, s.completed_count, s.success_count, s.success_rate, s.average_reward, s.average_turns,
  -- What a search looks at, as one text: the API has no way to say "this text in any of these columns" that leaves every character
  -- of what is searched for its plain meaning, and none at all for an array.
  concat_ws(e'\n', r.name, r.run_name, r.description, array_to_string(r.tags, e'\n')) as search_text
from public.run_overview r
-- A loop that records its steps need not also say where it is.
cross join lateral (
  select greatest(r.current_step, (select max(t.step) from public.training_steps t where t.training_run_id = r.id and t.rewound_at is null)) as step) at
left join lateral (
  select coalesce(sum(c.rollout_count), 0)::bigint as rollout_count, coalesce(sum(c.completed_count), 0)::bigint as completed_count,
    coalesce(sum(c.success_count), 0)::bigint as success_count,
    internal.to_double(sum(c.success_count) / nullif(sum(c.completed_count), 0)) as success_rate,
    internal.to_double(sum(c.reward_sum) / nullif(sum(c.reward_count), 0)) as average_reward,
    internal.to_double(sum(c.step_sum) / nullif(sum(c.step_count), 0)) as average_turns
  from public.rollout_stats c where c.training_run_id = r.id) s on true;
comment on view public.run_list is 'Training runs as a list shows them: with counts of their rollouts and without what can be large.';
revoke all on public.run_list from public, anon, authenticated, service_role;
grant select on public.run_list to anon, authenticated, service_role;

create function public.run_facets() returns jsonb
language sql stable set search_path = '' set jit = off
as $$
  with runs as materialized (select r.algorithm, r.environment, r.status, r.owner_id, r.tags from public.training_runs r)
  select jsonb_build_object(
    'algorithms', (select coalesce(jsonb_agg(distinct r.algorithm order by r.algorithm), '[]') from runs r where r.algorithm is not null),
    'environments', (select coalesce(jsonb_agg(distinct r.environment order by r.environment), '[]') from runs r where r.environment is not null),
    'statuses', (select coalesce(jsonb_agg(distinct r.status order by r.status), '[]') from runs r),
    'owners', (
      select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'name', o.name) order by o.name, o.id), '[]')
      from (select d.owner_id as id, internal.name_of_member(d.owner_id) as name
            from (select distinct r.owner_id from runs r where r.owner_id is not null) d) o),
    'tags', (select coalesce(jsonb_agg(distinct t order by t), '[]') from runs r cross join lateral unnest(r.tags) t where t is not null))
$$;
comment on function public.run_facets is 'What training runs can be filtered by: the algorithms, environments, statuses, owners and tags that there are.';

-- How a run comes along ---------------------------------------------------------------------------------------------------------

create function internal.mean(total double precision, beyond numeric, n bigint) returns double precision
language sql immutable parallel safe set search_path = ''
as $$
  -- Of a sum of ordinary doubles and, exactly, of those so large that their sum would be none.
  select case
    when n = 0 then null
    when beyond is null and (total = 0 or abs(total) > 1e-290) then total / n
    else internal.to_double((coalesce(total, 0)::text::numeric + coalesce(beyond, 0)) / n) end
$$;

create function internal.progress_of_run(run_id uuid, buckets integer) returns jsonb
language plpgsql stable security definer set search_path = '' set jit = off
as $$
-- The caller has seen to it that the run is its own to see. Row security would ask a visitor of a public run the same of each of a million rows.
declare
  low bigint;
  high bigint;
  width bigint;
begin
  select min(r.step), max(r.step) into low, high
  from public.rollouts r where r.training_run_id = run_id and r.rewound_at is null and r.source = 'training';
  -- Never more than asked for, and one a step where there are fewer steps.
  width := (high - low) / buckets + 1;
  return (
  with stretches as (
    -- A look into the index for each stretch: what it holds lies together there, and need not be sorted by steps.
    select w.*, s.*
    from (
      select low + n * width as from_step, low + n * width + least(width - 1, high - low - n * width) as to_step
      from generate_series(0, (high - low) / width) n) w
    cross join lateral (
      select count(*) as rollouts, count(*) filter (where r.completed) as completed,
        count(*) filter (where r.status = 'success') as solved,
        count(*) filter (where r.status in ('truncated', 'timeout')) as truncated,
        count(*) filter (where r.status = 'error') as errors,
        percentile_cont(array[0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]) within group (order by r.reward) as rewards,
        internal.mean(sum(r.reward) filter (where abs(r.reward) < 1e100), sum(r.reward::text::numeric) filter (where abs(r.reward) >= 1e100),
          count(r.reward)) as reward_mean,
        avg(r.step_count) filter (where r.completed) as mean_turns
      from (
        -- What internal.is_completed and is_finite say; a call of them for each row would take most of the time.
        select r.status, r.step_count, c.completed,
          case when c.completed and r.total_reward > '-infinity' and r.total_reward < 'infinity' then r.total_reward end as reward
        from public.rollouts r
        cross join lateral (select r.status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error') as completed) c
        where r.training_run_id = run_id and r.rewound_at is null and r.source = 'training'
          and r.step between w.from_step and w.to_step) r) s
    where s.rollouts > 0
  ), compared as (
    select (s.step - low) / width as stretch, count(*) as groups, count(*) filter (where g.reward_std = 0) as flat_groups
    from public.rollout_groups g join public.training_steps s on s.id = g.training_step_id
    where g.training_run_id = run_id and g.reward_count >= 2 and s.training_run_id = run_id and s.rewound_at is null
    group by 1
  )
  select jsonb_build_object(
    'buckets', coalesce(jsonb_agg(jsonb_build_object('from_step', s.from_step, 'to_step', s.to_step,
      'rollouts', s.rollouts, 'completed', s.completed, 'solved', s.solved, 'truncated', s.truncated, 'errors', s.errors,
      'reward_min', s.rewards[1], 'reward_p10', s.rewards[2], 'reward_p25', s.rewards[3], 'reward_p50', s.rewards[4],
      'reward_p75', s.rewards[5], 'reward_p90', s.rewards[6], 'reward_max', s.rewards[7], 'reward_mean', s.reward_mean,
      'mean_turns', s.mean_turns::double precision, 'groups', coalesce(c.groups, 0), 'flat_groups', coalesce(c.flat_groups, 0)) order by s.from_step), '[]'),
    'without_step', (
      select count(*) from public.rollouts r
      where r.training_run_id = run_id and r.rewound_at is null and r.source = 'training' and r.step is null))
  from stretches s left join compared c on c.stretch = (s.from_step - low) / width);
end
$$;

create function public.run_progress(training_run_id uuid, buckets integer default 100) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.require_run(training_run_id);
  if buckets is null or buckets not between 1 and 1000 then
    raise exception using errcode = 'OM400', column = 'buckets', message = format('buckets is %s: 1 to 1000 are possible', coalesce(buckets::text, 'null'));
  end if;
  return internal.progress_of_run(training_run_id, buckets);
end
$$;
comment on function public.run_progress is 'How the training rollouts of a run came out, in stretches of its steps: counts, the distribution of rewards, and groups without variance.';

create function internal.health_of_run(run_id uuid, sample integer) returns jsonb
language plpgsql stable security definer set search_path = '' set jit = off
as $$
-- The caller has seen to it that the run is its own to see, as above.
begin
  return (
  with newest as materialized (
    select r.id, r.status, r.step_count, r.step::numeric - r.policy_version as staleness, coalesce(r.started_at, r.created_at) as began,
      r.status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error') as completed,
      coalesce(r.finished_at, r.created_at) as ended
    from public.rollouts r where r.training_run_id = run_id and r.rewound_at is null order by r.created_at desc, r.id limit sample
  ), counted as (
    select count(*) as rollouts, count(*) filter (where n.completed) as completed, count(*) filter (where n.status = 'success') as solved,
      count(*) filter (where n.status in ('truncated', 'timeout')) as truncated, count(*) filter (where n.status = 'error') as errors,
      avg(n.staleness) as mean_staleness, max(n.staleness) as max_staleness, sum(n.step_count) filter (where n.completed) as turns,
      min(n.began) as window_from, max(n.ended) filter (where n.completed) as window_to
    from newest n
  ), called as (
    -- Of so many turns as can be looked at while somebody waits.
    select count(*) as tool_calls, count(*) filter (where coalesce(not c.success, c.error_message is not null)) as tool_errors
    from (select a.id from newest n join public.agent_states a on a.rollout_id = n.id limit 10000) a
    join public.tool_calls c on c.agent_state_id = a.id
  ), compared as (
    select count(*) filter (where g.reward_count >= 2) as groups, count(*) filter (where g.reward_count >= 2 and g.reward_std = 0) as flat_groups
    from (select g.reward_count, g.reward_std from public.training_steps s join public.rollout_groups g on g.training_step_id = s.id
          where s.training_run_id = run_id and s.rewound_at is null order by s.step desc, g.number limit sample) g
  ), stepped as (
    select avg(s.seconds) as seconds_per_step, sum(s.tokens) / nullif(sum(s.seconds) filter (where s.tokens is not null), 0) as tokens_per_second
    from (select s.tokens, extract(epoch from s.finished_at - s.started_at) as seconds from public.training_steps s
          where s.training_run_id = run_id and s.rewound_at is null and s.status = 'completed' order by s.step desc limit 50) s
    where s.seconds > 0
  )
  select jsonb_build_object('rollouts', c.rollouts, 'completed', c.completed, 'solved', c.solved, 'truncated', c.truncated, 'errors', c.errors,
    'groups', g.groups, 'flat_groups', g.flat_groups, 'tool_calls', t.tool_calls, 'tool_errors', t.tool_errors,
    'mean_staleness', internal.to_double(c.mean_staleness), 'max_staleness', c.max_staleness,
    'rollouts_per_minute', internal.to_double(c.completed / w.minutes), 'turns_per_minute', internal.to_double(c.turns / w.minutes),
    'tokens_per_second', internal.to_double(s.tokens_per_second), 'seconds_per_step', internal.to_double(s.seconds_per_step),
    'window_from', c.window_from, 'window_to', c.window_to)
  from counted c cross join called t cross join compared g cross join stepped s
  cross join lateral (select nullif(greatest(extract(epoch from c.window_to - c.window_from) / 60, 0), 0) as minutes) w);
end
$$;

create function public.run_health(training_run_id uuid, sample integer default 500) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.require_run(training_run_id);
  if sample is null or sample not between 1 and 10000 then
    raise exception using errcode = 'OM400', column = 'sample', message = format('sample is %s: 1 to 10000 are possible', coalesce(sample::text, 'null'));
  end if;
  return internal.health_of_run(training_run_id, sample);
end
$$;
comment on function public.run_health is 'How the newest rollouts, groups and steps of a run fare: outcomes, tool errors, groups without variance, staleness and throughput.';

-- One evaluation beside another -------------------------------------------------------------------------------------------------

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
      -- Where nobody judged, none succeeded or failed: that is not a rate of 0.
      case when bool_or(k.status <> 'completed') then avg((k.status = 'success')::integer) end as rate
    from (
      select coalesce(r.task_id, g.task_id) as task_id, coalesce(r.task_description, g.task_description) as description, r.status
      from public.evaluations e join public.rollout_groups g on g.evaluation_id = e.id join public.rollouts r on r.group_id = g.id
      -- An evaluation that a rewind hid still has its rollouts, for who asks for it.
      where e.id = of_evaluation_id and (r.rewound_at is null or e.rewound_at is not null)
        and r.status in ('success', 'failed', 'completed', 'truncated', 'timeout', 'error')) k
    where k.task_id is not null or k.description is not null
    group by 1, 2
  )
  select b.task_id, b.description, b.rollouts, b.rate::double precision from by_rollouts b
  union all
  -- What was measured elsewhere and recorded as a result, where there are no rollouts to count.
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
    raise exception using errcode = 'OM404', column = 'evaluation_id', message = format('evaluation %s: unknown id', of_evaluation_id);
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
comment on function public.compare_evaluations is 'Two evaluations task by task: which tasks are newly solved and which newly broken. A task is solved where at least half of its rollouts succeeded.';

revoke execute on function internal.name_of_member, internal.mean, internal.progress_of_run, internal.health_of_run, internal.task_label, internal.tasks_of_evaluation,
  internal.evaluation_summary from public;
grant execute on function internal.name_of_member, internal.progress_of_run, internal.health_of_run, internal.task_label, internal.tasks_of_evaluation,
  internal.evaluation_summary to anon, authenticated, service_role;
revoke execute on function public.run_facets, public.run_progress, public.run_health, public.compare_evaluations from public, anon, authenticated, service_role;
grant execute on function public.run_facets, public.run_progress, public.run_health, public.compare_evaluations to anon, authenticated, service_role;
