-- Archives. The turns and metric points of a finished run can be moved to Parquet files in the bucket `archives`; the run, its steps, groups, rollouts,
-- verdicts and figures stay. `openmanus-rl archive` writes the files, checks them, and calls these functions.
--
--   training_runs.archive_status   who is right                what is in the tables
--   null                           the tables                  everything
--   writing                        the tables                  everything; files are being written, and may be there or not
--   archived                       the files, see `archives`   nothing, or a copy of some of it that was loaded to be read
--
-- From `writing` on, the run takes no turns, rewards or metric points, so that the files and the tables cannot differ. Everything else can be written.

create table public.archives (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null unique references public.training_runs (id) on delete cascade,
  files jsonb not null,
  row_counts jsonb not null,
  figures jsonb not null,
  archive_bytes bigint not null,
  database_bytes bigint not null,
  loaded_at timestamptz,
  created_at timestamptz not null default now()
);
comment on table public.archives is 'The archive of a run: the Parquet files in the bucket archives that hold its turns and metric points.';
comment on column public.archives.files is 'The files by table: [{table, path, rows, size_bytes, sha256, digest, columns, first_rollout, last_rollout}].';
comment on column public.archives.row_counts is 'How many rows of each table were moved.';
comment on column public.archives.figures is 'What lists show that was computed from the moved rows: the last step and value of each metric, and counts of tool calls.';
comment on column public.archives.database_bytes is 'The size of the moved rows in the database, without indexes.';
comment on column public.archives.loaded_at is 'When rows were last loaded back to be read; `openmanus-rl archive` removes them a day later.';
select internal.protect('public.archives', 'false', 'internal.is_public_run(training_run_id)', writable => false);

-- An archived run takes no turns and points -----------------------------------------------------------------------------------------

create function internal.archived_message(what text, run_id uuid) returns text
language sql immutable set search_path = ''
as $$
  select format('%s: training run %s is archived, or being archived; bring it back with `openmanus-rl archive restore %2$s`, then try again', what, run_id)
$$;

create function internal.refuse_if_archived(kind text, row_id uuid, field text, run_id uuid) returns void
language plpgsql security definer set search_path = ''
as $$
-- Called for each row that is written on its own. The lock makes internal.begin_archive wait until the row is committed.
declare
  archive_status text;
begin
  if run_id is not null and current_setting('openmanus_rl.in_batch', true) is distinct from 'on' then
    select r.archive_status into archive_status from public.training_runs r where r.id = run_id for key share;
    if archive_status is not null then
      perform internal.fail('OM409', field, internal.archived_message(format('%s %s', replace(kind, '_', ' '), row_id), run_id));
    end if;
  end if;
end
$$;

create function internal.refuse_archived(kind text, archived uuid[]) returns void
language plpgsql security definer set search_path = ''
as $$
-- Refuse the staged records of a kind that belong to archived runs, which the caller has locked.
declare
  run_of constant text := case
    when kind = 'agent_states' then '(select p.training_run_id from public.rollouts p where p.id = s.rollout_id)'
    when kind = 'rewards' then '(select p.training_run_id from public.rollouts p where p.id = s.rollout_id and s.step_number is not null)'
    -- Parts of turns that are there, or were refused above. Parts of turns that are in the archive are refused as parts of unknown turns.
    when kind in ('observations', 'generations', 'tool_calls') then 'coalesce((select p.training_run_id from public.agent_states p where p.id = s.agent_state_id),
      (select ($1)[1] from pg_temp.stage_refused f where f.kind = ''agent_states'' and f.field = ''training_run_id'' and f.id = s.agent_state_id::text limit 1))'
    -- Of a turn that is in the archive.
    when kind = 'media' then '(select p.training_run_id from public.rollouts p where p.id = s.rollout_id and s.agent_state_id is not null
      and not exists (select 1 from public.agent_states a where a.id = s.agent_state_id))'
    when kind = 'metric_chunks' then 'coalesce(s.training_run_id, (select p.training_run_id from public.metric_chunks p where p.id = s.id))' end;
begin
  if run_of is not null then
    execute format(
      'with refused as (
         delete from pg_temp.%1$I d using (select s.ordinal, %2$s as run_id from pg_temp.%1$I s) s
         where d.ordinal = s.ordinal and s.run_id = any ($1) returning d.ordinal, d.id, s.run_id)
       insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
       select %3$L, r.ordinal, r.id::text, ''OM409'', ''training_run_id'', internal.archived_message(format(''%%s %%s'', %3$L, r.id), r.run_id) from refused r',
      'stage_' || kind, run_of, kind) using archived;
  end if;
end
$$;

create function internal.refuse_deletion_if_archived() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.refuse_if_archived(tg_table_name, old.id, 'training_run_id', old.training_run_id);
  return old;
end
$$;

