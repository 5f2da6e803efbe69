-- Going on with a run as a job of several processes: whatever they say together happens once. A launch of a job has one id, which every process
-- of it gives; the first that asks goes on with the run and rewinds it, under a lock on the run, and the others are told the same.
-- A rewind that was made while the database was away comes with the run's record, as the list of all its rewinds.

alter table public.training_runs add column rewinds bigint[];
comment on column public.training_runs.rewinds is 'The steps to which the run was rewound, the oldest first; a record that knows more of them than the database rewinds the run.';
update public.training_runs r set rewinds = (select array_agg(w.to_step order by w.timeline) from public.rewinds w where w.training_run_id = r.id)
where r.timeline > 0;
select internal.define_merge('training_runs');

do $$
begin
  -- The same view with one column more, behind the others, as whatever reads it wants.
  execute format($sql$
    create or replace view public.run_overview with (security_invoker = true) as
    select %s,
      case
        when r.status = 'running'
          and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
        then 'stalled' else r.status
      end as shown_status, r.rewinds
    from public.training_runs r $sql$, (
    select string_agg(format('r.%I', a.attname), ', ' order by a.attnum)
    from pg_catalog.pg_attribute a where a.attrelid = 'public.run_overview'::regclass and a.attnum > 0 and a.attname <> 'shown_status'));
end
$$;

create or replace function internal.rewind_run(run_id uuid, kept_step bigint, rewind_id uuid) returns void
language plpgsql security definer set search_path = ''
as $$
-- The caller has seen to it that the run is its own to change.
declare
  next_timeline integer;
  went_beyond timestamptz;
begin
  select r.timeline + 1 into next_timeline from public.training_runs r where r.id = run_id for update;
  select min(t.at) into went_beyond from (
    select min(s.created_at) as at from public.training_steps s
    where s.training_run_id = run_id and s.rewound_at is null and s.step > kept_step and s.timeline < next_timeline
    union all
    select min(r.created_at) from public.rollouts r
    where r.training_run_id = run_id and r.rewound_at is null and r.step > kept_step and r.timeline < next_timeline
    union all
    select min(p.recorded_at) from public.metric_chunks c cross join lateral unnest(c.steps, c.times) p (step, recorded_at)
    where c.training_run_id = run_id and c.last_step > kept_step and p.step > kept_step and p.step <= coalesce(c.visible_to, p.step)
      and c.timeline < next_timeline) t;
  insert into public.rewinds (id, training_run_id, timeline, to_step, cut_at)
  values (rewind_id, run_id, next_timeline, kept_step, coalesce(went_beyond, now()));

  -- What was already written on the timeline that begins here came from a process that was told of it first, and stays.
  update public.training_steps s set rewound_at = now()
  where s.training_run_id = run_id and s.rewound_at is null and s.step > kept_step and s.timeline < next_timeline;
  update public.model_checkpoints c set rewound_at = now() where c.training_run_id = run_id and c.rewound_at is null and c.timeline < next_timeline
    and (c.step > kept_step or (c.step is null and c.created_at >= went_beyond));
  update public.evaluations e set rewound_at = now() where e.training_run_id = run_id and e.rewound_at is null and e.timeline < next_timeline
    and (e.step > kept_step or (e.step is null and e.created_at >= went_beyond));
  update public.rollouts r set rewound_at = now() where r.training_run_id = run_id and r.rewound_at is null and r.timeline < next_timeline
    and (r.step > kept_step or (r.step is null and r.created_at >= went_beyond));
  update public.metric_chunks c set visible_to = least(c.visible_to, kept_step)
  where c.training_run_id = run_id and c.last_step > kept_step and c.timeline < next_timeline;
  update public.training_runs r set timeline = next_timeline, progress = null,
    rewinds = array(select w.to_step from public.rewinds w where w.training_run_id = run_id order by w.timeline),
    current_step = case when kept_step >= 0 then least(r.current_step, kept_step) end
  where r.id = run_id;
