-- The one way to write: a batch of mixed records, staged and merged with set-based statements in one transaction.
--
-- A batch is staged in temporary tables, from JSON by `ingest` or by COPY by a client that speaks to Postgres, and merged by the same rules:
--   * records are merged in the order of internal.record_kinds, so that parents come before children;
--   * a record whose id is new is inserted; a record of a kind that can change, whose id is known, updates what it names (objects are
--     merged, NULL leaves things as they are); of the other kinds a known id changes nothing;
--   * a status change that carries a status_change_id already in status_history was applied before and changes nothing;
--   * a record that cannot be written is refused with its reason, and its neighbours are written.

create function internal.record_kinds() returns table (kind text, place integer, can_change boolean)
language sql immutable set search_path = ''
as $$
  values
    ('environments', 1, true), ('tasks', 2, true), ('validators', 3, true), ('training_runs', 4, true), ('training_steps', 5, true),
    ('model_checkpoints', 6, true), ('evaluations', 7, true), ('evaluation_results', 8, true), ('rollout_groups', 9, true),
    ('rollouts', 10, true), ('agent_states', 11, false), ('observations', 12, false), ('generations', 13, false),
    ('tool_calls', 14, false), ('rewards', 15, false), ('validations', 16, true), ('media', 17, false), ('jobs', 18, true),
    ('metric_chunks', 19, true)
$$;

create function internal.record_columns(kind text) returns table (name text, type text, default_value text)
language sql stable set search_path = ''
as $$
  -- What a record of a kind may say: every column that the database does not keep by itself.
  select a.attname::text, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid)
  from pg_catalog.pg_attribute a
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = format('public.%I', kind)::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    and a.attname not in ('updated_at', 'first_step', 'last_step')
    and not (kind = 'rollout_groups' and a.attname in
      ('rollout_count', 'completed_count', 'success_count', 'reward_count', 'reward_sum', 'reward_squares'))
  order by a.attnum
$$;

-- Staging -----------------------------------------------------------------------------------------------------------------------

create function internal.empty_stage(staged regclass) returns void
language plpgsql set search_path = ''
as $$
begin
  -- Deleting is cheaper than truncating while little is left behind, which no vacuum would ever clear away.
  if pg_table_size(staged) > 1024 * 1024 then
    execute format('truncate table %s', staged);
  else
    execute format('delete from %s', staged);
  end if;
end
$$;

create function internal.open_stage(kinds text[]) returns void
language plpgsql security definer set search_path = ''
as $$
-- Empty staging tables of some kinds, made once a session, and anew when the schema has changed. Emptied here and not by `on commit`,
-- which would have every commit truncate every table that the session ever staged in.
declare
  k text;
  columns text;
  staged regclass;
begin
  if to_regclass('pg_temp.stage_json') is null then
    -- Not compressed: what is staged is read once and thrown away.
    create temporary table stage_json (kind text, ordinal integer, record jsonb, nested jsonb) with (toast_tuple_target = 8160);
    alter table pg_temp.stage_json alter column record set storage external, alter column nested set storage external;
    create index on pg_temp.stage_json (kind, ordinal);
    create temporary table stage_refused (kind text, ordinal integer, id text, code text, field text, message text);
    grant all on pg_temp.stage_json, pg_temp.stage_refused to authenticated, service_role;
  end if;
  perform internal.empty_stage('pg_temp.stage_json'), internal.empty_stage('pg_temp.stage_refused');
  foreach k in array kinds loop
    staged := to_regclass('pg_temp.stage_' || k);
    columns := (select string_agg(format('%I %s', c.name, c.type), ', ') from internal.record_columns(k) c);
    if obj_description(staged, 'pg_class') = md5(columns) then
      perform internal.empty_stage(staged);
      continue;
    end if;
    if staged is not null then
      execute format('drop table %s', staged);
    end if;
    execute format('create temporary table %I (ordinal integer primary key, round integer, %s) with (toast_tuple_target = 8160)', 'stage_' || k, columns);
    execute format('grant all on pg_temp.%I to authenticated, service_role', 'stage_' || k);
    execute format('comment on table pg_temp.%I is %L', 'stage_' || k, md5(columns));
  end loop;
