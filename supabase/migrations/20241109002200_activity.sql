-- The time of the last change, for live views: a narrow row per run, and one for records without a run. A viewer subscribes to these rows
-- only, and reloads what it shows.

create table public.activity (
  id uuid primary key default internal.new_id(),
  training_run_id uuid unique nulls not distinct references public.training_runs (id) on delete cascade,
  changed_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
comment on table public.activity is 'When records of a run were last written, to about a second; the row without a run is for records that belong to none.';
select internal.protect('public.activity', 'false', 'internal.is_public_run(training_run_id)', writable => false);

insert into public.activity (training_run_id) values (null);

-- Hosted projects publish changes by this publication.
do $$
begin
  if exists (select 1 from pg_catalog.pg_publication p where p.pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.activity;
  end if;
end
$$;

-- Marking -----------------------------------------------------------------------------------------------------------------------

create function internal.mark_runs(run_ids uuid[]) returns void
language plpgsql security definer set search_path = ''
as $$
-- At most once a second per run, without waiting: the session that has locked the row marks it. A clock set back does not stop the marks.
declare
  at constant timestamptz := clock_timestamp();
begin
  update public.activity a set changed_at = at
  where a.id = any (array(
    select m.id from public.activity m where m.training_run_id = any (run_ids) and m.changed_at not between at - interval '1 second' and at
    for update skip locked));
  if array_position(run_ids, null) is not null then
    update public.activity a set changed_at = at
    where a.id = any (array(
      select m.id from public.activity m where m.training_run_id is null and m.changed_at not between at - interval '1 second' and at
      for update skip locked));
  end if;
end
$$;

create function internal.mark_activity() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  run_ids uuid[];
begin
  if exists (select 1 from changed_rows) then
    if tg_argv[0] is null then
      run_ids := array[null::uuid];
    else
      run_ids := array(select distinct c.training_run_id from changed_rows c);
    end if;
    perform internal.mark_runs(run_ids);
  end if;
  return null;
end
$$;

create function internal.mark_activity_of_row() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.mark_runs(array[new.training_run_id]);
  return null;
end
$$;

create function internal.mark_activity_of_runs() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    -- Together with the run, which no other session can see yet, so that no two writers wait for each other to insert the row.
    insert into public.activity (training_run_id) select c.id from changed_rows c;
  elsif tg_op = 'UPDATE' then
    perform internal.mark_runs(array(select c.id from changed_rows c));
  elsif exists (select 1 from changed_rows) then
    perform internal.mark_runs(array[null::uuid]);
  end if;
  return null;
end
$$;

create function internal.mark_staged(kinds text[]) returns void
language plpgsql set search_path = ''
as $$
-- Mark the runs of the staged rows that were written.
declare
  sources text := (
    select string_agg(case
      -- One by one (`limit 1`): Postgres would read all chunks of all runs.
      when k = 'metric_chunks' then 'select t.training_run_id from pg_temp.stage_metric_chunks s
        cross join lateral (select t.training_run_id from public.metric_chunks t where t.id = s.id limit 1) t'
      when k in ('agent_states', 'rewards') then format(
        'select r.training_run_id from (select distinct rollout_id from pg_temp.%I) s join public.rollouts r on r.id = s.rollout_id', 'stage_' || k)
      else format(
        'select a.training_run_id from (select distinct agent_state_id as id from pg_temp.%I%s) s join public.agent_states a on a.id = s.id', 'stage_' || k,
        -- Parts that were staged with their turn belong to the turn's run.
        case when 'agent_states' = any (kinds) then ' except select id from pg_temp.stage_agent_states' end)
      end, ' union ')
    from unnest(kinds) k where k in ('agent_states', 'observations', 'generations', 'tool_calls', 'rewards', 'metric_chunks'));
  run_ids uuid[];
begin
  if sources is not null then
    execute format('select array(%s)', sources) into run_ids;
    perform internal.mark_runs(run_ids);
  end if;
end
$$;

-- Tables that are watched -------------------------------------------------------------------------------------------------------

create function internal.watch(target regclass, variadic events text[]) returns void
language plpgsql set search_path = ''
as $$
-- Mark changes of a table, once per statement. Not deletes by cascade: they run one statement per parent.
declare
  has_run boolean := exists (select 1 from pg_catalog.pg_attribute a where a.attrelid = target and a.attname = 'training_run_id' and not a.attisdropped);
begin
  for i in 1 .. cardinality(events) loop
    execute format('create trigger %I after %s on %s referencing %s table as changed_rows for each statement execute function internal.mark_activity(%s)',
      'mark_activity_on_' || events[i], events[i], target, case events[i] when 'delete' then 'old' else 'new' end,
      case when has_run then quote_literal('training_run_id') end);
  end loop;
end
$$;

create trigger mark_activity_on_insert after insert on public.training_runs referencing new table as changed_rows
  for each statement execute function internal.mark_activity_of_runs();
create trigger mark_activity_on_update after update on public.training_runs referencing new table as changed_rows
  for each statement execute function internal.mark_activity_of_runs();
create trigger mark_activity_on_delete after delete on public.training_runs referencing old table as changed_rows
  for each statement execute function internal.mark_activity_of_runs();

select internal.watch(t::regclass, 'insert', 'update', 'delete')
from unnest(array['public.environments', 'public.tasks', 'public.validators', 'public.training_steps', 'public.model_checkpoints', 'public.evaluations',
  'public.evaluation_results', 'public.rollouts', 'public.jobs', 'public.sweeps', 'public.members', 'public.member_keys', 'public.invitations']) t;
select internal.watch('public.validations', 'insert', 'update');
select internal.watch('public.media', 'insert', 'update');
select internal.watch('public.rollout_groups', 'insert', 'delete');
-- Not the counts: they change one group at a time, together with rollouts, which are marked.
create trigger mark_activity_on_update after update of task_id, number, task_description, metadata on public.rollout_groups
  for each row execute function internal.mark_activity_of_row();

-- The tables with the most rows: a transition table would add a sixth to the time of a write. Code that writes many rows sets
-- openmanus_rl.in_batch and marks the runs after the last row; otherwise each row is marked.
do $$
declare
  target text;
begin
  foreach target in array array['public.agent_states', 'public.observations', 'public.generations', 'public.tool_calls', 'internal.rewards',
    'public.metric_chunks'] loop
    execute format('create trigger mark_activity after insert or update on %s for each row
      when (current_setting(''openmanus_rl.in_batch'', true) is distinct from ''on'') execute function internal.mark_activity_of_row()', target);
  end loop;
end
$$;

revoke execute on function internal.mark_runs, internal.mark_activity, internal.mark_activity_of_row, internal.mark_activity_of_runs,
  internal.mark_staged, internal.watch from public;
grant execute on function internal.mark_runs, internal.mark_staged to authenticated, service_role;
