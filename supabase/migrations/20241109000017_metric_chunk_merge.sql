-- Chunks are wide, and only ever grow: one statement merges them, where the general way would rewrite each in its stage.

create or replace function internal.merge_metric_chunks(low integer, high integer) returns void
language plpgsql set search_path = ''
as $$
begin
  perform internal.refuse_move((
    select 'training_run_id' from pg_temp.stage_metric_chunks s join public.metric_chunks t on t.id = s.id
    where s.ordinal between low and high and s.training_run_id <> t.training_run_id limit 1));

  insert into public.metric_chunks as t (id, training_run_id, timeline, name, steps, values, times)
  select s.id, coalesce(s.training_run_id, k.training_run_id), coalesce(s.timeline, k.timeline, p.timeline, 0), coalesce(s.name, k.name),
    s.steps, s.values, s.times
  from pg_temp.stage_metric_chunks s
  left join public.metric_chunks k on k.id = s.id
  left join public.training_runs p on p.id = s.training_run_id
  where s.ordinal between low and high
    -- Of one that is there several times, the longest: the others are earlier states of it.
    and not exists (select 1 from pg_temp.stage_metric_chunks o where o.id = s.id and o.ordinal between low and high and o.ordinal <> s.ordinal
      and (cardinality(o.steps), o.ordinal) > (cardinality(s.steps), s.ordinal))
  order by s.id
  on conflict (id) do update set steps = excluded.steps, values = excluded.values, times = excluded.times
  where cardinality(excluded.steps) > cardinality(t.steps);
end
$$;

do $$
begin
  -- Without lz4, compressing steps, values and times took more than half of the time in which metrics are delivered.
  if not 'lz4' = any ((select enumvals from pg_catalog.pg_settings where name = 'default_toast_compression')::text[]) then
    alter table public.metric_chunks
      alter column steps set storage external, alter column values set storage external, alter column times set storage external;
  end if;
end
$$;