end
$$;
comment on function internal.open_stage is 'Make the staging tables of some kinds: pg_temp.stage_<kind>, with the columns of the table and `ordinal`, which numbers the records.';

create function internal.stage_batch(batch jsonb) returns text[]
language plpgsql set search_path = ''
as $$
-- Spread a JSON batch over stage_json, the records inside turns as records of their own; returns the kinds there are.
declare
  of_turns constant text[] := array['tool_calls', 'observations', 'generations', 'rewards'];
  unknown text;
begin
  if jsonb_typeof(batch) is distinct from 'object' then
    raise exception using errcode = 'OM400', column = 'batch',
      message = 'batch: an object of lists is expected, such as {"rollouts": [...], "agent_states": [...]}';
  end if;
  select k into unknown from jsonb_object_keys(batch) k where k not in (select kind from internal.record_kinds()) limit 1;
  if unknown is not null then
    raise exception using errcode = 'OM400', column = unknown,
      message = format('batch.%s: no such kind of record; there are %s', unknown,
        (select string_agg(kind, ', ' order by place) from internal.record_kinds()));
  end if;
  select k into unknown from jsonb_each(batch) b (k, v) where jsonb_typeof(v) <> 'array' limit 1;
  if unknown is not null then
    raise exception using errcode = 'OM400', column = unknown, message = format('batch.%s: a list of records is expected', unknown);
  end if;

  insert into pg_temp.stage_json (kind, ordinal, record, nested)
  select b.kind, e.ordinal - 1,
    case when jsonb_typeof(e.record) <> 'object' then e.record
         else case when b.kind = 'agent_states' then e.record - of_turns else e.record end
           || case when e.record ->> 'id' is null then jsonb_build_object('id', internal.new_id()) else '{}' end end,
    case when b.kind = 'agent_states' and jsonb_typeof(e.record) = 'object' and e.record ?| of_turns
         then jsonb_build_object('tool_calls', e.record -> 'tool_calls', 'observations', e.record -> 'observations',
           'generations', e.record -> 'generations', 'rewards', e.record -> 'rewards') end
  from jsonb_each(batch) b (kind, records) cross join lateral jsonb_array_elements(b.records) with ordinality e (record, ordinal);

  -- What stands in a turn gets an id of its own from the turn's, so that the same turn sent again brings nothing new.
  insert into pg_temp.stage_json (kind, ordinal, record)
  select n.kind,
    jsonb_array_length(coalesce(batch -> n.kind, '[]')) + row_number() over (partition by n.kind) - 1,
    case when jsonb_typeof(e.record) <> 'object' then e.record
         else case when n.kind = 'rewards' then jsonb_build_object('rollout_id', t.record -> 'rollout_id', 'step_number', t.record -> 'step_number')
                   else jsonb_build_object('agent_state_id', t.record -> 'id', 'position', e.position - 1) end
           || jsonb_build_object('id', md5(t.record ->> 'id' || n.kind || e.position)::uuid)
           || e.record end
  from pg_temp.stage_json t
  cross join lateral jsonb_each(t.nested) n (kind, records)
  cross join lateral jsonb_array_elements(
    case jsonb_typeof(n.records) when 'array' then n.records when 'null' then '[]' else jsonb_build_array(n.records) end)
    with ordinality e (record, position)
  where t.nested is not null;

  return array(select r.kind from internal.record_kinds() r where exists (select 1 from pg_temp.stage_json s where s.kind = r.kind) order by r.place);
end
$$;

-- Refusals ----------------------------------------------------------------------------------------------------------------------