create trigger refuse_deletion_if_archived before delete on public.metric_chunks for each row
  when (current_setting('openmanus_rl.in_batch', true) is distinct from 'on') execute function internal.refuse_deletion_if_archived();
create trigger refuse_deletion_if_archived before delete on public.metric_axes for each row
  when (current_setting('openmanus_rl.in_batch', true) is distinct from 'on') execute function internal.refuse_deletion_if_archived();

create function internal.refuse_reward_if_archived() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.refuse_if_archived('rewards', new.id, 'rollout_id', (select r.training_run_id from public.rollouts r where r.id = new.rollout_id));
  return new;
end
$$;

-- Of a step: the rewards of whole rollouts stay in the database.
create trigger refuse_if_archived before insert or update on internal.rewards for each row
  when (new.step_number is not null and current_setting('openmanus_rl.in_batch', true) is distinct from 'on')
  execute function internal.refuse_reward_if_archived();
create trigger refuse_deletion_if_archived before delete on internal.rewards for each row
  when (old.step_number is not null and current_setting('openmanus_rl.in_batch', true) is distinct from 'on')
  execute function internal.refuse_deletion_if_archived();

create function internal.keep_archived_run() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform internal.fail('OM409', 'status', internal.archived_message(format('training run %s: it cannot be resumed or rewound', new.id), new.id));
end
$$;

create trigger keep_archived_run before update on public.training_runs for each row
  when (old.archive_status is not null and new.archive_status is not null and (
    (new.status is distinct from old.status and new.status in ('pending', 'running')) or new.timeline is distinct from old.timeline
    or cardinality(new.rewinds) > old.timeline))
  execute function internal.keep_archived_run();

create function internal.refuse_work_if_archived() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform internal.refuse_if_archived('rollout', new.id, 'training_run_id', new.training_run_id);
  return new;
end
$$;

-- A worker could not write the turns of such a rollout.
create trigger refuse_work_if_archived before insert or update of status on public.rollouts for each row
  when (new.request is not null and new.status = 'pending' and new.training_run_id is not null)
  execute function internal.refuse_work_if_archived();

-- What is archived ------------------------------------------------------------------------------------------------------------------

create function internal.archived_tables() returns table (name text, relation text, place integer, of_rollouts text, of_run text)
language sql immutable set search_path = ''
as $$
  -- Parents first. The condition on a row t: of the rollouts $1, or of the run $1.
  values
    ('agent_states', 'public.agent_states', 1, 't.rollout_id = any ($1)', null),
    ('observations', 'public.observations', 2, 't.agent_state_id = any (array(select a.id from public.agent_states a where a.rollout_id = any ($1)))', null),
    ('generations', 'public.generations', 3, 't.agent_state_id = any (array(select a.id from public.agent_states a where a.rollout_id = any ($1)))', null),
    ('tool_calls', 'public.tool_calls', 4, 't.agent_state_id = any (array(select a.id from public.agent_states a where a.rollout_id = any ($1)))', null),
    -- Not the rewards of whole rollouts.
    ('rewards', 'internal.rewards', 5, 't.rollout_id = any ($1) and t.step_number is not null', null),
    ('metric_axes', 'public.metric_axes', 6, null, 't.training_run_id = $1'),
    ('metric_chunks', 'public.metric_chunks', 7, null, 't.training_run_id = $1')
$$;

create function internal.remove_content(run_id uuid) returns jsonb
language plpgsql set search_path = ''
as $$
-- Delete a run's rows of the archived tables, children first; return how many of each. Media of its turns stays. In slices: the deleted rows of a
-- statement are kept until its end.
declare
  removed jsonb := (select jsonb_object_agg(a.name, 0) from internal.archived_tables() a);
  slice uuid[];
  archived record;
  n bigint;
begin
  perform set_config('openmanus_rl.in_batch', 'on', true), set_config('openmanus_rl.archiving', 'on', true);
  for slice in
    select array_agg(o.id) from (select r.id, row_number() over () / 500 as slice from public.rollouts r where r.training_run_id = run_id) o group by o.slice
  loop
    for archived in select * from internal.archived_tables() a where a.of_rollouts is not null order by a.place desc loop
      execute format('delete from %s t where %s', archived.relation, archived.of_rollouts) using slice;
      get diagnostics n = row_count;
      removed := removed || jsonb_build_object(archived.name, (removed ->> archived.name)::bigint + n);
    end loop;
  end loop;
  for archived in select * from internal.archived_tables() a where a.of_run is not null order by a.place desc loop
    execute format('delete from %s t where %s', archived.relation, archived.of_run) using run_id;
    get diagnostics n = row_count;
    removed := removed || jsonb_build_object(archived.name, n);
  end loop;
  perform set_config('openmanus_rl.in_batch', '', true), set_config('openmanus_rl.archiving', '', true);
  return removed;
end
$$;

