-- The queue of rollouts, and asking for rollouts. A rollout of the queue is pending; a worker claims it (provisioning, then running) under
-- a lease, and ends it by writing its final status. If the lease expires, the rollout is pending again, up to max_attempts.

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

-- Asking for rollouts -----------------------------------------------------------------------------------------------------------

create function internal.check_request(request jsonb, known text[]) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  field text;
begin
  if jsonb_typeof(request) is distinct from 'object' then
    perform internal.fail('OM400', 'request', 'request: an object is expected, such as {"task_id": …, "attempts": 4}');
  end if;
  select k into field from jsonb_object_keys(request) k where not k = any (known) order by k limit 1;
  if field is not null then
    perform internal.fail('OM400', field, format('%s: no such field; there are %s', field, array_to_string(known, ', ')));
  end if;
  for field in select k from unnest(array['agent', 'model', 'environment', 'name', 'split', 'kind']) k where jsonb_typeof(request -> k) not in ('string', 'null') or request ->> k = '' loop
    perform internal.fail('OM400', field, format('%s: a text is expected', field));
  end loop;
  for field in select k from unnest(array['limits', 'agent_options', 'metadata']) k where jsonb_typeof(request -> k) not in ('object', 'null') loop
    perform internal.fail('OM400', field, format('%s: an object is expected', field));
  end loop;
  for field in select k from unnest(array['reuse']) k where jsonb_typeof(request -> k) not in ('boolean', 'null') loop
    perform internal.fail('OM400', field, format('%s: true or false is expected', field));
  end loop;
  select l.key into field from jsonb_each(case when jsonb_typeof(request -> 'limits') = 'object' then request -> 'limits' else '{}' end) l
  where l.key not in ('max_steps', 'max_seconds', 'max_tokens', 'max_cost_usd')
    or case jsonb_typeof(l.value) when 'number' then (l.value #>> '{}')::numeric <= 0 or (l.value #>> '{}')::numeric > 1e12 when 'null' then false else true end
    or (l.key in ('max_steps', 'max_tokens') and (l.value #>> '{}')::numeric % 1 <> 0)
  order by l.key limit 1;
  if field is not null then
    perform internal.fail('OM400', 'limits.' || field,
      format('limits.%s: limits are positive numbers named max_steps, max_seconds, max_tokens and max_cost_usd', field));
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
  perform internal.fail('OM400', field, format('%s: a whole number from %s to %s is expected', field, low, high));
end
$$;

create function internal.as_uuid(request jsonb, field text) returns uuid
language plpgsql immutable set search_path = ''
as $$
begin
  if request ->> field is null or request ->> field ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    return (request ->> field)::uuid;
  end if;
  perform internal.fail('OM400', field, format('%s: a uuid is expected', field));
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
  perform internal.fail(case when matches > 1 then 'OM409' else 'OM404' end, 'task_id',
    case when matches > 1 then format('task %s: %s environments have one with this id; give its uuid', reference, matches)
      else format('task %s: unknown id; import it first', reference) end);
end
$$;

create function internal.cache_key(task public.tasks, environment text, environment_version integer, request jsonb, agent text, model text, seed bigint) returns text
language sql stable security definer set search_path = ''
as $$
  -- jsonb_build_array and not concat: a value cannot run into the next one. With the validators: another one may judge otherwise.
  select md5(jsonb_build_array(task.id, task.version, environment, environment_version, agent, model, seed, request -> 'agent_options', request -> 'limits',
    (select jsonb_agg(jsonb_build_array(v.id, v.version) order by v.id) from public.validators v where v.task_id = task.id and v.retired_at is null))::text)
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
    perform internal.fail('OM404', 'environment', format('environment %s: unknown; create it first', environment));
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
    perform internal.fail('OM400', 'task_ids', 'task_ids: give task_id or task_ids, not both');
  end if;
  if jsonb_typeof(given) is distinct from 'array' or given = '[]' or exists (select 1 from jsonb_array_elements(given) g where jsonb_typeof(g) <> 'string') then
    perform internal.fail('OM400', case when request ? 'task_ids' then 'task_ids' else 'task_id' end,
      'task_id or task_ids is required: the id of a task, or a list of ids');
  end if;
  if jsonb_array_length(given) > 10000 then
    perform internal.fail('OM400', 'task_ids', format('task_ids: at most 10000 at once, not %s', jsonb_array_length(given)));
  end if;
  return array(select g from jsonb_array_elements_text(given) g);
end
$$;

create function internal.check_total(tasks bigint, request jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if tasks * internal.whole_number(request, 'attempts', 1, 1000, 1) > 10000 then
    perform internal.fail('OM400', 'attempts', format('attempts: %s tasks times %s attempts are more than 10000 rollouts at once', tasks, request ->> 'attempts'));
  end if;
end
$$;

create function internal.require_run_of_mine(run_id uuid) returns void
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_run(run_id);
  if current_user = 'authenticated' and not internal.is_admin() and not internal.owns_run(run_id) then
    perform internal.fail('OM403', 'training_run_id', format('training run %s: not yours to change; ask its owner or an admin', run_id));
  end if;
  -- A rewind would not see the rollouts that are about to be added.
  perform internal.follow_run(run_id);
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
  -- A repeated request finds its rollouts there already.
  perform internal.note_many('rollout.requested', 'rollouts', array(
    select p.id from unnest(planned) p where not exists (select 1 from public.rollouts r where r.id = p.id) order by p.id));
  perform internal.add_rollouts(planned);
  return jsonb_build_object('reused', to_jsonb(reused), 'rollouts', (
    select coalesce(jsonb_agg(to_jsonb(r) order by m.place), '[]') from unnest(made) with ordinality m (id, place) join public.rollouts r on r.id = m.id));
end
$$;
comment on function public.request_rollouts is 'Put rollouts of tasks into the queue: {task_id or task_ids, attempts, agent, model, environment, priority, seed, limits, agent_options, reuse, training_run_id}. With `reuse`, equal rollouts that have ended answer instead of new ones. The same request_id again changes nothing. Returns {rollouts, reused}.';

revoke execute on function internal.require_editor, internal.owner_to_match, internal.may_act, internal.check_request, internal.whole_number,
  internal.as_uuid, internal.find_task, internal.cache_key, internal.derived_id, internal.plan_rollouts, internal.add_rollouts,
  internal.task_references, internal.check_total, internal.require_run_of_mine from public;
grant execute on function internal.require_editor, internal.owner_to_match, internal.check_request, internal.whole_number, internal.as_uuid,
  internal.find_task, internal.derived_id, internal.plan_rollouts, internal.add_rollouts, internal.task_references, internal.check_total,
  internal.require_run_of_mine to authenticated, service_role;
revoke execute on function public.request_rollouts from public, anon, authenticated, service_role;
grant execute on function public.request_rollouts to authenticated, service_role;
