-- Loading: a batch as text that is split into rows, for recorders that know only the API. It is written by the rules of `ingest`; Postgres
-- splits text several times faster than it parses JSON.
--   A batch consists of groups that end in \x1d: the leases of its rollouts, then the records of each kind; its end is \x04. A group consists
--   of records that are separated by \x1e; a record of fields that are separated by \x1f; a field that is \x1c is null. The first record of a
--   group is a header: the kind, how many records follow, the rollouts or turns that they belong to and that are not turns of the batch, and
--   the names of the fields. Of the others, the first field names the fields that are null, as `cleared` in the staging tables.

create function internal.read_text(header text[]) returns text
language plpgsql stable set search_path = ''
as $$
-- Return a query of the records of a group, $1, by its header.
declare
  known text[] := array(select c.name from internal.record_columns(header[1]) c);
  names text[] := header[4:];
begin
  if cardinality(names) = 0 or not names <@ known or (select count(distinct n) < count(*) from unnest(names) n) then
    perform internal.fail('OM400', header[1], format('batch.%s: its fields must be some of %s, each once', header[1], array_to_string(known, ', ')));
  end if;
  return (
    select format(
      'select r.place - 2 as ordinal, f.v[1]::text[] as cleared, %s
       from string_to_table($1, E''\x1e'') with ordinality r (line, place)
       cross join lateral (select string_to_array(r.line, E''\x1f'', E''\x1c'') as v offset 0) f
       -- Not one that lacks fields: they must not be taken for null.
       where r.place > 1 and cardinality(f.v) = %s',
      string_agg(format('f.v[%s]::%s as %I', n.place + 1, c.type, c.name), ', ' order by n.place), cardinality(names) + 1)
    from unnest(names) with ordinality n (name, place) join internal.record_columns(header[1]) c using (name));
end
$$;

create function internal.check_count(header text[], count bigint) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if count is distinct from header[2]::bigint then
    perform internal.fail('OM400', header[1], format('batch.%s: %s records with all fields and their parents are expected, not %s', header[1], header[2], count));
  end if;
end
$$;

create function internal.stage_text(header text[], group_text text) returns void
language plpgsql set search_path = ''
as $$
declare
  staged bigint;
begin
  execute format('insert into pg_temp.%I (ordinal, cleared, %s) %s', 'stage_' || header[1],
    (select string_agg(quote_ident(n), ', ') from unnest(header[4:]) n), internal.read_text(header)) using group_text;
  get diagnostics staged = row_count;
  perform internal.check_count(header, staged);
end
$$;

-- New turns -----------------------------------------------------------------------------------------------------------------------
-- Turns and their parts never change, are most of the records, and are nearly always new: they are written to their tables without being
-- staged, with the run of their parent. If that fails, for example for a turn that was delivered before, the batch is staged and merged.

create function internal.parent_field(kind text) returns text
language sql immutable set search_path = ''
as $$
  -- Of kinds that are written without being staged.
  select case when kind in ('agent_states', 'rewards') then 'rollout_id' when kind in ('observations', 'generations', 'tool_calls') then 'agent_state_id' end
$$;

create function internal.insert_text(header text[], group_text text, ids uuid[], run_ids uuid[], out made_ids uuid[], out made_run_ids uuid[])
language plpgsql set search_path = ''
as $$
-- Insert the records of a group whose parents are `ids`, of the runs `run_ids`; of turns, return their ids and runs.
declare
  names text := (select string_agg(quote_ident(n), ', ') from unnest(header[4:]) n);
  made bigint;
  steps bigint;
begin
  execute format(
    'with added as (
       insert into %1$s as t (training_run_id, %2$s)
       select p.run_id, s.* from (select %2$s from (%3$s) s) s join unnest($2, $3) p (parent_id, run_id) on p.parent_id = s.%4$I
       returning t.id, t.training_run_id, %5$s as is_of_step)
     select count(*), count(*) filter (where a.is_of_step), %6$s from added a',
    internal.table_of(header[1]), names, internal.read_text(header), internal.parent_field(header[1]),
    -- Only the merge knows whether the step has one already.
    case when header[1] = 'rewards' then 't.reward_type = ''step'' and t.step_number is not null' else 'false' end,
    case when header[1] = 'agent_states' then 'array_agg(a.id), array_agg(a.training_run_id)' else 'null, null' end)
  into made, steps, made_ids, made_run_ids using group_text, ids, run_ids;
  perform internal.check_count(header, made - steps);
end
$$;

create function internal.load_new(headers text[], groups text[], kinds text[]) returns jsonb
language plpgsql set search_path = ''
as $$
-- Merge what can change, insert the rest, and return what was refused; raise an exception if some of the rest is not new.
declare
  merged text[] := array(select k from unnest(kinds) k where internal.parent_field(k) is null and k <> 'media');
  header text[];
  k text;
  rollout_ids uuid[] := '{}';
  rollout_run_ids uuid[];
  turn_ids uuid[] := '{}';
  turn_run_ids uuid[];
  made record;
  merging boolean[];
  refused jsonb := '[]';
