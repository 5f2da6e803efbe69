-- Metric series. One row per point is too slow for training: points are stored in chunks, arrays of one metric of one run, and the view
-- `metrics` shows them one by one. Metrics that are logged together have the same steps and times, which are stored once, as an axis.

create table public.metric_axes (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null references public.training_runs (id) on delete cascade,
  steps bigint[] not null,
  times timestamptz[] not null,
  first_step bigint not null,
  last_step bigint not null,
  points integer not null,
  constraint metric_axes_arrays_match check (cardinality(steps) > 0 and cardinality(steps) = cardinality(times)),
  constraint metric_axes_steps_known check (array_position(steps, null) is null),
  constraint metric_axes_steps_not_negative check (first_step >= 0)
);
comment on table public.metric_axes is 'Steps and times of metrics that were logged together. The writer updates the row, by id, as it grows.';
create unique index metric_axes_of_a_run on public.metric_axes (training_run_id, id);

create function internal.bound_metric_axis() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- An axis only grows: one that is not longer is an earlier state of it, delivered again.
  if tg_op = 'UPDATE' and cardinality(new.steps) <= old.points then
    return old;
  end if;
  -- For an axis without steps, let the constraints report the reason.
  select coalesce(min(s), 0), coalesce(max(s), 0), count(*) into new.first_step, new.last_step, new.points from unnest(new.steps) s;
  perform internal.refuse_if_archived('metric_axes', new.id, 'training_run_id', new.training_run_id);
  return new;
end
$$;

-- Not when rows are restored from an archive, exactly as they were.
create trigger bound_metric_axis before insert or update on public.metric_axes for each row
  when (current_setting('openmanus_rl.archiving', true) is distinct from 'on') execute function internal.bound_metric_axis();

create table public.metric_chunks (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null references public.training_runs (id) on delete cascade,
  name text not null check (length(name) between 1 and 500),
  axis_id uuid,
  steps bigint[],
  values double precision[] not null,
  times timestamptz[],
  first_step bigint not null,
  last_step bigint not null,
  timeline integer not null default 0,
  visible_to bigint,
  updated_at timestamptz not null default now(),
  constraint metric_chunks_arrays_match check (
    cardinality(values) > 0 and cardinality(steps) = cardinality(values) and cardinality(steps) = cardinality(times)),
  constraint metric_chunks_steps_here_or_in_an_axis check (num_nonnulls(axis_id, steps) = 1 and num_nonnulls(axis_id, times) = 1),
  constraint metric_chunks_steps_and_values_known check (array_position(steps, null) is null and array_position(values, null) is null),
  constraint metric_chunks_steps_not_negative check (first_step >= 0)
);
comment on table public.metric_chunks is 'Points of one metric of one run. The writer updates its open chunk, by id, as it grows.';
comment on column public.metric_chunks.axis_id is 'The row of metric_axes with the steps and times of these values; null if they are in this row.';
comment on column public.metric_chunks.visible_to is 'The last step of these points that rewinds of the run left visible; null if all are visible.';
create unique index metric_chunks_of_a_metric on public.metric_chunks (training_run_id, name, first_step, id);
-- For the last point of a run.
create unique index metric_chunks_by_last_step on public.metric_chunks (training_run_id, last_step desc, id) include (first_step, visible_to);

create function internal.bound_metric_chunk() returns trigger
language plpgsql set search_path = ''
as $$
declare
  axis record;
begin
  -- A chunk only grows: one that is not longer is an earlier state of it, delivered again.
  if tg_op = 'UPDATE' and cardinality(new.values) <= cardinality(old.values) then
    old.visible_to := new.visible_to;
    return old;
  end if;
  if new.axis_id is null and num_nulls(new.steps, new.times) > 0 then
    raise not_null_violation using message = 'without an axis, steps and times are required', column = case when new.steps is null then 'steps' else 'times' end;
  elsif new.axis_id is null then
    -- For a chunk without points, let the constraints report the reason.
    select coalesce(min(s), 0), coalesce(max(s), 0) into new.first_step, new.last_step from unnest(new.steps) s;
  else
    select a.first_step, a.last_step, a.points into axis from public.metric_axes a
    where a.id = new.axis_id and a.training_run_id = new.training_run_id;
    if not found then
      raise foreign_key_violation using message = 'there is no such axis of the run', detail = format('Key (axis_id)=(%s)', new.axis_id);
    elsif axis.points < cardinality(new.values) then
      raise check_violation using message = format('axis %s has fewer steps', new.axis_id), constraint = 'metric_chunks_arrays_match';
    elsif axis.points > cardinality(new.values) then
      select coalesce(min(s), 0), coalesce(max(s), 0) into axis.first_step, axis.last_step
      from public.metric_axes a cross join unnest(a.steps[:cardinality(new.values)]) s where a.id = new.axis_id;
    end if;
    new.first_step := axis.first_step;
    new.last_step := axis.last_step;
  end if;
  perform internal.follow_run(new.training_run_id), internal.refuse_if_archived('metric_chunks', new.id, 'training_run_id', new.training_run_id);
  new.visible_to := (
    select min(w.to_step) from public.rewinds w where w.training_run_id = new.training_run_id and w.timeline > new.timeline);
  new.updated_at := now();
  return new;
