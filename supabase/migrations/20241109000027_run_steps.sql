-- How far a run has come, told once for everyone who shows it: the highest step that it recorded or logged a metric for, how many steps
-- that makes, and what part of them all. Some count steps from 0 and some from 1: a run whose first step is 0 has done one more than the
-- number of its last one.

-- The last point of a run by a look into the index.
create unique index metric_chunks_by_last_step on public.metric_chunks (training_run_id, last_step desc, id) include (first_step, visible_to);

create function internal.last_logged(run_id uuid, is_rewound boolean, out step bigint, out is_from_zero boolean)
language plpgsql stable set search_path = ''
as $$
-- The highest step that a metric was logged for, and whether that metric began at 0: another may, such as an evaluation before the first step.
declare
  chunk record;
begin
  select c.name, c.last_step as last, c.visible_to into chunk from public.metric_chunks c
  where c.training_run_id = run_id order by c.last_step desc, c.id limit 1;
  -- A rewind hid the end of it, and the run has not come as far again: look at all that is left.
  if is_rewound and chunk.visible_to < chunk.last then
    select c.name, least(c.last_step, c.visible_to) as last into chunk from public.metric_chunks c
    where c.training_run_id = run_id and c.first_step <= coalesce(c.visible_to, c.first_step) order by 2 desc, c.id limit 1;
  end if;
  step := chunk.last;
  is_from_zero := 0 = (
    select c.first_step from public.metric_chunks c where c.training_run_id = run_id and c.name = chunk.name order by c.first_step, c.id limit 1);
end
$$;

-- Of the run's row what they need, and not the row: that would carry its configuration along, however large.
create function internal.current_step(run_id uuid, said_step bigint, is_rewound boolean) returns bigint
language plpgsql stable set search_path = ''
as $$
-- A loop that records its steps, or logs metrics by step, need not also say where it is. Steps of metrics may be another count, such as
-- that of an environment's steps: they tell only where nothing else does.
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
  -- What was logged for the current step was done in it.
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
  -- Of NULL and 1 the least would be 1.
  return case when done is not null then least(done::double precision / total_steps, 1) end;
end
$$;

create function internal.stay_silent() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- A run that never said where it is does not say so by being rewound: what it records goes on telling.
  new.current_step := null;
  return new;
end
$$;
create trigger stay_silent before update of timeline on public.training_runs for each row
  when (old.current_step is null and new.timeline > old.timeline) execute function internal.stay_silent();

revoke execute on function internal.last_logged, internal.current_step, internal.steps_done, internal.progress, internal.stay_silent from public;
grant execute on function internal.last_logged, internal.current_step, internal.steps_done, internal.progress to anon, authenticated, service_role;

-- Where they are shown ----------------------------------------------------------------------------------------------------------

drop view public.run_list;
drop view public.run_overview;

do $$
begin
  -- Of the table's columns two are told by more than what was said.
  execute format($sql$
    create view public.run_overview with (security_invoker = true) as
    select %s,
      case
        when r.status = 'running'
          and coalesce(r.heartbeat_at, r.started_at, r.created_at) < now() - make_interval(secs => r.heartbeat_timeout_seconds)
        then 'stalled' else r.status
      end as shown_status,
      internal.steps_done(r.id, r.current_step, r.timeline > 0) as steps_done
    from public.training_runs r $sql$, (
    select string_agg(case a.attname
      when 'current_step' then 'internal.current_step(r.id, r.current_step, r.timeline > 0) as current_step'
      when 'progress' then 'internal.progress(r.id, r.current_step, r.timeline > 0, r.progress, r.total_steps) as progress'
      else format('r.%I', a.attname) end, ', ' order by a.attnum)
    from pg_catalog.pg_attribute a where a.attrelid = 'public.training_runs'::regclass and a.attnum > 0 and not a.attisdropped));
end
$$;
comment on view public.run_overview is 'Training runs with the status to show (a run that says it runs but whose heartbeat stopped is stalled) and how far they have come.';
comment on column public.run_overview.steps_done is 'How many steps are done; current_step is the number of the last one, counted from 0 by some and from 1 by others.';
revoke all on public.run_overview from public, anon, authenticated, service_role;
grant select on public.run_overview to anon, authenticated, service_role;

create view public.run_list with (security_invoker = true) as
select r.id, r.name, r.run_name, r.algorithm, r.environment, r.description, r.tags, r.status, r.shown_status,
  r.status_message, r.current_step, r.steps_done, r.total_steps, r.progress, r.heartbeat_at, r.heartbeat_timeout_seconds, r.visibility, r.owner_id,
  internal.name_of_member(r.owner_id) as owner_name,
  r.baseline_id, r.timeline, r.started_at, r.finished_at, r.created_at, r.updated_at,
  s.rollout_count, s.completed_count, s.success_count, s.success_rate, s.average_reward, s.average_turns,
  -- What a search looks at, as one text: the API has no way to say "this text in any of these columns" that leaves every character
  -- of what is searched for its plain meaning, and none at all for an array.
  concat_ws(e'\n', r.name, r.run_name, r.description, array_to_string(r.tags, e'\n')) as search_text
from public.run_overview r
left join lateral (
  select coalesce(sum(c.rollout_count), 0)::bigint as rollout_count, coalesce(sum(c.completed_count), 0)::bigint as completed_count,
    coalesce(sum(c.success_count), 0)::bigint as success_count,
    internal.to_double(sum(c.success_count) / nullif(sum(c.completed_count), 0)) as success_rate,
    internal.to_double(sum(c.reward_sum) / nullif(sum(c.reward_count), 0)) as average_reward,
    internal.to_double(sum(c.step_sum) / nullif(sum(c.step_count), 0)) as average_turns
  from public.rollout_stats c where c.training_run_id = r.id) s on true;
comment on view public.run_list is 'Training runs as a list shows them: with counts of their rollouts and without what can be large.';
revoke all on public.run_list from public, anon, authenticated, service_role;
grant select on public.run_list to anon, authenticated, service_role;
