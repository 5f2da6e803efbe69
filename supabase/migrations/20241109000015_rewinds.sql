-- Going on with a run, and going back in it. A rewind to a step hides what came after it (steps, metrics, rollouts, checkpoints, evaluations)
-- and begins another timeline of the run; nothing is deleted. What was written on an earlier timeline and arrives late is hidden as it comes.

create table public.rewinds (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null references public.training_runs (id) on delete cascade,
  timeline integer not null check (timeline >= 1),
  to_step bigint not null check (to_step >= -1),
  cut_at timestamptz not null,
  created_at timestamptz not null default now(),
  unique (training_run_id, timeline)
);
comment on table public.rewinds is 'A rewind of a run: the timeline that began with it, and the last step that stayed. What knows no step is hidden if it came after cut_at, when the run first went beyond that step.';
select internal.protect('public.rewinds', 'false', 'internal.is_public_run(training_run_id)', writable => false);

alter table public.training_runs add column timeline integer not null default 0;
comment on column public.training_runs.timeline is 'How often the run was rewound.';
alter table public.training_steps add column timeline integer not null default 0, add column rewound_at timestamptz;
alter table public.model_checkpoints add column timeline integer not null default 0, add column rewound_at timestamptz;
alter table public.evaluations add column timeline integer not null default 0, add column rewound_at timestamptz;
alter table public.rollouts add column step bigint check (step >= 0), add column timeline integer not null default 0, add column rewound_at timestamptz;
alter table public.metric_chunks add column timeline integer not null default 0, add column visible_to bigint;
comment on column public.rollouts.step is 'At which step of training it was made: that of its group, or what its maker said.';
comment on column public.rollouts.rewound_at is 'When a rewind of the run hid it; null: it counts.';
comment on column public.metric_chunks.visible_to is 'The last step that rewinds of the run left of these points; null: all of them count.';

-- Of what counts, each number is there once; of what was hidden, as often as it was hidden.
alter table public.training_steps drop constraint training_steps_training_run_id_step_key;
create unique index training_steps_of_a_run on public.training_steps (training_run_id, step, id);
create unique index training_steps_that_count on public.training_steps (training_run_id, step) where rewound_at is null;
alter table public.model_checkpoints drop constraint model_checkpoints_training_run_id_checkpoint_number_key;
create unique index model_checkpoints_of_a_run on public.model_checkpoints (training_run_id, checkpoint_number, id);
create unique index model_checkpoints_that_count on public.model_checkpoints (training_run_id, checkpoint_number) where rewound_at is null;
create unique index rollouts_running on public.rollouts (training_run_id, id) where status = 'running';

drop view public.run_overview;
create view public.run_overview with (security_invoker = true) as
select r.*,
  case
    when r.status = 'running'
      and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
    then 'stalled' else r.status
  end as shown_status
from public.training_runs r;
comment on view public.run_overview is 'Training runs with the status to show: a run that says it runs but whose heartbeat stopped is stalled.';
revoke all on public.run_overview from public, anon, authenticated, service_role;
grant select on public.run_overview to anon, authenticated, service_role;

-- What is written ---------------------------------------------------------------------------------------------------------------

create or replace function internal.record_columns(kind text) returns table (name text, type text, default_value text)
language sql stable set search_path = ''
as $$
  -- What a record of a kind may say: every column that the database does not keep by itself.
  select a.attname::text, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid)
  from pg_catalog.pg_attribute a
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = format('public.%I', kind)::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    and a.attname not in ('updated_at', 'first_step', 'last_step', 'rewound_at', 'visible_to', 'measured')
    and not (kind = 'training_runs' and a.attname = 'timeline')
    and not (kind = 'rollout_groups' and a.attname in
      ('rollout_count', 'completed_count', 'success_count', 'reward_count', 'reward_sum', 'reward_squares'))
  order by a.attnum
$$;

