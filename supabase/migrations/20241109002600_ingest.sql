-- Ingest: the only way to write records. A batch is staged and merged in one transaction, in the order of internal.record_kinds, so that
-- parents come before children. A record that cannot be written is refused with its reason, and the other records are written.
--
-- Under READ COMMITTED a statement sees what was committed before it began: lock first, then read. Locks are taken in one order: runs,
-- the rows of each kind by id, their groups, and last the evaluation whose figures change.

-- Locks -------------------------------------------------------------------------------------------------------------------------

create function internal.lock_runs(kinds text[]) returns uuid[]
language plpgsql set search_path = ''
as $$
-- Lock the runs of a batch: those that it changes against other changes, the others against rewinds and archiving. Return those that are archived.
declare
  archived uuid[] := '{}';
  archive_status text;
  sources text := (
    select string_agg(case k
      when 'training_runs' then 'select s.id, true from pg_temp.stage_training_runs s'
      when 'rollout_groups' then
        'select p.training_run_id, false from pg_temp.stage_rollout_groups s join public.training_steps p on p.id = s.training_step_id union all
         select e.training_run_id, false from pg_temp.stage_rollout_groups s join public.evaluations e on e.id = s.evaluation_id'
      -- In a subquery: Postgres would read the whole table to join it.
      when 'agent_states' then 'select (select p.training_run_id from public.rollouts p where p.id = s.rollout_id), false
         from (select distinct rollout_id from pg_temp.stage_agent_states) s'
      when 'rewards' then 'select (select p.training_run_id from public.rollouts p where p.id = s.rollout_id), false
         from (select distinct rollout_id from pg_temp.stage_rewards) s'
      when 'observations' then 'select (select p.training_run_id from public.agent_states p where p.id = s.agent_state_id), false
         from (select distinct agent_state_id from pg_temp.stage_observations) s'
      when 'generations' then 'select (select p.training_run_id from public.agent_states p where p.id = s.agent_state_id), false
         from (select distinct agent_state_id from pg_temp.stage_generations) s'
      -- Frames of the run itself are hidden by a rewind.
      when 'media' then 'select s.training_run_id, false from pg_temp.stage_media s where s.kind = ''frame'' and s.rollout_id is null union all
         select (select p.training_run_id from public.rollouts p where p.id = s.rollout_id), false from (select distinct rollout_id from pg_temp.stage_media) s'
      when 'tool_calls' then 'select (select p.training_run_id from public.agent_states p where p.id = s.agent_state_id), false
         from (select distinct agent_state_id from pg_temp.stage_tool_calls) s'
      else format('select s.training_run_id, false from pg_temp.%1$I s union all
         select (select t.training_run_id from public.%2$I t where t.id = s.id), false from pg_temp.%1$I s', 'stage_' || k, k)
        || case k when 'rollouts' then ' union all
         select g.training_run_id, false from pg_temp.stage_rollouts s join public.rollout_groups g on g.id = s.group_id' else '' end
      end, ' union all ')
    from unnest(kinds) k
    where k in ('training_runs', 'training_steps', 'model_checkpoints', 'evaluations', 'rollout_groups', 'rollouts', 'agent_states', 'observations',
      'generations', 'tool_calls', 'rewards', 'media', 'metric_chunks'));
  run record;
begin
  if sources is null then
    return archived;
  end if;
  for run in execute format('select w.id, bool_or(w.changes) as changes from (%s) w (id, changes) where w.id is not null group by w.id order by w.id', sources) loop
    if run.changes then
      select r.archive_status into archive_status from public.training_runs r where r.id = run.id for no key update;
    else
      select r.archive_status into archive_status from public.training_runs r where r.id = run.id for key share;
    end if;
    if archive_status is not null then
      archived := archived || run.id;
    end if;
  end loop;
  return archived;
end
$$;

create function internal.lock_rows(kind text, low integer, high integer) returns void
language plpgsql set search_path = ''
as $$
begin
  if kind in ('observations', 'generations', 'tool_calls') then
    -- The position is computed from the last one of the turn.
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

-- One reward of a type per step ---------------------------------------------------------------------------------------------------

create function internal.lock_steps() returns void
language plpgsql set search_path = ''
as $$
-- Called before the turns of the batch lock their rollouts FOR KEY SHARE: two batches with that lock could not both upgrade it.
begin
  perform internal.lock_rollouts(array(
    select distinct s.rollout_id from pg_temp.stage_rewards s where coalesce(s.reward_type, 'step') = 'step' and s.step_number is not null));
end
$$;

create function internal.refuse_second_rewards(kind text) returns void
language plpgsql set search_path = ''
as $$
-- The turns and rewards of the batch whose step has a reward of type `step` already, by another id. The turn is written without it.
begin
  if kind = 'agent_states' then
    with second as (
      update pg_temp.stage_agent_states s set reward = null from internal.rewards w
      where s.reward is not null and w.rollout_id = s.rollout_id and w.step_number = s.step_number and w.reward_type = 'step'
        and not exists (select 1 from public.agent_states a where a.id = s.id)
      returning s.ordinal, s.id, s.rollout_id, s.step_number)
    insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
    select 'agent_states', s.ordinal, s.id::text, 'OM409', 'reward', format(
      'agent_states %s: step %s of rollout %s already has a reward of type step; the turn is written without its reward', s.id, s.step_number, s.rollout_id)
    from second s;
  elsif kind = 'rewards' then
    with second as (
      delete from pg_temp.stage_rewards s using public.agent_states a
      where coalesce(s.reward_type, 'step') = 'step' and a.rollout_id = s.rollout_id and a.step_number = s.step_number and a.reward is not null
      returning s.ordinal, s.id, s.rollout_id, s.step_number, a.id as turn_id)
    insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
    select 'rewards', s.ordinal, s.id::text, 'OM409', 'rollout_id, step_number, reward_type', format(
      'rewards %1$s: there is another one with rollout_id, step_number, reward_type = %2$s, %3$s, step; use its id to change it, or another rollout_id, step_number, reward_type',
      s.id, s.rollout_id, s.step_number)
    from second s where s.id <> s.turn_id;
  end if;
end
$$;

-- Merging a batch ---------------------------------------------------------------------------------------------------------------

create function internal.merge_range(stage text, kind text, low integer, high integer, again boolean default false) returns void
language plpgsql set search_path = ''
as $$
-- Process the whole range at once; if a record fails, halve the range until the record is found.
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
    -- Another session may just have inserted the same row, detected by another unique index than the id's, or made the
    -- same change: try again.
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

create function internal.beat(run_ids uuid[]) returns void
language sql set search_path = ''
as $$
  -- A write is a heartbeat of its run. Done last, so that no writer locks the run's row while it writes the rest, and without
  -- waiting: a session that has locked the row is about to update it.
  update public.training_runs t set heartbeat_at = now()
  where t.id = any (array(
    select r.id from public.training_runs r
    where r.id = any (run_ids) and r.status = 'running' and (r.heartbeat_at is null or r.heartbeat_at < now() - interval '5 seconds')
    for no key update skip locked))
$$;

create function internal.beat_runs(kinds text[]) returns void
language plpgsql set search_path = ''
as $$
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
    execute format('select internal.beat(array(%s))', sources);
  end if;
end
$$;

-- `jit = off` here and below: Postgres estimates millions of staged records, and would compile for half a second.
create function internal.merge_stage(kinds text[], all_or_nothing boolean default false) returns jsonb
language plpgsql set search_path = '' set jit = off
as $$
-- Merge the staged records; return their number and the refused ones.
declare
  k text;
  low integer;
  high integer;
  received bigint := 0;
  refused jsonb;
  first_refusal record;
  in_batch text := current_setting('openmanus_rl.in_batch', true);
  archived uuid[];
begin
  archived := internal.lock_runs(kinds);
  perform internal.lock_leased(kinds);
  if 'rewards' = any (kinds) then
    perform internal.lock_steps();
  end if;
  perform set_config('openmanus_rl.in_batch', 'on', true);
  for k in select r.kind from internal.record_kinds() r where r.kind = any (kinds) order by r.place loop
    execute format('select min(ordinal), max(ordinal), $1 + count(*) from pg_temp.%I', 'stage_' || k) into low, high, received using received;
    continue when low is null;
    if archived <> '{}' then
      perform internal.refuse_archived(k, archived);
    end if;
    perform internal.refuse_orphans(k), internal.refuse_unleased(k, kinds), internal.refuse_second_rewards(k);
    perform internal.merge_range('merge', k, low, high);
  end loop;
  perform set_config('openmanus_rl.in_batch', coalesce(in_batch, ''), true);
  perform internal.mark_staged(kinds);
  -- A worker's rollout says nothing of the process that trains.
  if not internal.writes_under_lease() then
    perform internal.beat_runs(kinds);
  end if;

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
comment on function internal.merge_stage is 'Merge the records in pg_temp.stage_<kind>, in the caller''s transaction.';

-- Copying -----------------------------------------------------------------------------------------------------------------------
-- A client that connects to Postgres may copy new rows directly to the tables of turns, their parts, rewards and metric chunks, between
-- these calls and in the same transaction.

create function internal.begin_copy(run_ids uuid[]) returns boolean
language plpgsql set search_path = ''
as $$
-- Lock the runs of metric chunks against rewinds; false if only the merge can tell which are refused: a run is archived. From here on, what triggers do row by row is done once: parents are locked by
-- internal.lock_parents, and the runs are marked by internal.end_copy.
begin
  perform 1 from public.training_runs r where r.id = any (run_ids) order by r.id for key share;
  perform set_config('openmanus_rl.in_batch', 'on', true);
  return not exists (select 1 from public.training_runs r where r.id = any (run_ids) and r.archive_status is not null);
end
$$;

create function internal.lock_runs_of(rollout_ids uuid[], turn_ids uuid[]) returns uuid[]
language sql set search_path = ''
as $$
  select array(select t.id from public.training_runs t
    where t.id = any (array(select r.training_run_id from public.rollouts r where r.id = any (rollout_ids)
      union select a.training_run_id from public.agent_states a where a.id = any (turn_ids)))
    order by t.id for key share)
$$;

create function internal.lock_parents(rollout_ids uuid[], turn_ids uuid[])
returns table (id uuid, training_run_id uuid, needs_merge boolean)
language plpgsql set search_path = ''
as $$
-- Lock the runs, rollouts and turns that rows are copied to, then return those that exist, and whether only the merge can tell
-- which rows are refused: a turn's reward might be the second of its step, the rollout is in the queue, or the run is archived.
declare
  runs_locked uuid[] := internal.lock_runs_of(rollout_ids, turn_ids);
  rollouts_locked uuid[] := array(select r.id from public.rollouts r where r.id = any (rollout_ids) order by r.id for key share);
  turns_locked uuid[] := array(select a.id from public.agent_states a where a.id = any (turn_ids) order by a.id for key share);
begin
  return query
    select r.id, r.training_run_id,
      (r.request is not null and not internal.is_ended(r.status)) or internal.writes_under_lease()
        or exists (select 1 from internal.rewards w where w.rollout_id = r.id and w.reward_type = 'step' and w.step_number is not null)
        or exists (select 1 from public.training_runs t where t.id = any (runs_locked) and t.archive_status is not null)
    from public.rollouts r where r.id = any (rollouts_locked)
    union all
    select a.id, a.training_run_id, (r.request is not null and not internal.is_ended(r.status)) or internal.writes_under_lease()
      or exists (select 1 from public.training_runs t where t.id = any (runs_locked) and t.archive_status is not null)
    from public.agent_states a join public.rollouts r on r.id = a.rollout_id where a.id = any (turns_locked);
end
$$;

create function internal.end_copy(run_ids uuid[]) returns void
language plpgsql set search_path = ''
as $$
begin
  perform internal.mark_runs(run_ids), internal.beat(run_ids);
end
$$;

-- Writing -----------------------------------------------------------------------------------------------------------------------

create function public.ingest(batch jsonb, all_or_nothing boolean default false, return_rows boolean default false, leases uuid[] default null) returns jsonb
language plpgsql set search_path = '' set jit = off
as $$
declare
  kinds text[];
  k text;
  high integer;
  answer jsonb;
  rows jsonb;
  returned jsonb := '{}';
begin
  perform internal.refuse_dead_key();
  perform internal.open_stage(array(
    select r.kind from internal.record_kinds() r
    where batch ? r.kind or (batch ? 'agent_states' and r.kind in ('tool_calls', 'observations', 'generations', 'rewards'))));
  kinds := internal.stage_batch(batch);
  foreach k in array kinds loop
    select max(s.ordinal) into high from pg_temp.stage_json s where s.kind = k;
    perform internal.merge_range('type', k, 0, high);
  end loop;
  perform set_config('openmanus_rl.leases', coalesce(array_to_string(leases, ','), ''), true);
  answer := internal.merge_stage(kinds, all_or_nothing);
  perform set_config('openmanus_rl.leases', '', true);
  answer := answer || jsonb_build_object('received', (select count(*) from pg_temp.stage_json));

  if return_rows then
    foreach k in array kinds loop
      execute format(
        'select coalesce(jsonb_agg(to_jsonb(t) order by s.ordinal), ''[]'') from pg_temp.%I s join public.%I t on t.id = s.id', 'stage_' || k, k)
      into rows;
      returned := returned || jsonb_build_object(k, rows);
    end loop;
    answer := answer || jsonb_build_object('rows', returned);
  end if;
  return answer;
end
$$;
comment on function public.ingest is 'Write a batch of records: {"training_runs": [...], "rollouts": [...], "agent_states": [...], ...}. Returns which records were refused and why. A worker gives the leases of its rollouts.';

create function public.change_status(entity text, entity_id uuid, status text, message text default null, fields jsonb default '{}', change_id uuid default null)
returns jsonb
language plpgsql set search_path = ''
as $$
-- Change the status of an existing row, together with other fields, of which null clears one.
declare
  known boolean;
  answer jsonb;
begin
  if internal.next_statuses(entity, 'pending') is null then
    perform internal.fail('OM400', 'entity', format('entity %s: has no status', entity));
  end if;
  if status is null then
    perform internal.fail('OM400', 'status', format('%s %s: status is required', entity, entity_id));
  end if;
  -- Locked, so that it is not deleted meanwhile: ingest would insert it again. Users who may read but not change it are refused below.
  execute format('select 1 from public.%I t where t.id = $1 for no key update', entity) using entity_id;
  execute format('select exists (select 1 from public.%I t where t.id = $1)', entity) into known using entity_id;
  if not known then
    perform internal.fail('OM404', 'entity_id', format('%s %s: unknown id', entity, entity_id));
  end if;
  answer := public.ingest(
    jsonb_build_object(entity, jsonb_build_array(
      coalesce(fields, '{}') || jsonb_strip_nulls(jsonb_build_object(
        'id', entity_id, 'status', status, 'status_message', message, 'status_change_id', change_id)))),
    all_or_nothing => true, return_rows => true);
  return answer -> 'rows' -> entity -> 0;
end
$$;
comment on function public.change_status is 'Change the status of a run, step, evaluation, rollout or job; returns the row.';

revoke execute on function internal.lock_runs, internal.lock_rows, internal.lock_steps, internal.refuse_second_rewards, internal.merge_range, internal.beat, internal.beat_runs, internal.merge_stage,
  internal.begin_copy, internal.lock_runs_of, internal.lock_parents, internal.end_copy from public;
grant execute on function internal.lock_runs, internal.lock_rows, internal.lock_steps, internal.refuse_second_rewards, internal.merge_range, internal.beat, internal.beat_runs, internal.merge_stage
  to authenticated, service_role;
grant execute on function internal.begin_copy to service_role;
grant execute on function internal.lock_runs_of, internal.lock_parents, internal.end_copy to authenticated, service_role;
revoke execute on function public.ingest, public.change_status from public, anon, authenticated, service_role;
grant execute on function public.ingest, public.change_status to authenticated, service_role;
