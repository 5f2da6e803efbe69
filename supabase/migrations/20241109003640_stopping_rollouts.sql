-- Cancelling, deleting and retrying rollouts.

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
    perform internal.fail('OM404', 'rollout_id', format('rollout %s: unknown id', missing));
  end if;
  select r.id into others from public.rollouts r where r.id = any (rollout_ids) and not internal.may_act(r, owner) limit 1;
  if others is not null then
    perform internal.fail('OM403', 'rollout_id', format('rollout %s: not yours to change; ask its owner or an admin', others));
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
    perform internal.fail('OM409', 'rollout_id', format('rollout %s: it is recorded by a training run and is not of the queue; stop the process that records it', ended));
  end if;
  perform internal.stop(rollout_ids, deleting => false);
  perform internal.note_many('rollout.cancelled', 'rollouts', rollout_ids);
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
  perform internal.note_many('rollout.deleted', 'rollouts', rollout_ids);
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
  -- Those that wait or run already were put back before.
  for of_rollout_id in select r.id from public.rollouts r where r.id = any (rollout_ids) and internal.is_ended(r.status) order by r.id loop
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
  where r.id = any (rollout_ids) and (r.request is null or r.status in ('success', 'failed', 'completed') or num_nonnulls(r.cancel_requested_at, r.rewound_at) > 0)
  order by r.id limit 1;
  if judged.id is not null then
    perform internal.fail('OM409', 'status', case
      when judged.request is null then format('rollout %s: it was recorded, and not asked of the queue; request a new one', judged.id)
      when judged.rewound_at is not null then format('rollout %s: a rewind of its run hid it; request a new one', judged.id)
      when judged.cancel_requested_at is not null then format('rollout %s: it is being cancelled; retry it when it has ended', judged.id)
      else format('rollout %s: it ended with %s; request a new one', judged.id, judged.status) end);
  end if;
  perform internal.requeue(rollout_ids);
  perform internal.note_many('rollout.retried', 'rollouts', rollout_ids);
  return (select coalesce(jsonb_agg(to_jsonb(r) order by r.id), '[]') from public.rollouts r where r.id = any (rollout_ids));
end
$$;
comment on function public.retry_rollouts is 'Put rollouts that ended with error, cancelled, timeout or truncated back into the queue; what they recorded is set aside. Those that wait or run already stay as they are, so that a request can be repeated. Returns the rows.';

-- Rewinds -------------------------------------------------------------------------------------------------------------------------

create function internal.cancel_hidden(rollout_ids uuid[]) returns void
language plpgsql set search_path = ''
as $$
-- Nobody would see what comes of them. Called by internal.rewind_run, which has locked the rollouts.
begin
  perform internal.lock_evaluations(rollout_ids), internal.stop(rollout_ids, deleting => false);
end
$$;

create function internal.say_rewound() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.status_message := 'a rewind of its run hid it';
  return new;
end
$$;

-- Whoever cancels it: the rewind, the worker, or a lease that expires. Named so that it comes after guard_status, which clears the message.
create trigger say_rewound before update on public.rollouts for each row
  when (new.request is not null and new.status = 'cancelled' and old.status <> 'cancelled' and new.rewound_at is not null and new.status_message is null)
  execute function internal.say_rewound();

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

revoke execute on function internal.require_rollouts, internal.stop, internal.requeue, internal.cancel_hidden, internal.say_rewound, internal.delete_ended
  from public;
grant execute on function internal.require_rollouts, internal.stop, internal.requeue to authenticated, service_role;
revoke execute on function public.cancel_rollouts, public.delete_rollouts, public.retry_rollouts from public, anon, authenticated, service_role;
grant execute on function public.cancel_rollouts, public.delete_rollouts, public.retry_rollouts to authenticated, service_role;
