-- What the pages of training read: the frames of a run, and how jobs and orchestrators are doing.

-- Frames ------------------------------------------------------------------------------------------------------------------------

create unique index frames_of_a_run on public.media (training_run_id, ((metadata ->> 'step')::numeric), id)
  where kind = 'frame' and rollout_id is null and rewound_at is null and jsonb_typeof(metadata -> 'step') = 'number';

create function internal.steps_with_frames(run_id uuid, most integer) returns jsonb
language sql stable security definer set search_path = ''
as $$
  -- Row security would keep Postgres from the index.
  with steps as (
    select distinct (m.metadata ->> 'step')::numeric as step from public.media m
    where m.training_run_id = run_id and m.kind = 'frame' and m.rollout_id is null and m.rewound_at is null and jsonb_typeof(m.metadata -> 'step') = 'number'),
  numbered as (select s.step, row_number() over (order by s.step desc) - 1 as place, count(*) over () as total from steps s)
  select jsonb_build_object('total', coalesce(max(n.total), 0), 'timeline', (select r.timeline from public.training_runs r where r.id = run_id),
    'steps', coalesce(jsonb_agg(n.step order by n.step) filter (where n.place % ceil(n.total::numeric / most) = 0), '[]'))
  from numbered n
$$;

create function public.frame_steps(training_run_id uuid, max_steps integer default 20000) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.require_run(training_run_id);
  return internal.steps_with_frames(training_run_id, greatest(1, least(max_steps, 100000)));
end
$$;
comment on function public.frame_steps is 'The steps of a run at which there are frames, in order; of more than max_steps every n-th, and always the last. What a rewind hid is left out; `timeline` says how often the run was rewound. Returns {total, timeline, steps}.';

create function internal.frames_at(run_id uuid, steps numeric[]) returns jsonb
language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'step', s.step, 'bucket', f.bucket, 'path', f.path, 'width', f.width, 'height', f.height, 'created_at', f.created_at)
    order by s.step), '[]')
  from (select distinct unnest(steps) as step) s
  -- A run that was resumed from a checkpoint has recorded a step again: the last counts.
  cross join lateral (
    select m.* from public.media m
    where m.training_run_id = run_id and m.kind = 'frame' and m.rollout_id is null and m.rewound_at is null and jsonb_typeof(m.metadata -> 'step') = 'number' and (m.metadata ->> 'step')::numeric = s.step
    order by m.created_at desc, m.id desc limit 1) f
$$;

create function public.run_frames(training_run_id uuid, steps numeric[]) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.require_run(training_run_id);
  if cardinality(steps) > 500 then
    perform internal.fail('OM413', 'steps', 'steps: at most 500 at a time');
  end if;
  return internal.frames_at(training_run_id, steps);
end
$$;
comment on function public.run_frames is 'The frames of a run at these steps, where there are any. Returns [{id, step, bucket, path, width, height, created_at}].';

-- Jobs --------------------------------------------------------------------------------------------------------------------------

create function internal.held_by_orchestrator(of_id uuid) returns bigint
language sql stable security definer set search_path = ''
as $$ select count(*) from internal.orchestrator_leases l join public.jobs j on j.id = l.subject_id where l.orchestrator_id = of_id $$;

create function public.jobs_overview() returns jsonb
language sql stable set search_path = ''
as $$
  with waiting as (select j.status, j.backend from public.jobs j where j.status in ('pending', 'launching', 'queued', 'running')),
  listed as (
    select o.*, o.state = 'active' and o.heartbeat_at < now() - interval '1 minute' as is_silent from public.orchestrators o
    where o.heartbeat_at > now() - interval '1 day' order by o.heartbeat_at desc, o.id limit 100)
  select jsonb_build_object(
    'counts', (select coalesce(jsonb_object_agg(c.status, c.jobs), '{}') from (select w.status, count(*) as jobs from waiting w group by w.status) c),
    -- Jobs that wait and that no orchestrator could launch.
    'unserved', (select coalesce(jsonb_agg(jsonb_build_object('backend', u.backend, 'jobs', u.jobs) order by u.backend), '[]') from (
      select w.backend, count(*) as jobs from waiting w
      where w.status = 'pending' and not exists (select 1 from listed o where o.state = 'active' and not o.is_silent and w.backend = any (o.backends))
      group by w.backend) u),
    'orchestrators', (select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'name', o.name, 'host', o.host, 'pid', o.pid, 'version', o.version, 'backends', o.backends,
        'max_jobs', o.max_jobs, 'state', o.state, 'heartbeat_at', o.heartbeat_at, 'started_at', o.started_at, 'stopped_at', o.stopped_at, 'is_silent', o.is_silent,
        'held', internal.held_by_orchestrator(o.id)) order by o.state, o.is_silent, o.heartbeat_at desc, o.id), '[]') from listed o))
$$;
comment on function public.jobs_overview is 'How many jobs have which status, jobs that no orchestrator can launch, and the orchestrators of the last day. Returns {counts, unserved, orchestrators}.';

revoke execute on function internal.steps_with_frames, internal.frames_at, internal.held_by_orchestrator from public;
grant execute on function internal.steps_with_frames, internal.frames_at to anon, authenticated, service_role;
grant execute on function internal.held_by_orchestrator to authenticated, service_role;
revoke execute on function public.frame_steps, public.run_frames, public.jobs_overview from public, anon, authenticated, service_role;
grant execute on function public.frame_steps, public.run_frames to anon, authenticated, service_role;
grant execute on function public.jobs_overview to authenticated, service_role;

-- Environments ------------------------------------------------------------------------------------------------------------------

-- A picture that was made changes no environment.
select internal.watch('public.environment_versions', 'update');
