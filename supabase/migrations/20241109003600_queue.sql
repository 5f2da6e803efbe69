-- The queue of rollouts: asking for rollouts, claiming them, renewing and releasing leases, cancelling, retrying and deleting.
-- A rollout of the queue is pending; a worker claims it (provisioning, then running) under a lease, and ends it by writing its final status.
-- If the lease expires, the rollout is pending again, up to max_attempts.

-- Who may ---------------------------------------------------------------------------------------------------------------------

create function internal.require_editor(attempt text) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if current_user = 'authenticated' and not internal.is_editor() then
    raise exception using errcode = 'OM403', message = format('%s: only editors and admins may; ask an admin for the role', attempt);
  end if;
end
$$;

create function internal.owner_to_match() returns uuid
language sql stable set search_path = ''
as $$
  -- Editors act on rollouts that they may change, admins and the secret key on all (null).
  select case when current_user = 'authenticated' and not internal.is_admin() then auth.uid() end
$$;

create function internal.may_act(of public.rollouts, owner uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select owner is null or case when of.training_run_id is null then of.owner_id = owner
    else exists (select 1 from public.training_runs t where t.id = of.training_run_id and t.owner_id = owner) end
$$;

-- Lost attempts ---------------------------------------------------------------------------------------------------------------

create function internal.set_aside(of_rollout_id uuid, reason text) returns uuid
language plpgsql security definer set search_path = ''
as $$
-- The next attempt begins with turn 0 again: move what the lost one recorded to a rollout of its own, which is interrupted.
declare
  aside_id constant uuid := internal.new_id();
begin
  if not exists (select 1 from public.agent_states a where a.rollout_id = of_rollout_id)
    and not exists (select 1 from internal.rewards w where w.rollout_id = of_rollout_id)
    and not exists (select 1 from public.validations v where v.rollout_id = of_rollout_id)
    and not exists (select 1 from public.media m where m.rollout_id = of_rollout_id)
    and not exists (select 1 from public.rollouts r where r.id = of_rollout_id
                    and num_nonnulls(r.result, r.error, r.total_reward, r.video_path, r.logs_path, r.cost_usd) > 0) then
    return null;
  end if;
  insert into public.rollouts (id, training_run_id, task_id, source, environment, step, task_description, status, status_message, agent, model,
    policy_version, seed, total_reward, result, error, input_tokens, output_tokens, cost_usd, video_path, logs_path, metadata, worker_id, attempt, attempt_of,
    owner_id, timeline, rewound_at, started_at, finished_at, created_at, step_count)
  -- Without the lease: nobody adds to it.
  select aside_id, r.training_run_id, r.task_id, r.source, r.environment, r.step, r.task_description, 'interrupted', reason, r.agent, r.model,
    r.policy_version, r.seed, r.total_reward, r.result, r.error, r.input_tokens, r.output_tokens, r.cost_usd, r.video_path, r.logs_path, r.metadata, r.worker_id, r.attempt, r.id,
    r.owner_id, r.timeline, r.rewound_at, r.started_at, coalesce(r.finished_at, now()), r.created_at,
    coalesce(r.step_count, (select count(*) from public.agent_states a where a.rollout_id = r.id))
  from public.rollouts r where r.id = of_rollout_id;
  perform set_config('openmanus_rl.setting_aside', 'on', true), set_config('openmanus_rl.in_batch', 'on', true);
  update public.agent_states a set rollout_id = aside_id where a.rollout_id = of_rollout_id;
  update internal.rewards w set rollout_id = aside_id where w.rollout_id = of_rollout_id;
  -- With new ids: that of a verdict is derived from its rollout.
  update public.validations v set id = internal.new_id(), rollout_id = aside_id where v.rollout_id = of_rollout_id;
  update public.media m set rollout_id = aside_id where m.rollout_id = of_rollout_id;
  perform set_config('openmanus_rl.setting_aside', '', true), set_config('openmanus_rl.in_batch', '', true);
  return aside_id;
end
$$;

create function internal.put_back(of_rollout_id uuid, reason text, counts boolean) returns void
language plpgsql security definer set search_path = ''
as $$
-- End a lease and make the rollout pending again, or end it if it was cancelled or has had its attempts. The caller has locked the rollout.
declare
  r public.rollouts;
  is_last boolean;
begin
  perform set_config('openmanus_rl.leases', 'queue', true);
  delete from internal.leases l where l.rollout_id = of_rollout_id;
  select * into r from public.rollouts t where t.id = of_rollout_id;
  is_last := counts and r.attempt >= r.max_attempts;
  if r.delete_requested then
    delete from public.rollouts t where t.id = of_rollout_id;
  elsif r.cancel_requested_at is not null or is_last then
    update public.rollouts t set
      status = case when r.cancel_requested_at is not null then 'cancelled' else 'error' end,
      status_message = case when r.cancel_requested_at is null then format('%s, in attempt %s of %s', reason, r.attempt, r.max_attempts) end,
      error = case when r.cancel_requested_at is null then format('%s, in attempt %s of %s', reason, r.attempt, r.max_attempts) else t.error end,
      cancel_requested_at = null, lease_id = null, step_count = coalesce(t.step_count, (select count(*) from public.agent_states a where a.rollout_id = t.id))
    where t.id = of_rollout_id;
  else
    perform internal.set_aside(of_rollout_id, reason);
    update public.rollouts t set status = 'pending', status_message = reason, attempt = t.attempt + case when counts then 1 else 0 end, worker_id = null, lease_id = null,
      started_at = null, finished_at = null, total_reward = null, step_count = null, result = null, error = null, video_path = null, logs_path = null,
      input_tokens = null, output_tokens = null, cost_usd = null
    where t.id = of_rollout_id;
  end if;
  perform set_config('openmanus_rl.leases', '', true);
end
$$;

-- Evaluations of the queue ----------------------------------------------------------------------------------------------------

-- How many rollouts an evaluation has and how many of them ended: counting them for each that ends would take the square of their number.
create table internal.queued_evaluations (
  evaluation_id uuid primary key references public.evaluations (id) on delete cascade,
  rollouts integer not null,
  ended integer not null default 0
);

create function internal.advance_evaluation(of_evaluation_id uuid, added integer, more_ended integer, has_begun boolean) returns void
language plpgsql security definer set search_path = ''
as $$
-- An evaluation of the queue is running once a rollout has begun, and ends when all have. Its count is locked first: of two rollouts that end
-- at the same time, the second sees the first. One that was ended otherwise stays as it is.
declare
  counted internal.queued_evaluations;
begin
  update internal.queued_evaluations q set rollouts = q.rollouts + added, ended = q.ended + more_ended
  where q.evaluation_id = of_evaluation_id returning q.* into counted;
  if not found then
    return;
  end if;
  update public.evaluations e set progress = counted.ended::double precision / nullif(counted.rollouts, 0),
    status = case
      when counted.ended < counted.rollouts then case when has_begun then 'running' else e.status end
      when exists (select 1 from public.rollouts r join public.rollout_groups g on g.id = r.group_id where g.evaluation_id = e.id and r.status <> 'cancelled')
        then 'completed'
      else 'cancelled' end
  where e.id = of_evaluation_id and e.status in ('pending', 'running', 'interrupted');
end
$$;

create function internal.advance_evaluations() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.advance_evaluation(c.evaluation_id, 0, c.more_ended, c.has_begun)
  from (
    select g.evaluation_id, bool_or(n.status not in ('pending', 'provisioning', 'cancelled')) as has_begun,
      (count(*) filter (where internal.is_ended(n.status)) - count(*) filter (where internal.is_ended(o.status)))::integer as more_ended
    from new_rows n join old_rows o using (id) join public.rollout_groups g on g.id = n.group_id join public.evaluations e on e.id = g.evaluation_id
    where n.request is not null and n.status <> o.status and e.is_queued
      and (internal.is_ended(n.status) <> internal.is_ended(o.status) or (n.status = 'running' and e.status = 'pending'))
    group by g.evaluation_id order by g.evaluation_id) c;
  return null;
end
$$;

create function internal.leave_evaluations() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform internal.advance_evaluation(c.evaluation_id, c.added, c.more_ended, false)
  from (
    select g.evaluation_id, -count(*)::integer as added, -(count(*) filter (where internal.is_ended(o.status)))::integer as more_ended
    from old_rows o join public.rollout_groups g on g.id = o.group_id
    where o.request is not null and g.evaluation_id is not null
    group by g.evaluation_id order by g.evaluation_id) c;
  return null;
end
$$;

create function internal.recount_evaluations() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Rollouts that were deleted with their group no longer lead to their evaluation.
begin
  update internal.queued_evaluations q set rollouts = c.rollouts, ended = c.ended
  from (
    select o.evaluation_id, count(r.id)::integer as rollouts, (count(r.id) filter (where internal.is_ended(r.status)))::integer as ended
    from (select distinct evaluation_id from old_rows) o left join public.rollout_groups g on g.evaluation_id = o.evaluation_id
    left join public.rollouts r on r.group_id = g.id and r.request is not null group by o.evaluation_id) c
  where q.evaluation_id = c.evaluation_id;
  perform internal.advance_evaluation(o.evaluation_id, 0, 0, false) from (select distinct evaluation_id from old_rows order by 1) o;
  return null;
end
$$;

-- Named so that they come before the triggers that count: the evaluation is locked before its groups.
create trigger advance_evaluations after update on public.rollouts referencing old table as old_rows new table as new_rows
  for each statement execute function internal.advance_evaluations();
create trigger advance_without_rollouts after delete on public.rollouts referencing old table as old_rows
  for each statement execute function internal.leave_evaluations();
create trigger advance_without_groups after delete on public.rollout_groups referencing old table as old_rows
  for each statement execute function internal.recount_evaluations();

-- Expired leases ------------------------------------------------------------------------------------------------------------------

create function internal.lock_evaluations(of_rollout_ids uuid[]) returns void
language sql security definer set search_path = ''
as $$
  -- In one order, before rollouts of several evaluations end one after the other.
  select 1 from internal.queued_evaluations q
  where q.evaluation_id in (select g.evaluation_id from public.rollouts r join public.rollout_groups g on g.id = r.group_id where r.id = any (of_rollout_ids))
  order by q.evaluation_id for update
$$;

create function internal.reclaim_expired() returns integer
language plpgsql security definer set search_path = ''
as $$
declare
  expired uuid[] := array(select l.rollout_id from internal.leases l where l.expires_at < clock_timestamp() order by l.expires_at, l.rollout_id limit 100);
  of_rollout_id uuid;
begin
  -- One session at a time: others need not wait for it, nor for each other.
  if expired = '{}' or not pg_try_advisory_xact_lock(hashtext('openmanus_rl.reclaim_expired')) then
    return 0;
  end if;
  -- The rollouts before their leases, as every writer locks them. Skip what a worker writes or renews just now.
  expired := array(select r.id from public.rollouts r where r.id = any (expired) order by r.id for update skip locked);
  expired := array(select l.rollout_id from internal.leases l where l.rollout_id = any (expired) and l.expires_at < clock_timestamp()
    order by l.rollout_id for update skip locked);
  perform internal.lock_evaluations(expired);
  foreach of_rollout_id in array expired loop
    perform internal.put_back(of_rollout_id, 'the worker stopped renewing its lease', counts => true);
  end loop;
  return cardinality(expired);
end
$$;

-- Deleting what a worker has just ended -------------------------------------------------------------------------------------------

create function internal.delete_ended() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from public.rollouts r where r.id = new.id;
  return null;
end
$$;

-- When all of the batch is written: else its other records would have no rollout.
create constraint trigger delete_ended after update on public.rollouts deferrable initially deferred for each row
  when (new.delete_requested and new.status not in ('pending', 'provisioning', 'running')) execute function internal.delete_ended();

-- Asking for rollouts -----------------------------------------------------------------------------------------------------------

create function internal.check_request(request jsonb, known text[]) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  field text;
begin
  if jsonb_typeof(request) is distinct from 'object' then
    raise exception using errcode = 'OM400', column = 'request', message = 'request: an object is expected, such as {"task_id": …, "attempts": 4}';
  end if;
  select k into field from jsonb_object_keys(request) k where not k = any (known) order by k limit 1;
  if field is not null then
    raise exception using errcode = 'OM400', column = field, message = format('%s: no such field; there are %s', field, array_to_string(known, ', '));
  end if;
  for field in select k from unnest(array['agent', 'model', 'environment', 'name', 'split', 'kind']) k where jsonb_typeof(request -> k) not in ('string', 'null') or request ->> k = '' loop
    raise exception using errcode = 'OM400', column = field, message = format('%s: a text is expected', field);
  end loop;
  for field in select k from unnest(array['limits', 'agent_options', 'metadata']) k where jsonb_typeof(request -> k) not in ('object', 'null') loop
    raise exception using errcode = 'OM400', column = field, message = format('%s: an object is expected', field);
  end loop;
  for field in select k from unnest(array['reuse']) k where jsonb_typeof(request -> k) not in ('boolean', 'null') loop
    raise exception using errcode = 'OM400', column = field, message = format('%s: true or false is expected', field);
  end loop;
  select l.key into field from jsonb_each(case when jsonb_typeof(request -> 'limits') = 'object' then request -> 'limits' else '{}' end) l
  where l.key not in ('max_steps', 'max_seconds', 'max_tokens', 'max_cost_usd')
    or case jsonb_typeof(l.value) when 'number' then (l.value #>> '{}')::numeric <= 0 or (l.value #>> '{}')::numeric > 1e12 when 'null' then false else true end
    or (l.key in ('max_steps', 'max_tokens') and (l.value #>> '{}')::numeric % 1 <> 0)
  order by l.key limit 1;
  if field is not null then
    raise exception using errcode = 'OM400', column = 'limits.' || field,
      message = format('limits.%s: limits are positive numbers named max_steps, max_seconds, max_tokens and max_cost_usd', field);
  end if;
end
$$;

create function internal.whole_number(request jsonb, field text, low bigint, high bigint, default_value bigint) returns bigint
language plpgsql immutable set search_path = ''
as $$
declare
  given jsonb := request -> field;
begin
  if given is null or given = 'null' then
    return default_value;
  end if;
  if jsonb_typeof(given) = 'number' and (given #>> '{}')::numeric % 1 = 0 and (given #>> '{}')::numeric between low and high then
    return (given #>> '{}')::numeric;
  end if;
  raise exception using errcode = 'OM400', column = field, message = format('%s: a whole number from %s to %s is expected', field, low, high);
end
$$;

create function internal.find_task(reference text, environment text) returns public.tasks
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  found_task public.tasks;
  matches bigint;
begin
  if reference ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    select * into found_task from public.tasks t where t.id = reference::uuid;
    if found then
      return found_task;
    end if;
  end if;
  select count(*) into matches from public.tasks t where t.external_id = reference;
  if matches > 1 and environment is not null then
    select * into found_task from public.tasks t where t.external_id = reference and t.environment = environment;
    matches := found::integer;
  elsif matches = 1 then
    select * into found_task from public.tasks t where t.external_id = reference;
  end if;
  if matches = 1 then
    return found_task;
  end if;
  raise exception using errcode = case when matches > 1 then 'OM409' else 'OM404' end, column = 'task_id',
    message = case when matches > 1 then format('task %s: %s environments have one with this id; give its uuid', reference, matches)
      else format('task %s: unknown id; import it first', reference) end;
end
$$;

create function internal.cache_key(task public.tasks, environment text, environment_version integer, request jsonb, agent text, model text, seed bigint) returns text
language sql stable security definer set search_path = ''
as $$
  -- jsonb_build_array and not concat: a value cannot run into the next one. With the validators: another one may judge otherwise.
  select md5(jsonb_build_array(task.id, task.version, environment, environment_version, agent, model, seed, request -> 'agent_options', request -> 'limits',
    (select jsonb_agg(jsonb_build_array(v.id, v.version) order by v.id) from public.validators v where v.task_id = task.id))::text)
$$;

create function internal.derived_id(of_id uuid, variadic parts text[]) returns uuid
language sql immutable set search_path = ''
as $$
  -- The same for the same id and parts, and as old as the id: a UUIDv7 with its time.
  select case when of_id is null then internal.new_id()
    else (left(of_id::text, 14) || '7' || substr(h.hash, 1, 3) || '-8' || substr(h.hash, 4, 3) || '-' || substr(h.hash, 7, 12))::uuid end
  from (select md5(array_to_string(of_id::text || parts, ' ')) as hash) h
$$;

create function internal.plan_rollouts(task public.tasks, request jsonb, into_group uuid, run_id uuid, source text, step bigint, owner uuid, request_id uuid, taken uuid[])
returns table (planned public.rollouts, earlier_id uuid)
language plpgsql security definer set search_path = ''
as $$
-- The rollouts of a task, each as a row to add or as an earlier rollout that answers instead, of which those in `taken` have answered already.
#variable_conflict use_variable
declare
  environment constant text := coalesce(request ->> 'environment', task.environment, 'none');
  e public.environments;
  seed constant bigint := internal.whole_number(request, 'seed', -9007199254740991, 9007199254740991, null);
begin
  select * into e from public.environments v where v.name = environment;
  if not found and nullif(request ->> 'environment', 'none') is not null then
    raise exception using errcode = 'OM404', column = 'environment', message = format('environment %s: unknown; create it first', environment);
  end if;
  planned.training_run_id := run_id;
  planned.group_id := into_group;
  planned.task_id := task.id;
  planned.source := source;
  planned.environment := environment;
  planned.step := step;
  planned.task_description := task.description;
  planned.agent := coalesce(request ->> 'agent', task.metadata ->> 'agent', 'chat');
  planned.model := request ->> 'model';
  planned.metadata := coalesce(nullif(request -> 'metadata', 'null'), '{}');
  planned.priority := internal.whole_number(request, 'priority', -1000, 1000, 0);
  planned.max_attempts := internal.whole_number(request, 'max_attempts', 1, 100, 3);
  planned.owner_id := owner;
  planned.timeline := coalesce((select t.timeline from public.training_runs t where t.id = run_id), 0);
  planned.request := jsonb_build_object('agent_options', coalesce(nullif(request -> 'agent_options', 'null'), '{}'), 'provider', coalesce(e.kind, 'none'),
    'limits', coalesce(case when jsonb_typeof(task.metadata -> 'limits') = 'object' then task.metadata -> 'limits' end, '{}') || coalesce(nullif(request -> 'limits', 'null'), '{}'));
  for number in 1 .. internal.whole_number(request, 'attempts', 1, 1000, 1) loop
    planned.id := internal.derived_id(request_id, number::text);
    -- Attempts with a seed differ in it; without one they are not asked to be the same.
    planned.seed := seed + number - 1;
    planned.cache_key := internal.cache_key(task, environment, e.version, planned.request, planned.agent, planned.model, planned.seed);
    earlier_id := null;
    if coalesce((request ->> 'reuse')::boolean, false) and not exists (select 1 from public.rollouts r where r.id = planned.id) then
      earlier_id := (select r.id from public.rollouts r
        where r.cache_key = planned.cache_key and r.status in ('success', 'failed', 'completed') and r.rewound_at is null and not r.id = any (taken)
        order by r.created_at desc, r.id limit 1);
      taken := taken || earlier_id;
    end if;
    return next;
  end loop;
end
$$;

create function internal.add_rollouts(planned public.rollouts[]) returns void
language sql security definer set search_path = ''
as $$
  -- All at once: the triggers of rollouts cost more than the rows.
  insert into public.rollouts (id, training_run_id, group_id, task_id, source, environment, step, task_description, status, agent, model, seed, metadata, request,
    priority, max_attempts, cache_key, owner_id, timeline)
  select p.id, p.training_run_id, p.group_id, p.task_id, p.source, p.environment, p.step, p.task_description, 'pending', p.agent, p.model, p.seed, p.metadata, p.request,
    p.priority, p.max_attempts, p.cache_key, p.owner_id, p.timeline
  from unnest(planned) p on conflict (id) do nothing
$$;

create function internal.task_references(request jsonb) returns text[]
language plpgsql immutable set search_path = ''
as $$
declare
  given jsonb := coalesce(nullif(request -> 'task_ids', 'null'), case when request ->> 'task_id' is not null then jsonb_build_array(request -> 'task_id') end);
begin
  if request ->> 'task_id' is not null and jsonb_typeof(request -> 'task_ids') <> 'null' then
    raise exception using errcode = 'OM400', column = 'task_ids', message = 'task_ids: give task_id or task_ids, not both';
  end if;
  if jsonb_typeof(given) is distinct from 'array' or given = '[]' or exists (select 1 from jsonb_array_elements(given) g where jsonb_typeof(g) <> 'string') then
    raise exception using errcode = 'OM400', column = case when request ? 'task_ids' then 'task_ids' else 'task_id' end,
      message = 'task_id or task_ids is required: the id of a task, or a list of ids';
  end if;
  if jsonb_array_length(given) > 10000 then
    raise exception using errcode = 'OM400', column = 'task_ids', message = format('task_ids: at most 10000 at once, not %s', jsonb_array_length(given));
  end if;
  return array(select g from jsonb_array_elements_text(given) g);
end
$$;

create function internal.check_total(tasks bigint, request jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if tasks * internal.whole_number(request, 'attempts', 1, 1000, 1) > 10000 then
    raise exception using errcode = 'OM400', column = 'attempts', message = format('attempts: %s tasks times %s attempts are more than 10000 rollouts at once', tasks, request ->> 'attempts');
  end if;
end
$$;

create function internal.require_run_of_mine(run_id uuid) returns void
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_run(run_id);
  if current_user = 'authenticated' and not internal.is_admin() and not internal.owns_run(run_id) then
    raise exception using errcode = 'OM403', column = 'training_run_id', message = format('training run %s: not yours to change; ask its owner or an admin', run_id);
  end if;
end
$$;

create function public.request_rollouts(request jsonb, request_id uuid default null) returns jsonb
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
declare
  tasks text[];
  run_id uuid;
  planned public.rollouts[] := '{}';
  made uuid[] := '{}';
  reused uuid[] := '{}';
  one record;
begin
  perform internal.require_editor('request rollouts');
  perform internal.check_request(request, array['task_id', 'task_ids', 'attempts', 'agent', 'model', 'environment', 'priority', 'seed', 'limits', 'agent_options',
    'metadata', 'max_attempts', 'reuse', 'training_run_id']);
  tasks := internal.task_references(request);
  perform internal.check_total(cardinality(tasks), request);
  if request ->> 'training_run_id' is not null then
    run_id := internal.as_uuid(request, 'training_run_id');
    perform internal.require_run_of_mine(run_id);
  end if;
  for place in 1 .. cardinality(tasks) loop
    for one in select * from internal.plan_rollouts(internal.find_task(tasks[place], request ->> 'environment'), request, null, run_id, 'manual', null, auth.uid(),
      case when request_id is not null then internal.derived_id(request_id, place::text) end, reused) loop
      if one.earlier_id is null then
        planned := planned || one.planned;
      else
        reused := reused || one.earlier_id;
      end if;
      made := made || coalesce(one.earlier_id, (one.planned).id);
    end loop;
  end loop;
  perform internal.add_rollouts(planned);
  return jsonb_build_object('reused', to_jsonb(reused), 'rollouts', (
    select coalesce(jsonb_agg(to_jsonb(r) order by m.place), '[]') from unnest(made) with ordinality m (id, place) join public.rollouts r on r.id = m.id));
end
$$;
comment on function public.request_rollouts is 'Put rollouts of tasks into the queue: {task_id or task_ids, attempts, agent, model, environment, priority, seed, limits, agent_options, reuse, training_run_id}. With `reuse`, equal rollouts that have ended answer instead of new ones. The same request_id again changes nothing. Returns {rollouts, reused}.';

create function internal.as_uuid(request jsonb, field text) returns uuid
language plpgsql immutable set search_path = ''
as $$
begin
  if request ->> field is null or request ->> field ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    return (request ->> field)::uuid;
  end if;
  raise exception using errcode = 'OM400', column = field, message = format('%s: a uuid is expected', field);
end
$$;

create function internal.make_evaluation(evaluation_id uuid, request jsonb, run_id uuid, checkpoint_id uuid, step bigint, owner uuid, rollouts integer) returns boolean
language plpgsql security definer set search_path = ''
as $$
-- Returns whether it is new. The same request again finds the one that it made, and no other.
#variable_conflict use_variable
begin
  insert into public.evaluations (id, training_run_id, checkpoint_id, kind, name, step, model, environment, status, progress, is_queued, owner_id, timeline)
  select evaluation_id, run_id, checkpoint_id, coalesce(request ->> 'kind', 'eval'), request ->> 'name',
    step, request ->> 'model', request ->> 'environment',
    'pending', 0, true, owner, coalesce((select t.timeline from public.training_runs t where t.id = run_id), 0)
  on conflict (id) do nothing;
  if found then
    insert into internal.queued_evaluations (evaluation_id, rollouts) values (evaluation_id, rollouts);
    return true;
  end if;
  if not exists (select 1 from public.evaluations e where e.id = evaluation_id and e.is_queued and e.owner_id is not distinct from owner) then
    raise exception using errcode = 'OM409', column = 'request_id', message = format('request_id %s: it is the id of another evaluation; give a new one', evaluation_id);
  end if;
  return false;
end
$$;

create function internal.add_groups(evaluation_id uuid, run_id uuid, tasks public.tasks[]) returns void
language sql security definer set search_path = ''
as $$
  insert into public.rollout_groups (id, training_run_id, evaluation_id, task_id, number, task_description)
  select internal.derived_id(evaluation_id, 'group', t.place::text), run_id, evaluation_id, t.id, t.place - 1, t.description
  from (select u.*, row_number() over () as place from unnest(tasks) u) t
$$;

create function internal.tasks_to_evaluate(request jsonb) returns text[]
language sql stable set search_path = ''
as $$
  select case when request ->> 'task_id' is not null or jsonb_typeof(request -> 'task_ids') <> 'null' then internal.task_references(request)
  else array(select t.id::text from public.tasks t where t.environment = request ->> 'environment' and (request ->> 'split' is null or t.split = request ->> 'split')
    order by t.created_at, t.id) end
$$;

create function public.request_evaluation(request jsonb, request_id uuid default null) returns jsonb
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
declare
  evaluation_id constant uuid := coalesce(request_id, internal.new_id());
  tasks text[];
  checkpoint_id uuid;
  run_id uuid;
  found_tasks public.tasks[] := '{}';
  planned public.rollouts[] := '{}';
  group_id uuid;
  asked jsonb;
  step bigint;
begin
  perform internal.require_editor('request an evaluation');
  perform internal.check_request(request, array['checkpoint_id', 'training_run_id', 'task_id', 'task_ids', 'environment', 'split', 'attempts', 'agent', 'model', 'priority',
    'seed', 'limits', 'agent_options', 'metadata', 'max_attempts', 'name', 'kind', 'step']);
  -- An environment that nobody described says only which tasks are meant.
  asked := case when exists (select 1 from public.environments e where e.name = request ->> 'environment') then request else request - 'environment' end;
  if coalesce(request ->> 'kind', 'eval') not in ('eval', 'baseline') then
    raise exception using errcode = 'OM400', column = 'kind', message = 'kind: eval or baseline is expected';
  end if;
  checkpoint_id := internal.as_uuid(request, 'checkpoint_id');
  run_id := internal.as_uuid(request, 'training_run_id');
  if checkpoint_id is not null then
    run_id := (select c.training_run_id from public.model_checkpoints c where c.id = checkpoint_id);
    if run_id is null then
      raise exception using errcode = 'OM404', column = 'checkpoint_id', message = format('checkpoint %s: unknown id', checkpoint_id);
    elsif run_id <> internal.as_uuid(request, 'training_run_id') then
      raise exception using errcode = 'OM400', column = 'training_run_id', message = format('training_run_id: checkpoint %s is of run %s', checkpoint_id, run_id);
    end if;
  end if;
  if run_id is not null then
    perform internal.require_run_of_mine(run_id);
  end if;
  step := coalesce(internal.whole_number(request, 'step', 0, 9007199254740991, null), (select c.step from public.model_checkpoints c where c.id = checkpoint_id));
  tasks := internal.tasks_to_evaluate(request);
  if tasks = '{}' then
    raise exception using errcode = 'OM404', column = 'environment',
      message = format('environment %s: it has no tasks%s; give task_ids', coalesce(request ->> 'environment', '(none)'), ' of split ' || (request ->> 'split'));
  end if;
  perform internal.check_total(cardinality(tasks), request);
  for place in 1 .. cardinality(tasks) loop
    found_tasks := found_tasks || internal.find_task(tasks[place], request ->> 'environment');
  end loop;
  if internal.make_evaluation(evaluation_id, request, run_id, checkpoint_id, step, auth.uid(),
    cardinality(tasks) * internal.whole_number(request, 'attempts', 1, 1000, 1)::integer) then
    perform internal.add_groups(evaluation_id, run_id, found_tasks);
    for place in 1 .. cardinality(tasks) loop
      group_id := internal.derived_id(evaluation_id, 'group', place::text);
      planned := planned || array(select p.planned from internal.plan_rollouts(found_tasks[place], asked, group_id, run_id,
        case request ->> 'kind' when 'baseline' then 'baseline' else 'evaluation' end, step, auth.uid(), group_id, '{}') p);
    end loop;
    perform internal.add_rollouts(planned);
  end if;
  return jsonb_build_object('evaluation', (select to_jsonb(e) from public.evaluations e where e.id = evaluation_id),
    'rollouts', (select coalesce(jsonb_agg(to_jsonb(r) order by g.number, r.id), '[]') from public.rollouts r join public.rollout_groups g on g.id = r.group_id
                 where g.evaluation_id = evaluation_id));
end
$$;
comment on function public.request_evaluation is 'Ask the queue to evaluate a checkpoint or a model on tasks: makes the evaluation, a group per task and the rollouts. Takes what request_rollouts takes, and checkpoint_id, name, kind, step, split; without task_ids, all tasks of the environment. Returns {evaluation, rollouts}.';

-- Workers -----------------------------------------------------------------------------------------------------------------------

create function internal.save_worker(worker jsonb, owner uuid) returns uuid
language plpgsql security definer set search_path = ''
as $$
declare
  worker_id uuid;
begin
  insert into public.workers as w (id, name, host, pid, version, max_rollouts, providers, infra, owner_id)
  values (coalesce(internal.as_uuid(worker, 'id'), internal.new_id()), coalesce(nullif(worker ->> 'name', ''), nullif(worker ->> 'host', ''), 'worker'), worker ->> 'host',
    internal.whole_number(worker, 'pid', 0, 2147483647, null), worker ->> 'version', internal.whole_number(worker, 'max_rollouts', 1, 10000, 4),
    array(select p from jsonb_array_elements_text(case jsonb_typeof(worker -> 'providers') when 'array' then worker -> 'providers' else '[]' end) p),
    coalesce(nullif(worker -> 'infra', 'null'), '{}'), owner)
  on conflict (id) do update set heartbeat_at = now(), state = 'active', stopped_at = null, max_rollouts = excluded.max_rollouts, providers = excluded.providers
    where w.owner_id is not distinct from excluded.owner_id
  returning w.id into worker_id;
  if worker_id is null then
    raise exception using errcode = 'OM403', column = 'id', message = format('worker %s: it is another user''s', worker ->> 'id');
  end if;
  -- Workers that stopped long ago are forgotten; their rollouts keep the id.
  delete from public.workers w where w.heartbeat_at < now() - interval '30 days';
  return worker_id;
end
$$;

create function public.register_worker(worker jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('register a worker');
  if jsonb_typeof(worker) is distinct from 'object' or length(worker ->> 'name') > 500 then
    raise exception using errcode = 'OM400', column = 'worker', message = 'worker: an object is expected, with a name of at most 500 characters';
  end if;
  return jsonb_build_object('worker_id', internal.save_worker(worker, auth.uid()));
end
$$;
comment on function public.register_worker is 'Register a worker: {id, name, host, pid, version, max_rollouts, providers, infra}. Returns {worker_id}.';

create function internal.beat_worker(of_worker_id uuid, new_state text, owner uuid) returns text
language plpgsql security definer set search_path = ''
as $$
declare
  asked text;
begin
  update public.workers w set heartbeat_at = now(),
    state = case when new_state = 'stopped' or w.state = 'stopped' then coalesce(new_state, w.state) when w.state = 'draining' then 'draining' else coalesce(new_state, w.state) end,
    stopped_at = case when new_state = 'stopped' then now() else w.stopped_at end
  where w.id = of_worker_id and (owner is null or w.owner_id = owner) returning w.state into asked;
  if asked is null then
    raise exception using errcode = 'OM404', column = 'worker_id', message = format('worker %s: unknown id; register it first', of_worker_id);
  end if;
  return asked;
end
$$;

create function public.stop_workers(worker_ids uuid[]) returns integer
language plpgsql set search_path = ''
as $$
declare
  stopped integer;
begin
  perform internal.require_editor('stop workers');
  stopped := internal.drain_workers(worker_ids, internal.owner_to_match());
  return stopped;
end
$$;
comment on function public.stop_workers is 'Ask workers to finish what they have and to end. Returns how many were asked.';

create function internal.drain_workers(worker_ids uuid[], owner uuid) returns integer
language sql security definer set search_path = ''
as $$
  with drained as (
    update public.workers w set state = 'draining' where w.id = any (worker_ids) and w.state = 'active' and (owner is null or w.owner_id = owner) returning 1)
  select count(*)::integer from drained
$$;

-- Leases ------------------------------------------------------------------------------------------------------------------------

create function internal.claim(of_worker_id uuid, wanted integer, lease_seconds double precision, can_start text[], owner uuid) returns uuid[]
language plpgsql security definer set search_path = '' set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off
as $$
-- Each provider's are read from the index in their order: what waits for another one costs nothing. Without these settings Postgres would read and
-- sort all that wait whenever its statistics are older than the queue.
declare
  own_runs constant uuid[] := array(select t.id from public.training_runs t where t.owner_id = owner);
  claimed uuid[];
begin
  claimed := array(
    select w.id from (select distinct p from unnest(can_start) p) p (provider) cross join lateral (
      select r.id, r.priority, r.created_at from public.rollouts r
      where r.status = 'pending' and r.request is not null and r.request ->> 'provider' = p.provider
        and (owner is null or case when r.training_run_id is null then r.owner_id = owner else r.training_run_id = any (own_runs) end)
      order by r.priority desc, r.created_at, r.id limit wanted for no key update skip locked) w
    order by w.priority desc, w.created_at, w.id limit wanted);
  -- Most claims find nothing, and an update of nothing still runs the triggers of rollouts.
  if claimed = '{}' then
    return claimed;
  end if;
  perform set_config('openmanus_rl.leases', 'queue', true);
  with leased as (
    insert into internal.leases (rollout_id, lease_id, worker_id, expires_at)
    select c.id, internal.new_id(), of_worker_id, clock_timestamp() + make_interval(secs => lease_seconds) from unnest(claimed) c (id)
    returning rollout_id, lease_id)
  update public.rollouts r set status = 'provisioning', status_message = null, lease_id = l.lease_id, worker_id = of_worker_id
  from leased l where r.id = l.rollout_id;
  perform set_config('openmanus_rl.leases', '', true);
  return claimed;
end
$$;

create function internal.claim_of(r public.rollouts) returns jsonb
language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object('rollout', to_jsonb(r), 'lease_id', r.lease_id,
    'task', (select to_jsonb(t) || jsonb_build_object('validators', (
        select coalesce(jsonb_agg(to_jsonb(v) order by v.external_id), '[]') from public.validators v where v.task_id = t.id))
      from public.tasks t where t.id = r.task_id),
    'environment', (select jsonb_build_object('id', e.id, 'name', e.name, 'version', e.version, 'kind', e.kind, 'spec', e.spec)
      from public.environments e where e.name = r.environment))
$$;

create function internal.check_lease_seconds(lease_seconds double precision) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if lease_seconds is null or not lease_seconds between 1 and 86400 then
    raise exception using errcode = 'OM400', column = 'lease_seconds', message = format('lease_seconds is %s: 1 to 86400 are possible', lease_seconds);
  end if;
end
$$;

create function public.claim_rollouts(worker_id uuid, wanted integer default 1, lease_seconds double precision default 60, providers text[] default array['none'])
returns jsonb
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
declare
  claimed uuid[] := '{}';
  state text;
begin
  perform internal.require_editor('claim rollouts'), internal.check_lease_seconds(lease_seconds);
  -- The worker's row is locked before rollouts and leases, as by all that a worker calls.
  state := internal.beat_worker(worker_id, null, internal.owner_to_match());
  perform internal.reclaim_expired();
  if state = 'active' and wanted > 0 then
    claimed := internal.claim(worker_id, least(wanted, 1000), lease_seconds, providers, internal.owner_to_match());
  end if;
  return jsonb_build_object('state', state, 'claims', (select coalesce(jsonb_agg(internal.claim_of(r) order by r.priority desc, r.created_at, r.id), '[]') from public.rollouts r where r.id = any (claimed)));
end
$$;
comment on function public.claim_rollouts is 'Lease waiting rollouts to a worker, the most urgent and oldest first, of environments that it can start. Expired leases are taken back first. Returns {state, claims: [{rollout, lease_id, task, environment}]}.';

create function internal.renew(of_worker_id uuid, lease_ids uuid[], lease_seconds double precision) returns jsonb
language plpgsql security definer set search_path = ''
as $$
begin
  update internal.leases l set expires_at = clock_timestamp() + make_interval(secs => lease_seconds)
  where l.lease_id = any (lease_ids) and l.worker_id = of_worker_id;
  return (select coalesce(jsonb_agg(jsonb_build_object('lease_id', l.lease_id, 'rollout_id', r.id, 'cancelled', r.cancel_requested_at is not null)), '[]')
    from internal.leases l join public.rollouts r on r.id = l.rollout_id where l.lease_id = any (lease_ids) and l.worker_id = of_worker_id);
end
$$;

create function public.renew_rollouts(worker_id uuid, lease_ids uuid[], lease_seconds double precision default 60) returns jsonb
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
begin
  perform internal.require_editor('renew leases'), internal.check_lease_seconds(lease_seconds);
  return jsonb_build_object('state', internal.beat_worker(worker_id, null, internal.owner_to_match()),
    'leases', internal.renew(worker_id, lease_ids, lease_seconds));
end
$$;
comment on function public.renew_rollouts is 'Renew a worker''s leases, which is its heartbeat. Returns {state, leases: [{lease_id, rollout_id, cancelled}]}; a lease that is missing was lost or has ended.';

create function internal.give_back(of_worker_id uuid, lease_ids uuid[], reason text, counts boolean) returns integer
language plpgsql security definer set search_path = ''
as $$
declare
  held uuid[] := array(select l.rollout_id from internal.leases l where l.worker_id = of_worker_id and l.lease_id = any (lease_ids));
  of_rollout_id uuid;
begin
  perform 1 from public.rollouts r where r.id = any (held) order by r.id for update;
  held := array(select l.rollout_id from internal.leases l where l.rollout_id = any (held) and l.lease_id = any (lease_ids) order by l.rollout_id for update);
  perform internal.lock_evaluations(held);
  foreach of_rollout_id in array held loop
    perform internal.put_back(of_rollout_id, reason, counts);
  end loop;
  return cardinality(held);
end
$$;

create function public.release_rollouts(worker_id uuid, lease_ids uuid[], reason text default null, counts boolean default false) returns integer
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
begin
  perform internal.require_editor('release rollouts'), internal.beat_worker(worker_id, null, internal.owner_to_match());
  return internal.give_back(worker_id, lease_ids, coalesce(reason, 'the worker returned it'), counts);
end
$$;
comment on function public.release_rollouts is 'Return rollouts to the queue; with `counts` the attempt counts towards max_attempts. Returns how many were still leased.';

create function public.retire_worker(worker_id uuid) returns integer
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
begin
  perform internal.require_editor('retire a worker'), internal.beat_worker(worker_id, 'stopped', internal.owner_to_match());
  return internal.give_back(worker_id, internal.leases_of(worker_id), 'the worker ended', false);
end
$$;
comment on function public.retire_worker is 'A worker ends: what it still has goes back to the queue. Returns how many rollouts that were.';

create function internal.leases_of(of_worker_id uuid) returns uuid[]
language sql stable security definer set search_path = ''
as $$ select array(select l.lease_id from internal.leases l where l.worker_id = of_worker_id) $$;

-- Cancelling, retrying, deleting ------------------------------------------------------------------------------------------------

create function internal.require_rollouts(rollout_ids uuid[], owner uuid) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  missing uuid;
  others uuid;
begin
  perform 1 from public.rollouts r where r.id = any (rollout_ids) order by r.id for update;
  perform internal.lock_evaluations(rollout_ids);
  select i into missing from unnest(rollout_ids) i where not exists (select 1 from public.rollouts r where r.id = i) limit 1;
  if missing is not null then
    raise exception using errcode = 'OM404', column = 'rollout_id', message = format('rollout %s: unknown id', missing);
  end if;
  select r.id into others from public.rollouts r where r.id = any (rollout_ids) and not internal.may_act(r, owner) limit 1;
  if others is not null then
    raise exception using errcode = 'OM403', column = 'rollout_id', message = format('rollout %s: not yours to change; ask its owner or an admin', others);
  end if;
end
$$;

create function internal.stop(rollout_ids uuid[], deleting boolean) returns void
language plpgsql security definer set search_path = ''
as $$
-- The rollouts are locked.
begin
  perform set_config('openmanus_rl.leases', 'queue', true);
  update public.rollouts r set status = 'cancelled', status_message = null, cancel_requested_at = null
  where r.id = any (rollout_ids) and r.request is not null and r.status = 'pending' and not deleting;
  update public.rollouts r set cancel_requested_at = coalesce(r.cancel_requested_at, now()), delete_requested = r.delete_requested or deleting
  where r.id = any (rollout_ids) and exists (select 1 from internal.leases l where l.rollout_id = r.id);
  if deleting then
    delete from public.rollouts r where r.id = any (rollout_ids) and not exists (select 1 from internal.leases l where l.rollout_id = r.id);
  end if;
  perform set_config('openmanus_rl.leases', '', true);
end
$$;

create function public.cancel_rollouts(rollout_ids uuid[]) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  ended uuid;
begin
  perform internal.require_editor('cancel rollouts'), internal.require_rollouts(rollout_ids, internal.owner_to_match());
  select r.id into ended from public.rollouts r where r.id = any (rollout_ids) and r.request is null limit 1;
  if ended is not null then
    raise exception using errcode = 'OM409', column = 'rollout_id', message = format('rollout %s: it is recorded by a training run and is not of the queue; stop the process that records it', ended);
  end if;
  perform internal.stop(rollout_ids, deleting => false);
  return (select coalesce(jsonb_agg(to_jsonb(r) order by r.id), '[]') from public.rollouts r where r.id = any (rollout_ids));
end
$$;
comment on function public.cancel_rollouts is 'Cancel rollouts of the queue: those that wait are cancelled at once, those that run are stopped by their worker within seconds. Those that have ended stay as they are. Returns the rows.';

create function public.delete_rollouts(rollout_ids uuid[]) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('delete rollouts'), internal.require_rollouts(rollout_ids, internal.owner_to_match());
  perform internal.stop(rollout_ids, deleting => true);
  return jsonb_build_object(
    'deleted', (select coalesce(jsonb_agg(i), '[]') from unnest(rollout_ids) i where not exists (select 1 from public.rollouts r where r.id = i)),
    'stopping', (select coalesce(jsonb_agg(r.id), '[]') from public.rollouts r where r.id = any (rollout_ids)));
end
$$;
comment on function public.delete_rollouts is 'Delete rollouts with their turns. One that runs is stopped first, and deleted when its worker has removed its environment. Returns {deleted, stopping}.';

create function internal.requeue(rollout_ids uuid[]) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  of_rollout_id uuid;
begin
  foreach of_rollout_id in array rollout_ids loop
    perform internal.set_aside(of_rollout_id, 'it was tried again');
    perform set_config('openmanus_rl.leases', 'queue', true);
    update public.rollouts r set status = 'pending', status_message = null, attempt = r.attempt + 1, max_attempts = greatest(r.max_attempts, least(r.attempt + 1, 32767)),
      worker_id = null, lease_id = null, started_at = null, finished_at = null, total_reward = null, step_count = null, result = null, error = null,
      video_path = null, logs_path = null, input_tokens = null, output_tokens = null, cost_usd = null, cancel_requested_at = null
    where r.id = of_rollout_id;
    perform set_config('openmanus_rl.leases', '', true);
  end loop;
end
$$;

create function public.retry_rollouts(rollout_ids uuid[]) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  judged public.rollouts;
begin
  perform internal.require_editor('retry rollouts'), internal.require_rollouts(rollout_ids, internal.owner_to_match());
  select r.* into judged from public.rollouts r
  where r.id = any (rollout_ids) and (r.request is null or r.status not in ('error', 'cancelled', 'timeout', 'truncated', 'interrupted')) limit 1;
  if judged.id is not null then
    raise exception using errcode = 'OM409', column = 'status', message = case
      when judged.request is null then format('rollout %s: it was recorded, and not asked of the queue; request a new one', judged.id)
      when not internal.is_ended(judged.status) then format('rollout %s: it is %s; cancel it first', judged.id, judged.status)
      else format('rollout %s: it ended with %s; request a new one', judged.id, judged.status) end;
  end if;
  perform internal.requeue(rollout_ids);
  return (select coalesce(jsonb_agg(to_jsonb(r) order by r.id), '[]') from public.rollouts r where r.id = any (rollout_ids));
end
$$;
comment on function public.retry_rollouts is 'Put rollouts that ended with error, cancelled, timeout or truncated back into the queue; what they recorded is set aside. Returns the rows.';

-- The queue at a glance -----------------------------------------------------------------------------------------------------------

create function internal.leases_now() returns table (rollout_id uuid, worker_id uuid, claimed_at timestamptz, expires_at timestamptz)
language sql stable security definer set search_path = ''
as $$ select l.rollout_id, l.worker_id, l.claimed_at, l.expires_at from internal.leases l $$;

create function internal.rollout_cards(rollout_ids uuid[]) returns table (place bigint, card jsonb)
language sql stable set search_path = '' set jit = off
as $$
  -- Rollouts of the queue in the order that was asked for: what a person who watches them wants to know, whatever the length of their texts.
  select i.place, jsonb_build_object('id', r.id, 'task_id', r.task_id, 'task_description', left(r.task_description, 200), 'environment', r.environment,
    'training_run_id', r.training_run_id, 'owner_id', case when r.training_run_id is null then r.owner_id else t.owner_id end,
    'agent', r.agent, 'model', r.model, 'status', r.status, 'status_message', left(r.status_message, 300), 'priority', r.priority,
    'attempt', r.attempt, 'max_attempts', r.max_attempts, 'provider', r.request ->> 'provider', 'cancelling', r.cancel_requested_at is not null,
    'worker_id', r.worker_id, 'worker_name', w.name, 'created_at', r.created_at, 'claimed_at', l.claimed_at, 'expires_at', l.expires_at,
    'started_at', r.started_at, 'finished_at', r.finished_at, 'total_reward', r.total_reward,
    'turns', coalesce(r.step_count, (select count(*) from public.agent_states a where a.rollout_id = r.id)),
    'result', left(r.result #>> '{}', 300), 'error', left(r.error, 300), 'video_path', r.video_path, 'logs_path', r.logs_path)
  from unnest(rollout_ids) with ordinality i (id, place) join public.rollouts r on r.id = i.id
  left join internal.leases_now() l on l.rollout_id = r.id left join public.workers w on w.id = r.worker_id
  left join public.training_runs t on t.id = r.training_run_id
$$;

create function internal.cards_of(rollout_ids uuid[]) returns jsonb
language sql stable set search_path = ''
as $$ select coalesce(jsonb_agg(c.card order by c.place), '[]') from internal.rollout_cards(rollout_ids) c $$;

create function internal.workers_now() returns table (id uuid, name text, host text, pid integer, version text, max_rollouts integer, providers text[], state text, infra jsonb,
  owner_id uuid, heartbeat_at timestamptz, started_at timestamptz, stopped_at timestamptz, is_silent boolean, held bigint, held_since timestamptz)
language sql stable set search_path = ''
as $$
  -- A worker is silent if it has not renewed its leases for as long as they usually last. Those that stopped are shown for an hour.
  select w.id, w.name, w.host, w.pid, w.version, w.max_rollouts, w.providers, w.state, w.infra, w.owner_id, w.heartbeat_at, w.started_at, w.stopped_at,
    w.state <> 'stopped' and w.heartbeat_at < now() - interval '1 minute', coalesce(l.held, 0), l.held_since
  from public.workers w left join (
    select h.worker_id, count(*) as held, min(h.claimed_at) as held_since from internal.leases_now() h group by h.worker_id) l on l.worker_id = w.id
  where w.state <> 'stopped' or w.stopped_at > now() - interval '1 hour'
$$;

create function public.queue_overview(listed integer default 100) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
begin
  perform internal.check_range('listed', listed, 0, 1000);
  return (
    with waiting as materialized (
      select r.request ->> 'provider' as provider, count(*) as rollouts, min(r.created_at) as oldest_at
      from public.rollouts r where r.status = 'pending' and r.request is not null group by r.request ->> 'provider'
    ), workers as materialized (select n.*, case when n.is_silent then 'silent' else n.state end as health from internal.workers_now() n
    ), leases as materialized (select l.rollout_id, l.claimed_at from internal.leases_now() l)
    select jsonb_build_object(
      'waiting', (select coalesce(sum(w.rollouts), 0) from waiting w),
      'oldest_waiting_at', (select min(w.oldest_at) from waiting w),
      'held_count', (select count(*) from leases l join public.rollouts r on r.id = l.rollout_id),
      'health', (select jsonb_build_object('active', count(*) filter (where w.health = 'active'), 'draining', count(*) filter (where w.health = 'draining'),
          'silent', count(*) filter (where w.health = 'silent'), 'stopped', count(*) filter (where w.health = 'stopped'),
          'places', coalesce(sum(w.max_rollouts) filter (where w.health = 'active'), 0)) from workers w),
      -- Rollouts that no worker can take would wait forever.
      'unserved', (select coalesce(jsonb_agg(jsonb_build_object('provider', w.provider, 'rollouts', w.rollouts) order by w.provider), '[]') from waiting w
          where not exists (select 1 from workers k where k.health = 'active' and (w.provider = 'none' or w.provider = any (k.providers)))),
      'next', internal.cards_of(array(
          select r.id from public.rollouts r where r.status = 'pending' and r.request is not null order by r.priority desc, r.created_at, r.id limit listed)),
      'held', internal.cards_of(array(select l.rollout_id from leases l order by l.claimed_at, l.rollout_id limit listed)),
      -- What needs a person comes first: there may be more than are listed.
      'workers', (select coalesce(jsonb_agg(to_jsonb(w) - '{health,place}'::text[] order by w.place), '[]') from (
          select k.*, row_number() over (order by array_position(array['silent', 'draining', 'active', 'stopped'], k.health), k.held_since, k.heartbeat_at desc, k.id) as place
          from workers k order by place limit listed) w)));
end
$$;
comment on function public.queue_overview is 'The queue: how many rollouts wait, which are next, which are held by which worker and for how long, the workers with their health, and waiting rollouts that no worker can take.';

-- Watching ------------------------------------------------------------------------------------------------------------------------

create function public.watch_rollouts(requested_at timestamptz default null, task_id uuid default null, listed integer default 60) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_variable
-- Rollouts that were asked for in one request have the same created_at. Of a task, the newest that have not ended.
begin
  perform internal.check_range('listed', listed, 0, 1000);
  if num_nonnulls(requested_at, task_id) <> 1 then
    raise exception using errcode = 'OM400', column = 'requested_at', message = 'requested_at or task_id is required, and not both';
  end if;
  return (
    with watched as materialized (
      select r.id, r.status, r.priority, r.created_at, r.started_at, r.finished_at from public.rollouts r where r.created_at = requested_at and r.request is not null
      union all
      select n.id, n.status, n.priority, n.created_at, n.started_at, n.finished_at
      from (select r.* from public.rollouts r where r.task_id = task_id order by r.created_at desc, r.id limit 1000) n
      where n.request is not null and not internal.is_ended(n.status)
    ), counted as (select w.status, count(*) as rollouts from watched w group by w.status)
    select jsonb_build_object(
      'counts', (select coalesce(jsonb_object_agg(c.status, c.rollouts), '{}') from counted c),
      -- Those that run, then those that ended last, then those that are next.
      'rollouts', internal.cards_of(array(
        select w.id from watched w
        order by case when w.status = 'pending' then 2 when internal.is_ended(w.status) then 1 else 0 end, w.finished_at desc, w.priority desc, w.created_at, w.id limit listed))));
end
$$;
comment on function public.watch_rollouts is 'Rollouts of the queue to watch: those of one request (by its created_at), or those of a task that have not ended. Returns {counts by status, rollouts}.';

create function public.request_choices() returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
begin
  return (
    with lately as materialized (
      select r.agent, r.model, r.created_at from public.rollouts r where r.rewound_at is null order by r.created_at desc, r.id limit 2000)
    select jsonb_build_object(
      'agents', (select coalesce(jsonb_agg(a.agent order by a.last_at desc, a.agent), '[]')
        from (select l.agent, max(l.created_at) as last_at from lately l where l.agent is not null group by l.agent order by last_at desc, l.agent limit 50) a),
      'models', (select coalesce(jsonb_agg(m.model order by m.last_at desc, m.model), '[]')
        from (select l.model, max(l.created_at) as last_at from lately l where l.model is not null group by l.model order by last_at desc, l.model limit 50) m),
      'environments', (select coalesce(jsonb_agg(jsonb_build_object('name', e.name, 'kind', e.kind) order by e.name), '[]')
        from (select v.name, v.kind from public.environments v order by v.name limit 500) e)));
end
$$;
comment on function public.request_choices is 'What a request for rollouts may name: agents and models of the newest rollouts, and environments.';

-- Results of a task by agent and model ------------------------------------------------------------------------------------------

create function internal.pass_at(k integer, total bigint, solved bigint) returns double precision
language sql immutable set search_path = ''
as $$
  -- The probability that one of k of the rollouts, drawn without replacement, is solved; unknown with fewer than k.
  select case when total < k then null when total - solved < k then 1
    else 1 - (select exp(sum(ln((total - solved - i)::double precision / (total - i)))) from generate_series(0, k - 1) i) end
$$;

create function public.task_results(task_id uuid, sample integer default 5000) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_variable
begin
  perform internal.check_range('sample', sample, 1, 100000);
  return (
    with judged as (
      select r.agent, r.model, r.status, r.total_reward, r.step_count, r.cost_usd, r.input_tokens, r.output_tokens, r.created_at
      from public.rollouts r where r.task_id = task_id and r.rewound_at is null and r.attempt_of is null order by r.created_at desc, r.id limit sample
    ), grouped as (
      select j.agent, j.model, count(*) as rollouts, count(*) filter (where j.status in ('success', 'failed')) as verified,
        count(*) filter (where internal.is_completed(j.status)) as completed, count(*) filter (where j.status = 'success') as solved,
        avg(j.total_reward) filter (where internal.is_finite(j.total_reward)) as mean_reward, avg(j.step_count) filter (where internal.is_completed(j.status)) as mean_turns,
        sum(j.cost_usd) as cost_usd, sum(j.input_tokens) as input_tokens, sum(j.output_tokens) as output_tokens, max(j.created_at) as last_at
      from judged j group by j.agent, j.model)
    select coalesce(jsonb_agg(jsonb_build_object('agent', g.agent, 'model', g.model, 'rollouts', g.rollouts, 'completed', g.completed, 'verified', g.verified,
      'solved', g.solved, 'success_rate', g.solved::double precision / nullif(g.completed, 0), 'mean_reward', g.mean_reward, 'mean_turns', g.mean_turns,
      'cost_usd', g.cost_usd, 'input_tokens', g.input_tokens, 'output_tokens', g.output_tokens, 'last_at', g.last_at,
      'pass_at', (select jsonb_object_agg(k, internal.pass_at(k, g.completed, g.solved)) from unnest(array[1, 2, 4, 8, 16, 32]) k where k <= g.completed))
      order by g.last_at desc, g.agent, g.model), '[]') from grouped g);
end
$$;
comment on function public.task_results is 'Results of the newest rollouts of a task by agent and model, with pass@k.';

-- Rights --------------------------------------------------------------------------------------------------------------------------

revoke execute on function internal.require_editor, internal.owner_to_match, internal.may_act, internal.set_aside, internal.put_back, internal.lock_evaluations, internal.reclaim_expired,
  internal.advance_evaluation, internal.advance_evaluations, internal.leave_evaluations, internal.recount_evaluations, internal.delete_ended, internal.check_request, internal.whole_number, internal.find_task, internal.cache_key, internal.derived_id,
  internal.plan_rollouts, internal.add_rollouts, internal.task_references, internal.check_total, internal.require_run_of_mine, internal.as_uuid, internal.make_evaluation, internal.add_groups,
  internal.tasks_to_evaluate, internal.save_worker, internal.beat_worker, internal.drain_workers, internal.claim, internal.claim_of, internal.check_lease_seconds,
  internal.renew, internal.give_back, internal.leases_of, internal.require_rollouts, internal.stop, internal.requeue, internal.leases_now, internal.pass_at,
  internal.rollout_cards, internal.cards_of, internal.workers_now from public;
grant execute on function internal.require_editor, internal.owner_to_match, internal.reclaim_expired, internal.check_request,
  internal.whole_number, internal.find_task, internal.plan_rollouts, internal.add_rollouts, internal.derived_id, internal.task_references, internal.check_total, internal.require_run_of_mine, internal.as_uuid,
  internal.make_evaluation, internal.add_groups, internal.tasks_to_evaluate, internal.save_worker, internal.beat_worker, internal.drain_workers, internal.claim, internal.claim_of,
  internal.check_lease_seconds, internal.renew, internal.give_back, internal.leases_of, internal.require_rollouts, internal.stop, internal.requeue, internal.leases_now, internal.pass_at,
  internal.rollout_cards, internal.cards_of, internal.workers_now
  to authenticated, service_role;
revoke execute on function public.request_rollouts, public.request_evaluation, public.register_worker, public.stop_workers, public.claim_rollouts, public.renew_rollouts,
  public.release_rollouts, public.retire_worker, public.cancel_rollouts, public.delete_rollouts, public.retry_rollouts, public.queue_overview, public.task_results,
  public.watch_rollouts, public.request_choices
  from public, anon, authenticated, service_role;
grant execute on function public.request_rollouts, public.request_evaluation, public.register_worker, public.stop_workers, public.claim_rollouts, public.renew_rollouts,
  public.release_rollouts, public.retire_worker, public.cancel_rollouts, public.delete_rollouts, public.retry_rollouts, public.queue_overview, public.task_results,
  public.watch_rollouts, public.request_choices
  to authenticated, service_role;
