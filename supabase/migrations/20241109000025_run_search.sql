-- What a search in the list of runs looks at, as one text: the API has no way to say "this text in any of these columns" that
-- leaves every character of what is searched for its plain meaning, and none at all for an array.
create or replace view public.run_list with (security_invoker = true) as
select r.id, r.name, r.run_name, r.algorithm, r.environment, r.description, r.tags, r.status,
  case
    when r.status = 'running'
      and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
    then 'stalled' else r.status
  end as shown_status,
  r.status_message, r.current_step, r.total_steps, r.progress, r.heartbeat_at, r.heartbeat_timeout_seconds, r.visibility, r.owner_id,
  internal.name_of_member(r.owner_id) as owner_name,
  r.baseline_id, r.timeline, r.started_at, r.finished_at, r.created_at, r.updated_at,
  s.rollout_count, s.completed_count, s.success_count, s.success_rate, s.average_reward, s.average_turns,
  concat_ws(e'\n', r.name, r.run_name, r.description, array_to_string(r.tags, e'\n')) as search_text
from public.training_runs r
left join lateral (
  select coalesce(sum(c.rollout_count), 0)::bigint as rollout_count, coalesce(sum(c.completed_count), 0)::bigint as completed_count,
    coalesce(sum(c.success_count), 0)::bigint as success_count,
    internal.to_double(sum(c.success_count) / nullif(sum(c.completed_count), 0)) as success_rate,
    internal.to_double(sum(c.reward_sum) / nullif(sum(c.reward_count), 0)) as average_reward,
    internal.to_double(sum(c.step_sum) / nullif(sum(c.step_count), 0)) as average_turns
  from public.rollout_stats c where c.training_run_id = r.id) s on true;
