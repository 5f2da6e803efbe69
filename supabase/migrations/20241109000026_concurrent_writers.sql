-- What is computed from rows that others write: first the lock, then the look. Under READ COMMITTED a statement sees what was committed
-- before it began, so whoever computes and then waits for a lock writes what has been overtaken.
--
-- Locks are taken in one order: runs, the rows of each kind by their ids, their groups, and last the evaluation that late rollouts change.

-- Evaluations -------------------------------------------------------------------------------------------------------------------

create function internal.measure_completed(evaluation_ids uuid[]) returns void
language plpgsql set search_path = ''
as $$
begin
  perform 1 from public.evaluations e where e.id = any (evaluation_ids) and e.status = 'completed' and e.measured <> '{}'
  order by e.id for no key update;
  if found then
    -- A statement of its own: it sees what the last one who held the lock has committed.
    update public.evaluations e set
      success_rate = case when 'success_rate' = any (e.measured) then f.success_rate else e.success_rate end,
      mean_reward = case when 'mean_reward' = any (e.measured) then f.mean_reward else e.mean_reward end,
      mean_turns = case when 'mean_turns' = any (e.measured) then f.mean_turns else e.mean_turns end
    from unnest(evaluation_ids) late (id) cross join lateral internal.figures_of_evaluation(late.id) f
    where e.id = late.id and e.status = 'completed' and e.measured <> '{}';
  end if;
end
$$;

create or replace function internal.measure_again() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  evaluation_ids uuid[] := array(
    select distinct g.evaluation_id from changed_rows c join public.rollout_groups g on g.id = c.group_id where g.evaluation_id is not null);
begin
  if evaluation_ids <> '{}' then
    perform internal.measure_completed(evaluation_ids);
  end if;
  return null;
end
$$;

create function internal.measure_without_groups() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- The rollouts that went with their group no longer say of which evaluation they were.
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

create or replace function internal.measure_evaluation() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  -- Who adds a group holds its evaluation, and who writes a rollout that counts holds its group, until they commit. Wait for them: they
  -- have not seen that the evaluation completes. Who comes later sees it, and measures again.
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

revoke execute on function internal.measure_completed, internal.measure_without_groups from public;

-- Rewinds -----------------------------------------------------------------------------------------------------------------------

create function internal.follow_run(run_id uuid) returns void
language plpgsql set search_path = ''
as $$
-- Let no rewind of a run begin until this transaction ends: it could not see what is written here. A batch has done so for all its runs.
begin
  if current_setting('openmanus_rl.marks_itself', true) is distinct from 'on' then
    perform 1 from public.training_runs r where r.id = run_id for key share;
  end if;
end
$$;

create or replace function internal.hide_latecomer() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform internal.follow_run(new.training_run_id);
  new.rewound_at := (
    select min(w.created_at) from public.rewinds w
    where w.training_run_id = new.training_run_id and w.timeline > new.timeline
      and (new.step > w.to_step or (new.step is null and new.created_at >= w.cut_at)));
  return new;
end
$$;

create or replace function internal.bound_metric_chunk() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- A chunk only grows: one that is no longer is an earlier state of it, delivered again.
  if tg_op = 'UPDATE' and cardinality(new.steps) <= cardinality(old.steps) then
    old.visible_to := new.visible_to;
    return old;
  end if;
  -- Of a chunk without steps the constraints have more to say than that it has no first one.
  select coalesce(min(s), 0), coalesce(max(s), 0) into new.first_step, new.last_step from unnest(new.steps) s;
  perform internal.follow_run(new.training_run_id);
  new.visible_to := (
    select min(w.to_step) from public.rewinds w where w.training_run_id = new.training_run_id and w.timeline > new.timeline);
  new.updated_at := now();
  return new;
end
$$;

create function internal.hold_writers() returns trigger
language plpgsql set search_path = ''
as $$
-- Who resumes a run changes and hides what others write: they are let finish first, and wait at their beginning, where they hold nothing.
begin
  perform 1 from public.training_runs r where r.id = current_setting('openmanus_rl.resuming', true)::uuid for update;
  return null;
end
$$;
create trigger hold_writers before update on public.training_runs for each statement
  when (current_setting('openmanus_rl.resuming', true) <> '') execute function internal.hold_writers();

revoke execute on function internal.follow_run, internal.hold_writers from public;
grant execute on function internal.follow_run to authenticated, service_role;

-- Batches -----------------------------------------------------------------------------------------------------------------------

