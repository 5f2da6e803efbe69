-- How a run is doing, at a cost that does not grow with it.

create function public.run_metrics(training_run_id uuid default null, environment text default null, rollout_limit integer default 100)
returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  answer jsonb;
  recent jsonb;
begin
  if rollout_limit is null or rollout_limit not between 0 and 1000 then
    raise exception using errcode = 'OM400', column = 'rollout_limit', message = format('rollout_limit is %s: 0 to 1000 are possible', coalesce(rollout_limit::text, 'null'));
  end if;
  if training_run_id is not null then
    perform internal.require_run(training_run_id);
  end if;

  select jsonb_build_object(
    'total_rollouts', coalesce(sum(s.rollout_count), 0),
    'completed_rollouts', coalesce(sum(s.completed_count), 0),
    'successful_rollouts', coalesce(sum(s.success_count), 0),
    'success_rate', internal.to_double(sum(s.success_count) / nullif(sum(s.completed_count), 0)),
    'average_reward', internal.to_double(sum(s.reward_sum) / nullif(sum(s.reward_count), 0)),
    'average_steps', internal.to_double(sum(s.step_sum) / nullif(sum(s.step_count), 0)))
  into answer
  from public.rollout_stats s
  where (training_run_id is null or s.training_run_id = training_run_id)
    and (environment is null or s.environment = environment);

  -- Four queries, each on its own index: one query for all of them would read the whole table.
  if training_run_id is not null and environment is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.training_run_id = training_run_id
      and r.environment = environment order by r.created_at desc, r.id limit rollout_limit) r);
  elsif training_run_id is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.training_run_id = training_run_id
      order by r.created_at desc, r.id limit rollout_limit) r);
  elsif environment is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.environment = environment
      order by r.created_at desc, r.id limit rollout_limit) r);
  else
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r order by r.created_at desc, r.id limit rollout_limit) r);
  end if;
  return answer || jsonb_build_object('rollouts', coalesce(recent, '[]'));
end
$$;
comment on function public.run_metrics is 'Counts, success rate and averages of a run''s rollouts, and the newest of them.';
revoke execute on function public.run_metrics from public, anon, authenticated, service_role;
grant execute on function public.run_metrics to anon, authenticated, service_role;