end
$$;

-- Not when rows are restored from an archive, exactly as they were.
create trigger bound_metric_chunk before insert or update on public.metric_chunks for each row
  when (current_setting('openmanus_rl.archiving', true) is distinct from 'on') execute function internal.bound_metric_chunk();

select internal.compress('public.metric_axes', 'steps', 'times');
select internal.compress('public.metric_chunks', 'steps', 'values', 'times');
do $$
begin
  -- Without lz4, compression took more than half of the time of delivering metrics.
  if not 'lz4' = any ((select enumvals from pg_catalog.pg_settings where name = 'default_toast_compression')::text[]) then
    alter table public.metric_axes alter column steps set storage external, alter column times set storage external;
    alter table public.metric_chunks
      alter column steps set storage external, alter column values set storage external, alter column times set storage external;
  end if;
end
$$;

select internal.pin('public.metric_axes', 'training_run_id');
select internal.protect('public.metric_axes', 'internal.owns_run(training_run_id)', 'internal.is_public_run(training_run_id)');
-- An axis is deleted with its run only: other chunks may still reference it.
revoke delete on public.metric_axes from authenticated;
select internal.pin('public.metric_chunks', 'training_run_id', 'axis_id');
select internal.protect('public.metric_chunks', 'internal.owns_run(training_run_id)', 'internal.is_public_run(training_run_id)');

-- Reading -----------------------------------------------------------------------------------------------------------------------

create view public.metrics with (security_invoker = true) as
select c.training_run_id, c.name, p.step, p.value, p.recorded_at, c.id as chunk_id
from public.metric_chunks c
left join public.metric_axes a on a.id = c.axis_id
cross join lateral unnest(coalesce(a.steps, c.steps), c.values, coalesce(a.times, c.times)) as p (step, value, recorded_at)
-- An axis may be longer than a chunk whose next points have not been written yet.
where p.value is not null and (c.visible_to is null or p.step <= c.visible_to);
comment on view public.metrics is 'Metric points, one per row. Filters on run and name use the index.';
revoke all on public.metrics from public, anon, authenticated, service_role;
grant select on public.metrics to anon, authenticated, service_role;