create function internal.refusal_code(state text) returns text
language sql immutable set search_path = ''
as $$
  -- NULL: not the record's fault (a deadlock, a full disk, a bug), so not a reason to refuse it.
  select case
    when state like 'OM%' then state
    when state = '23503' then 'OM404'
    when state in ('23505', '23P01') then 'OM409'
    when state = '42501' then 'OM403'
    when state like '22%' or state like '23%' or state = '54000' then 'OM400'
  end
$$;

create function internal.explain_refusal(kind text, id text, state text, message text, detail text, field text, constraint_name text)
returns text
language sql stable set search_path = ''
as $$
  select case when position(coalesce(id, '-') in message) > 0 and state like 'OM%' then message
  else format('%s %s: %s', kind, coalesce(id, '(no id)'), case
    when state = '23502' then format('%s is required', field)
    when state = '23503' then coalesce(
      (select format('%s %s is unknown; create it first', m[1], m[2]) from regexp_match(detail, 'Key \(([^)]*)\)=\(([^)]*)\)') m), message)
    when state = '23505' then coalesce(
      (select format('there is another one with %s = %s; use its id to change it, or another %s', m[1], m[2], m[1])
       from regexp_match(detail, 'Key \(([^)]*)\)=\((.*)\) already') m), message)
    when state = '23514' then (
      select case
        when d.definition like '%ANY (ARRAY[%' then format('%s must be one of %s', field,
          (select string_agg(m[1], ', ') from regexp_matches(d.definition, '''([^'']*)''::text', 'g') m))
        else format('%s: it must hold that %s', coalesce(field, replace(constraint_name, '_', ' ')),
          regexp_replace(d.definition, '^CHECK \(\((.*)\)\)$', '\1')) end
      from (select pg_get_constraintdef(c.oid) as definition from pg_catalog.pg_constraint c
            where c.conname = constraint_name and c.conrelid = format('public.%I', kind)::regclass) d)
    when state = '42501' then 'not yours to write; ask its owner or an admin'
    when field is not null and state like '22%' then format('%s: %s', field, message)
    else message end) end
$$;

create function internal.refuse(kind text, ordinal integer, state text, message text, detail text, field text, constraint_name text)
returns void
language plpgsql set search_path = ''
as $$
declare
  record_id text;
  culprit text := nullif(field, '');
  parent record;
  unknown text;
begin
  record_id := (select s.record ->> 'id' from pg_temp.stage_json s where s.kind = refuse.kind and s.ordinal = refuse.ordinal);
  if record_id is null and to_regclass('pg_temp.stage_' || kind) is not null then
    execute format('select s.id::text from pg_temp.%I s where s.ordinal = $1', 'stage_' || kind) into record_id using ordinal;
  end if;
  -- Row security looks before the foreign keys do: what hangs on nothing is not somebody else's.
  if state = '42501' then
    for parent in
      select a.attname as field, c.confrelid::regclass as known
      from pg_catalog.pg_constraint c join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      where c.contype = 'f' and c.conrelid = format('public.%I', kind)::regclass and a.attname <> 'owner_id'
      order by a.attnum
    loop
      execute format('select s.%1$I from pg_temp.%2$I s where s.ordinal = $1 and s.%1$I is not null
                      and not exists (select 1 from %3$s k where k.id = s.%1$I)', parent.field, 'stage_' || kind, parent.known)
      into unknown using ordinal;
      if unknown is not null then
        state := '23503';
        detail := format('Key (%s)=(%s)', parent.field, unknown);
        exit;
      end if;
    end loop;
  end if;
  if culprit is null then
    culprit := case
      when state in ('23503', '23505') then (select m[1] from regexp_match(detail, 'Key \(([^)]*)\)') m)
      when state = '23514' then (
        select a.attname from pg_catalog.pg_constraint c join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
        where c.conname = constraint_name and c.conrelid = format('public.%I', kind)::regclass and cardinality(c.conkey) = 1)
    end;
  end if;
  insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
  values (kind, ordinal, record_id, internal.refusal_code(state), culprit,
    internal.explain_refusal(kind, record_id, state, message, detail, culprit, constraint_name));
end
$$;

-- From JSON to typed staging ----------------------------------------------------------------------------------------------------

create function internal.check_record(kind text, record jsonb, known text[]) returns void
language plpgsql set search_path = ''
as $$
-- Called for a record that Postgres could not take, or that says more than its kind has: find the field.
declare
  field text;
begin
  if jsonb_typeof(record) <> 'object' then
    raise exception using errcode = 'OM400', message = format('an object is expected, not %s', jsonb_typeof(record));
  end if;
  select k into field from jsonb_object_keys(record - known) k limit 1;
  if field is not null then
    raise exception using errcode = 'OM400', column = field,
      message = format('%s: no such field; there are %s', field, array_to_string(known, ', '));
  end if;
  for field in select k from jsonb_object_keys(record) k loop
    begin
      execute format('select jsonb_populate_record(null::public.%I, $1)', kind) using jsonb_build_object(field, record -> field);
    exception when data_exception or program_limit_exceeded then
      raise exception using errcode = 'OM400', column = field, message = format('%s: %s', field, sqlerrm);
    end;
  end loop;
end
$$;

create function internal.type_records(kind text, low integer, high integer) returns void
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
declare
  known text[] := array(select c.name from internal.record_columns(type_records.kind) c);
  suspect record;
begin
  select s.ordinal, s.record into suspect from pg_temp.stage_json s
  where s.kind = type_records.kind and s.ordinal between low and high
    and (jsonb_typeof(s.record) <> 'object' or case when jsonb_typeof(s.record) = 'object' then s.record - known <> '{}' end)
  limit 1;
  if found then
    perform internal.check_record(kind, suspect.record, known);
  end if;
  begin
    execute format(
      'insert into pg_temp.%1$I (ordinal, %2$s)
       select s.ordinal, %3$s from pg_temp.stage_json s cross join lateral jsonb_populate_record(null::public.%4$I, s.record) r
       where s.kind = $1 and s.ordinal between $2 and $3',
      'stage_' || kind,
      (select string_agg(format('%I', k), ', ') from unnest(known) k),
      (select string_agg(format('r.%I', k), ', ') from unnest(known) k),
      kind) using kind, low, high;
  exception when data_exception or program_limit_exceeded then
    if low = high then
      perform internal.check_record(kind, s.record, known) from pg_temp.stage_json s where s.kind = type_records.kind and s.ordinal = low;
    end if;
    raise;
  end;
end
$$;

-- Merging -----------------------------------------------------------------------------------------------------------------------

create function internal.refuse_move(field text) returns void
language plpgsql set search_path = ''
as $$
begin
  if field is not null then
    raise exception using errcode = 'OM409', column = field,
      message = format('%s: it hangs on another one and cannot move; leave %s out, or create a new one', field, field);
  end if;
end
$$;

create function internal.define_merge(kind text, joins text default '', derived jsonb default '{}') returns void
language plpgsql set search_path = ''
as $body$
-- Write internal.merge_<kind>(low, high) from the table's columns. `derived` gives an expression for a column that follows from
-- another table, which `joins` joins. To be called again by a migration that adds a column. Every join is by a key, so that a plan that
-- was made for a single record serves a thousand as well.
declare
  can_change boolean := (select k.can_change from internal.record_kinds() k where k.kind = define_merge.kind);
  has_status boolean := exists (select 1 from internal.record_columns(kind) where name = 'status_change_id');
  -- What a row hangs on, it hangs on for good. A job may come before its run.
  fixed text[] := array(
    select name from internal.record_columns(kind) where kind <> 'jobs' and name = any (array['training_run_id', 'training_step_id',
      'evaluation_id', 'group_id', 'rollout_id', 'agent_state_id', 'task_id', 'checkpoint_id'])
      and not (kind in ('evaluations', 'rollouts') and name in ('checkpoint_id', 'task_id')));
  names text := (select string_agg(format('%I', name), ', ') from internal.record_columns(kind));
  inserted text := (
    select string_agg(coalesce(derived ->> name, case
      when default_value is null or default_value like 'NULL%' then format('s.%I', name)
      else format('coalesce(s.%I, %s)', name, default_value) end), ', ')
    from internal.record_columns(kind));
  updated text := (
    select string_agg(case
      when type = 'jsonb' then format('%1$I = case when jsonb_typeof(t.%1$I) = ''object'' and jsonb_typeof(s.%1$I) = ''object'' then t.%1$I || s.%1$I
                                else coalesce(s.%1$I, t.%1$I) end', name)
      -- Another status has its own message, or none.
      when name = 'status_message' then 'status_message = case when s.status <> t.status then s.status_message else coalesce(s.status_message, t.status_message) end'
      when name = 'status_change_id' then 'status_change_id = coalesce(s.status_change_id, case when s.status <> t.status then internal.new_id() else t.status_change_id end)'
      else format('%1$I = coalesce(s.%1$I, t.%1$I)', name) end, ', ')
    from internal.record_columns(kind)
    where name not in ('id', 'created_at', 'owner_id') and not (name = any (fixed)));
  -- Which field, if any, says that a record hangs on something else than the row of its id does.
  culprit text := coalesce('case ' || (
    select string_agg(format('when t.%1$I is distinct from s.%1$I and s.%1$I is not null then %1$L', f), ' ') from unnest(fixed) f) || ' end',
    'null::text');
begin
  if not can_change then
    execute format($sql$
      create or replace function internal.%1$I(low integer, high integer) returns void
      language plpgsql set search_path = '' as $fn$
      declare
        added bigint;
      begin
        insert into public.%2$I (%3$s)
        select %4$s from pg_temp.%5$I s %6$s where s.ordinal between low and high
        order by s.ordinal
        on conflict (id) do nothing;
        get diagnostics added = row_count;

        -- Only a known id, or a record that says what follows from its parent, can be out of place.
        if added < (select count(*) + count(*) filter (where num_nonnulls(%8$s) > 0) from pg_temp.%5$I s where s.ordinal between low and high) then
          perform internal.refuse_move((
            select %7$s from pg_temp.%5$I s join public.%2$I t on t.id = s.id
            where s.ordinal between low and high and %7$s is not null limit 1));
        end if;
      end $fn$ $sql$, 'merge_' || kind, kind, names, inserted, 'stage_' || kind, joins, culprit,
      coalesce((select string_agg(format('s.%I', key), ', ') from jsonb_object_keys(derived) key where key = any (fixed)), 'null'));
  else
    execute format($sql$
      create or replace function internal.%1$I(low integer, high integer) returns void
      language plpgsql set search_path = '' as $fn$
      declare
        made uuid[];
        wanted bigint;
        done bigint;
        current_round integer := 1;
      begin
        -- Round 1 makes what is new. Later rounds change what is there, one record of an id at a time, in their order.
        update pg_temp.%5$I s set round = r.round
        from (select o.ordinal, row_number() over (partition by o.id order by o.ordinal)
                + (exists (select 1 from public.%2$I t where t.id = o.id))::integer as round
              from pg_temp.%5$I o where o.ordinal between low and high) r
        where s.ordinal = r.ordinal;

        with added as (
          insert into public.%2$I (%3$s)
          select %4$s from pg_temp.%5$I s %6$s where s.ordinal between low and high and s.round = 1
          order by s.id
          on conflict (id) do nothing
          returning id)
        select coalesce(array_agg(id), '{}') into made from added;
        -- What another session made meanwhile is there to be changed.
        update pg_temp.%5$I s set round = s.round + 1
        where s.ordinal between low and high and s.id = any (array(
          select o.id from pg_temp.%5$I o where o.ordinal between low and high and o.round = 1 and not o.id = any (made)));

        perform internal.refuse_move((
          select %8$s from pg_temp.%5$I s join public.%2$I t on t.id = s.id
          where s.ordinal between low and high and %8$s is not null limit 1));

        loop
          current_round := current_round + 1;
          exit when not exists (select 1 from pg_temp.%5$I s where s.ordinal between low and high and s.round = current_round);
          %9$s
          select count(*) into wanted from pg_temp.%5$I s where s.ordinal between low and high and s.round = current_round;
          update public.%2$I t set %7$s
          from pg_temp.%5$I s
          where t.id = s.id and s.ordinal between low and high and s.round = current_round;
          get diagnostics done = row_count;
          if done < wanted and exists (select 1 from pg_temp.%5$I s where s.ordinal between low and high and s.round = current_round
                                       and not exists (select 1 from public.%2$I t where t.id = s.id)) then
            raise exception using errcode = 'OM404', column = 'id', message = 'unknown id; it was deleted meanwhile';
          elsif done < wanted then
            raise exception using errcode = 'OM403', message = 'not yours to change; ask its owner or an admin';
          end if;
        end loop;
      end $fn$ $sql$, 'merge_' || kind, kind, names, inserted, 'stage_' || kind, joins, updated, culprit,
      case when has_status then format($skip$
          -- A change that is in the history was made before.
          update pg_temp.%I s set round = 0
          where s.ordinal between low and high and s.round = current_round
            and exists (select 1 from public.status_history h where h.entity_id = s.id and h.id = s.status_change_id);$skip$, 'stage_' || kind) end);
  end if;
  execute format('revoke execute on function internal.%I(integer, integer) from public', 'merge_' || kind);
  execute format('grant execute on function internal.%I(integer, integer) to authenticated, service_role', 'merge_' || kind);
end
$body$;

select internal.define_merge('environments');
select internal.define_merge('tasks');
select internal.define_merge('validators');
select internal.define_merge('training_runs');
select internal.define_merge('training_steps');
select internal.define_merge('model_checkpoints');
select internal.define_merge('evaluations');
select internal.define_merge('evaluation_results',
  'left join public.model_checkpoints p on p.id = s.checkpoint_id',
  '{"training_run_id": "p.training_run_id"}');
select internal.define_merge('rollout_groups',
  'left join public.training_steps p on p.id = s.training_step_id left join public.evaluations e on e.id = s.evaluation_id',
  '{"training_run_id": "coalesce(p.training_run_id, e.training_run_id)"}');
select internal.define_merge('rollouts',
  'left join public.rollout_groups g on g.id = s.group_id
   left join public.evaluations e on e.id = g.evaluation_id
   left join public.training_runs p on p.id = coalesce(g.training_run_id, s.training_run_id)',
  '{"training_run_id": "case when g.id is null then s.training_run_id else g.training_run_id end",
    "task_id": "coalesce(s.task_id, g.task_id)",
    "task_description": "coalesce(s.task_description, g.task_description)",
    "environment": "coalesce(s.environment, e.environment, p.environment)",
    "source": "coalesce(s.source, case e.kind when ''eval'' then ''evaluation'' else e.kind end, ''training'')"}');
select internal.define_merge('agent_states', 'left join public.rollouts p on p.id = s.rollout_id', '{"training_run_id": "p.training_run_id"}');
select internal.define_merge('observations', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.observations t where t.agent_state_id = s.agent_state_id))"}');
select internal.define_merge('generations', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.generations t where t.agent_state_id = s.agent_state_id))"}');
select internal.define_merge('tool_calls', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.tool_calls t where t.agent_state_id = s.agent_state_id))"}');
select internal.define_merge('rewards', 'left join public.rollouts p on p.id = s.rollout_id', '{"training_run_id": "p.training_run_id"}');
-- Named after its validator, a verdict can still be told from the others when the validator is gone.
select internal.define_merge('validations',
  'left join public.rollouts p on p.id = s.rollout_id left join public.validators v on v.id = s.validator_id',
  '{"training_run_id": "p.training_run_id", "validator_name": "coalesce(s.validator_name, v.external_id, ''default'')"}');
select internal.define_merge('media', 'left join public.rollouts p on p.id = s.rollout_id',
  '{"training_run_id": "case when p.id is null then s.training_run_id else p.training_run_id end"}');
select internal.define_merge('jobs');
select internal.define_merge('metric_chunks');

create function internal.merge_range(stage text, kind text, low integer, high integer, again boolean default false) returns void
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
      execute format('select internal.%I($1, $2)', 'merge_' || kind) using low, high;
    end if;
    return;
  exception when others then
    if internal.refusal_code(sqlstate) is null then
      raise;
    end if;
    -- Another session may just have made the very same row, which was found out by another index than that of the id: look again.
    if low = high and sqlstate = '23505' and not again then
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

create function internal.beat_runs(kinds text[]) returns void
language plpgsql set search_path = ''
as $$
-- Whoever writes of a run says that it is alive. Last, so that no writer holds the run's row while it writes the rest.
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
       where t.id in (%s) and t.status = ''running'' and (t.heartbeat_at is null or t.heartbeat_at < now() - interval ''5 seconds'')', sources);
  end if;
end
$$;

-- No compiling of queries, here and below: Postgres guesses that staged records are millions, and compiles for half a second to save none.
create function internal.merge_stage(kinds text[], all_or_nothing boolean default false) returns jsonb
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
begin
  for k in select r.kind from internal.record_kinds() r where r.kind = any (kinds) order by r.place loop
    execute format('select min(ordinal), max(ordinal), $1 + count(*) from pg_temp.%I', 'stage_' || k) into low, high, received using received;
    continue when low is null;
    perform internal.merge_range('merge', k, low, high);
  end loop;
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
comment on function internal.merge_stage is 'Merge the records that lie in pg_temp.stage_<kind>, in the caller''s transaction.';

create function public.ingest(batch jsonb, all_or_nothing boolean default false, return_rows boolean default false) returns jsonb
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
  perform internal.open_stage(array(
    select r.kind from internal.record_kinds() r
    where batch ? r.kind or (batch ? 'agent_states' and r.kind in ('tool_calls', 'observations', 'generations', 'rewards'))));
  kinds := internal.stage_batch(batch);
  foreach k in array kinds loop
    select max(s.ordinal) into high from pg_temp.stage_json s where s.kind = k;
    perform internal.merge_range('type', k, 0, high);
  end loop;
  answer := internal.merge_stage(kinds, all_or_nothing);
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
comment on function public.ingest is 'Write a batch of records: {"training_runs": [...], "rollouts": [...], "agent_states": [...], ...}. Says which records it refused and why.';

create function public.change_status(entity text, entity_id uuid, status text, message text default null, fields jsonb default '{}', change_id uuid default null)
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
comment on function public.change_status is 'Move a run, step, evaluation, rollout or job to another status; answers with the row.';

revoke execute on function internal.record_kinds, internal.record_columns, internal.empty_stage, internal.open_stage, internal.stage_batch, internal.refusal_code,
  internal.explain_refusal, internal.refuse, internal.check_record, internal.type_records, internal.refuse_move, internal.define_merge, internal.merge_range,
  internal.beat_runs, internal.merge_stage from public;
grant execute on function internal.record_kinds, internal.record_columns, internal.open_stage, internal.stage_batch, internal.refusal_code,
  internal.explain_refusal, internal.refuse, internal.check_record, internal.type_records, internal.refuse_move, internal.merge_range, internal.beat_runs,
  internal.merge_stage to authenticated, service_role;
revoke execute on function public.ingest, public.change_status from public, anon, authenticated, service_role;
grant execute on function public.ingest, public.change_status to authenticated, service_role;
