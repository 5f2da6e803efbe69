-- Rewinds. A rewind to a step hides everything of the run after that step (steps, metrics, rollouts, checkpoints, evaluations, frames) and begins
-- another timeline; nothing is deleted. Records of an earlier timeline that arrive later are hidden on arrival.

create table public.rewinds (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null references public.training_runs (id) on delete cascade,
  timeline integer not null check (timeline >= 1),
  to_step bigint not null check (to_step >= -1),
  cut_at timestamptz not null,
  created_at timestamptz not null default now(),
  unique (training_run_id, timeline)
);
comment on table public.rewinds is 'A rewind of a run: the timeline that began with it, and the last visible step before it. Records without a step are hidden if they are later than cut_at, when the run first went beyond that step.';
select internal.protect('public.rewinds', 'false', 'internal.is_public_run(training_run_id)', writable => false);

-- Records that arrive after a rewind --------------------------------------------------------------------------------------------

create function internal.follow_run(run_id uuid) returns void
language plpgsql set search_path = ''
as $$
-- Block rewinds of the run until this transaction ends: they could not see its rows. merge_stage does so for all runs of a batch.
begin
  if current_setting('openmanus_rl.in_batch', true) is distinct from 'on' then
    perform 1 from public.training_runs r where r.id = run_id for key share;
  end if;
end
$$;

create function internal.hide_latecomer() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- Checked here too: in a batch, the call alone would take longer than the rest.
  if current_setting('openmanus_rl.in_batch', true) is distinct from 'on' then
    perform internal.follow_run(new.training_run_id);
  end if;
  new.rewound_at := (
    select min(w.created_at) from public.rewinds w
    where w.training_run_id = new.training_run_id and w.timeline > new.timeline
      and (new.step > w.to_step or (new.step is null and new.created_at >= w.cut_at)));
  return new;
end
$$;

create trigger hide_latecomer before insert on public.training_steps for each row execute function internal.hide_latecomer();
create trigger hide_latecomer before insert on public.model_checkpoints for each row execute function internal.hide_latecomer();
create trigger hide_latecomer before insert on public.evaluations for each row when (new.training_run_id is not null) execute function internal.hide_latecomer();
create trigger hide_latecomer before insert on public.rollouts for each row when (new.training_run_id is not null) execute function internal.hide_latecomer();

create function internal.hide_late_frame() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform internal.follow_run(new.training_run_id);
  new.rewound_at := (
    select min(w.created_at) from public.rewinds w
    where w.training_run_id = new.training_run_id and w.timeline > new.timeline and (new.metadata ->> 'step')::numeric > w.to_step);
  return new;
end
$$;

create trigger hide_late_frame before insert on public.media for each row
  when (new.training_run_id is not null and new.kind = 'frame' and new.rollout_id is null and jsonb_typeof(new.metadata -> 'step') = 'number') execute function internal.hide_late_frame();

-- Rewinding ---------------------------------------------------------------------------------------------------------------------

create function internal.rewind_run(run_id uuid, kept_step bigint, rewind_id uuid) returns void
language plpgsql security definer set search_path = ''
as $$
-- The caller has checked that the user may change the run.
declare
  next_timeline integer;
  went_beyond timestamptz;
  hidden uuid[];
begin
  select r.timeline + 1 into next_timeline from public.training_runs r where r.id = run_id for update;
  select min(t.at) into went_beyond from (
    select min(s.created_at) as at from public.training_steps s
    where s.training_run_id = run_id and s.rewound_at is null and s.step > kept_step and s.timeline < next_timeline
    union all
    select min(r.created_at) from public.rollouts r
    where r.training_run_id = run_id and r.rewound_at is null and r.step > kept_step and r.timeline < next_timeline
    union all
    select min(p.recorded_at)
    from public.metric_chunks c left join public.metric_axes a on a.id = c.axis_id
    cross join lateral unnest(coalesce(a.steps, c.steps), c.values, coalesce(a.times, c.times)) p (step, value, recorded_at)
    where c.training_run_id = run_id and c.last_step > kept_step and p.step > kept_step and p.step <= coalesce(c.visible_to, p.step)
      and p.value is not null and c.timeline < next_timeline) t;
  insert into public.rewinds (id, training_run_id, timeline, to_step, cut_at)
  values (rewind_id, run_id, next_timeline, kept_step, coalesce(went_beyond, now()));

  -- Rows of the new timeline, written by a process that knew of the rewind earlier, stay visible. Rollouts of the queue are locked first, as its
  -- functions lock them: before their evaluations.
  perform 1 from public.rollouts r where r.training_run_id = run_id and r.request is not null and r.status in ('pending', 'provisioning', 'running')
  order by r.id for update;
  with changed as (
    update public.rollouts r set rewound_at = now() where r.training_run_id = run_id and r.rewound_at is null and r.timeline < next_timeline
      and (r.step > kept_step or (r.step is null and r.created_at >= went_beyond))
    returning r.id, r.request, r.status)
  select array_agg(c.id) into hidden from changed c where c.request is not null and not internal.is_ended(c.status);
  if hidden is not null then
    perform internal.cancel_hidden(hidden);
  end if;
  update public.training_steps s set rewound_at = now()
  where s.training_run_id = run_id and s.rewound_at is null and s.step > kept_step and s.timeline < next_timeline;
  update public.model_checkpoints c set rewound_at = now() where c.training_run_id = run_id and c.rewound_at is null and c.timeline < next_timeline
    and (c.step > kept_step or (c.step is null and c.created_at >= went_beyond));
  update public.evaluations e set rewound_at = now() where e.training_run_id = run_id and e.rewound_at is null and e.timeline < next_timeline
    and (e.step > kept_step or (e.step is null and e.created_at >= went_beyond));
  update public.media m set rewound_at = now() where m.training_run_id = run_id and m.kind = 'frame' and m.rollout_id is null and m.rewound_at is null
    and jsonb_typeof(m.metadata -> 'step') = 'number' and (m.metadata ->> 'step')::numeric > kept_step and m.timeline < next_timeline;
  update public.metric_chunks c set visible_to = least(c.visible_to, kept_step)
  where c.training_run_id = run_id and c.last_step > kept_step and c.timeline < next_timeline;
  update public.training_runs r set timeline = next_timeline, progress = null,
    rewinds = array(select w.to_step from public.rewinds w where w.training_run_id = run_id order by w.timeline),
    current_step = case when kept_step >= 0 then least(r.current_step, kept_step) end
  where r.id = run_id;
end
$$;

create function internal.stay_silent() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- A run without a current_step of its own keeps none after a rewind: it is computed from the run's records.
  new.current_step := null;
  return new;
end
$$;

create trigger stay_silent before update of timeline on public.training_runs for each row
  when (old.current_step is null and new.timeline > old.timeline) execute function internal.stay_silent();

-- Rewinds in a run's record: those made while the database was unreachable ------------------------------------------------------

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
  -- A record with fewer rewinds is older than the database's.
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

revoke execute on function internal.follow_run, internal.hide_latecomer, internal.hide_late_frame, internal.rewind_run, internal.stay_silent, internal.apply_rewinds,
  internal.keep_rewinds, internal.take_rewinds from public;
grant execute on function internal.follow_run, internal.rewind_run, internal.apply_rewinds to authenticated, service_role;
