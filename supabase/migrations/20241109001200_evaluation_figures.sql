-- Figures of an evaluation that its caller does not give are computed from its rollouts, including those that arrive after it completed.
-- Lock first, then compute: under READ COMMITTED, a statement that computes and then waits for a lock writes stale figures.

create function internal.figures_of_evaluation(of_evaluation_id uuid, out success_rate double precision, out mean_reward double precision, out mean_turns double precision)
language sql stable security definer set search_path = ''
as $$
  -- Without a judged rollout the success rate is unknown, not 0.
  select case when bool_or(r.status in ('success', 'failed')) then avg((r.status = 'success')::integer) end, avg(r.total_reward) filter (where internal.is_finite(r.total_reward)), avg(r.step_count)
  from public.rollouts r join public.rollout_groups g on g.id = r.group_id
  where g.evaluation_id = of_evaluation_id and internal.is_completed(r.status)
$$;

-- When the evaluation completes -------------------------------------------------------------------------------------------------

create function internal.measure_evaluation() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  -- Sessions that add a group lock its evaluation, and those that write a counting rollout lock its group, until they commit. Wait for them:
  -- they have not seen that the evaluation completes. Later sessions see it, and measure again.
  perform 1 from public.evaluations e where e.id = new.id for update;
  perform 1 from public.rollout_groups g where g.evaluation_id = new.id order by g.id for no key update;
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
create trigger measure_evaluation before update on public.evaluations for each row
  when (new.status = 'completed' and old.status <> 'completed') execute function internal.measure_evaluation();

-- When rollouts change afterwards -----------------------------------------------------------------------------------------------

create function internal.measure_completed(evaluation_ids uuid[]) returns void
language plpgsql set search_path = ''
as $$
begin
  perform 1 from public.evaluations e where e.id = any (evaluation_ids) and e.status = 'completed' and e.measured <> '{}'
  order by e.id for no key update;
  if found then
    -- A separate statement, so that it sees what the previous holder of the lock committed.
    update public.evaluations e set
      success_rate = case when 'success_rate' = any (e.measured) then f.success_rate else e.success_rate end,
      mean_reward = case when 'mean_reward' = any (e.measured) then f.mean_reward else e.mean_reward end,
      mean_turns = case when 'mean_turns' = any (e.measured) then f.mean_turns else e.mean_turns end
    from unnest(evaluation_ids) late (id) cross join lateral internal.figures_of_evaluation(late.id) f
    where e.id = late.id and e.status = 'completed' and e.measured <> '{}';
  end if;
end
$$;

create function internal.measure_again() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  -- Groups are looked up one by one (`limit 1`): Postgres would read all of them to join a few.
  evaluation_ids uuid[] := array(
    select distinct g.evaluation_id from (select distinct c.group_id from changed_rows c where c.group_id is not null) c
    cross join lateral (select k.evaluation_id from public.rollout_groups k where k.id = c.group_id limit 1) g where g.evaluation_id is not null);
begin
  if evaluation_ids <> '{}' then
    perform internal.measure_completed(evaluation_ids);
  end if;
  return null;
end
$$;

create trigger measure_added_rollouts after insert on public.rollouts referencing new table as changed_rows
  for each statement execute function internal.measure_again();
create trigger measure_changed_rollouts after update on public.rollouts referencing new table as changed_rows
  for each statement execute function internal.measure_again();
create trigger measure_removed_rollouts after delete on public.rollouts referencing old table as changed_rows
  for each statement execute function internal.measure_again();

create function internal.measure_without_groups() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Rollouts deleted with their group no longer lead to their evaluation.
declare
  evaluation_ids uuid[] := array(select distinct c.evaluation_id from changed_rows c where c.evaluation_id is not null);
begin
  if evaluation_ids <> '{}' then
    perform internal.measure_completed(evaluation_ids);
  end if;
  return null;
end
$$;

create trigger measure_removed_groups after delete on public.rollout_groups referencing old table as changed_rows
  for each statement execute function internal.measure_without_groups();

revoke execute on function internal.figures_of_evaluation, internal.measure_evaluation, internal.measure_completed, internal.measure_again,
  internal.measure_without_groups from public;
