-- The figures of an evaluation that nobody gave follow its rollouts, also those that come after it was completed: processes deliver apart.

alter table public.evaluations add column measured text[] not null default '{}';
comment on column public.evaluations.measured is 'Which of success_rate, mean_reward and mean_turns are computed from the rollouts.';

create function internal.figures_of_evaluation(of_evaluation_id uuid, out success_rate double precision, out mean_reward double precision, out mean_turns double precision)
language sql stable security definer set search_path = ''
as $$
  -- Where nobody judged a rollout, none succeeded or failed: that is not a rate of 0.
  select case when bool_or(r.status in ('success', 'failed')) then avg((r.status = 'success')::integer) end, avg(r.total_reward) filter (where internal.is_finite(r.total_reward)), avg(r.step_count)
  from public.rollouts r join public.rollout_groups g on g.id = r.group_id
  where g.evaluation_id = of_evaluation_id and internal.is_completed(r.status)
$$;

create or replace function internal.measure_evaluation() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  new.measured := array_remove(array[
    case when new.success_rate is null then 'success_rate' end,
    case when new.mean_reward is null then 'mean_reward' end,
    case when new.mean_turns is null then 'mean_turns' end], null);
  select coalesce(new.success_rate, f.success_rate), coalesce(new.mean_reward, f.mean_reward), coalesce(new.mean_turns, f.mean_turns)
  into new.success_rate, new.mean_reward, new.mean_turns
  from internal.figures_of_evaluation(new.id) f;
  return new;
end
$$;
create trigger measure_new_evaluation before insert on public.evaluations for each row
  when (new.status = 'completed') execute function internal.measure_evaluation();

create function internal.measure_again() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  update public.evaluations e set
    success_rate = case when 'success_rate' = any (e.measured) then f.success_rate else e.success_rate end,
    mean_reward = case when 'mean_reward' = any (e.measured) then f.mean_reward else e.mean_reward end,
    mean_turns = case when 'mean_turns' = any (e.measured) then f.mean_turns else e.mean_turns end
  from (select distinct g.evaluation_id from changed_rows c join public.rollout_groups g on g.id = c.group_id where g.evaluation_id is not null) late
  cross join lateral internal.figures_of_evaluation(late.evaluation_id) f
  where e.id = late.evaluation_id and e.status = 'completed' and e.measured <> '{}';
  return null;
end
$$;
create trigger measure_added_rollouts after insert on public.rollouts referencing new table as changed_rows
  for each statement execute function internal.measure_again();
create trigger measure_changed_rollouts after update on public.rollouts referencing new table as changed_rows
  for each statement execute function internal.measure_again();
create trigger measure_removed_rollouts after delete on public.rollouts referencing old table as changed_rows
  for each statement execute function internal.measure_again();

revoke execute on function internal.figures_of_evaluation, internal.measure_again from public;
