-- Staging of batches. A batch of mixed records is staged in temporary tables, from JSON by `ingest` or by COPY from a client that
-- connects to Postgres, and then merged.

create function internal.record_kinds() returns table (kind text, place integer, can_change boolean)
language sql immutable set search_path = ''
as $$
  values
    ('environments', 1, true), ('tasks', 2, true), ('validators', 3, true), ('training_runs', 4, true), ('training_steps', 5, true),
    ('model_checkpoints', 6, true), ('evaluations', 7, true), ('evaluation_results', 8, true), ('rollout_groups', 9, true),
    ('rollouts', 10, true), ('agent_states', 11, false), ('observations', 12, false), ('generations', 13, false),
    ('tool_calls', 14, false), ('rewards', 15, false), ('validations', 16, true), ('media', 17, false),
    ('metric_chunks', 18, true)
$$;

create function internal.table_of(kind text) returns regclass
language sql stable set search_path = ''
as $$ select case kind when 'rewards' then 'internal.rewards' else format('public.%I', kind) end::regclass $$;

create function internal.record_columns(kind text) returns table (name text, type text, default_value text, is_required boolean)
language sql stable set search_path = ''
as $$
  -- The fields of a record: every column that the database does not maintain itself.
  select a.attname::text, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull
  from pg_catalog.pg_attribute a
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = internal.table_of(kind) and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    and a.attname not in ('updated_at', 'first_step', 'last_step', 'rewound_at', 'visible_to', 'measured')
    and not (kind = 'training_runs' and a.attname = 'timeline')
    -- Reserved columns.
    and has_column_privilege('service_role', a.attrelid, a.attnum, 'insert')
  order by a.attnum
$$;

-- Staging tables ----------------------------------------------------------------------------------------------------------------

create function internal.empty_stage(staged regclass) returns void
language plpgsql set search_path = ''
as $$
begin
  -- Deleting is cheaper than truncating while the table is small; dead rows of temporary tables are never vacuumed.
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
-- Create the staging tables once per session, and again after a schema change; empty them here and not by `on commit`, which would make
-- every commit truncate every table that the session ever used.
declare
  k text;
  columns text;
  staged regclass;
begin
  if to_regclass('pg_temp.stage_json') is null then
    -- Not compressed: staged rows are read once.
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
    execute format('create temporary table %I (ordinal integer primary key, round integer, cleared text[], %s) with (toast_tuple_target = 8160)', 'stage_' || k, columns);
    execute format('grant all on pg_temp.%I to authenticated, service_role', 'stage_' || k);
    execute format('comment on table pg_temp.%I is %L', 'stage_' || k, md5(columns));
  end loop;
end
$$;
comment on function internal.open_stage is 'Create the staging tables of some kinds: pg_temp.stage_<kind>, with the columns of the table, `ordinal`, the number of the record, and `cleared`, the names of the fields that are null in the record.';

-- From JSON ---------------------------------------------------------------------------------------------------------------------

create function internal.part_id(turn_id text, kind text, place integer) returns uuid
language sql immutable set search_path = ''
as $$
  -- The id of the part of a turn at a place, counted from 0: the turn's id plus an offset, so that a turn and its parts are adjacent in
  -- their indexes. A repeated turn has the same parts. The recorder computes the same ids.
  select case when turn_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    (left(turn_id, 24) || lpad(to_hex((('x' || right(turn_id, 12))::bit(48)::bigint
      + (array_position(array['tool_calls', 'observations', 'generations', 'rewards'], kind) - 1) * 1048576 + place + 1) & 281474976710655), 12, '0'))::uuid
    -- Not a valid id: the turn is refused, and its parts with it.
    else md5(turn_id || kind || place)::uuid end
$$;

