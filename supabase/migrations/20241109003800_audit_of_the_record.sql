-- What is done to the record, in the audit log: deletions, visibility and verdicts. Cancelling, retrying, launching and stopping are noted by their functions.

create function internal.note_deleted() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- The arguments are the action, the column that names a row, and which rows were deleted for their own sake.
declare
  ids uuid[];
  name text;
begin
  -- What delete_rollouts was asked to delete was noted then.
  if current_setting('openmanus_rl.leases', true) = 'queue' then
    return null;
  end if;
  execute format('select array_agg(o.id order by o.id), (array_agg(left(o.%I, 500) order by o.id))[1] from old_rows o where %s', tg_argv[1], tg_argv[2]) into ids, name;
  if cardinality(ids) = 1 then
    perform internal.note(tg_argv[0], tg_table_name::text, ids[1], name);
  elsif cardinality(ids) > 1 then
    perform internal.note_many(tg_argv[0], tg_table_name::text, ids);
  end if;
  return null;
end
$$;

create trigger note_deleted after delete on public.training_runs referencing old table as old_rows
  for each statement execute function internal.note_deleted('run.deleted', 'name', 'true');
-- Those of a run or group that is gone went with it.
create trigger note_deleted after delete on public.rollouts referencing old table as old_rows
  for each statement execute function internal.note_deleted('rollout.deleted', 'task_description',
    '(o.training_run_id is null or exists (select 1 from public.training_runs r where r.id = o.training_run_id))
     and (o.group_id is null or exists (select 1 from public.rollout_groups g where g.id = o.group_id))');
create trigger note_deleted after delete on public.tasks referencing old table as old_rows
  for each statement execute function internal.note_deleted('task.deleted', 'external_id', 'true');
create trigger note_deleted after delete on public.environments referencing old table as old_rows
  for each statement execute function internal.note_deleted('environment.deleted', 'name', 'true');

create function internal.note_visibility() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.note('run.visibility_changed', 'training_runs', new.id, new.name, jsonb_build_object('from', old.visibility, 'to', new.visibility));
  return null;
end
$$;

create trigger note_visibility after update on public.training_runs for each row
  when (old.visibility is distinct from new.visibility) execute function internal.note_visibility();

create function internal.note_override() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.note('verdict.overridden', 'rollouts', new.rollout_id, null,
    jsonb_build_object('verdict', new.verdict, 'from', new.old_status, 'to', new.new_status, 'reason', left(new.reason, 200)));
  return null;
end
$$;

create trigger note_override after insert on public.validation_overrides for each row execute function internal.note_override();

revoke execute on function internal.note_deleted, internal.note_visibility, internal.note_override from public;
