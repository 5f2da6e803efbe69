-- The list of runs, and what it can be filtered by.

create function internal.name_of_member(of_user_id uuid) returns text
language plpgsql stable set search_path = ''
as $$
begin
  -- Without the right to read members, as for visitors of a public run, there is no name, and no error either.
  if of_user_id is null or not has_table_privilege('public.members', 'select') then
    return null;
  end if;
  return (select m.display_name from public.members m where m.user_id = of_user_id);
end
$$;

create view public.run_list with (security_invoker = true) as
select r.id, r.name, r.run_name, r.algorithm, r.environment, r.description, r.tags, r.status, r.shown_status,
  r.status_message, r.current_step, r.steps_done, r.total_steps, r.progress, r.heartbeat_at, r.heartbeat_timeout_seconds, r.archive_status, r.visibility, r.owner_id,
  internal.name_of_member(r.owner_id) as owner_name,
  r.baseline_id, r.timeline, r.started_at, r.finished_at, r.created_at, r.updated_at,
  s.rollout_count, s.completed_count, s.success_count, s.success_rate, s.average_reward, s.average_turns,
  -- The searched columns as one text: an `or` filter of the API gives some characters of the search text a meaning,
  -- and cannot search an array.
  concat_ws(e'\n', r.name, r.run_name, r.description, array_to_string(r.tags, e'\n')) as search_text
from public.run_overview r
left join lateral (
  select coalesce(sum(c.rollout_count), 0)::bigint as rollout_count, coalesce(sum(c.completed_count), 0)::bigint as completed_count,
    coalesce(sum(c.success_count), 0)::bigint as success_count,
    internal.to_double(sum(c.success_count) / nullif(sum(c.completed_count), 0)) as success_rate,
    internal.to_double(sum(c.reward_sum) / nullif(sum(c.reward_count), 0)) as average_reward,
    internal.to_double(sum(c.step_sum) / nullif(sum(c.step_count), 0)) as average_turns
  from public.rollout_stats c where c.training_run_id = r.id) s on true;
comment on view public.run_list is 'Training runs for lists: with counts of their rollouts and without large columns.';
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
comment on function public.run_facets is 'Values to filter training runs by: the algorithms, environments, statuses, owners and tags in use.';

revoke execute on function internal.name_of_member from public;
grant execute on function internal.name_of_member to anon, authenticated, service_role;
revoke execute on function public.run_facets from public, anon, authenticated, service_role;
grant execute on function public.run_facets to anon, authenticated, service_role;
