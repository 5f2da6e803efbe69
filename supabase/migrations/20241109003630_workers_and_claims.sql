-- Workers, and how they claim, renew and release rollouts of the queue.

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
    perform internal.fail('OM403', 'id', format('worker %s: it is another user''s', worker ->> 'id'));
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
    perform internal.fail('OM400', 'worker', 'worker: an object is expected, with a name of at most 500 characters');
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
    perform internal.fail('OM404', 'worker_id', format('worker %s: unknown id; register it first', of_worker_id));
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
  if stopped > 0 then
    perform internal.note_many('worker.stopped', 'workers', worker_ids);
  end if;
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
        select coalesce(jsonb_agg(to_jsonb(v) order by v.external_id), '[]') from public.validators v where v.task_id = t.id and v.retired_at is null))
      from public.tasks t where t.id = r.task_id),
    'environment', (select jsonb_build_object('id', e.id, 'name', e.name, 'version', e.version, 'kind', e.kind, 'spec', e.spec)
      from public.environments e where e.name = r.environment))
$$;

create function internal.check_lease_seconds(lease_seconds double precision) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if lease_seconds is null or not lease_seconds between 1 and 86400 then
    perform internal.fail('OM400', 'lease_seconds', format('lease_seconds is %s: 1 to 86400 are possible', lease_seconds));
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

revoke execute on function internal.save_worker, internal.beat_worker, internal.drain_workers, internal.claim, internal.claim_of,
  internal.check_lease_seconds, internal.renew, internal.give_back, internal.leases_of from public;
grant execute on function internal.save_worker, internal.beat_worker, internal.drain_workers, internal.claim, internal.claim_of,
  internal.check_lease_seconds, internal.renew, internal.give_back, internal.leases_of to authenticated, service_role;
revoke execute on function public.register_worker, public.stop_workers, public.claim_rollouts, public.renew_rollouts, public.release_rollouts,
  public.retire_worker from public, anon, authenticated, service_role;
grant execute on function public.register_worker, public.stop_workers, public.claim_rollouts, public.renew_rollouts, public.release_rollouts,
  public.retire_worker to authenticated, service_role;