create function internal.row_digest(row_text text) returns numeric
language sql immutable strict parallel safe set search_path = ''
as $$
  -- 64 bits, as a number: the digest of some rows is the sum of theirs, in whatever order they are.
  select ('x' || left(md5(row_text), 16))::bit(64)::bigint::numeric
$$;

create function internal.figures_to_keep(run_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  health jsonb := internal.health_of_run(run_id, 500);
begin
  return (
    select jsonb_build_object('last_step', l.step, 'is_from_zero', l.is_from_zero, 'tool_calls', health -> 'tool_calls', 'tool_errors', health -> 'tool_errors',
      'metrics', (select coalesce(jsonb_object_agg(n, internal.last_value(run_id, n)), '{}') from jsonb_array_elements_text(public.metric_names(run_id)) n))
    from public.training_runs r cross join lateral internal.last_logged(run_id, r.timeline > 0) l where r.id = run_id);
end
$$;

-- Archiving -------------------------------------------------------------------------------------------------------------------------

create function internal.begin_archive(run_id uuid, finished_before timestamptz default null) returns void
language plpgsql security definer set search_path = ''
as $$
-- From here on, nothing adds to the rows that are archived: the lock waits for sessions that are writing them.
declare
  run public.training_runs;
begin
  perform internal.require_run(run_id);
  select * into run from public.training_runs r where r.id = run_id for update;
  if run.archive_status = 'archived' then
    perform internal.fail('OM409', 'training_run_id', format('training run %s: it is archived already', run_id));
  elsif run.status not in ('completed', 'failed', 'cancelled', 'interrupted') then
    perform internal.fail('OM409', 'training_run_id', format('training run %s: it is %s; only finished runs are archived', run_id, run.status));
  elsif coalesce(run.finished_at, run.updated_at) >= finished_before then
    perform internal.fail('OM409', 'training_run_id', format('training run %s: it finished at %s, which is too recent', run_id, run.finished_at));
  elsif exists (select 1 from public.rollouts r where r.training_run_id = run_id and r.request is not null and r.status in ('pending', 'provisioning', 'running')) then
    perform internal.fail('OM409', 'training_run_id', format('training run %s: rollouts of it are in the queue; wait for them, or cancel them', run_id));
  end if;
  update public.training_runs r set archive_status = 'writing' where r.id = run_id;
end
$$;

create function internal.cancel_archive(run_id uuid) returns boolean
language plpgsql security definer set search_path = ''
as $$
-- Stop archiving a run before its rows were removed; false if there was nothing to stop.
begin
  update public.training_runs r set archive_status = null where r.id = run_id and r.archive_status = 'writing';
  return found;
end
$$;

create function internal.finish_archive(run_id uuid, files jsonb, row_counts jsonb, archive_bytes bigint, database_bytes bigint) returns void
language plpgsql security definer set search_path = ''
as $$
-- The files hold exactly the run's rows: remove the rows. In one transaction with what says where they are now.
declare
  missing text;
  kept jsonb;
  removed jsonb;
begin
  -- Not deleted meanwhile, nor finished or cancelled by another process.
  perform 1 from public.training_runs r where r.id = run_id and r.archive_status = 'writing' for no key update;
  if not found then
    perform internal.fail('OM409', 'training_run_id', format('training run %s: it was deleted, restored or archived by another process meanwhile', run_id));
  end if;
  -- Also notices files that went to another project than this database's.
  select f ->> 'path' into missing from jsonb_array_elements(files) f
  where not exists (select 1 from storage.objects o where o.bucket_id = 'archives' and o.name = f ->> 'path') limit 1;
  if missing is not null then
    perform internal.fail('OM409', 'files',
      format('training run %s: the file %s is not in the storage of this database; do SUPABASE_URL and DATABASE_URL name the same project?', run_id, missing));
  end if;
  kept := internal.figures_to_keep(run_id);
  removed := internal.remove_content(run_id);
  if removed <> row_counts then
    perform internal.fail('OM409', 'row_counts',
      format('training run %s: it has other rows than were archived (%s, not %s); archive it again', run_id, removed, row_counts));
  end if;
  insert into public.archives (training_run_id, files, row_counts, figures, archive_bytes, database_bytes)
  values (run_id, files, row_counts, kept, archive_bytes, database_bytes);
  update public.training_runs r set archive_status = 'archived' where r.id = run_id;
end
$$;

-- Restoring -------------------------------------------------------------------------------------------------------------------------

create function internal.begin_restore(run_id uuid) returns public.archives
language plpgsql security definer set search_path = ''
as $$
-- The caller's transaction inserts all rows of the archive, by insert_archived, and ends with finish_restore. The lock on the run keeps it from being deleted.
declare
  archive public.archives;
begin
  perform 1 from public.training_runs r where r.id = run_id for key share;
  select * into archive from public.archives a where a.training_run_id = run_id for update;
  if archive.id is not null then
    perform internal.remove_content(run_id);
  end if;
  return archive;
end
$$;

create function internal.insert_archived(kind text, run_id uuid) returns bigint
language plpgsql security definer set search_path = ''
as $$
-- Insert the rows in the caller's temporary table restored_<kind>, exactly as they are, except those whose rollout was deleted since; return how many.
declare
  relation constant text := (select a.relation from internal.archived_tables() a where a.name = kind);
  staged constant text := format('pg_temp.%I', 'restored_' || kind);
  parent constant text := case when kind in ('agent_states', 'rewards') then 'rollout_id' when kind in ('observations', 'generations', 'tool_calls') then 'agent_state_id' end;
  added bigint;
begin
  perform set_config('openmanus_rl.in_batch', 'on', true), set_config('openmanus_rl.archiving', 'on', true);
  if parent = 'rollout_id' then
    execute format('select 1 from public.rollouts r where r.id in (select s.rollout_id from %s s) order by r.id for key share', staged);
  end if;
  execute format('insert into %s select s.* from %s s where %s on conflict (id) do nothing', relation, staged, case parent
    when 'rollout_id' then 'exists (select 1 from public.rollouts r where r.id = s.rollout_id and r.training_run_id = $1)'
    when 'agent_state_id' then 'exists (select 1 from public.agent_states a where a.id = s.agent_state_id)'
    else 's.training_run_id = $1' end) using run_id;
  get diagnostics added = row_count;
  perform set_config('openmanus_rl.in_batch', '', true), set_config('openmanus_rl.archiving', '', true);
  return added;
end
$$;

create function internal.finish_restore(run_id uuid) returns void
language plpgsql security definer set search_path = ''
as $$
begin
  delete from public.archives a where a.training_run_id = run_id;
  update public.training_runs r set archive_status = null where r.id = run_id;
end
$$;

-- Loading some of it, to be read ----------------------------------------------------------------------------------------------------

create function public.load_archived(training_run_id uuid, kind text, rows text) returns bigint
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_variable
-- A copy: the files stay what counts, and restoring replaces what was loaded. The rows are JSON as text, which no client parses on the way: a
-- number may have more digits than a double.
declare
  relation constant text := (select a.relation from internal.archived_tables() a where a.name = kind);
  added bigint;
begin
  if relation is null then
    perform internal.fail('OM400', 'kind', format('kind %s: there are %s', kind, (select string_agg(a.name, ', ' order by a.place) from internal.archived_tables() a)));
  end if;
  perform internal.require_run(training_run_id);
  -- Restoring waits for this, and this for restoring.
  update public.archives a set loaded_at = clock_timestamp() where a.training_run_id = load_archived.training_run_id;
  if not found then
    return 0;
  end if;
  execute format('create temporary table %I (like %s) on commit drop', 'restored_' || kind, relation);
  execute format('insert into pg_temp.%I select * from jsonb_populate_recordset(null::%s, $1)', 'restored_' || kind, relation) using rows::jsonb;
  added := internal.insert_archived(kind, training_run_id);
  execute format('drop table pg_temp.%I', 'restored_' || kind);
  perform internal.mark_runs(array[training_run_id]);
  return added;
end
$$;
comment on function public.load_archived is 'Copy rows of an archived run back, to be read. Called by the function load-archive with the secret key. Returns how many were added.';

create function internal.unload_archives(loaded_before timestamptz) returns integer
language plpgsql security definer set search_path = ''
as $$
declare
  archive record;
  n integer := 0;
begin
  for archive in select a.id, a.training_run_id from public.archives a where a.loaded_at < loaded_before order by a.id for update skip locked loop
    perform internal.remove_content(archive.training_run_id);
    update public.archives a set loaded_at = null where a.id = archive.id;
    n := n + 1;
  end loop;
  return n;
end
$$;

revoke execute on function internal.archived_message, internal.refuse_if_archived, internal.refuse_archived, internal.refuse_deletion_if_archived, internal.refuse_reward_if_archived,
  internal.keep_archived_run, internal.refuse_work_if_archived, internal.archived_tables, internal.remove_content, internal.row_digest, internal.figures_to_keep,
  internal.begin_archive, internal.cancel_archive, internal.finish_archive, internal.begin_restore, internal.insert_archived, internal.finish_restore,
  internal.unload_archives from public;
grant execute on function internal.archived_message, internal.refuse_if_archived, internal.refuse_archived to authenticated, service_role;
grant execute on function internal.row_digest, internal.begin_archive, internal.cancel_archive, internal.finish_archive, internal.begin_restore,
  internal.insert_archived, internal.finish_restore, internal.unload_archives to service_role;
revoke execute on function public.load_archived from public, anon, authenticated, service_role;
grant execute on function public.load_archived to service_role;
