-- The progress of a run, computed in one place: its last step, the number of steps done, and the fraction done. Some trainers count steps
-- from 0 and some from 1: a run whose first step is 0 has done one step more than the number of its last one.

create function internal.last_logged(run_id uuid, is_rewound boolean, out step bigint, out is_from_zero boolean)
language plpgsql stable set search_path = ''
as $$
-- The highest step of a metric, and whether that metric began at 0. Others may begin elsewhere, such as an evaluation before the first step.
declare
  chunk record;
begin
  select c.name, c.last_step as last, c.visible_to into chunk from public.metric_chunks c
  where c.training_run_id = run_id order by c.last_step desc, c.id limit 1;
  -- A rewind hid its last points, and the run has not reached that step again: search the visible chunks.
  if is_rewound and chunk.visible_to < chunk.last then
    select c.name, least(c.last_step, c.visible_to) as last into chunk from public.metric_chunks c
    where c.training_run_id = run_id and c.first_step <= coalesce(c.visible_to, c.first_step) order by 2 desc, c.id limit 1;
  end if;
  if chunk.last is null then
    -- Of an archived run, what was kept.
    select (a.figures ->> 'last_step')::bigint, (a.figures ->> 'is_from_zero')::boolean into step, is_from_zero
    from public.archives a where a.training_run_id = run_id;
    return;
  end if;
  step := chunk.last;
  is_from_zero := 0 = (
    select c.first_step from public.metric_chunks c where c.training_run_id = run_id and c.name = chunk.name order by c.first_step, c.id limit 1);
end
$$;

-- These take the columns that they need, not the run's row: its configuration may be large.
create function internal.current_step(run_id uuid, said_step bigint, is_rewound boolean) returns bigint
language plpgsql stable set search_path = ''
as $$
-- A run that records steps, or logs metrics by step, need not set current_step. Steps of metrics may be of another kind, such as
-- environment steps: they are used only without any other.
declare
  step bigint := greatest(said_step, (
    select s.step from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null order by s.step desc limit 1));
begin
  return coalesce(step, (select l.step from internal.last_logged(run_id, is_rewound) l));
end
$$;

create function internal.steps_done(run_id uuid, said_step bigint, is_rewound boolean) returns bigint
language plpgsql stable set search_path = ''
as $$
declare
  recorded record;
  logged record;
  done bigint;
begin
  select s.step, s.status = 'completed' as is_done into recorded
  from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null order by s.step desc limit 1;
  if recorded.step is not null then
    done := recorded.step - (not recorded.is_done)::integer + (exists (
      select 1 from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null and s.step = 0))::integer;
  end if;
  select * into logged from internal.last_logged(run_id, is_rewound);
  -- A metric of the current step means that the step is done.
  return greatest(said_step, done,
    case when logged.step = coalesce(greatest(said_step, recorded.step), logged.step) then logged.step + logged.is_from_zero::integer end);
end
$$;

create function internal.progress(run_id uuid, said_step bigint, is_rewound boolean, said_progress double precision, total_steps bigint)
returns double precision
language plpgsql stable set search_path = ''
as $$
declare
  done bigint;
begin
  if said_progress is not null or coalesce(total_steps, 0) = 0 then
    return said_progress;
  end if;
  done := internal.steps_done(run_id, said_step, is_rewound);
  -- least(null, 1) would be 1.
  return case when done is not null then least(done::double precision / total_steps, 1) end;
end
$$;

revoke execute on function internal.last_logged, internal.current_step, internal.steps_done, internal.progress from public;
grant execute on function internal.last_logged, internal.current_step, internal.steps_done, internal.progress
  to anon, authenticated, service_role;

-- Two columns of the table are computed where the run did not give them.
create view public.run_overview with (security_invoker = true) as
select r.id, r.name, r.run_name, r.algorithm, r.environment, r.environment_version, r.description, r.config, r.summary, r.metadata, r.tags,
  r.status, r.status_message, r.status_change_id,
  internal.current_step(r.id, r.current_step, r.timeline > 0) as current_step,
  r.total_steps,
  internal.progress(r.id, r.current_step, r.timeline > 0, r.progress, r.total_steps) as progress,
  r.timeline, r.rewinds, r.stop_requested_at, r.baseline_id, r.heartbeat_at, r.heartbeat_timeout_seconds, r.archive_status, r.visibility, r.owner_id,
  r.started_at, r.finished_at, r.created_at, r.updated_at,
  case
    when r.status = 'running'
      and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
    then 'stalled' else r.status
  end as shown_status,
  internal.steps_done(r.id, r.current_step, r.timeline > 0) as steps_done
from public.training_runs r;
comment on view public.run_overview is 'Training runs with the status to show (a running run whose heartbeat stopped is stalled) and their progress.';
comment on column public.run_overview.steps_done is 'How many steps are done; current_step is the number of the last one, which some trainers count from 0 and some from 1.';
revoke all on public.run_overview from public, anon, authenticated, service_role;
grant select on public.run_overview to anon, authenticated, service_role;