create function internal.lock_runs(kinds text[]) returns void
language plpgsql set search_path = ''
as $$
-- Hold the runs that a batch writes of: those that it changes against other changes, the others against rewinds.
declare
  sources text := (
    select string_agg(case k
      when 'training_runs' then 'select s.id, true from pg_temp.stage_training_runs s'
      when 'rollout_groups' then
        'select p.training_run_id, false from pg_temp.stage_rollout_groups s join public.training_steps p on p.id = s.training_step_id union all
         select e.training_run_id, false from pg_temp.stage_rollout_groups s join public.evaluations e on e.id = s.evaluation_id'
      else format('select s.training_run_id, false from pg_temp.%1$I s union all
         select t.training_run_id, false from pg_temp.%1$I s join public.%2$I t on t.id = s.id', 'stage_' || k, k)
        || case k when 'rollouts' then ' union all
         select g.training_run_id, false from pg_temp.stage_rollouts s join public.rollout_groups g on g.id = s.group_id' else '' end
      end, ' union all ')
    from unnest(kinds) k
    where k in ('training_runs', 'training_steps', 'model_checkpoints', 'evaluations', 'rollout_groups', 'rollouts', 'metric_chunks'));
  run record;
begin
  if sources is null then
    return;
  end if;
  for run in execute format('select w.id, bool_or(w.changes) as changes from (%s) w (id, changes) where w.id is not null group by w.id order by w.id', sources) loop
    if run.changes then
      perform 1 from public.training_runs r where r.id = run.id for no key update;
    else
      perform 1 from public.training_runs r where r.id = run.id for key share;
    end if;
  end loop;
end
$$;

create function internal.lock_rows(kind text, low integer, high integer) returns void
language plpgsql set search_path = ''
as $$
begin
  if kind in ('observations', 'generations', 'tool_calls') then
    -- A place of its own in the turn is the one after the last.
    execute format(
      'select 1 from public.agent_states a where a.id in (
         select s.agent_state_id from pg_temp.%I s where s.ordinal between $1 and $2 and s.position is null)
       order by a.id for no key update', 'stage_' || kind) using low, high;
  elsif kind <> 'metric_chunks' and (select k.can_change from internal.record_kinds() k where k.kind = lock_rows.kind) then
    execute format(
      'select 1 from public.%I t where t.id in (select s.id from pg_temp.%I s where s.ordinal between $1 and $2) order by t.id for no key update',
      kind, 'stage_' || kind) using low, high;
  end if;
end
$$;

create or replace function internal.merge_range(stage text, kind text, low integer, high integer, again boolean default false) returns void
language plpgsql set search_path = ''
as $$
-- Do the whole range at once; if a record in it cannot be taken, halve, until the one at fault stands alone.
declare
  message text;
  detail text;
  field text;
  constraint_name text;
  retry boolean := false;
begin
  begin
    if stage = 'type' then
      perform internal.type_records(kind, low, high);
    else
      perform internal.lock_rows(kind, low, high);
      execute format('select internal.%I($1, $2)', 'merge_' || kind) using low, high;
    end if;
    return;
  exception when others then
    if internal.refusal_code(sqlstate) is null then
      raise;
    end if;
    -- Another session may just have made the very same row, which was found out by another index than that of the id, or the very same
    -- change: look again.
    if low = high and sqlstate in ('23505', 'OM409') and stage = 'merge' and not again then
      retry := true;
    elsif low = high then
      get stacked diagnostics message = message_text, detail = pg_exception_detail, field = column_name, constraint_name = constraint_name;
      perform internal.refuse(kind, low, sqlstate, message, detail, field, constraint_name);
      return;
    end if;
  end;
  if retry then
    perform internal.merge_range(stage, kind, low, high, again => true);
    return;
  end if;
  perform internal.merge_range(stage, kind, low, (low + high) / 2);
  perform internal.merge_range(stage, kind, (low + high) / 2 + 1, high);
end
$$;

create or replace function internal.beat_runs(kinds text[]) returns void
language plpgsql set search_path = ''
as $$
-- Whoever writes of a run says that it is alive. Last, so that no writer holds the run's row while it writes the rest, and never waiting,
-- for the same reason: who has the row is about to say something of the run.
declare
  sources text := (
    select string_agg(case k
      when 'training_runs' then 'select id from pg_temp.stage_training_runs'
      when 'training_steps' then 'select training_run_id from pg_temp.stage_training_steps'
      when 'metric_chunks' then 'select training_run_id from pg_temp.stage_metric_chunks'
      when 'rollouts' then 'select r.training_run_id from pg_temp.stage_rollouts s join public.rollouts r on r.id = s.id'
      else 'select r.training_run_id from (select distinct rollout_id from pg_temp.stage_agent_states) s join public.rollouts r on r.id = s.rollout_id'
      end, ' union ')
    from unnest(kinds) k where k in ('training_runs', 'training_steps', 'metric_chunks', 'rollouts', 'agent_states'));
begin
  if sources is not null then
    execute format(
      'update public.training_runs t set heartbeat_at = now()
       where t.id = any (array(
         select r.id from public.training_runs r
         where r.id in (%s) and r.status = ''running'' and (r.heartbeat_at is null or r.heartbeat_at < now() - interval ''5 seconds'')
         for no key update skip locked))', sources);
  end if;
end
$$;

create or replace function internal.merge_stage(kinds text[], all_or_nothing boolean default false) returns jsonb
language plpgsql set search_path = '' set jit = off
as $$
-- Merge what is staged; says how many records there were and which were refused.
declare
  k text;
  low integer;
  high integer;
  received bigint := 0;
  refused jsonb;
  first_refusal record;
  marks_itself text := current_setting('openmanus_rl.marks_itself', true);
begin
  perform internal.lock_runs(kinds);
  perform set_config('openmanus_rl.marks_itself', 'on', true);
  for k in select r.kind from internal.record_kinds() r where r.kind = any (kinds) order by r.place loop
    execute format('select min(ordinal), max(ordinal), $1 + count(*) from pg_temp.%I', 'stage_' || k) into low, high, received using received;
    continue when low is null;
    perform internal.refuse_orphans(k);
    perform internal.merge_range('merge', k, low, high);
  end loop;
  perform set_config('openmanus_rl.marks_itself', coalesce(marks_itself, ''), true);
  perform internal.mark_staged(kinds);
  perform internal.beat_runs(kinds);

  if all_or_nothing then
    select r.* into first_refusal from pg_temp.stage_refused r join internal.record_kinds() p using (kind) order by p.place, r.ordinal limit 1;
    if found then
      raise exception using errcode = first_refusal.code, message = first_refusal.message,
        detail = jsonb_build_object('kind', first_refusal.kind, 'index', first_refusal.ordinal, 'id', first_refusal.id, 'field', first_refusal.field)::text,
        column = coalesce(first_refusal.field, '');
    end if;
  end if;
  select coalesce(jsonb_agg(jsonb_build_object('kind', r.kind, 'index', r.ordinal, 'id', r.id, 'code', r.code, 'field', r.field,
    'message', r.message) order by p.place, r.ordinal), '[]')
  into refused from pg_temp.stage_refused r join internal.record_kinds() p using (kind);
  return jsonb_build_object('received', received, 'refused', refused);
end
$$;

create or replace function public.change_status(entity text, entity_id uuid, status text, message text default null, fields jsonb default '{}', change_id uuid default null)
returns jsonb
language plpgsql set search_path = ''
as $$
-- Change a row that must be there, with whatever else is to be said of it.
declare
  known boolean;
  answer jsonb;
begin
  if internal.next_statuses(entity, 'pending') is null then
    raise exception using errcode = 'OM400', column = 'entity', message = format('entity %s: has no status', entity);
  end if;
  if status is null then
    raise exception using errcode = 'OM400', column = 'status', message = format('%s %s: status is required', entity, entity_id);
  end if;
  -- Locked, so that it is still there to be changed: what is gone would be made anew. Who may see but not change it is told so below.
  execute format('select 1 from public.%I t where t.id = $1 for no key update', entity) using entity_id;
  execute format('select exists (select 1 from public.%I t where t.id = $1)', entity) into known using entity_id;
  if not known then
    raise exception using errcode = 'OM404', column = 'id', message = format('%s %s: unknown id', entity, entity_id);
  end if;
  answer := public.ingest(
    jsonb_build_object(entity, jsonb_build_array(
      coalesce(fields, '{}') || jsonb_build_object(
        'id', entity_id, 'status', status, 'status_message', message, 'status_change_id', change_id))),
    all_or_nothing => true, return_rows => true);
  return answer -> 'rows' -> entity -> 0;
end
$$;

revoke execute on function internal.lock_runs, internal.lock_rows from public;
grant execute on function internal.lock_runs, internal.lock_rows to authenticated, service_role;
