-- References between the tables with the most rows. A foreign key is checked row by row, which took more than half of the time of a write;
-- these are checked and locked once per statement by code that writes many rows at once (openmanus_rl.in_batch), else row by row.
-- As with a foreign key, a row always has its parent: a parent is locked against deletion while rows are added, and deleted with its rows.

create function internal.check_reference() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Arguments: the field, and the table that it refers to.
declare
  parent_id uuid;
  found_id uuid;
begin
  execute format('select ($1).%I', tg_argv[0]) into parent_id using new;
  execute format('select p.id from %s p where p.id = $1 for key share', tg_argv[1]) into found_id using parent_id;
  if found_id is null then
    raise exception using errcode = '23503', schema = tg_table_schema, table = tg_table_name, column = tg_argv[0],
      message = format('%s %s: %s %s is unknown', tg_table_name, new.id, tg_argv[0], parent_id),
      detail = format('Key (%s)=(%s) is not present in table "%s".', tg_argv[0], parent_id, tg_argv[1]::regclass);
  end if;
  if tg_argv[1] in ('public.rollouts', 'public.agent_states') then
    perform internal.require_lease(tg_table_name, new.id, tg_argv[0], parent_id);
  end if;
  return null;
end
$$;

create function internal.delete_referring() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Arguments: the table and the field that refer to the deleted rows. In slices: the deleted rows of each statement are kept until its end.
-- Runs after the deletion, which waited for sessions that were adding rows, so that their rows are visible.
declare
  slice uuid[];
  in_batch text := current_setting('openmanus_rl.in_batch', true);
begin
  -- What goes with its parent needs no look at each row.
  perform set_config('openmanus_rl.in_batch', 'on', true);
  for slice in
    select array_agg(o.id) from (select r.id, row_number() over () / 1000 as slice from old_rows r) o group by o.slice
  loop
    execute format('delete from %s c where c.%I = any ($1)', tg_argv[0], tg_argv[1]) using slice;
  end loop;
  perform set_config('openmanus_rl.in_batch', coalesce(in_batch, ''), true);
  return null;
end
$$;

create function internal.truncate_referring() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  has_rows boolean;
begin
  -- It is already empty if the same statement truncates it.
  execute format('select exists (select 1 from %s)', tg_argv[0]) into has_rows;
  if has_rows then
    execute format('truncate table %s', tg_argv[0]);
  end if;
  return null;
end
$$;

create function internal.refer(target regclass, field text, parent regclass) returns void
language plpgsql set search_path = ''
as $$
-- Make a column of a table refer to the id of another. The id of a parent never changes: see internal.pin.
declare
  label text := replace(target::text, '.', '_') || '_' || field;
begin
  execute format('create trigger %I after insert or update of %2$I on %3$s for each row
    when (new.%2$I is not null and current_setting(''openmanus_rl.in_batch'', true) is distinct from ''on'')
    execute function internal.check_reference(%2$L, %4$L)', 'refer_' || field, field, target, parent);
  -- Except when turns are moved to an archive: what refers to them and stays, such as media, stays.
  execute format('create trigger %I after delete on %s referencing old table as old_rows for each statement
    when (current_setting(''openmanus_rl.archiving'', true) is distinct from ''on'')
    execute function internal.delete_referring(%L, %L)', 'delete_' || label, parent, target, field);
  execute format('create trigger %I after truncate on %s for each statement
    execute function internal.truncate_referring(%L)', 'truncate_' || label, parent, target);
end
$$;

create function internal.relate(target regclass, field text, parent regclass) returns void
language plpgsql set search_path = ''
as $$
-- The API detects relationships by foreign keys; without one, by a function for each side, named after the other table:
-- `rollouts?select=*,agent_states(*)` and `agent_states?select=*,rollouts(*)`.
declare
  child_name text := (select c.relname from pg_catalog.pg_class c where c.oid = target);
  parent_name text := (select c.relname from pg_catalog.pg_class c where c.oid = parent);
begin
  execute format('create function public.%I(%s) returns setof %s rows 20 language sql stable set search_path = '''' as %L',
    child_name, parent, target, format('select c.* from %s c where c.%I = $1.id', target, field));
  execute format('create function public.%I(%s) returns setof %s rows 1 language sql stable set search_path = '''' as %L',
    parent_name, target, parent, format('select p.* from %s p where p.id = $1.%I', parent, field));
  execute format('revoke execute on function public.%1$I(%2$s), public.%3$I(%4$s) from public, anon, authenticated, service_role',
    child_name, parent, parent_name, target);
  execute format('grant execute on function public.%1$I(%2$s), public.%3$I(%4$s) to anon, authenticated, service_role',
    child_name, parent, parent_name, target);
end
$$;

create function internal.parents_of(target regclass) returns table (field text, parent regclass, is_checked_by_row boolean)
language sql stable set search_path = ''
as $$
  -- The foreign keys of a table, and what internal.refer made.
  select a.attname::text, c.confrelid::regclass, true
  from pg_catalog.pg_constraint c join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
  where c.contype = 'f' and c.conrelid = target
  union all
  select split_part(encode(t.tgargs, 'escape'), '\000', 1), split_part(encode(t.tgargs, 'escape'), '\000', 2)::regclass, false
  from pg_catalog.pg_trigger t
  where t.tgrelid = target and t.tgfoid = 'internal.check_reference'::regproc
$$;

revoke execute on function internal.check_reference, internal.delete_referring, internal.truncate_referring, internal.refer, internal.relate,
  internal.parents_of from public;
grant execute on function internal.parents_of to authenticated, service_role;