end
$$;

-- Rewinds that come with a record ------------------------------------------------------------------------------------------------

create function internal.apply_rewinds(run_id uuid, known bigint[]) returns void
language plpgsql set search_path = ''
as $$
declare
  timeline integer := (select r.timeline from public.training_runs r where r.id = run_id);
begin
  for place in timeline + 1 .. coalesce(cardinality(known), 0) loop
    perform internal.rewind_run(run_id, known[place], internal.new_id());
  end loop;
end
$$;

create function internal.keep_rewinds() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- Who knows fewer of them was not told yet.
  new.rewinds := old.rewinds;
  return new;
end
$$;
create trigger keep_rewinds before update of rewinds on public.training_runs for each row
  when (new.rewinds is distinct from old.rewinds and coalesce(cardinality(new.rewinds), 0) <= old.timeline) execute function internal.keep_rewinds();

create function internal.take_rewinds() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform internal.apply_rewinds(new.id, new.rewinds);
  return null;
end
$$;
create trigger take_rewinds after insert or update of rewinds on public.training_runs for each row
  when (cardinality(new.rewinds) > new.timeline) execute function internal.take_rewinds();

-- Going on -----------------------------------------------------------------------------------------------------------------------

create function internal.note_resumption(run_id uuid, change_id uuid) returns void
language sql security definer set search_path = ''
as $$
  -- The trigger notes changes of status; a run that ran is resumed without one, and must be known to be.
  -- Only of a change that the run's row holds: whoever put it there may write the run.
  insert into public.status_history (id, entity, entity_id, training_run_id, old_status, new_status, message, changed_by)
  select r.status_change_id, 'training_runs', r.id, r.id, r.status, r.status, 'resumed', auth.uid()
  from public.training_runs r where r.id = run_id and r.status_change_id = change_id
  on conflict do nothing
$$;

-- What the first process of a launch was told, and all others of it are told too, also those that come when the first has done a step.
-- Without a reference to the run: a launch may come here before the run's record does.
create table internal.launches (
  id uuid primary key,
  training_run_id uuid not null,
  next_step bigint not null,
  next_episode bigint not null,
  created_at timestamptz not null default now()
);

create function internal.note_launch(run_id uuid, launch_id uuid, step bigint, episode bigint) returns internal.launches
language plpgsql security definer set search_path = ''
as $$
declare
  told internal.launches;
begin
  delete from internal.launches l where l.created_at < now() - interval '30 days';
  insert into internal.launches (id, training_run_id, next_step, next_episode) values (launch_id, run_id, step, episode) on conflict do nothing;
  select * into told from internal.launches l where l.id = launch_id and l.training_run_id = run_id;
  return told;
end
$$;

create function internal.has_launched(run_id uuid, launch_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from internal.launches l where l.id = launch_id and l.training_run_id = run_id) $$;

create function internal.next_episode(run_id uuid) returns bigint
language sql stable set search_path = ''
as $$
  -- Numbers grow with time: the latest rollouts have the highest, without reading all of a long run.
  select greatest(
    (select coalesce(sum(s.rollout_count), 0) from public.rollout_stats s where s.training_run_id = run_id),
    (select max(e.episode_number) + 1 from (
      select r.episode_number from public.rollouts r where r.training_run_id = run_id order by r.created_at desc, r.id limit 10000) e))::bigint
$$;

drop function public.resume_run(uuid, uuid, bigint, boolean, bigint, bigint);
drop function internal.has_beyond(uuid, bigint);

create function public.resume_run(run_id uuid, change_id uuid, rewind_to_step bigint default null, rewind_to_last boolean default false,
  known_step bigint default null, known_metric_step bigint default null, known_rewinds jsonb default '[]', known_timeline integer default null,
  may_begin boolean default false)
returns jsonb
language plpgsql set search_path = ''
as $$
declare
  told bigint[] := array(select e.step::bigint from jsonb_array_elements_text(known_rewinds) with ordinality e (step, place) order by e.place);
  is_repeated boolean;
  timeline_now integer;
  last bigint;
  launch internal.launches;
