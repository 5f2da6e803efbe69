-- Status changes: which are allowed, what they set, and how they are recorded. internal.track_status applies this to a table.

-- Allowed changes ---------------------------------------------------------------------------------------------------------------

create function internal.next_statuses(entity text, status text) returns text[]
language sql immutable set search_path = ''
as $$
  -- The statuses that may follow; an empty list: the status is final; NULL: the table has no such status.
  select case entity
    when 'training_runs' then case status
      when 'pending' then array['running', 'completed', 'failed', 'cancelled', 'interrupted']
      when 'running' then array['completed', 'failed', 'cancelled', 'interrupted']
      when 'interrupted' then array['running', 'completed', 'failed', 'cancelled']
      when 'failed' then array['running', 'cancelled']
      when 'cancelled' then array['running']
      when 'completed' then array[]::text[]
    end
    when 'training_steps' then case status
      when 'pending' then array['running', 'completed', 'failed', 'interrupted']
      when 'running' then array['completed', 'failed', 'interrupted']
      when 'interrupted' then array['running', 'completed', 'failed']
      when 'failed' then array['running', 'completed']
      when 'completed' then array[]::text[]
    end
    when 'evaluations' then case status
      when 'pending' then array['running', 'completed', 'failed', 'cancelled', 'interrupted']
      when 'running' then array['completed', 'failed', 'cancelled', 'interrupted']
      when 'interrupted' then array['running', 'completed', 'failed', 'cancelled']
      when 'failed' then array['running', 'completed']
      when 'cancelled' then array['running']
      when 'completed' then array[]::text[]
    end
    when 'rollouts' then case
      when status = 'pending' then
        array['provisioning', 'running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted']
      when status = 'provisioning' then
        array['pending', 'running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted']
      -- Back to pending: a worker's lease ran out and another may take it.
      when status = 'running' then
        array['pending', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled', 'interrupted']
      when status = 'interrupted' then
        array['pending', 'running', 'success', 'failed', 'completed', 'truncated', 'timeout', 'error', 'cancelled']
      when status = 'cancelled' then array['pending']
      -- A validator that failed may be mended, and give its verdict later.
      when status = 'error' then array['pending', 'success', 'failed', 'completed']
      -- The verdict may change, but a finished rollout never runs again.
      when status in ('success', 'failed', 'completed', 'truncated', 'timeout') then
        array_remove(array['success', 'failed', 'completed', 'truncated', 'timeout'], status)
    end
    when 'jobs' then case status
      when 'pending' then array['launching', 'cancelled']
      when 'launching' then array['pending', 'queued', 'running', 'succeeded', 'failed', 'cancelled']
      -- Back to launching: the attempt was lost, and the job is restarted.
      when 'queued' then array['launching', 'running', 'succeeded', 'failed', 'cancelled']
      when 'running' then array['launching', 'queued', 'succeeded', 'failed', 'cancelled']
      when 'succeeded' then array[]::text[]
      when 'failed' then array['pending']
      when 'cancelled' then array['pending']
    end
    when 'sweeps' then case status
      when 'pending' then array['running', 'completed', 'failed', 'cancelled']
      when 'running' then array['completed', 'failed', 'cancelled']
      when 'failed' then array['running']
      when 'cancelled' then array['running']
      when 'completed' then array[]::text[]
    end
  end
$$;

create function internal.guard_status() returns trigger
language plpgsql set search_path = ''
as $$
declare
  allowed text[] := internal.next_statuses(tg_table_name, old.status);
begin
  -- The queue may try again what ended without a verdict: see retry_rollouts.
  if not new.status = any (allowed) and not (new.status = 'pending' and current_setting('openmanus_rl.leases', true) is not distinct from 'queue') then
    -- An unknown status is refused by the CHECK constraint.
    if internal.next_statuses(tg_table_name, new.status) is null then
      return new;
    end if;
    perform internal.fail('OM409', 'status',
      format('%s %s: cannot go from %s to %s; %s', rtrim(replace(tg_table_name, '_', ' '), 's'), old.id, old.status, new.status,
        case when cardinality(allowed) = 0 then old.status || ' is final, create a new one'
             else 'from ' || old.status || ' it can go to ' || array_to_string(allowed, ', ') end));
  end if;
  if new.status_change_id is not distinct from old.status_change_id then
    new.status_change_id := internal.new_id();
    -- Only the status changed: the message belongs to the previous status.
    if new.status_message is not distinct from old.status_message then
      new.status_message := null;
    end if;
  end if;
  if new.status = 'running' then
    new.started_at := coalesce(new.started_at, now());
    new.finished_at := null;
  elsif new.status in ('pending', 'provisioning', 'launching', 'queued') then
    new.finished_at := null;
  else
    new.finished_at := coalesce(new.finished_at, now());
  end if;
  return new;
end
$$;

create function internal.stamp_start() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.started_at := new.created_at;
  return new;
end
$$;

-- History -----------------------------------------------------------------------------------------------------------------------

create function internal.record_status() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Once per statement, of which many change no row. The trigger's argument names the column that holds the run, or is empty.
declare
  run_id text := case tg_argv[0] when '' then 'null::uuid' else format('n.%I', tg_argv[0]) end;
begin
  if not exists (select 1 from new_rows) then
    return null;
  end if;
  if tg_op = 'INSERT' and current_setting('openmanus_rl.folding', true) = tg_table_name then
    -- Some of these rows began and ended within a batch: see internal.define_merge.
    execute format(
      'with began as materialized (
         select f.id, f.status, f.status_message, f.status_change_id from pg_temp.%1$I f where f.round = -1)
       insert into public.status_history (id, entity, entity_id, training_run_id, old_status, new_status, message, changed_by)
       select b.status_change_id, $1, n.id, %2$s, null, b.status, b.status_message, $2 from new_rows n join began b using (id)
       union all
       select coalesce(n.status_change_id, internal.new_id()), $1, n.id, %2$s, b.status, n.status, n.status_message, $2
       from new_rows n left join began b using (id)', 'stage_' || tg_table_name, run_id) using tg_table_name, auth.uid();
  elsif tg_op = 'INSERT' then
    execute format(
      'insert into public.status_history (id, entity, entity_id, training_run_id, new_status, message, changed_by)
       select coalesce(n.status_change_id, internal.new_id()), $1, n.id, %s, n.status, n.status_message, $2
       from new_rows n', run_id) using tg_table_name, auth.uid();
  else
    execute format(
      'insert into public.status_history (id, entity, entity_id, training_run_id, old_status, new_status, message, changed_by)
       select coalesce(n.status_change_id, internal.new_id()), $1, n.id, %s, o.status, n.status, n.status_message, $2
       from new_rows n join old_rows o using (id)
       where n.status is distinct from o.status', run_id) using tg_table_name, auth.uid();
  end if;
  return null;
end
$$;

create function internal.forget_status() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from public.status_history h using old_rows o where h.entity_id = o.id and h.entity = tg_table_name;
  return null;
end
$$;

-- Triggers ----------------------------------------------------------------------------------------------------------------------

create function internal.track_status(target regclass, run_column text default 'training_run_id', guarded_when text default null) returns void
language plpgsql set search_path = ''
as $$
-- `guarded_when` is a further condition for checking a change; without it every change is checked.
begin
  execute format('create trigger touch_updated_at before update on %s for each row execute function internal.touch_updated_at()', target);
  execute format('create trigger stamp_start before insert on %s for each row
    when (new.status = ''running'' and new.started_at is null) execute function internal.stamp_start()', target);
  execute format('create trigger guard_status before update on %s for each row
    when (old.status is distinct from new.status%s) execute function internal.guard_status()', target, ' and ' || guarded_when);
  execute format('create trigger record_first_status after insert on %s referencing new table as new_rows
    for each statement execute function internal.record_status(%L)', target, run_column);
  execute format('create trigger record_status after update on %s referencing old table as old_rows new table as new_rows
    for each statement execute function internal.record_status(%L)', target, run_column);
  execute format('create trigger forget_status after delete on %s referencing old table as old_rows
    for each statement execute function internal.forget_status()', target);
end
$$;

revoke execute on function internal.next_statuses, internal.guard_status, internal.stamp_start, internal.record_status,
  internal.forget_status, internal.track_status from public;
grant execute on function internal.next_statuses to anon, authenticated, service_role;
