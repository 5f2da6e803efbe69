-- Rollouts compared with each other: those of a group, and two of them turn by turn.

-- Groups ------------------------------------------------------------------------------------------------------------------------

create function internal.parting_step(rollout_ids uuid[]) returns integer
language plpgsql stable set search_path = ''
as $$
-- The first step at which rollouts observed or did different things, or some had ended. Rollouts without turns, or that still run and have
-- not reached it, are not compared.
declare
  compared uuid[] := array(select i from unnest(rollout_ids) i where exists (select 1 from public.agent_states a where a.rollout_id = i));
  at_step integer := -1;
  ended bigint;
  ways bigint;
begin
  while cardinality(compared) > 1 loop
    at_step := (select min(n.step_number) from unnest(compared) i cross join lateral (
      select a.step_number from public.agent_states a where a.rollout_id = i and a.step_number > at_step order by a.step_number limit 1) n);
    exit when at_step is null;
    select count(distinct (coalesce(a.observation, ''), coalesce(a.action, ''))) filter (where a.id is not null),
      count(*) filter (where a.id is null and r.status not in ('pending', 'running'))
    into ways, ended
    from public.rollouts r left join public.agent_states a on a.rollout_id = r.id and a.step_number = at_step where r.id = any (compared);
    if ways + ended > 1 then
      return at_step;
    end if;
  end loop;
  return null;
end
$$;

create function public.group_comparison(group_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
declare
  g record;
  ids uuid[];
  parts_at integer;
begin
  select k.*, coalesce(s.step, e.step) as step into g from public.rollout_groups k
  left join public.training_steps s on s.id = k.training_step_id left join public.evaluations e on e.id = k.evaluation_id
  where k.id = group_comparison.group_id;
  if not found then
    perform internal.fail('OM404', 'group_id', format('group %s: unknown id', group_id));
  end if;
  -- Including rollouts that a rewind hid: the group counts them, and is hidden with them.
  ids := array(select r.id from public.rollouts r where r.group_id = g.id order by r.id limit 200);
  parts_at := internal.parting_step(ids);
  return jsonb_build_object(
    'group', (select jsonb_object_agg(e.key, e.value) from jsonb_each(to_jsonb(g)) e where e.key = any (array['id', 'number', 'training_run_id',
      'training_step_id', 'step', 'evaluation_id', 'task_id', 'task_description', 'rollout_count', 'completed_count', 'success_count', 'reward_mean', 'reward_std'])),
    'no_variance', case when g.reward_count > 1 then g.reward_std = 0 end,
    'parts_at', parts_at,
    'rollouts', (
      select coalesce(jsonb_agg(r.shown || jsonb_build_object(
        'advantage', (select avg(v.mean) from public.agent_states a join public.generations n on n.agent_state_id = a.id
          cross join lateral (select avg(u) as mean from unnest(n.advantages) u) v where a.rollout_id = r.id),
        'computed_advantage', ((r.shown ->> 'total_reward')::double precision - g.reward_mean) / nullif(g.reward_std, 0),
        'at_parting', (select jsonb_build_object('observation', left(a.observation, 1000), 'action', left(a.action, 1000), 'thought', left(a.thought, 1000))
          from public.agent_states a where a.rollout_id = r.id and a.step_number = parts_at)) order by r.place), '[]')
      from internal.rollout_rows(ids) r));
end
$$;
comment on function public.group_comparison is 'Compare the rollouts of a group: their rewards and advantages, and the step at which they first differ.';

-- Turns -------------------------------------------------------------------------------------------------------------------------

create function internal.tool_calls_text(turn_id uuid) returns text
language plpgsql stable set search_path = ''
as $$
begin
  return (select jsonb_agg(jsonb_build_array(t.tool_name, t.tool_input, t.tool_output, t.success, t.error_message) order by t.position)::text
    from public.tool_calls t where t.agent_state_id = turn_id);
end
$$;

create function public.turn_fingerprints(rollout_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
begin
  perform internal.require_rollout(turn_fingerprints.rollout_id);
  return (
    select jsonb_build_object('step_numbers', coalesce(jsonb_agg(t.step_number order by t.step_number), '[]'),
      'fingerprints', coalesce(jsonb_agg(left(t.hash, 12) order by t.step_number), '[]'))
    from (
      -- A hash of hashes, so that text moved between fields changes it, and long texts are not concatenated.
      select a.step_number, md5(concat_ws('|', coalesce(md5(a.observation), '-'), coalesce(md5(a.thought), '-'), coalesce(md5(a.action), '-'),
        coalesce(md5(internal.tool_calls_text(a.id)), '-'))) as hash
      from public.agent_states a where a.rollout_id = turn_fingerprints.rollout_id) t);
end
$$;
comment on function public.turn_fingerprints is 'A hash for each turn of its observation, thought, action and tool calls: equal turns have equal hashes.';

revoke execute on function internal.parting_step, internal.tool_calls_text from public;
grant execute on function internal.parting_step, internal.tool_calls_text to anon, authenticated, service_role;
revoke execute on function public.group_comparison, public.turn_fingerprints from public, anon, authenticated, service_role;
grant execute on function public.group_comparison, public.turn_fingerprints to anon, authenticated, service_role;