begin
  if rewind_to_step < -1 then
    raise exception using errcode = 'OM400', column = 'rewind_to_step', message = format('rewind_to_step is %s: it must be a step, or -1 to begin anew', rewind_to_step);
  end if;
  if may_begin and not exists (select 1 from public.training_runs r where r.id = run_id) then
    if current_user = 'authenticated' and not internal.is_editor() then
      raise exception using errcode = 'OM403', column = 'run_id', message = format('training run %s: only editors begin runs', run_id);
    end if;
    launch := internal.note_launch(run_id, change_id, coalesce(known_step, known_metric_step, -1) + 1, 0);
    return jsonb_build_object('rewinds', '[]'::jsonb, 'next_step', launch.next_step, 'next_episode', launch.next_episode);
  end if;
  perform internal.require_run(run_id);
  -- Processes of a job that come together go through here one after the other.
  perform 1 from public.training_runs r where r.id = run_id for update;
  if not found then
    raise exception using errcode = 'OM403', column = 'run_id', message = format('training run %s: not yours to change; ask its owner or an admin', run_id);
  end if;
  is_repeated := internal.has_launched(run_id, change_id)
    or exists (select 1 from public.status_history h where h.entity_id = run_id and h.id = change_id);
  if not is_repeated then
    perform set_config('openmanus_rl.resuming', run_id::text, true);
    update public.training_runs r
    set status = 'running', status_message = null, finished_at = null, heartbeat_at = now(), started_at = coalesce(r.started_at, now()),
      status_change_id = change_id
    where r.id = run_id;
    perform set_config('openmanus_rl.resuming', '', true);
    perform internal.note_resumption(run_id, change_id);
    perform internal.interrupt_all(run_id);
    perform internal.apply_rewinds(run_id, told);
  end if;
  timeline_now := (select r.timeline from public.training_runs r where r.id = run_id);
  -- What the caller's machine knows of another timeline says nothing of this one.
  if cardinality(told) <> timeline_now then
    known_step := null;
    known_metric_step := null;
  end if;
  last := coalesce(internal.last_step(run_id, known_step, known_metric_step), -1);
  if not is_repeated and (rewind_to_last or rewind_to_step is not null) then
    if known_timeline is not null and timeline_now > greatest(known_timeline, cardinality(told)) then
      raise exception using errcode = 'OM409', column = 'rewind_to_step',
        message = format('training run %s: somebody else rewound it meanwhile; begin again, so that only one of you goes on with it', run_id);
    end if;
    perform internal.rewind_run(run_id, case when rewind_to_last then last else rewind_to_step end, change_id);
  end if;
  launch := internal.note_launch(run_id, change_id, coalesce((select w.to_step from public.rewinds w where w.id = change_id), last) + 1,
    internal.next_episode(run_id));
  return jsonb_build_object(
    'rewinds', (select coalesce(jsonb_agg(w.to_step order by w.timeline), '[]') from public.rewinds w where w.training_run_id = run_id),
    'next_step', launch.next_step, 'next_episode', launch.next_episode);
end
$$;
comment on function public.resume_run is 'Go on with a run, once for each change_id: whatever in it was running was cut short, and with rewind_to_step what came after that step is hidden. Says the next step, the next episode, and to which steps the run was rewound so far; the same to everyone who gives the same change_id. With may_begin the run need not be there yet.';

revoke execute on function internal.apply_rewinds, internal.keep_rewinds, internal.take_rewinds, internal.note_resumption, internal.note_launch,
  internal.has_launched, internal.next_episode from public;
grant execute on function internal.apply_rewinds, internal.note_resumption, internal.note_launch, internal.has_launched, internal.next_episode to authenticated, service_role;
revoke execute on function public.resume_run from public, anon, authenticated, service_role;
grant execute on function public.resume_run to authenticated, service_role;