begin
  for i in 1 .. cardinality(kinds) loop
    header := string_to_array(headers[i], E'\x1f');
    if internal.parent_field(kinds[i]) is null then
      perform internal.stage_text(header, groups[i]);
    elsif 'training_run_id' = any (header[4:]) then
      perform internal.fail('OM409', kinds[i], 'whether it is that of the parent is known to the merge');
    elsif internal.parent_field(kinds[i]) = 'rollout_id' then
      rollout_ids := rollout_ids || header[3]::uuid[];
    else
      turn_ids := turn_ids || header[3]::uuid[];
    end if;
  end loop;
  if merged <> '{}' then
    refused := internal.merge_stage(merged) -> 'refused';
  end if;
  -- One after the other: a part must not take a rollout for its turn.
  select array_agg(p.id), array_agg(p.training_run_id), array_agg(p.needs_merge) into rollout_ids, rollout_run_ids, merging
  from internal.lock_parents(rollout_ids, '{}') p;
  select array_agg(p.id), array_agg(p.training_run_id), merging || array_agg(p.needs_merge) into turn_ids, turn_run_ids, merging
  from internal.lock_parents('{}', turn_ids) p;
  if true = any (merging) then
    perform internal.fail('OM409', 'batch', 'which of its records are refused is known to the merge');
  end if;
  perform set_config('openmanus_rl.in_batch', 'on', true);
  for k in select r.kind from internal.record_kinds() r where internal.parent_field(r.kind) is not null and r.kind = any (kinds) order by r.place loop
    header := string_to_array(headers[array_position(kinds, k)], E'\x1f');
    if internal.parent_field(k) = 'rollout_id' then
      made := internal.insert_text(header, groups[array_position(kinds, k)], rollout_ids, rollout_run_ids);
      turn_ids := turn_ids || made.made_ids;
      turn_run_ids := turn_run_ids || made.made_run_ids;
    else
      perform internal.insert_text(header, groups[array_position(kinds, k)], turn_ids, turn_run_ids);
    end if;
  end loop;
  perform set_config('openmanus_rl.in_batch', '', true);
  if 'media' = any (kinds) then
    refused := internal.merge_stage(array['media']) -> 'refused';
  end if;
  perform internal.end_copy(array(select distinct r from unnest(rollout_run_ids || turn_run_ids) r));
  return refused;
end
$$;

-- Writing -------------------------------------------------------------------------------------------------------------------------

create function public.load_batch(text) returns jsonb
language plpgsql set search_path = '' set jit = off
as $$
declare
  groups text[] := string_to_array($1, E'\x1d');
  leases text := groups[1];
  headers text[];
  kinds text[];
  unknown text;
  received bigint;
  refused jsonb;
begin
  perform internal.refuse_dead_key();
  -- A body that was cut off must not be taken for a shorter one.
  if groups[cardinality(groups)] is distinct from E'\x04' or cardinality(groups) < 2 then
    perform internal.fail('OM400', 'batch', 'batch: it has no end; was it cut off on its way?');
  end if;
  groups := groups[2:cardinality(groups) - 1];
  headers := array(select split_part(g, E'\x1e', 1) from unnest(groups) with ordinality g (g, n) order by n);
  kinds := array(select split_part(h, E'\x1f', 1) from unnest(headers) with ordinality h (h, n) order by n);
  select k into unknown from unnest(kinds) k where k not in (select r.kind from internal.record_kinds() r) limit 1;
  if unknown is not null then
    perform internal.fail('OM400', 'batch', format('batch.%s: no such kind of record', unknown));
  elsif (select count(distinct k) < count(*) from unnest(kinds) k) then
    perform internal.fail('OM400', 'batch', 'batch: a kind of record has more than one group');
  end if;
  received := (select coalesce(sum(split_part(h, E'\x1f', 2)::bigint), 0) from unnest(headers) h);
  if leases = '' then
    begin
      perform internal.open_stage(array(select k from unnest(kinds) k where internal.parent_field(k) is null));
      refused := internal.load_new(headers, groups, kinds);
      return jsonb_build_object('received', received, 'refused', refused);
    exception when others then
      if internal.refusal_code(sqlstate) is null then
        raise;
      end if;
    end;
  end if;
  perform internal.open_stage(kinds);
  for i in 1 .. cardinality(kinds) loop
    perform internal.stage_text(string_to_array(headers[i], E'\x1f'), groups[i]);
  end loop;
  perform set_config('openmanus_rl.leases', leases, true);
  refused := internal.merge_stage(kinds) -> 'refused';
  perform set_config('openmanus_rl.leases', '', true);
  return jsonb_build_object('received', received, 'refused', refused);
end
$$;
comment on function public.load_batch is 'Write a batch of records, as ingest does, from the text that the recorder sends. Returns which records were refused and why.';

revoke execute on function internal.read_text, internal.check_count, internal.stage_text, internal.parent_field, internal.insert_text, internal.load_new from public;
grant execute on function internal.read_text, internal.check_count, internal.stage_text, internal.parent_field, internal.insert_text, internal.load_new
  to authenticated, service_role;
revoke execute on function public.load_batch from public, anon, authenticated, service_role;
grant execute on function public.load_batch to authenticated, service_role;