-- Who does not say on which timeline writes on the present one.
select internal.define_merge('training_steps', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('model_checkpoints', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('evaluations', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('metric_chunks', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('rollouts',
  'left join public.rollout_groups g on g.id = s.group_id
   left join public.training_steps n on n.id = g.training_step_id
   left join public.evaluations e on e.id = g.evaluation_id
   left join public.training_runs p on p.id = coalesce(g.training_run_id, s.training_run_id)',
  '{"training_run_id": "case when g.id is null then s.training_run_id else g.training_run_id end",
    "task_id": "coalesce(s.task_id, g.task_id)",
    "task_description": "coalesce(s.task_description, g.task_description)",
    "environment": "coalesce(s.environment, e.environment, p.environment, case when p.id is not null then ''default'' end)",
    "source": "coalesce(s.source, case e.kind when ''eval'' then ''evaluation'' else e.kind end, ''training'')",
    "step": "coalesce(n.step, e.step, s.step)",
    "timeline": "coalesce(s.timeline, n.timeline, e.timeline, p.timeline, 0)"}');

create function internal.hide_latecomer() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.rewound_at := (
    select min(w.created_at) from public.rewinds w
    where w.training_run_id = new.training_run_id and w.timeline > new.timeline
      and (new.step > w.to_step or (new.step is null and new.created_at >= w.cut_at)));
  return new;
end
$$;
create trigger hide_latecomer before insert on public.training_steps for each row execute function internal.hide_latecomer();
create trigger hide_latecomer before insert on public.model_checkpoints for each row execute function internal.hide_latecomer();
create trigger hide_latecomer before insert on public.evaluations for each row execute function internal.hide_latecomer();
create trigger hide_latecomer before insert on public.rollouts for each row execute function internal.hide_latecomer();

create or replace function internal.bound_metric_chunk() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- A chunk only grows: one that is no longer is an earlier state of it, delivered again.
  if tg_op = 'UPDATE' and cardinality(new.steps) <= cardinality(old.steps) then
    old.visible_to := new.visible_to;
    return old;
  end if;
  -- Of a chunk without steps the constraints have more to say than that it has no first one.
  select coalesce(min(s), 0), coalesce(max(s), 0) into new.first_step, new.last_step from unnest(new.steps) s;
  new.visible_to := (
    select min(w.to_step) from public.rewinds w where w.training_run_id = new.training_run_id and w.timeline > new.timeline);
  new.updated_at := now();
  return new;
end
$$;

create or replace function internal.count_rollouts() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Once per statement: what it added counts up, what it took away counts down, as one change to each count. Rollouts that a rewind hid
-- count in their group, which is hidden with its step, and no longer in their run.
declare
  counted constant text := 'id, training_run_id, group_id, environment, status, total_reward, step_count, rewound_at is not null as hidden';
  changed constant text := format($sql$
    select c.*, internal.is_completed(c.status) as completed,
      -- Through text: the direct way keeps 15 digits and rounds the largest double up to none.
      case when internal.is_finite(c.total_reward) then c.total_reward::text::numeric end as reward
    from (%s) c $sql$, case tg_op
    when 'INSERT' then format('select 1 as sign, %s from new_rows', counted)
    when 'DELETE' then format('select -1 as sign, %s from old_rows', counted)
    else format('select 1 as sign, added.* from (select %1$s from new_rows except all select %1$s from old_rows) added
                 union all
                 select -1 as sign, removed.* from (select %1$s from old_rows except all select %1$s from new_rows) removed', counted)
  end);
  d record;
begin
  execute format($sql$
    insert into public.rollout_stats as s
      (training_run_id, environment, shard, rollout_count, completed_count, success_count, reward_sum, reward_count, step_sum, step_count)
    select c.training_run_id, c.environment, pg_backend_pid() %% 16, sum(c.sign),
      coalesce(sum(c.sign) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.status = 'success'), 0),
      coalesce(sum(c.sign * c.reward) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.completed and c.reward is not null), 0),
      coalesce(sum(c.sign * c.step_count) filter (where c.completed), 0),
      coalesce(sum(c.sign) filter (where c.completed and c.step_count is not null), 0)
    from (%s) c
    -- Of a run that is being deleted there is nothing left to count.
    where not c.hidden and (c.training_run_id is null or exists (select 1 from public.training_runs r where r.id = c.training_run_id))
    group by c.training_run_id, c.environment
    order by c.training_run_id, c.environment
    on conflict (training_run_id, environment, shard) do update set
      rollout_count = s.rollout_count + excluded.rollout_count,
      completed_count = s.completed_count + excluded.completed_count,
      success_count = s.success_count + excluded.success_count,
      reward_sum = s.reward_sum + excluded.reward_sum,
      reward_count = s.reward_count + excluded.reward_count,
      step_sum = s.step_sum + excluded.step_sum,
      step_count = s.step_count + excluded.step_count
  $sql$, changed);

  -- One after the other, in one order: so two writers of the same groups wait for each other, and never in a circle.
  for d in execute format($sql$
    select c.group_id, sum(c.sign) as rollout_count,
      coalesce(sum(c.sign) filter (where c.completed), 0) as completed_count,
      coalesce(sum(c.sign) filter (where c.status = 'success'), 0) as success_count,
      coalesce(sum(c.sign) filter (where c.reward is not null), 0) as reward_count,
      coalesce(sum(c.sign * c.reward), 0) as reward_sum,
      coalesce(sum(c.sign * c.reward * c.reward), 0) as reward_squares
    from (%s) c where c.group_id is not null
    group by c.group_id
    order by c.group_id
  $sql$, changed) loop
    update public.rollout_groups g set
      rollout_count = g.rollout_count + d.rollout_count,
      completed_count = g.completed_count + d.completed_count,
      success_count = g.success_count + d.success_count,
      reward_count = g.reward_count + d.reward_count,
      reward_sum = g.reward_sum + d.reward_sum,
      reward_squares = g.reward_squares + d.reward_squares
    where g.id = d.group_id;
  end loop;
  return null;
end
$$;

-- Going on, and going back ------------------------------------------------------------------------------------------------------

-- Completed is final, but for who resumes the run and says so.
drop trigger guard_status on public.training_runs;
create trigger guard_status before update on public.training_runs for each row
  when (old.status is distinct from new.status and current_setting('openmanus_rl.resuming', true) is distinct from new.id::text)
  execute function internal.guard_status();

create function internal.interrupt_all(run_id uuid) returns void
language plpgsql set search_path = ''
as $$
-- Whoever wrote these is gone; who is not says so by going on with them, which is allowed.
declare
  reason constant text := 'the run was resumed before this ended';
begin
  update public.rollouts r set status = 'interrupted', status_message = reason,
    step_count = coalesce(r.step_count, (select count(*) from public.agent_states a where a.rollout_id = r.id))
  where r.training_run_id = run_id and r.status = 'running';
  update public.training_steps s set status = 'interrupted', status_message = reason where s.training_run_id = run_id and s.status = 'running';
  update public.evaluations e set status = 'interrupted', status_message = reason where e.training_run_id = run_id and e.status = 'running';
end
$$;

create function internal.rewind_run(run_id uuid, kept_step bigint, rewind_id uuid) returns void
language plpgsql security definer set search_path = ''
as $$
-- The caller has seen to it that the run is its own to change.
declare
  next_timeline integer := (select r.timeline + 1 from public.training_runs r where r.id = run_id);
  went_beyond timestamptz;
begin
  select min(t.at) into went_beyond from (
    select min(s.created_at) as at from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null and s.step > kept_step
    union all
    select min(r.created_at) from public.rollouts r where r.training_run_id = run_id and r.rewound_at is null and r.step > kept_step
    union all
    select min(p.recorded_at) from public.metric_chunks c cross join lateral unnest(c.steps, c.times) p (step, recorded_at)
    where c.training_run_id = run_id and c.last_step > kept_step and p.step > kept_step and p.step <= coalesce(c.visible_to, p.step)) t;
  insert into public.rewinds (id, training_run_id, timeline, to_step, cut_at)
  values (rewind_id, run_id, next_timeline, kept_step, coalesce(went_beyond, now()));

  update public.training_steps s set rewound_at = now() where s.training_run_id = run_id and s.rewound_at is null and s.step > kept_step;
  update public.model_checkpoints c set rewound_at = now() where c.training_run_id = run_id and c.rewound_at is null
    and (c.step > kept_step or (c.step is null and c.created_at >= went_beyond));
  update public.evaluations e set rewound_at = now() where e.training_run_id = run_id and e.rewound_at is null
    and (e.step > kept_step or (e.step is null and e.created_at >= went_beyond));
  update public.rollouts r set rewound_at = now() where r.training_run_id = run_id and r.rewound_at is null
    and (r.step > kept_step or (r.step is null and r.created_at >= went_beyond));
  update public.metric_chunks c set visible_to = least(c.visible_to, kept_step) where c.training_run_id = run_id and c.last_step > kept_step;
  update public.training_runs r set timeline = next_timeline, progress = null,
    current_step = case when kept_step >= 0 then least(r.current_step, kept_step) end
  where r.id = run_id;
end
$$;

create function internal.last_step(run_id uuid, known_step bigint, known_metric_step bigint) returns bigint
language sql stable set search_path = '' set jit = off
as $$
  -- The last step that was completed; of a run that has no steps, the last one that a metric was logged for.
  select case when known_step is not null or exists (select 1 from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null)
    then greatest(known_step, (
      select max(s.step) from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null and s.status = 'completed'))
    else greatest(known_metric_step, (
      select max(least(c.last_step, c.visible_to)) from public.metric_chunks c
      where c.training_run_id = run_id and c.first_step <= coalesce(c.visible_to, c.first_step))) end
$$;

create function internal.has_beyond(run_id uuid, of_step bigint) returns boolean
language sql stable set search_path = ''
as $$
  select exists (select 1 from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null and s.step > of_step)
    or exists (select 1 from public.rollouts r where r.training_run_id = run_id and r.rewound_at is null and r.step > of_step)
    or exists (select 1 from public.model_checkpoints c where c.training_run_id = run_id and c.rewound_at is null and c.step > of_step)
    or exists (select 1 from public.evaluations e where e.training_run_id = run_id and e.rewound_at is null and e.step > of_step)
    or exists (select 1 from public.metric_chunks c where c.training_run_id = run_id and c.last_step > of_step and coalesce(c.visible_to > of_step, true))
$$;

create function public.resume_run(run_id uuid, change_id uuid, rewind_to_step bigint default null, rewind_to_last boolean default false,
  known_step bigint default null, known_metric_step bigint default null)
returns jsonb
language plpgsql set search_path = ''
as $$
declare
  is_repeated boolean := exists (select 1 from public.status_history h where h.entity_id = run_id and h.id = change_id)
    or exists (select 1 from public.rewinds w where w.id = change_id);
  last bigint;
begin
  if rewind_to_step < -1 then
    raise exception using errcode = 'OM400', column = 'rewind_to_step', message = format('rewind_to_step is %s: it must be a step, or -1 to begin anew', rewind_to_step);
  end if;
  perform internal.require_run(run_id);
  perform set_config('openmanus_rl.resuming', run_id::text, true);
  update public.training_runs r
  set status = 'running', status_message = null, finished_at = null, heartbeat_at = now(),
    started_at = coalesce(r.started_at, now()), status_change_id = case when r.status = 'running' then r.status_change_id else change_id end
  where r.id = run_id and not is_repeated;
  if not found and not is_repeated then
    raise exception using errcode = 'OM403', column = 'run_id', message = format('training run %s: not yours to change; ask its owner or an admin', run_id);
  end if;
  perform set_config('openmanus_rl.resuming', '', true);
  last := coalesce(internal.last_step(run_id, known_step, known_metric_step), -1);
  if rewind_to_last then
    rewind_to_step := last;
  end if;
  if not is_repeated then
    perform internal.interrupt_all(run_id);
    -- The processes of one job all say this: after the first there is nothing left to hide, unless it is still on its way.
    if rewind_to_step is not null and (last > rewind_to_step or internal.has_beyond(run_id, rewind_to_step) or rewind_to_step is distinct from (
        select w.to_step from public.rewinds w where w.training_run_id = run_id order by w.timeline desc limit 1)) then
      perform internal.rewind_run(run_id, rewind_to_step, change_id);
    end if;
  end if;
  return jsonb_build_object(
    'rewinds', (select coalesce(jsonb_agg(w.to_step order by w.timeline), '[]') from public.rewinds w where w.training_run_id = run_id),
    'next_step', coalesce(rewind_to_step, last) + 1,
    'rollouts', (select coalesce(sum(s.rollout_count), 0) from public.rollout_stats s where s.training_run_id = run_id));
end
$$;
comment on function public.resume_run is 'Go on with a run: whatever in it was running was cut short, and with rewind_to_step what came after that step is hidden. Says the next step, and to which steps the run was rewound so far.';

create function public.interrupt(entries jsonb, reason text default null) returns integer
language plpgsql set search_path = ''
as $$
-- Each entry, [id, status_change_id], is interrupted if it is still as that change left it: who went on with it meanwhile is not disturbed.
declare
  entity text;
  changed integer;
  total integer := 0;
begin
  foreach entity in array array['rollouts', 'evaluations', 'training_steps', 'training_runs'] loop
    continue when entries -> entity is null;
    execute format(
      'update public.%I t set status = ''interrupted'', status_message = $2 %s
       from jsonb_array_elements($1) e
       where t.id = (e ->> 0)::uuid and t.status = ''running'' and t.status_change_id = (e ->> 1)::uuid', entity,
      case entity when 'rollouts' then ', step_count = coalesce(t.step_count, (select count(*) from public.agent_states a where a.rollout_id = t.id))' else '' end)
    using entries -> entity, reason;
    get diagnostics changed = row_count;
    total := total + changed;
  end loop;
  return total;
end
$$;
comment on function public.interrupt is 'Mark what a process left running when it ended: {"rollouts": [[id, status_change_id], …], …}. Says how many it marked.';

-- What is read ------------------------------------------------------------------------------------------------------------------

create or replace view public.metrics with (security_invoker = true) as
select c.training_run_id, c.name, p.step, p.value, p.recorded_at, c.id as chunk_id
from public.metric_chunks c cross join lateral unnest(c.steps, c.values, c.times) as p (step, value, recorded_at)
where c.visible_to is null or p.step <= c.visible_to;

drop function public.metric_series(uuid, text[], integer, bigint, bigint);
create function public.metric_series(
  training_run_id uuid, names text[] default null, max_points integer default 1000,
  from_step bigint default null, to_step bigint default null, timeline integer default null)
returns jsonb
-- Postgres guesses that a chunk is long and would rather compile the query than run it.
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
-- At most max_points a metric: of each stretch of steps the lowest and the highest point, so that no spike is lost, and the first NaN.
-- One value, not rows: of rows, the API would cut off all but the first thousand.
begin
  perform internal.require_run(metric_series.training_run_id);
  if max_points < 2 then
    raise exception using errcode = 'OM400', message = format('max_points is %s: at least 2 are needed to keep extremes', max_points), column = 'max_points';
  end if;
  return (
  with points as materialized (
    select c.name, p.step, p.value, p.recorded_at
    from public.metric_chunks c
    -- As it is now, or as it was before the rewinds that came after a timeline.
    cross join lateral (select case when metric_series.timeline is null then c.visible_to else (
      select min(w.to_step) from public.rewinds w where w.training_run_id = c.training_run_id
        and w.timeline > c.timeline and w.timeline <= metric_series.timeline) end as visible_to) v
    cross join lateral unnest(c.steps, c.values, c.times) as p (step, value, recorded_at)
    where c.training_run_id = metric_series.training_run_id
      and (metric_series.timeline is null or c.timeline <= metric_series.timeline)
      and (v.visible_to is null or p.step <= v.visible_to)
      and (metric_series.names is null or c.name = any (metric_series.names))
      and (from_step is null or (c.last_step >= from_step and p.step >= from_step))
      and (to_step is null or (c.first_step <= to_step and p.step <= to_step))
  ), bounds as (
    -- Where there are NaN, a stretch has a third point to show.
    select p.name, min(p.step) as low, max(p.step) as high, count(*) as n,
      max_points / case when bool_or(p.value = 'NaN') and max_points > 2 then 3 else 2 end as stretches
    from points p group by p.name
  ), stretched as (
    -- From the first step on: far from zero a double cannot tell a step from the next.
    select p.*, case when b.n > max_points then least(b.stretches,
      width_bucket((p.step - b.low)::double precision, 0, (b.high - b.low)::double precision + 1, b.stretches)) end as stretch
    from points p join bounds b using (name)
  ), extremes as (
    select s.name, s.stretch, min(nullif(s.value, 'NaN')) as low, max(nullif(s.value, 'NaN')) as high
    from stretched s where s.stretch is not null group by s.name, s.stretch
  ), kept as (
    select s.name, s.step, s.value, s.recorded_at from stretched s where s.stretch is null
    union all
    select * from (
      select distinct on (s.name, s.stretch, s.value) s.name, s.step, s.value, s.recorded_at
      from stretched s join extremes e on e.name = s.name and e.stretch = s.stretch
        and (s.value = e.low or s.value = e.high or (s.value = 'NaN' and (max_points > 2 or e.low is null)))
      order by s.name, s.stretch, s.value, s.step) thinned
  )
  select coalesce(jsonb_object_agg(k.name, k.series), '{}')
  from (
    select k.name, jsonb_build_object(
      'steps', jsonb_agg(k.step order by k.step, k.recorded_at),
      'values', jsonb_agg(k.value order by k.step, k.recorded_at),
      'times', jsonb_agg(k.recorded_at order by k.step, k.recorded_at)) as series
    from kept k group by k.name) k);
end
$$;
comment on function public.metric_series is 'Metric series of a run, {name: {steps, values, times}}, down-sampled so that extremes survive; those of an earlier timeline as they were before it was rewound.';

create or replace function public.metric_names(training_run_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
-- From each name to the next by the index: a look-up a metric, however many points it has.
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
    select coalesce(jsonb_agg(f.name order by f.name), '[]') from found f where f.name is not null);
end
$$;

create or replace function public.run_metrics(training_run_id uuid default null, environment text default null, rollout_limit integer default 100)
returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  answer jsonb;
  recent jsonb;
begin
  if rollout_limit is null or rollout_limit not between 0 and 1000 then
    raise exception using errcode = 'OM400', column = 'rollout_limit', message = format('rollout_limit is %s: 0 to 1000 are possible', coalesce(rollout_limit::text, 'null'));
  end if;
  if training_run_id is not null then
    perform internal.require_run(training_run_id);
  end if;

  select jsonb_build_object(
    'total_rollouts', coalesce(sum(s.rollout_count), 0),
    'completed_rollouts', coalesce(sum(s.completed_count), 0),
    'successful_rollouts', coalesce(sum(s.success_count), 0),
    'success_rate', internal.to_double(sum(s.success_count) / nullif(sum(s.completed_count), 0)),
    'average_reward', internal.to_double(sum(s.reward_sum) / nullif(sum(s.reward_count), 0)),
    'average_steps', internal.to_double(sum(s.step_sum) / nullif(sum(s.step_count), 0)))
  into answer
  from public.rollout_stats s
  where (training_run_id is null or s.training_run_id = training_run_id)
    and (environment is null or s.environment = environment);

  -- Four queries, each on its own index: one query for all of them would read the whole table.
  if training_run_id is not null and environment is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.training_run_id = training_run_id
      and r.environment = environment and r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  elsif training_run_id is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.training_run_id = training_run_id
      and r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  elsif environment is not null then
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.environment = environment
      and r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  else
    recent := (select jsonb_agg(to_jsonb(r)) from (select * from public.rollouts r where r.rewound_at is null order by r.created_at desc, r.id limit rollout_limit) r);
  end if;
  return answer || jsonb_build_object('rollouts', coalesce(recent, '[]'));
end
$$;

revoke execute on function internal.hide_latecomer, internal.interrupt_all, internal.rewind_run, internal.last_step, internal.has_beyond from public;
grant execute on function internal.interrupt_all, internal.rewind_run, internal.last_step, internal.has_beyond to authenticated, service_role;
revoke execute on function public.metric_series, public.resume_run, public.interrupt from public, anon, authenticated, service_role;
grant execute on function public.metric_series to anon, authenticated, service_role;
grant execute on function public.resume_run, public.interrupt to authenticated, service_role;
