-- Overrides: a person's verdict on a rollout, with who gave it, when and why. It takes precedence over the validators'.

create table public.validation_overrides (
  id uuid primary key default internal.new_id(),
  rollout_id uuid not null references public.rollouts (id) on delete cascade,
  training_run_id uuid,
  validation_id uuid references public.validations (id) on delete cascade,
  verdict text check (verdict in ('pass', 'fail')),
  reason text not null check (length(reason) between 1 and 2000),
  old_status text not null,
  new_status text not null,
  made_by uuid default auth.uid() references auth.users (id) on delete set null,
  made_by_name text,
  -- The clock's time, so that the last override of a transaction takes precedence.
  created_at timestamptz not null default clock_timestamp()
);
comment on table public.validation_overrides is 'Overrides of the verdict on a rollout, each by a person. The last one applies; one without a verdict withdraws those before it.';
create unique index validation_overrides_of_a_rollout on public.validation_overrides (rollout_id, created_at desc, id);
create unique index validation_overrides_of_a_validation on public.validation_overrides (validation_id, id);
create unique index validation_overrides_by_maker on public.validation_overrides (made_by, id);

select internal.protect('public.validation_overrides', 'false', 'internal.is_public_run(training_run_id)', writable => false);

-- An override stays until it is withdrawn ---------------------------------------------------------------------------------------

create function internal.standing_override(of_rollout_id uuid) returns public.validation_overrides
language sql stable set search_path = ''
as $$
  select o.* from public.validation_overrides o where o.rollout_id = of_rollout_id order by o.created_at desc, o.id desc limit 1
$$;

create function internal.keep_override() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- A validator's verdict does not replace an override that was not withdrawn.
  if (internal.standing_override(old.id)).verdict is not null then
    new.status := old.status;
    new.status_message := old.status_message;
    new.status_change_id := old.status_change_id;
  end if;
  return new;
end
$$;

-- The name puts it before guard_status, which then has nothing to guard.
create trigger defend_override before update on public.rollouts for each row
  when (old.status is distinct from new.status and old.status in ('success', 'failed')
    and current_setting('openmanus_rl.overriding', true) is distinct from new.id::text)
  execute function internal.keep_override();

-- Overriding --------------------------------------------------------------------------------------------------------------------

create function internal.add_override(rollout public.rollouts, of_validation_id uuid, verdict text, reason text, new_status text) returns public.validation_overrides
language sql volatile security definer set search_path = ''
as $$
  -- The caller has checked that the user may change the rollout.
  insert into public.validation_overrides (rollout_id, training_run_id, validation_id, verdict, reason, old_status, new_status, made_by_name)
  values (rollout.id, rollout.training_run_id, of_validation_id, verdict, reason, rollout.status, new_status,
    (select m.display_name from public.members m where m.user_id = auth.uid()))
  returning *
$$;

create function internal.rollout_to_judge(of_rollout_id uuid) returns public.rollouts
language plpgsql volatile set search_path = ''
as $$
-- Locked, so that of two simultaneous overrides the second sees the first. Locking requires the right to update.
declare
  r public.rollouts;
begin
  select * into r from public.rollouts t where t.id = of_rollout_id for update;
  if not found then
    perform internal.require_rollout(of_rollout_id);
    perform internal.fail('OM403', 'rollout_id', format('rollout %s: not yours to judge; ask its owner or an admin', of_rollout_id));
  end if;
  if r.status = 'error' then
    perform internal.fail('OM409', 'rollout_id',
      format('rollout %s: it ended in an error, so there is nothing to judge; run it again', of_rollout_id));
  elsif not internal.is_completed(r.status) then
    perform internal.fail('OM409', 'rollout_id',
      format('rollout %s: it is %s; only one that has completed can be judged', of_rollout_id, r.status));
  end if;
  return r;
end
$$;

create function internal.status_by_machine(of_rollout_id uuid) returns text
language sql stable set search_path = ''
as $$
  -- The status before the first override that was not withdrawn.
  select o.old_status from public.validation_overrides o
  where o.rollout_id = of_rollout_id and o.created_at > coalesce(
    (select max(w.created_at) from public.validation_overrides w where w.rollout_id = of_rollout_id and w.verdict is null), '-infinity')
  order by o.created_at, o.id limit 1
$$;

create function internal.check_override(of_rollout_id uuid, verdict text, reason text, of_validation_id uuid) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if verdict not in ('pass', 'fail') then
    perform internal.fail('OM400', 'verdict', format('verdict is %s: pass, fail, or null to withdraw, are possible', left(verdict, 100)));
  end if;
  if coalesce(length(btrim(reason, E' \t\r\n')), 0) = 0 or length(reason) > 2000 then
    perform internal.fail('OM400', 'reason', 'reason: say why, in 1 to 2000 characters');
  end if;
  perform internal.require_rollout(of_rollout_id);
  if of_validation_id is not null and not exists (
    select 1 from public.validations v where v.id = of_validation_id and v.rollout_id = of_rollout_id) then
    perform internal.fail('OM404', 'validation_id', format('validation %s: unknown, or of another rollout', of_validation_id));
  end if;
end
$$;

create function public.override_validation(rollout_id uuid, verdict text, reason text, validation_id uuid default null) returns jsonb
language plpgsql volatile set search_path = ''
as $$
#variable_conflict use_variable
declare
  r public.rollouts;
  standing public.validation_overrides;
  status text;
begin
  perform internal.check_override(rollout_id, verdict, reason, validation_id);
  r := internal.rollout_to_judge(rollout_id);
  standing := internal.standing_override(rollout_id);
  -- A repeated request, such as after a lost response, changes nothing.
  if standing.id is null or (standing.verdict, standing.reason, standing.validation_id) is distinct from (verdict, reason, validation_id) then
    if standing.verdict is null and verdict is null then
      perform internal.fail('OM409', 'verdict', format('rollout %s: there is no override to withdraw', rollout_id));
    end if;
    status := case verdict when 'pass' then 'success' when 'fail' then 'failed' else internal.status_by_machine(rollout_id) end;
    perform set_config('openmanus_rl.overriding', rollout_id::text, true);
    -- With a change id of its own: otherwise guard_status would drop a reason equal to the previous one.
    update public.rollouts t set status = status, status_message = reason, status_change_id = internal.new_id() where t.id = rollout_id;
    perform set_config('openmanus_rl.overriding', '', true);
    standing := internal.add_override(r, validation_id, verdict, reason, status);
  end if;
  return jsonb_build_object('rollout', (select to_jsonb(t) from public.rollouts t where t.id = rollout_id), 'override', to_jsonb(standing));
end
$$;
comment on function public.override_validation is 'Override the verdict on a completed rollout: pass, fail, or null to withdraw. Totals are updated. Returns the rollout and the override.';

revoke execute on function internal.standing_override, internal.keep_override, internal.add_override, internal.rollout_to_judge,
  internal.status_by_machine, internal.check_override from public;
grant execute on function internal.standing_override, internal.add_override, internal.rollout_to_judge, internal.status_by_machine,
  internal.check_override to authenticated, service_role;
revoke execute on function public.override_validation from public, anon, authenticated, service_role;
grant execute on function public.override_validation to authenticated, service_role;
