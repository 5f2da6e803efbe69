-- Rollouts whose worker does not end them: its lease expired, or it gave them back.

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

-- Expired leases ------------------------------------------------------------------------------------------------------------------
create function internal.reclaim_expired() returns integer
language plpgsql security definer set search_path = ''
as $$
declare
  -- The time is a subquery, which is evaluated once: an index cannot be searched for a volatile function, and all leases would be read.
  expired uuid[] := array(select l.rollout_id from internal.leases l where l.expires_at < (select clock_timestamp()) order by l.expires_at, l.rollout_id limit 100);
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

revoke execute on function internal.set_aside, internal.put_back, internal.reclaim_expired from public;
grant execute on function internal.reclaim_expired to authenticated, service_role;
