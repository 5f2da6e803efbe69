-- Asking for sweeps, and what orchestrators call to make their trials.

create function internal.check_sweep(sweep jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  field text;
begin
  if jsonb_typeof(sweep) is distinct from 'object' then
    raise exception using errcode = 'OM400', column = 'sweep', message = 'sweep: an object is expected';
  end if;
  select e.key into field from jsonb_each(sweep) e where e.key not in ('id', 'name', 'method', 'template', 'space', 'metric', 'direction', 'max_trials', 'max_concurrent', 'seed',
    'early_stopping', 'job_config') order by e.key limit 1;
  if field is not null then
    raise exception using errcode = 'OM400', column = field, message = format('%s: a sweep has id, name, method, template, space, metric, direction, max_trials, max_concurrent, seed, early_stopping, job_config', field);
  elsif coalesce(length(sweep ->> 'name'), 0) not between 1 and 500 then
    raise exception using errcode = 'OM400', column = 'name', message = 'name: 1 to 500 characters are expected';
  elsif coalesce(sweep ->> 'method' in ('grid', 'random', 'bayesian', 'seeds'), false) is false then
    raise exception using errcode = 'OM400', column = 'method', message = 'method: it is grid, random, bayesian or seeds';
  elsif coalesce(sweep ->> 'direction', 'maximize') not in ('maximize', 'minimize') then
    raise exception using errcode = 'OM400', column = 'direction', message = 'direction: it is maximize or minimize';
  elsif coalesce(sweep ->> 'metric', '') = '' then
    raise exception using errcode = 'OM400', column = 'metric', message = 'metric: the name of the metric that decides is expected';
  elsif jsonb_typeof(sweep -> 'template') is distinct from 'object' or coalesce(sweep #>> '{template,name}', '') = '' or jsonb_typeof(sweep #> '{template,config}') is distinct from 'object' then
    raise exception using errcode = 'OM400', column = 'template', message = 'template: an object is expected, with name, algorithm, environment and config';
  elsif jsonb_typeof(sweep -> 'space') is distinct from 'object' or sweep -> 'space' = '{}' then
    raise exception using errcode = 'OM400', column = 'space', message = 'space: an object of parameters and their values is expected';
  end if;
end
$$;

create function internal.add_sweep(sweep jsonb, owner uuid) returns public.sweeps
language plpgsql security definer set search_path = ''
as $$
declare
  sweep_id constant uuid := coalesce(internal.as_uuid(sweep, 'id'), internal.new_id());
  made public.sweeps;
begin
  select * into made from public.sweeps s where s.id = sweep_id;
  if found then
    return made;
  end if;
  insert into public.sweeps (id, name, method, template, space, metric, direction, max_trials, max_concurrent, seed, early_stopping, job_config, owner_id)
  values (sweep_id, sweep ->> 'name', sweep ->> 'method', sweep -> 'template', sweep -> 'space', sweep ->> 'metric', coalesce(sweep ->> 'direction', 'maximize'),
    internal.whole_number(sweep, 'max_trials', 1, 10000, 1), internal.whole_number(sweep, 'max_concurrent', 1, 1000, 1), internal.whole_number(sweep, 'seed', 0, 2147483647, 0),
    nullif(sweep -> 'early_stopping', 'null'), internal.check_job_config(coalesce(nullif(sweep -> 'job_config', 'null'), '{}')), owner)
  returning * into made;
  return made;
end
$$;

create function public.request_sweep(sweep jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('start a sweep'), internal.check_sweep(sweep);
  return to_jsonb(internal.add_sweep(sweep, auth.uid()));
end
$$;
comment on function public.request_sweep is 'Ask for a sweep: {id, name, method, template, space, metric, direction, max_trials, max_concurrent, seed, early_stopping, job_config}; an orchestrator makes its trials. A repeated request with the same id answers the same. Returns the sweep.';

create function internal.claim_sweeps(o public.orchestrators, lease_seconds double precision, owner uuid) returns jsonb
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps;
  given jsonb := '[]';
begin
  for sweep in
    select * from public.sweeps s where s.status in ('pending', 'running') and s.job_config ->> 'backend' = any (o.backends) and not internal.is_leased(s.id)
      and (owner is null or s.owner_id = owner) order by s.created_at, s.id for update skip locked
  loop
    continue when internal.is_leased(sweep.id);
    update public.sweeps s set status = 'running', orchestrator_id = o.id where s.id = sweep.id returning * into sweep;
    given := given || jsonb_build_object('sweep', to_jsonb(sweep), 'lease_id', internal.lease(sweep.id, o.id, lease_seconds));
  end loop;
  return given;
end
$$;

create function public.claim_sweeps(orchestrator_id uuid, lease_seconds double precision default 60) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('claim sweeps'), internal.check_lease_seconds(lease_seconds);
  return jsonb_build_object('claims', internal.claim_sweeps(internal.beat_orchestrator(orchestrator_id, 'active', internal.owner_to_match()), lease_seconds, internal.owner_to_match()));
end
$$;
comment on function public.claim_sweeps is 'Lease sweeps that have not ended to an orchestrator. Returns {claims: [{sweep, lease_id}]}; renew_jobs renews the leases.';

create function internal.lock_leased_sweep(of_lease_id uuid, owner uuid) returns public.sweeps
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps;
begin
  select s.* into sweep from public.sweeps s join internal.orchestrator_leases l on l.subject_id = s.id where l.lease_id = of_lease_id for update of s;
  perform 1 from internal.orchestrator_leases l where l.lease_id = of_lease_id;
  if not found or sweep.id is null or sweep.status <> 'running' then
    raise exception using errcode = 'OM409', column = 'lease_id', message = format('lease %s: it was lost, or its sweep has ended', of_lease_id);
  elsif owner is not null and sweep.owner_id is distinct from owner then
    raise exception using errcode = 'OM403', column = 'lease_id', message = format('sweep %s: not yours to change; ask its owner or an admin', sweep.id);
  end if;
  return sweep;
end
$$;

create function internal.with_parameters(config jsonb, parameters jsonb) returns jsonb
language plpgsql immutable set search_path = ''
as $$
-- A parameter's name is its path in the configuration, with dots.
declare
  p record;
  path text[];
begin
  for p in select e.key, e.value from jsonb_each(parameters) e loop
    path := string_to_array(p.key, '.');
    for depth in 1 .. cardinality(path) - 1 loop
      if jsonb_typeof(config #> path[1:depth]) is distinct from 'object' then
        config := jsonb_set(config, path[1:depth], '{}');
      end if;
    end loop;
    config := jsonb_set(config, path, p.value);
  end loop;
  return config;
end
$$;

create function internal.active_trials(of_sweep_id uuid) returns bigint
language sql stable security definer set search_path = ''
as $$ select count(*) from public.sweep_trials t join public.jobs j on j.training_run_id = t.training_run_id where t.sweep_id = of_sweep_id and internal.is_active_job(j.status) $$;

create function internal.make_trial(of_lease_id uuid, number integer, parameters jsonb, owner uuid) returns jsonb
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps := internal.lock_leased_sweep(of_lease_id, owner);
  trial public.sweep_trials;
  run public.training_runs;
begin
  select * into trial from public.sweep_trials t where t.sweep_id = sweep.id and t.trial = number;
  if not found then
    if number <> sweep.next_trial or number >= sweep.max_trials then
      raise exception using errcode = 'OM409', column = 'trial', message = format('sweep %s: the next trial is %s of %s, not %s', sweep.id, sweep.next_trial, sweep.max_trials, number);
    elsif internal.active_trials(sweep.id) >= sweep.max_concurrent then
      raise exception using errcode = 'OM409', column = 'max_concurrent', message = format('sweep %s: %s trials are active', sweep.id, sweep.max_concurrent);
    end if;
    insert into public.training_runs (id, name, algorithm, environment, config, tags, owner_id)
    values (internal.derived_id(sweep.id, 'trial', number::text), format('%s %s', sweep.template ->> 'name', number), sweep.template ->> 'algorithm', sweep.template ->> 'environment',
      internal.with_parameters(sweep.template -> 'config', parameters), array['sweep'], sweep.owner_id)
    returning * into run;
    perform internal.add_job(internal.derived_id(sweep.id, 'job', number::text), run, sweep.job_config, sweep.owner_id);
    insert into public.sweep_trials (sweep_id, trial, training_run_id, parameters) values (sweep.id, number, run.id, parameters) returning * into trial;
    update public.sweeps s set next_trial = number + 1 where s.id = sweep.id;
  end if;
  return to_jsonb(trial);
end
$$;

create function public.add_trial(lease_id uuid, trial integer, parameters jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('add a trial');
  return internal.make_trial(lease_id, trial, parameters, internal.owner_to_match());
end
$$;
comment on function public.add_trial is 'Make the next trial of a sweep, a run with its job, under the sweep''s lease. A trial that is there already is returned as it is. Returns the trial.';

create function internal.prune(of_lease_id uuid, number integer, reason text, owner uuid) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps := internal.lock_leased_sweep(of_lease_id, owner);
  run_id uuid;
  job_ids uuid[];
begin
  update public.sweep_trials t set pruned_at = now() where t.sweep_id = sweep.id and t.trial = number and t.pruned_at is null returning t.training_run_id into run_id;
  job_ids := array(select j.id from public.jobs j where j.training_run_id = run_id and internal.is_active_job(j.status));
  perform internal.require_own_jobs(job_ids, null), internal.stop_locked_jobs(job_ids);
end
$$;

create function public.prune_trial(lease_id uuid, trial integer, reason text default null) returns boolean
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('prune a trial'), internal.prune(lease_id, trial, reason, internal.owner_to_match());
  return true;
end
$$;
comment on function public.prune_trial is 'Stop a trial early, under the sweep''s lease.';

create function internal.change_sweep(of_lease_id uuid, changes jsonb, owner uuid) returns public.sweeps
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps := internal.lock_leased_sweep(of_lease_id, owner);
begin
  update public.sweeps s set status = coalesce(changes ->> 'status', s.status), status_message = coalesce(changes ->> 'message', s.status_message),
    importances = coalesce(nullif(changes -> 'importances', 'null'), s.importances)
  where s.id = sweep.id returning * into sweep;
  if sweep.status not in ('pending', 'running') then
    delete from internal.orchestrator_leases l where l.lease_id = of_lease_id;
  end if;
  return sweep;
end
$$;

create function public.update_sweep(lease_id uuid, changes jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('change a sweep');
  return to_jsonb(internal.change_sweep(lease_id, changes, internal.owner_to_match()));
end
$$;
comment on function public.update_sweep is 'Tell how a sweep goes: {status, message, importances}, under its lease. Returns the sweep.';

create function internal.stop_own_sweep(of_sweep_id uuid, owner uuid) returns public.sweeps
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps;
  job_ids uuid[];
begin
  select * into sweep from public.sweeps s where s.id = of_sweep_id for update;
  if not found then
    raise exception using errcode = 'OM404', column = 'sweep_id', message = format('sweep %s: unknown id', of_sweep_id);
  elsif owner is not null and sweep.owner_id is distinct from owner then
    raise exception using errcode = 'OM403', column = 'sweep_id', message = format('sweep %s: not yours to change; ask its owner or an admin', of_sweep_id);
  end if;
  if sweep.status in ('pending', 'running') then
    update public.sweeps s set status = 'cancelled' where s.id = of_sweep_id returning * into sweep;
    delete from internal.orchestrator_leases l where l.subject_id = of_sweep_id;
    job_ids := array(select j.id from public.sweep_trials t join public.jobs j on j.training_run_id = t.training_run_id where t.sweep_id = of_sweep_id and internal.is_active_job(j.status));
    perform internal.require_own_jobs(job_ids, null), internal.stop_locked_jobs(job_ids);
  end if;
  return sweep;
end
$$;

create function public.stop_sweep(sweep_id uuid) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('stop a sweep');
  return to_jsonb(internal.stop_own_sweep(sweep_id, internal.owner_to_match()));
end
$$;
comment on function public.stop_sweep is 'End a sweep and stop its trials. Returns the sweep.';

create function internal.last_value(run_id uuid, metric text) returns double precision
language sql stable set search_path = ''
as $$ select m.value from public.metrics m where m.training_run_id = run_id and m.name = metric order by m.step desc limit 1 $$;

create function public.sweep_overview(sweep_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  sweep public.sweeps;
begin
  select * into sweep from public.sweeps s where s.id = sweep_id;
  if not found then
    raise exception using errcode = 'OM404', column = 'sweep_id', message = format('sweep %s: unknown id', sweep_id);
  end if;
  return jsonb_build_object('sweep', to_jsonb(sweep), 'trials', (
    select coalesce(jsonb_agg(jsonb_build_object('trial', t.trial, 'training_run_id', t.training_run_id, 'parameters', t.parameters, 'is_pruned', t.pruned_at is not null,
        'name', r.name, 'status', r.status, 'progress', r.progress, 'current_step', r.current_step, 'started_at', r.started_at, 'finished_at', r.finished_at,
        'job_id', j.id, 'job_status', j.status, 'value', internal.last_value(t.training_run_id, sweep.metric)) order by t.trial), '[]')
    from public.sweep_trials t left join public.training_runs r on r.id = t.training_run_id
    left join lateral (select * from public.jobs j where j.training_run_id = t.training_run_id order by j.created_at desc limit 1) j on true
    where t.sweep_id = sweep_id));
end
$$;
comment on function public.sweep_overview is 'A sweep with its trials: parameters, status, and the last value of its metric. Returns {sweep, trials}.';

revoke execute on function internal.check_sweep, internal.add_sweep, internal.claim_sweeps, internal.lock_leased_sweep, internal.with_parameters, internal.active_trials, internal.make_trial,
  internal.prune, internal.change_sweep, internal.stop_own_sweep, internal.last_value from public;
grant execute on function internal.check_sweep, internal.add_sweep, internal.claim_sweeps, internal.make_trial, internal.prune, internal.change_sweep, internal.stop_own_sweep, internal.last_value
  to authenticated, service_role;
revoke execute on function public.request_sweep, public.claim_sweeps, public.add_trial, public.prune_trial, public.update_sweep, public.stop_sweep, public.sweep_overview
  from public, anon, authenticated, service_role;
grant execute on function public.request_sweep, public.claim_sweeps, public.add_trial, public.prune_trial, public.update_sweep, public.stop_sweep, public.sweep_overview to authenticated, service_role;
