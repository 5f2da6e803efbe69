-- Workers, and the leases under which they hold rollouts. A rollout of the queue (its `request` is not null) that is neither waiting nor
-- ended has exactly one lease. Its columns and its turns can then be written only under that lease.

create table public.workers (
  id uuid primary key default internal.new_id(),
  name text not null check (length(name) between 1 and 500),
  host text,
  pid integer,
  version text,
  max_rollouts integer not null default 4 check (max_rollouts >= 1),
  providers text[] not null default '{}',
  state text not null default 'active' check (state in ('active', 'draining', 'stopped')),
  infra jsonb not null default '{}',
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  heartbeat_at timestamptz not null default now(),
  started_at timestamptz not null default now(),
  stopped_at timestamptz
);
comment on table public.workers is 'A process that works on rollouts of the queue. `providers` are the kinds of environments that it can start.';
create unique index workers_by_heartbeat on public.workers (heartbeat_at desc, id);
create unique index workers_by_owner on public.workers (owner_id, id);
select internal.protect('public.workers', 'false', writable => false);

-- Apart from rollouts: renewing a lease every few seconds then touches a narrow row, and no trigger or index of rollouts.
create table internal.leases (
  rollout_id uuid primary key references public.rollouts (id) on delete cascade,
  lease_id uuid not null unique,
  worker_id uuid not null,
  claimed_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
comment on table internal.leases is 'The leases that workers hold now.';
create unique index leases_by_expiry on internal.leases (expires_at, rollout_id);
create unique index leases_of_a_worker on internal.leases (worker_id, rollout_id);

-- Writing under a lease ---------------------------------------------------------------------------------------------------------
-- The setting openmanus_rl.leases holds the leases under which a session writes, separated by commas; 'queue' is for the functions of the queue.

create function internal.is_held(of_lease_id uuid) returns boolean
language sql stable set search_path = ''
as $$ select of_lease_id::text = any (string_to_array(current_setting('openmanus_rl.leases', true), ',')) $$;

create function internal.writes_under_lease() returns boolean
language sql stable set search_path = ''
as $$ select coalesce(current_setting('openmanus_rl.leases', true), '') not in ('', 'queue') $$;

create function internal.is_ended(status text) returns boolean
language sql immutable parallel safe set search_path = ''
as $$ select status not in ('pending', 'provisioning', 'running') $$;

create function internal.guard_lease() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if current_setting('openmanus_rl.leases', true) = 'queue' then
    return new;
  end if;
  if internal.writes_under_lease() then
    if internal.is_held(old.lease_id) is not true then
      raise exception using errcode = 'OM409', table = 'rollouts', column = 'lease_id',
        message = format('rollout %s: this worker has lost its lease', old.id);
    end if;
  elsif not internal.is_ended(old.status) and new.status <> old.status then
    raise exception using errcode = 'OM409', table = 'rollouts', column = 'status',
      message = format('rollout %s: it is in the queue, and only its worker changes its status; cancel it with cancel_rollouts', old.id);
  end if;
  if internal.is_ended(new.status) then
    delete from internal.leases l where l.rollout_id = old.id;
    new.cancel_requested_at := null;
  elsif new.status = 'pending' and old.status <> 'pending' then
    raise exception using errcode = 'OM409', table = 'rollouts', column = 'status',
      message = format('rollout %s: retry_rollouts puts it back into the queue', old.id);
  end if;
  return new;
end
$$;

create trigger guard_lease before update on public.rollouts for each row when (old.request is not null) execute function internal.guard_lease();

create function internal.refuse_unleased(kind text) returns void
language plpgsql security definer set search_path = ''
as $$
-- Refuse staged children of rollouts of the queue that are not written under their lease. Under a lease, the rollout is locked, so that its
-- lease is not taken away before the records are written.
declare
  mine constant boolean := internal.writes_under_lease();
  strangers uuid[];
begin
  if kind not in ('agent_states', 'rewards', 'validations', 'media') then
    return;
  end if;
  if mine then
    execute format('select 1 from public.rollouts r where r.id in (select s.rollout_id from pg_temp.%I s) order by r.id for no key update', 'stage_' || kind);
  end if;
  execute format(
    'select array(select r.id from public.rollouts r where r.id in (select distinct s.rollout_id from pg_temp.%I s) and %s)', 'stage_' || kind,
    case when mine then 'internal.is_held(r.lease_id) is not true' else 'r.request is not null and not internal.is_ended(r.status)' end) into strangers;
  if strangers <> '{}' then
    execute format(
      'with refused as (delete from pg_temp.%1$I s where s.rollout_id = any ($1) returning s.ordinal, s.id, s.rollout_id)
       insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
       select %2$L, r.ordinal, r.id::text, ''OM409'', ''rollout_id'', format(%3$L, r.id, r.rollout_id) from refused r', 'stage_' || kind, kind,
      kind || ' %s: rollout %s ' || case when mine then 'is no longer leased to this worker' else 'is in the queue, and only its worker adds to it' end)
    using strangers;
  end if;
end
$$;

revoke execute on function internal.is_held, internal.writes_under_lease, internal.is_ended, internal.guard_lease, internal.refuse_unleased from public;
grant execute on function internal.is_held, internal.writes_under_lease, internal.is_ended to anon, authenticated, service_role;
grant execute on function internal.refuse_unleased to authenticated, service_role;
