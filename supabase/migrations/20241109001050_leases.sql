-- Workers, and the leases under which they hold rollouts. A rollout of the queue (its `request` is not null) that is neither waiting nor
-- ended has exactly one lease. Its columns and its turns are then written only under that lease, and before that by nobody.

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
declare
  -- What others than its worker may change of a rollout before it has ended. Foreign keys clear the last two.
  free constant text[] := array['metadata', 'timeline', 'rewound_at', 'updated_at', 'task_id', 'owner_id'];
  field text;
begin
  if current_setting('openmanus_rl.leases', true) = 'queue' then
    return new;
  end if;
  if internal.writes_under_lease() then
    if internal.is_held(old.lease_id) is not true then
      perform internal.fail('OM409', 'lease_id',
        format('rollout %s: this worker has lost its lease', old.id));
    end if;
  elsif not internal.is_ended(old.status) then
    select n.key into field from jsonb_each(to_jsonb(new) - free) n where n.value is distinct from to_jsonb(old) -> n.key order by n.key = 'status' desc, n.key limit 1;
    if field is not null then
      perform internal.fail('OM409', field,
        format('rollout %s: it is in the queue, and only its worker changes its %s; cancel it with cancel_rollouts', old.id, field));
    end if;
  end if;
  if not internal.is_ended(new.status) and (internal.is_ended(old.status) or (new.status = 'pending' and old.status <> 'pending')) then
    perform internal.fail('OM409', 'status',
      format('rollout %s: it is of the queue; retry_rollouts puts it back', old.id));
  elsif internal.is_ended(new.status) and not internal.is_ended(old.status) then
    delete from internal.leases l where l.rollout_id = old.id;
    new.cancel_requested_at := null;
  end if;
  return new;
end
$$;

create trigger guard_lease before update on public.rollouts for each row when (old.request is not null) execute function internal.guard_lease();

-- Writing row by row --------------------------------------------------------------------------------------------------------------

create function internal.require_lease(kind text, row_id uuid, field text, parent_id uuid) returns void
language plpgsql set search_path = ''
as $$
-- A row is written whose field leads to a rollout. That is locked before its status is looked at: retry_rollouts may just put it back.
declare
  of_rollout_id uuid := parent_id;
  found_rollout record;
begin
  if field = 'agent_state_id' then
    of_rollout_id := (select a.rollout_id from public.agent_states a where a.id = parent_id);
  end if;
  -- The rollout is gone if its rows are deleted with it.
  select r.status, internal.is_held(r.lease_id) as is_mine into found_rollout from public.rollouts r where r.id = of_rollout_id and r.request is not null for key share;
  if found and not internal.is_ended(found_rollout.status) and found_rollout.is_mine is not true then
    perform internal.fail('OM409', field,
      format('%s %s: its rollout is in the queue, and only its worker writes to it', replace(kind, '_', ' '), row_id));
  end if;
  if kind in ('agent_states', 'observations', 'generations', 'tool_calls') then
    perform internal.refuse_if_archived(kind, row_id, field, (select r.training_run_id from public.rollouts r where r.id = of_rollout_id));
  end if;
end
$$;

create function internal.guard_turn() returns trigger
language plpgsql security definer set search_path = ''
as $$
-- Arguments: the fields that lead to the rollout.
declare
  written record;
  parent_id uuid;
begin
  if tg_op = 'DELETE' then
    written := old;
  else
    written := new;
  end if;
  for place in 0 .. tg_nargs - 1 loop
    execute format('select ($1).%I', tg_argv[place]) into parent_id using written;
    perform internal.require_lease(tg_table_name, written.id, tg_argv[place], parent_id);
  end loop;
  return null;
end
$$;

create function internal.hold_to_lease(target regclass, variadic fields text[]) returns void
language plpgsql set search_path = ''
as $$
-- Called after internal.refer, whose trigger looks at new rows: the condition of another one would be evaluated for each row of a batch. After each row
-- and not before it: row security comes first. What is written in a batch is looked at once, by internal.refuse_unleased.
declare
  is_referring boolean := fields <@ array(select p.field from internal.parents_of(target) p where not p.is_checked_by_row);
begin
  execute format('create trigger hold_to_lease after %s on %s for each row
    when (current_setting(''openmanus_rl.in_batch'', true) is distinct from ''on'')
    execute function internal.guard_turn(%s)', case when is_referring then 'update or delete' else 'insert or update or delete' end, target,
    (select string_agg(quote_literal(f), ', ') from unnest(fields) f));
