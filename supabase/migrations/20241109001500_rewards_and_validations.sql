-- Rewards of a rollout by component, and the verdicts of its task's validators.

-- Most turns have one reward without details, which is a column of the turn. All other rewards are rows of internal.rewards, and the
-- view `rewards` shows both. A step has at most one reward of a type, wherever it is.
create table internal.rewards (
  id uuid primary key default internal.new_id(),
  rollout_id uuid not null,
  training_run_id uuid,
  step_number integer check (step_number >= 0),
  reward_type text not null default 'step' check (reward_type <> ''),
  reward double precision not null,
  details jsonb,
  created_at timestamptz not null default now(),
  unique nulls not distinct (rollout_id, step_number, reward_type)
);
comment on table internal.rewards is 'Rewards that are not a column of their turn: of another type, with details, of the whole rollout, or logged separately.';

select internal.refer('internal.rewards', 'rollout_id', 'public.rollouts');
select internal.hold_to_lease('internal.rewards', 'rollout_id');
select internal.compress('internal.rewards', 'details');
select internal.pin('internal.rewards', 'rollout_id', 'training_run_id');
select internal.protect('internal.rewards', 'internal.owns_rollout(rollout_id, training_run_id)', 'internal.is_public_run(training_run_id)');

create view public.rewards with (security_invoker = true) as
select r.id, r.rollout_id, r.training_run_id, r.step_number, r.reward_type, r.reward, r.details, r.created_at
from internal.rewards r
union all
select a.id, a.rollout_id, a.training_run_id, a.step_number, 'step', a.reward, null, a.created_at
from public.agent_states a where a.reward is not null;
comment on view public.rewards is 'A component of the reward of a step, or of the whole rollout if step_number is NULL. A reward that is a column of its turn has the turn''s id.';
revoke all on public.rewards from public, anon, authenticated, service_role;
grant select on public.rewards to anon;
grant select, insert, update, delete on public.rewards to authenticated, service_role;
select internal.relate('public.rewards', 'rollout_id', 'public.rollouts');

-- One reward of a type per step ---------------------------------------------------------------------------------------------------
-- A session that adds a reward of type `step` to internal.rewards locks the rollout against sessions that add turns, which lock it FOR KEY
-- SHARE, then checks for a turn that holds one. A session that adds a turn with a reward checks internal.rewards.

create function internal.lock_rollouts(rollout_ids uuid[]) returns void
language sql security definer set search_path = ''
as $$ select 1 from public.rollouts r where r.id = any (rollout_ids) order by r.id for update $$;

create function internal.refuse_second_reward(rollout_id uuid, step_number integer) returns void
language plpgsql set search_path = ''
as $$
begin
  raise exception using errcode = '23505', table = 'rewards',
    message = format('rollout %s: step %s already has a reward of type step', rollout_id, step_number),
    detail = format('Key (rollout_id, step_number, reward_type)=(%s, %s, step) already exists.', rollout_id, step_number);
end
$$;

create function internal.check_turn_reward() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform 1 from public.rollouts r where r.id = new.rollout_id for key share;
  if exists (select 1 from internal.rewards w
             where w.rollout_id = new.rollout_id and w.step_number = new.step_number and w.reward_type = 'step') then
    perform internal.refuse_second_reward(new.rollout_id, new.step_number);
  end if;
  return new;
end
$$;

create trigger check_turn_reward before insert or update of reward, step_number on public.agent_states for each row
  when (new.reward is not null and current_setting('openmanus_rl.in_batch', true) is distinct from 'on')
  execute function internal.check_turn_reward();

-- Writing to the view -------------------------------------------------------------------------------------------------------------

create function internal.claim_step(given public.rewards) returns void
language plpgsql set search_path = ''
as $$
-- A row of internal.rewards of type `step` is about to be written.
begin
  if given.reward_type = 'step' and given.step_number is not null then
    perform internal.lock_rollouts(array[given.rollout_id]);
    if exists (select 1 from public.agent_states a
               where a.rollout_id = given.rollout_id and a.step_number = given.step_number and a.reward is not null) then
      perform internal.refuse_second_reward(given.rollout_id, given.step_number);
    end if;
  end if;
