-- Evaluations that the queue makes: asking for one, and how it advances with its rollouts.

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
-- Groups and evaluations are looked up one by one (`limit 1`): in a claim, whose settings hold here too, Postgres would read all evaluations to join them.
begin
  perform internal.advance_evaluation(c.evaluation_id, 0, c.more_ended, c.has_begun)
  from (
    select g.evaluation_id, bool_or(n.status not in ('pending', 'provisioning', 'cancelled')) as has_begun,
      (count(*) filter (where internal.is_ended(n.status)) - count(*) filter (where internal.is_ended(o.status)))::integer as more_ended
    from new_rows n join old_rows o using (id)
    cross join lateral (select k.evaluation_id from public.rollout_groups k where k.id = n.group_id limit 1) g
    cross join lateral (select k.status from public.evaluations k where k.id = g.evaluation_id and k.is_queued limit 1) e
    where n.request is not null and n.status <> o.status
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

create function internal.lock_evaluations(of_rollout_ids uuid[]) returns void
language sql security definer set search_path = ''
as $$
  -- In one order, before rollouts of several evaluations end one after the other.
  select 1 from internal.queued_evaluations q
  where q.evaluation_id in (select g.evaluation_id from public.rollouts r join public.rollout_groups g on g.id = r.group_id where r.id = any (of_rollout_ids))
  order by q.evaluation_id for update
$$;

-- Asking for an evaluation -------------------------------------------------------------------------------------------------------

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
    perform internal.fail('OM409', 'request_id', format('request_id %s: it is the id of another evaluation; give a new one', evaluation_id));
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
    perform internal.fail('OM400', 'kind', 'kind: eval or baseline is expected');
  end if;
  checkpoint_id := internal.as_uuid(request, 'checkpoint_id');
  run_id := internal.as_uuid(request, 'training_run_id');
  if checkpoint_id is not null then
    run_id := (select c.training_run_id from public.model_checkpoints c where c.id = checkpoint_id);
    if run_id is null then
      perform internal.fail('OM404', 'checkpoint_id', format('checkpoint %s: unknown id', checkpoint_id));
    elsif run_id <> internal.as_uuid(request, 'training_run_id') then
      perform internal.fail('OM400', 'training_run_id', format('training_run_id: checkpoint %s is of run %s', checkpoint_id, run_id));
    end if;
  end if;
  if run_id is not null then
    perform internal.require_run_of_mine(run_id);
  end if;
  step := coalesce(internal.whole_number(request, 'step', 0, 9007199254740991, null), (select c.step from public.model_checkpoints c where c.id = checkpoint_id));
  tasks := internal.tasks_to_evaluate(request);
  if tasks = '{}' then
    perform internal.fail('OM404', 'environment',
      format('environment %s: it has no tasks%s; give task_ids', coalesce(request ->> 'environment', '(none)'), ' of split ' || (request ->> 'split')));
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
    perform internal.note('evaluation.requested', 'evaluations', evaluation_id, request ->> 'name', jsonb_build_object('rollouts', cardinality(planned)));
  end if;
  return jsonb_build_object('evaluation', (select to_jsonb(e) from public.evaluations e where e.id = evaluation_id),
    'rollouts', (select coalesce(jsonb_agg(to_jsonb(r) order by g.number, r.id), '[]') from public.rollouts r join public.rollout_groups g on g.id = r.group_id
                 where g.evaluation_id = evaluation_id));
end
$$;
comment on function public.request_evaluation is 'Ask the queue to evaluate a checkpoint or a model on tasks: makes the evaluation, a group per task and the rollouts. Takes what request_rollouts takes, and checkpoint_id, name, kind, step, split; without task_ids, all tasks of the environment. Returns {evaluation, rollouts}.';

revoke execute on function internal.advance_evaluation, internal.advance_evaluations, internal.leave_evaluations, internal.recount_evaluations,
  internal.lock_evaluations, internal.make_evaluation, internal.add_groups, internal.tasks_to_evaluate from public;
grant execute on function internal.make_evaluation, internal.add_groups, internal.tasks_to_evaluate to authenticated, service_role;
revoke execute on function public.request_evaluation from public, anon, authenticated, service_role;
grant execute on function public.request_evaluation to authenticated, service_role;
