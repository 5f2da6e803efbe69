-- What hangs on nothing is found at once. Halving finds one such record among thousands well, and thousands of them badly.

create function internal.refuse_orphans(kind text) returns void
language plpgsql set search_path = ''
as $$
declare
  parent record;
begin
  for parent in
    select a.attname as field, c.confrelid::regclass as known
    from pg_catalog.pg_constraint c join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
    where c.contype = 'f' and c.conrelid = format('public.%I', kind)::regclass and a.attname in ('rollout_id', 'agent_state_id', 'group_id')
    order by a.attnum
  loop
    execute format(
      'with orphans as (
         delete from pg_temp.%1$I s where s.%2$I is not null and not exists (select 1 from %3$s p where p.id = s.%2$I)
         returning s.ordinal, s.id, s.%2$I as parent)
       insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
       select %4$L, o.ordinal, o.id::text, ''OM404'', %2$L, format(''%%s %%s: %%s %%s is unknown; create it first'', %4$L, o.id, %2$L, o.parent)
       from orphans o', 'stage_' || kind, parent.field, parent.known, kind);
  end loop;
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
begin
  for k in select r.kind from internal.record_kinds() r where r.kind = any (kinds) order by r.place loop
    execute format('select min(ordinal), max(ordinal), $1 + count(*) from pg_temp.%I', 'stage_' || k) into low, high, received using received;
    continue when low is null;
    perform internal.refuse_orphans(k);
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

revoke execute on function internal.refuse_orphans from public;
grant execute on function internal.refuse_orphans to authenticated, service_role;
