-- A rollout's reward by component, and what tells its turns from those of another without reading them.

create function public.rollout_rewards(rollout_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
begin
  perform internal.require_rollout(rollout_rewards.rollout_id);
  return (
    select coalesce(jsonb_agg(to_jsonb(c) order by c.reward_type), '[]')
    from (select w.reward_type, sum(w.reward) as sum, count(*) as count, min(w.reward) as min, max(w.reward) as max
          from public.rewards w where w.rollout_id = rollout_rewards.rollout_id group by w.reward_type) c);
end
$$;
comment on function public.rollout_rewards is 'The rewards of a rollout by component: [{reward_type, sum, count, min, max}].';

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
      -- Hashes of the parts, so that no text moves from one part to the next unseen and none is copied together.
      select a.step_number, md5(concat_ws('|', coalesce(md5(a.observation), '-'), coalesce(md5(a.thought), '-'), coalesce(md5(a.action), '-'),
        coalesce(md5(internal.tool_calls_text(a.id)), '-'))) as hash
      from public.agent_states a where a.rollout_id = turn_fingerprints.rollout_id) t);
end
$$;
comment on function public.turn_fingerprints is 'What an agent saw, thought, did and called, turn by turn, as hashes: equal turns have equal ones.';

revoke execute on function public.rollout_rewards, public.turn_fingerprints, internal.tool_calls_text from public, anon, authenticated, service_role;
grant execute on function public.rollout_rewards, public.turn_fingerprints, internal.tool_calls_text to anon, authenticated, service_role;
