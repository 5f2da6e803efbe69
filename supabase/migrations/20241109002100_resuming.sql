-- Resuming a run, possibly by several processes of one job. A launch of a job has one id that each of its processes gives: the first
-- resumes and rewinds the run, under a lock on it, and the others get the same result.

-- Launches ----------------------------------------------------------------------------------------------------------------------

-- The result for the first process of a launch, kept for the others, which may call after the first has done a step.
-- No foreign key: a launch may arrive before the run's record.
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

create function internal.forget_launches() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from internal.launches l using old_rows o where l.training_run_id = o.id;
  return null;
end
$$;

create trigger forget_launches after delete on public.training_runs referencing old table as old_rows
  for each statement execute function internal.forget_launches();

-- Where a run continues ---------------------------------------------------------------------------------------------------------

create function internal.last_step(run_id uuid, known_step bigint, known_metric_step bigint) returns bigint
language sql stable set search_path = '' set jit = off
as $$
  -- The last completed step, or without any steps the last step of a metric.
  select case when known_step is not null or exists (select 1 from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null)
    then greatest(known_step, (
      select max(s.step) from public.training_steps s where s.training_run_id = run_id and s.rewound_at is null and s.status = 'completed'))
    else greatest(known_metric_step, (
      select max(least(c.last_step, c.visible_to)) from public.metric_chunks c
      where c.training_run_id = run_id and c.first_step <= coalesce(c.visible_to, c.first_step))) end
$$;

create function internal.next_episode(run_id uuid) returns bigint
language sql stable set search_path = ''
as $$
  -- Episode numbers grow with time: the latest rollouts have the highest, so not all of a long run is read.
  select greatest(
    (select coalesce(sum(s.rollout_count), 0) from public.rollout_stats s where s.training_run_id = run_id),
    (select max(e.episode_number) + 1 from (
      select r.episode_number from public.rollouts r where r.training_run_id = run_id order by r.created_at desc, r.id limit 10000) e))::bigint
$$;

create function internal.is_empty_run(run_id uuid) returns boolean
language sql stable set search_path = ''
as $$
  select not exists (select 1 from public.rollouts r where r.training_run_id = run_id)
    and not exists (select 1 from public.training_steps s where s.training_run_id = run_id)
    and not exists (select 1 from public.metric_chunks c where c.training_run_id = run_id)
    and not exists (select 1 from public.model_checkpoints c where c.training_run_id = run_id)
    and not exists (select 1 from public.evaluations e where e.training_run_id = run_id)
    and not exists (select 1 from public.media m where m.training_run_id = run_id)
$$;

-- Resuming ----------------------------------------------------------------------------------------------------------------------

create function internal.interrupt_all(run_id uuid) returns void
language plpgsql set search_path = ''
as $$
-- Their writers are presumed to have ended; one that is still running may continue them. Not what is in the queue: it has workers of its own.
declare
  reason constant text := 'the run was resumed before this ended';
begin
  update public.rollouts r set status = 'interrupted', status_message = reason,
    step_count = coalesce(r.step_count, (select count(*) from public.agent_states a where a.rollout_id = r.id))
  where r.training_run_id = run_id and r.status = 'running' and r.request is null;
  update public.training_steps s set status = 'interrupted', status_message = reason where s.training_run_id = run_id and s.status = 'running';
  update public.evaluations e set status = 'interrupted', status_message = reason where e.training_run_id = run_id and e.status = 'running' and not e.is_queued;
end
$$;

create function internal.note_resumption(run_id uuid, change_id uuid) returns void
language sql security definer set search_path = ''
as $$
  -- The trigger records changes of status; a run that was running is resumed without one, and is recorded here.
  -- Only for the change id in the run's row: the session that set it may change the run.
  insert into public.status_history (id, entity, entity_id, training_run_id, old_status, new_status, message, changed_by)
  select r.status_change_id, 'training_runs', r.id, r.id, r.status, r.status, 'resumed', auth.uid()
  from public.training_runs r where r.id = run_id and r.status_change_id = change_id
  on conflict do nothing
$$;

create function internal.hold_writers() returns trigger
language plpgsql set search_path = ''
as $$
-- Resuming changes rows that other sessions write: wait until they finish, and let new ones wait at their start, where they hold no locks.
begin
  perform 1 from public.training_runs r where r.id = current_setting('openmanus_rl.resuming', true)::uuid for update;
  return null;
end
$$;

create trigger hold_writers before update on public.training_runs for each statement
  when (current_setting('openmanus_rl.resuming', true) <> '') execute function internal.hold_writers();

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
  is_untouched boolean;