end
$$;

-- Writing batches -----------------------------------------------------------------------------------------------------------------

create function internal.rollouts_of(kind text, kinds text[]) returns text
language sql immutable set search_path = ''
as $$
  -- A query of the rollouts that staged records belong to, with the number of the record. NULL for kinds that belong to none.
  select case
    when kind = 'rollouts' then 'select s.ordinal, s.id from pg_temp.stage_rollouts s'
    when kind in ('agent_states', 'rewards', 'validations') then format('select s.ordinal, s.rollout_id from pg_temp.%I s', 'stage_' || kind)
    when kind = 'media' then 'select s.ordinal, s.rollout_id from pg_temp.stage_media s union all
      select s.ordinal, a.rollout_id from pg_temp.stage_media s join public.agent_states a on a.id = s.agent_state_id'
    when kind in ('observations', 'generations', 'tool_calls') then format(
      'select s.ordinal, a.rollout_id from pg_temp.%I s join public.agent_states a on a.id = s.agent_state_id', 'stage_' || kind)
      -- Turns of the batch are looked at themselves, and a refused turn takes its parts with it.
      || case when 'agent_states' = any (kinds) then ' where not exists (select 1 from pg_temp.stage_agent_states t where t.id = s.agent_state_id)' else '' end
  end
$$;

create function internal.lock_leased(kinds text[]) returns void
language plpgsql security definer set search_path = ''
as $$
-- Under a lease, lock the rollouts of the batch, so that the lease is not taken away before the records are written.
declare
  sources text := (select string_agg(internal.rollouts_of(k, kinds), ' union all ') from unnest(kinds) k);
begin
  if sources is not null and internal.writes_under_lease() then
    execute format('select 1 from public.rollouts r where r.id in (select o.rollout_id from (%s) o (ordinal, rollout_id)) order by r.id for no key update', sources);
  end if;
end
$$;

create function internal.refuse_unleased(kind text, kinds text[]) returns void
language plpgsql security definer set search_path = ''
as $$
-- Refuse staged records of rollouts of the queue that are not written under their lease, and under a lease those of all other rollouts.
declare
  mine constant boolean := internal.writes_under_lease();
  of_rollouts constant text := '(' || internal.rollouts_of(kind, kinds) || ') o (ordinal, rollout_id)';
  strangers integer[];
begin
  if of_rollouts is null or (kind = 'rollouts' and not mine) then
    return;
  end if;
  if kind in ('validations', 'media') and not mine then
    -- Others are locked by internal.refuse_orphans.
    execute format('select 1 from public.rollouts r where r.id in (select o.rollout_id from %s) order by r.id for key share', of_rollouts);
  end if;
  -- A worker makes no rollouts: one that is not there was deleted.
  execute format('select array(select distinct o.ordinal from %s left join public.rollouts r on r.id = o.rollout_id where o.rollout_id is not null and %s)', of_rollouts,
    case when kind = 'rollouts' then 'r.id is null' when mine then 'internal.is_held(r.lease_id) is not true'
      else 'r.request is not null and not internal.is_ended(r.status)' end) into strangers;
  if strangers <> '{}' then
    execute format(
      'with refused as (delete from pg_temp.%1$I s where s.ordinal = any ($1) returning s.ordinal, s.id)
       insert into pg_temp.stage_refused (kind, ordinal, id, code, field, message)
       select %2$L, r.ordinal, r.id::text, %3$L, %4$L, format(%5$L, r.id) from refused r', 'stage_' || kind, kind,
      case kind when 'rollouts' then 'OM404' else 'OM409' end, case kind when 'rollouts' then 'id' else 'rollout_id' end,
      kind || ' %s: ' || case when kind = 'rollouts' then 'unknown id; it was deleted' when mine then 'its rollout is not leased to this worker, or no longer'
        else 'its rollout is in the queue, and only its worker adds to it' end)
    using strangers;
  end if;
end
$$;

revoke execute on function internal.is_held, internal.writes_under_lease, internal.is_ended, internal.guard_lease, internal.require_lease, internal.guard_turn, internal.hold_to_lease, internal.rollouts_of, internal.lock_leased,
  internal.refuse_unleased from public;
grant execute on function internal.is_held, internal.writes_under_lease, internal.is_ended to anon, authenticated, service_role;
grant execute on function internal.lock_leased, internal.refuse_unleased to authenticated, service_role;