end
$$;

create function internal.add_reward(given public.rewards) returns public.rewards
language plpgsql set search_path = ''
as $$
declare
  added internal.rewards;
begin
  given.reward_type := coalesce(given.reward_type, 'step');
  perform internal.claim_step(given);
  insert into internal.rewards (id, rollout_id, training_run_id, step_number, reward_type, reward, details, created_at)
  values (coalesce(given.id, internal.new_id()), given.rollout_id, given.training_run_id, given.step_number, given.reward_type, given.reward,
    given.details, coalesce(given.created_at, now()))
  returning * into added;
  return added;
end
$$;

create function internal.change_reward(old public.rewards, new public.rewards) returns public.rewards
language plpgsql set search_path = ''
as $$
-- Returns NULL if the caller may not change it.
begin
  if (old.id, old.rollout_id, old.training_run_id) is distinct from (new.id, new.rollout_id, new.training_run_id) then
    perform internal.fail('OM409', 'rollout_id',
      format('reward %s: it cannot move to another rollout; create a new one', old.id));
  end if;
  if not exists (select 1 from public.agent_states a where a.id = old.id and a.reward is not null) then
    if (old.step_number, old.reward_type) is distinct from (new.step_number, new.reward_type) then
      perform internal.claim_step(new);
    end if;
    update internal.rewards r
    set step_number = new.step_number, reward_type = new.reward_type, reward = new.reward, details = new.details, created_at = new.created_at
    where r.id = old.id;
    return case when found then new end;
  end if;
  if new.reward is not null and (to_jsonb(new) - 'reward') = (to_jsonb(old) - 'reward') then
    update public.agent_states a set reward = new.reward where a.id = old.id;
    return case when found then new end;
  end if;
  -- No longer a reward that the turn's column can hold: move it to internal.rewards.
  update public.agent_states a set reward = null where a.id = old.id;
  return case when found then internal.add_reward(new) end;
end
$$;

create function internal.write_reward() returns trigger
language plpgsql set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    return internal.add_reward(new);
  elsif tg_op = 'UPDATE' then
    return internal.change_reward(old, new);
  end if;
  delete from internal.rewards r where r.id = old.id;
  if not found then
    update public.agent_states a set reward = null where a.id = old.id and a.reward is not null;
  end if;
  return case when found then old end;
end
$$;

create trigger write_reward instead of insert or update or delete on public.rewards for each row execute function internal.write_reward();

revoke execute on function internal.lock_rollouts, internal.refuse_second_reward, internal.check_turn_reward, internal.claim_step,
  internal.add_reward, internal.change_reward, internal.write_reward from public;
grant execute on function internal.lock_rollouts, internal.refuse_second_reward, internal.claim_step, internal.add_reward, internal.change_reward
  to authenticated, service_role;

-- Verdicts ------------------------------------------------------------------------------------------------------------------------

create table public.validations (
  id uuid primary key default internal.new_id(),
  rollout_id uuid not null references public.rollouts (id) on delete cascade,
  training_run_id uuid,
  validator_id uuid references public.validators (id) on delete set null,
  validator_name text not null default 'default' check (validator_name <> ''),
  validator_version integer,
  verdict text not null check (verdict in ('pass', 'fail', 'error')),
  score double precision,
  expected text,
  actual text,
  message text,
  details jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique nulls not distinct (rollout_id, validator_id, validator_name)
);
comment on table public.validations is 'A validator''s verdict on a rollout.';
create unique index validations_of_a_validator on public.validations (validator_id, id);

create trigger touch_updated_at before update on public.validations for each row execute function internal.touch_updated_at();
select internal.compress('public.validations', 'expected', 'actual', 'details');
select internal.hold_to_lease('public.validations', 'rollout_id');
select internal.pin('public.validations', 'rollout_id', 'training_run_id');
select internal.protect('public.validations', 'internal.owns_rollout(rollout_id, training_run_id)', 'internal.is_public_run(training_run_id)');
