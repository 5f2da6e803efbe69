-- Refusals: a record that cannot be written is reported with its reason.

create function internal.refusal_code(state text) returns text
language sql immutable set search_path = ''
as $$
  -- NULL: not the record's fault (a deadlock, a full disk, a bug), so not a reason to refuse it.
  select case
    when state like 'OM%' then state
    when state = '23503' then 'OM404'
    when state in ('23505', '23P01') then 'OM409'
    when state = '42501' then 'OM403'
    -- 0A000: array functions in the CHECK constraints of metric chunks take one dimension only.
    when state like '22%' or state like '23%' or state in ('54000', '0A000') then 'OM400'
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
      (select format('%s %s is unknown; create it first', m[1], m[2]) from regexp_match(detail, 'Key \(([^)]*)\)=\(([^)]*)\)') m where m is not null), message)
    when state = '23505' then coalesce(
      (select format('there is another one with %s = %s; use its id to change it, or another %s', m[1], m[2], m[1])
       from regexp_match(detail, 'Key \(([^)]*)\)=\((.*)\) already') m where m is not null), message)
    when state = '23514' then (
      select case
        when d.definition like '%ANY (ARRAY[%' then format('%s must be one of %s', field,
          (select string_agg(m[1], ', ') from regexp_matches(d.definition, '''([^'']*)''::text', 'g') m))
        else format('%s: it must hold that %s', coalesce(field, replace(constraint_name, '_', ' ')),
          regexp_replace(d.definition, '^CHECK \(\((.*)\)\)$', '\1')) end
      from (select pg_get_constraintdef(c.oid) as definition from pg_catalog.pg_constraint c
            where c.conname = constraint_name and c.conrelid in (internal.table_of(kind), 'public.metric_axes'::regclass)) d)
    when state = '42501' then 'not yours to write; ask its owner or an admin'
    when field is not null and state like '22%' then format('%s: %s', field, message)
    else message end) end
$$;

create function internal.taken_key(kind text, ordinal integer, index_name text) returns text
language plpgsql set search_path = ''
as $$
-- What Postgres says of a value that exists already, to whom row security does not hold for: the values are those of the record itself.
-- NULL for an index of another table.
declare
  staged jsonb;
  key record;
begin
  if to_regclass('pg_temp.stage_' || kind) is null then
    return null;
  end if;
  execute format('select to_jsonb(s) from pg_temp.%I s where s.ordinal = $1', 'stage_' || kind) into staged using ordinal;
  select string_agg(a.attname, ', ' order by k.place) as columns, string_agg(staged ->> a.attname::text, ', ' order by k.place) as given into key
  from pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid
  cross join lateral unnest(x.indkey::smallint[]) with ordinality k (number, place)
  join pg_catalog.pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.number
  where i.relname = index_name and x.indrelid = internal.table_of(kind);
  return case when key.columns is not null then format('Key (%s)=(%s) already exists.', key.columns, key.given) end;
end
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
  -- Row security is checked before foreign keys: report an unknown parent as unknown, not as forbidden.
  if state = '42501' then
    for parent in
      select p.* from internal.parents_of(internal.table_of(kind)) p join internal.record_columns(kind) c on c.name = p.field
      where p.field <> 'owner_id' order by p.field
    loop
      execute format('select s.%1$I from pg_temp.%2$I s where s.ordinal = $1 and s.%1$I is not null
                      and not exists (select 1 from %3$s k where k.id = s.%1$I)', parent.field, 'stage_' || kind, parent.parent)
      into unknown using ordinal;
      if unknown is not null then
        state := '23503';
        detail := format('Key (%s)=(%s)', parent.field, unknown);
        exit;
      end if;
    end loop;
  end if;
  if state = '23505' and coalesce(detail, '') = '' then
    detail := internal.taken_key(kind, ordinal, constraint_name);
  end if;
  if culprit is null then
    culprit := case
      when state in ('23503', '23505') then (select m[1] from regexp_match(detail, 'Key \(([^)]*)\)') m)
      when state = '23514' then (
        select a.attname from pg_catalog.pg_constraint c join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
        where c.conname = constraint_name and c.conrelid = internal.table_of(kind) and cardinality(c.conkey) = 1)
    end;
  end if;
  insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
  values (kind, ordinal, record_id, internal.refusal_code(state), culprit,
    internal.explain_refusal(kind, record_id, state, message, detail, culprit, constraint_name));
end
$$;

-- Records without their parent --------------------------------------------------------------------------------------------------

create function internal.refuse_orphans(kind text) returns void
language plpgsql security definer set search_path = ''
as $$
-- In one statement: halving finds one such record among thousands quickly, and thousands of them slowly. Where no foreign key does so row by
-- row, the parents are locked here, so that none is deleted before the records are written.
declare
  parent record;
  known uuid[];
begin
  for parent in
    select p.* from internal.parents_of(internal.table_of(kind)) p where p.field in ('rollout_id', 'agent_state_id', 'group_id') order by p.field
  loop
    execute format('select array(select p.id from %1$s p where p.id = any (array(select distinct s.%2$I from pg_temp.%3$I s)) order by p.id %4$s)',
      parent.parent, parent.field, 'stage_' || kind, case when not parent.is_checked_by_row then 'for key share' end) into known;
    execute format(
      'with orphans as (
         delete from pg_temp.%1$I s where s.%2$I is not null and not exists (select 1 from unnest($1) k (id) where k.id = s.%2$I)
         returning s.ordinal, s.id, s.%2$I as parent)
       insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
       select %3$L, o.ordinal, o.id::text, ''OM404'', %2$L, format(''%%s %%s: %%s %%s is unknown; create it first'', %3$L, o.id, %2$L, o.parent)
       from orphans o', 'stage_' || kind, parent.field, kind) using known;
  end loop;
end
$$;

revoke execute on function internal.refusal_code, internal.explain_refusal, internal.taken_key, internal.refuse,
  internal.refuse_orphans from public;
grant execute on function internal.refusal_code, internal.explain_refusal, internal.taken_key, internal.refuse, internal.refuse_orphans
  to authenticated, service_role;