create function internal.reward_of_turn(rewards jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
  -- The first of a turn's rewards if the turn's column can hold it: a number of type `step` without other fields. Else NULL.
  select r.first -> 'reward'
  from (select case jsonb_typeof(rewards) when 'array' then rewards -> 0 when 'object' then rewards end as first) r
  where jsonb_typeof(r.first) = 'object' and r.first - array['reward', 'reward_type'] = '{}' and coalesce(r.first ->> 'reward_type', 'step') = 'step'
    and case jsonb_typeof(r.first -> 'reward')
      -- A number that a double cannot represent is refused as a reward, without the turn.
      when 'number' then (r.first ->> 'reward')::numeric = 0 or abs((r.first ->> 'reward')::numeric) between 1e-300 and 1e308
      when 'string' then r.first ->> 'reward' in ('NaN', 'Infinity', '-Infinity') end
$$;

create function internal.stage_batch(batch jsonb) returns text[]
language plpgsql set search_path = ''
as $$
-- Copy a JSON batch to stage_json, with the records inside turns as records of their own; return the kinds in it.
declare
  of_turns constant text[] := array['tool_calls', 'observations', 'generations', 'rewards'];
  unknown text;
begin
  if jsonb_typeof(batch) is distinct from 'object' then
    perform internal.fail('OM400', 'batch',
      'batch: an object of lists is expected, such as {"rollouts": [...], "agent_states": [...]}');
  end if;
  select k into unknown from jsonb_object_keys(batch) k where k not in (select kind from internal.record_kinds()) limit 1;
  if unknown is not null then
    perform internal.fail('OM400', unknown,
      format('batch.%s: no such kind of record; there are %s', unknown,
        (select string_agg(kind, ', ' order by place) from internal.record_kinds())));
  end if;
  select k into unknown from jsonb_each(batch) b (k, v) where jsonb_typeof(v) <> 'array' limit 1;
  if unknown is not null then
    perform internal.fail('OM400', unknown, format('batch.%s: a list of records is expected', unknown));
  end if;

  insert into pg_temp.stage_json (kind, ordinal, record, nested)
  select b.kind, e.ordinal - 1,
    case when jsonb_typeof(e.record) <> 'object' then e.record
         else case when b.kind = 'agent_states' then e.record - of_turns else e.record end
           || case when e.record ->> 'id' is null then jsonb_build_object('id', internal.new_id()) else '{}' end
           || case when w.reward is not null then jsonb_build_object('reward', w.reward) else '{}' end end,
    case when b.kind = 'agent_states' and jsonb_typeof(e.record) = 'object' and e.record ?| of_turns
         then jsonb_build_object('tool_calls', e.record -> 'tool_calls', 'observations', e.record -> 'observations',
           'generations', e.record -> 'generations', 'rewards', e.record -> 'rewards') end
  from jsonb_each(batch) b (kind, records) cross join lateral jsonb_array_elements(b.records) with ordinality e (record, ordinal)
  cross join lateral (select case when b.kind = 'agent_states' and jsonb_typeof(e.record) = 'object' and not e.record ? 'reward'
    then internal.reward_of_turn(e.record -> 'rewards') end as reward) w;

  -- The id of a record inside a turn is derived from the turn's id, so that a repeated turn adds nothing.
  insert into pg_temp.stage_json (kind, ordinal, record)
  select n.kind,
    jsonb_array_length(coalesce(batch -> n.kind, '[]')) + row_number() over (partition by n.kind) - 1,
    case when jsonb_typeof(e.record) <> 'object' then e.record
         else case when n.kind = 'rewards' then jsonb_build_object('rollout_id', t.record -> 'rollout_id', 'step_number', t.record -> 'step_number')
                   else jsonb_build_object('agent_state_id', t.record -> 'id', 'position', e.position - 1) end
           || jsonb_build_object('id', internal.part_id(t.record ->> 'id', n.kind, e.position::integer - 1))
           || e.record end
  from pg_temp.stage_json t
  cross join lateral jsonb_each(t.nested) n (kind, records)
  cross join lateral jsonb_array_elements(
    case jsonb_typeof(n.records) when 'array' then n.records when 'null' then '[]' else jsonb_build_array(n.records) end)
    with ordinality e (record, position)
  where t.nested is not null
    -- Except the first reward, if it is the turn's column.
    and not (n.kind = 'rewards' and e.position = 1 and t.record ? 'reward' and t.record -> 'reward' = internal.reward_of_turn(n.records));

  return array(select r.kind from internal.record_kinds() r where exists (select 1 from pg_temp.stage_json s where s.kind = r.kind) order by r.place);
end
$$;

create function internal.check_record(kind text, record jsonb, known text[]) returns void
language plpgsql set search_path = ''
as $$
-- Find the field for which a record cannot be converted, or which its kind does not have.
declare
  field text;
begin
  if jsonb_typeof(record) <> 'object' then
    raise exception using errcode = 'OM400', message = format('an object is expected, not %s', jsonb_typeof(record));
  end if;
  select k into field from jsonb_object_keys(record - known) k limit 1;
  if field is not null then
    perform internal.fail('OM400', field,
      format('%s: no such field; there are %s', field, array_to_string(known, ', ')));
  end if;
  for field in select k from jsonb_object_keys(record) k loop
    begin
      execute format('select jsonb_populate_record(null::public.%I, $1)', kind) using jsonb_build_object(field, record -> field);
    exception when data_exception or program_limit_exceeded then
      perform internal.fail('OM400', field, format('%s: %s', field, sqlerrm));
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
  can_change boolean := (select k.can_change from internal.record_kinds() k where k.kind = type_records.kind);
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
      'insert into pg_temp.%1$I (ordinal, cleared, %2$s)
       select s.ordinal, %5$s, %3$s from pg_temp.stage_json s cross join lateral jsonb_populate_record(null::public.%4$I, s.record) r
       where s.kind = $1 and s.ordinal between $2 and $3',
      'stage_' || kind,
      (select string_agg(format('%I', k), ', ') from unnest(known) k),
      (select string_agg(format('r.%I', k), ', ') from unnest(known) k),
      kind,
      case when can_change then '(select array_agg(e.key) from jsonb_each(s.record) e where e.value = ''null'')' else 'null' end) using kind, low, high;
  exception when data_exception or program_limit_exceeded then
    if low = high then
      perform internal.check_record(kind, s.record, known) from pg_temp.stage_json s where s.kind = type_records.kind and s.ordinal = low;
    end if;
    raise;
  end;
end
$$;

revoke execute on function internal.record_kinds, internal.table_of, internal.record_columns, internal.empty_stage, internal.open_stage, internal.part_id,
  internal.reward_of_turn, internal.stage_batch, internal.check_record, internal.type_records from public;
grant execute on function internal.record_kinds, internal.table_of, internal.record_columns, internal.open_stage, internal.part_id, internal.reward_of_turn, internal.stage_batch, internal.check_record,
  internal.type_records to authenticated, service_role;