create function internal.series_of_run(run_id uuid, names text[], max_points integer, from_step bigint, to_step bigint, on_timeline integer)
returns json
-- Without jit: Postgres overestimates the length of chunks, and compiling takes longer than the query.
language plpgsql stable security definer set search_path = '' set jit = off
as $$
#variable_conflict use_column
-- The caller has checked that the user may read the run. Row security would check it again for each chunk.
-- At most max_points per metric: of each range of steps the lowest and the highest point, so that no spike is lost, and the first NaN.
begin
  return (
  with chunks as materialized (
    select c.name, coalesce(a.steps, c.steps) as steps, c.values, coalesce(a.times, c.times) as times,
      coalesce(from_step, 0) as from_step, least(to_step, v.visible_to, 9223372036854775807) as to_step,
      greatest(c.first_step, from_step) as first_step, least(c.last_step, to_step, v.visible_to) as last_step
    from public.metric_chunks c
    -- As it is now, or as it was on the given timeline, before later rewinds.
    cross join lateral (select case when on_timeline is null then c.visible_to else (
      select min(w.to_step) from public.rewinds w where w.training_run_id = c.training_run_id
        and w.timeline > c.timeline and w.timeline <= on_timeline) end as visible_to) v
    left join public.metric_axes a on a.id = c.axis_id
    where c.training_run_id = run_id
      and (on_timeline is null or c.timeline <= on_timeline)
      and (series_of_run.names is null or c.name = any (series_of_run.names))
      and (from_step is null or c.last_step >= from_step)
      and c.first_step <= least(to_step, v.visible_to, 9223372036854775807)
  ), series as (
    -- With NaN, a range has a third point.
    select c.*, dense_rank() over (order by c.name collate "C") as number, min(c.first_step) over one as low,
      (max(c.last_step) over one - min(c.first_step) over one)::double precision + 1 as width,
      max_points / case when max_points > 2 and bool_or('NaN' = any (c.values)) over one then 3 else 2 end as stretches
    from chunks c window one as (partition by c.name collate "C")
  ), points as materialized (
    -- Numbers instead of names: they are compared for each point. Relative to the first step: a double cannot represent every large step.
    select p.name, p.number, p.number * 2147483648 + least(p.stretches,
      width_bucket((p.step - p.low)::double precision, 0, p.width, p.stretches)) as stretch, p.step, p.value, p.recorded_at
    from (select s.*, unnest(s.steps) as step, unnest(s.values) as value, unnest(s.times) as recorded_at from series s) p
    -- An axis may be longer than a chunk whose next points have not been written yet.
    where p.value is not null and p.step between p.from_step and p.to_step
  ), long as materialized (
    select t.* from (
      select p.number, p.stretch, min(nullif(p.value, 'NaN')) as low, max(nullif(p.value, 'NaN')) as high,
        sum(count(*)) over (partition by p.number) as points
      from points p group by p.number, p.stretch) t
    where t.points > max_points
  ), kept as (
    select p.name, p.step, p.value, p.recorded_at from points p where p.number not in (select t.number from long t)
    union all
    select t.name, t.step, t.value, t.recorded_at from (
      select distinct on (p.stretch, p.value) p.* from points p
      -- Not a join: Postgres does not know how many points arrays hold, and would compare each with each.
      where ((p.stretch, p.value) in (
        select t.stretch, t.low from long t where t.low is not null
        union all select t.stretch, t.high from long t where t.high is not null
        union all select t.stretch, 'NaN' from long t where max_points > 2 or t.low is null)) is true
      order by p.stretch, p.value, p.step) t
  )
  select coalesce(json_object_agg(k.name, k.series order by k.name), '{}')
  from (
    select k.name, json_build_object(
      'steps', json_agg(k.step order by k.step, k.recorded_at),
      'values', json_agg(k.value order by k.step, k.recorded_at),
      'times', json_agg(k.recorded_at order by k.step, k.recorded_at)) as series
    from kept k group by k.name) k);
end
$$;

create function public.metric_series(
  training_run_id uuid, names text[] default null, max_points integer default 1000,
  from_step bigint default null, to_step bigint default null, timeline integer default null)
returns json
language plpgsql stable set search_path = ''
as $$
-- Returns one value: the API truncates rows after the first thousand. As json, not jsonb, which would read each number once more.
begin
  perform internal.require_run(training_run_id);
  if max_points < 2 then
    perform internal.fail('OM400', 'max_points', format('max_points is %s: at least 2 are needed to keep extremes', max_points));
  end if;
  return internal.series_of_run(training_run_id, names, max_points, from_step, to_step, timeline);
end
$$;
comment on function public.metric_series is 'Metric series of a run, {name: {steps, values, times}}, downsampled without losing extremes; for an earlier timeline, as they were before it was rewound.';

create function public.metric_names(training_run_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
-- A loose index scan: one look-up per metric, however many points it has.
begin
  perform internal.require_run(metric_names.training_run_id);
  return (
    with recursive found as (
      (select c.name from public.metric_chunks c where c.training_run_id = metric_names.training_run_id
         and (c.visible_to is null or c.first_step <= c.visible_to) order by c.name limit 1)
      union all
      select (select c.name from public.metric_chunks c where c.training_run_id = metric_names.training_run_id and c.name > f.name
                and (c.visible_to is null or c.first_step <= c.visible_to) order by c.name limit 1)
      from found f where f.name is not null)
    -- Of an archived run, the names that were kept.
    select coalesce(jsonb_agg(f.name order by f.name), (
      select jsonb_agg(k order by k) from public.archives a cross join lateral jsonb_object_keys(a.figures -> 'metrics') k
      where a.training_run_id = metric_names.training_run_id), '[]')
    from found f where f.name is not null);
end
$$;
comment on function public.metric_names is 'The names of a run''s metrics.';

revoke execute on function internal.bound_metric_axis, internal.bound_metric_chunk, internal.series_of_run from public;
grant execute on function internal.series_of_run to anon, authenticated, service_role;
revoke execute on function public.metric_series, public.metric_names from public, anon, authenticated, service_role;
grant execute on function public.metric_series, public.metric_names to anon, authenticated, service_role;