begin
  if rewind_to_step < -1 then
    perform internal.fail('OM400', 'rewind_to_step', format('rewind_to_step is %s: it must be a step, or -1 to begin anew', rewind_to_step));
  end if;
  if may_begin and not exists (select 1 from public.training_runs r where r.id = run_id) then
    if current_user = 'authenticated' and not internal.is_editor() then
      perform internal.fail('OM403', 'run_id', format('training run %s: only editors begin runs', run_id));
    end if;
    launch := internal.note_launch(run_id, change_id, coalesce(known_step, known_metric_step, -1) + 1, 0);
    return jsonb_build_object('rewinds', '[]'::jsonb, 'next_step', launch.next_step, 'next_episode', launch.next_episode);
  end if;
  perform internal.require_run(run_id);
  -- Simultaneous processes of a job continue here one at a time.
  select r.started_at is null into is_untouched from public.training_runs r where r.id = run_id for update;
  if not found then
    perform internal.fail('OM403', 'run_id', format('training run %s: not yours to change; ask its owner or an admin', run_id));
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
  -- Steps that the caller knows of another timeline do not apply to this one.
  if cardinality(told) <> timeline_now then
    known_step := null;
    known_metric_step := null;
  end if;
  last := coalesce(internal.last_step(run_id, known_step, known_metric_step), -1);
  if not is_repeated and (rewind_to_last or rewind_to_step is not null) then
    if known_timeline is not null and timeline_now > greatest(known_timeline, cardinality(told)) then
      perform internal.fail('OM409', 'rewind_to_step',
        format('training run %s: another process rewound it at the same time; start again, and let only one process rewind it', run_id));
    end if;
    -- To begin anew what has never begun hides nothing; of two processes that begin it at once, the second hides what the first records.
    if not (is_untouched and rewind_to_step = -1 and coalesce(known_step, known_metric_step) is null and internal.is_empty_run(run_id)) then
      perform internal.rewind_run(run_id, case when rewind_to_last then last else rewind_to_step end, change_id);
    end if;
  end if;
  launch := internal.note_launch(run_id, change_id, coalesce((select w.to_step from public.rewinds w where w.id = change_id), last) + 1,
    internal.next_episode(run_id));
  return jsonb_build_object(
    'rewinds', (select coalesce(jsonb_agg(w.to_step order by w.timeline), '[]') from public.rewinds w where w.training_run_id = run_id),
    'next_step', launch.next_step, 'next_episode', launch.next_episode);
end
$$;
comment on function public.resume_run is 'Resume a run, once for each change_id: records that are still running become interrupted, and with rewind_to_step records after that step are hidden (-1 changes nothing in a run that has not begun). Returns the next step, the next episode, and the steps to which the run was rewound so far; the same for all calls with the same change_id. With may_begin the run need not exist yet.';

-- Ending ------------------------------------------------------------------------------------------------------------------------

create function public.interrupt(entries jsonb, reason text default null) returns integer
language plpgsql set search_path = ''
as $$
-- Each entry, [id, status_change_id], is interrupted only if that is still its last change: it may have been continued meanwhile.
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
       where t.id = (e ->> 0)::uuid and t.status = ''running'' and t.status_change_id = (e ->> 1)::uuid %s', entity,
      case entity when 'rollouts' then ', step_count = coalesce(t.step_count, (select count(*) from public.agent_states a where a.rollout_id = t.id))' else '' end,
      -- A dead worker's rollouts go back to the queue when its lease expires.
      case entity when 'rollouts' then 'and t.request is null' when 'evaluations' then 'and not t.is_queued' else '' end)
    using entries -> entity, reason;
    get diagnostics changed = row_count;
    total := total + changed;
  end loop;
  return total;
end
$$;
comment on function public.interrupt is 'Mark what an ended process left running as interrupted: {"rollouts": [[id, status_change_id], …], …}. Returns how many rows it marked.';

revoke execute on function internal.forget_launches, internal.note_launch, internal.has_launched, internal.last_step, internal.next_episode, internal.is_empty_run,
  internal.interrupt_all, internal.note_resumption, internal.hold_writers from public;
grant execute on function internal.note_launch, internal.has_launched, internal.last_step, internal.next_episode, internal.is_empty_run,
  internal.interrupt_all, internal.note_resumption to authenticated, service_role;
revoke execute on function public.resume_run, public.interrupt from public, anon, authenticated, service_role;
grant execute on function public.resume_run, public.interrupt to authenticated, service_role;
