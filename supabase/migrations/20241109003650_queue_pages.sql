-- What people see of the queue: waiting and running rollouts, workers, choices for a request, results of a task.

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
    perform internal.fail('OM400', 'requested_at', 'requested_at or task_id is required, and not both');
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

revoke execute on function internal.leases_now, internal.rollout_cards, internal.cards_of, internal.workers_now, internal.pass_at from public;
grant execute on function internal.leases_now, internal.rollout_cards, internal.cards_of, internal.workers_now, internal.pass_at
  to authenticated, service_role;
revoke execute on function public.queue_overview, public.watch_rollouts, public.request_choices, public.task_results
  from public, anon, authenticated, service_role;
grant execute on function public.queue_overview, public.watch_rollouts, public.request_choices, public.task_results to authenticated, service_role;
