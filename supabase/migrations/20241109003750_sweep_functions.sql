-- Asking for sweeps, and what orchestrators call to make their trials.

create function internal.refuse_field(field text, problem text, code text default 'OM400') returns void
language plpgsql immutable set search_path = ''
as $$
begin
  -- The API does not pass on columns, so the field is in the details too.
  raise exception using errcode = code, column = field, detail = jsonb_build_object('field', field)::text, message = format('%s: %s', field, problem);
end
$$;

create function internal.refuse_unknown_keys(place text, given jsonb, allowed text[]) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  stray text := (select e.key from jsonb_each(given) e where e.key <> all (allowed) order by e.key limit 1);
begin
  if stray is not null then
    perform internal.refuse_field(concat_ws('.', place, stray), format('there is no such key; there are %s', array_to_string(allowed, ', ')));
  end if;
end
$$;

create function internal.number_in(given jsonb, key text) returns numeric
language sql immutable set search_path = ''
as $$ select case jsonb_typeof(given -> key) when 'number' then (given ->> key)::numeric end $$;

create function internal.is_double(given numeric) returns boolean
language sql immutable set search_path = ''
-- Whether it is a number, and one that programs can hold: of 1e-400 they would make 0.
as $$ select coalesce(given = 0 or abs(given) between 1e-300 and 1e300, false) $$;

-- The space -----------------------------------------------------------------------------------------------------------------------
-- The same rules as in openmanus_rl/jobs/sweeps/space.py, which reads it.

create function internal.check_value_list(place text, given jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if given - 'values' <> '{}' then
    perform internal.refuse_field(place, 'give values, or min and max, not both');
  elsif jsonb_typeof(given -> 'values') <> 'array' or given -> 'values' = '[]' then
    perform internal.refuse_field(place || '.values', 'a list of at least one value is expected');
  elsif (select count(*) > count(distinct e) from jsonb_array_elements(given -> 'values') e) then
    perform internal.refuse_field(place || '.values', 'a value is there twice');
  end if;
end
$$;

create function internal.check_number_range(place text, given jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  low numeric := internal.number_in(given, 'min');
  high numeric := internal.number_in(given, 'max');
  step numeric := internal.number_in(given, 'step');
  is_log boolean := coalesce(given -> 'log' = 'true', false);
  key text;
begin
  foreach key in array array['min', 'max'] loop
    if not internal.is_double(internal.number_in(given, key)) then
      perform internal.refuse_field(place || '.' || key, 'a number is expected');
    end if;
  end loop;
  foreach key in array array['log', 'integer'] loop
    if jsonb_typeof(given -> key) <> 'boolean' then
      perform internal.refuse_field(place || '.' || key, 'true or false is expected');
    end if;
  end loop;
  if low > high then
    perform internal.refuse_field(place || '.min', 'it is above max');
  elsif given ? 'step' and (step > 0 and internal.is_double(step)) is not true then
    perform internal.refuse_field(place || '.step', 'a number above 0 is expected');
  elsif is_log and step is not null then
    perform internal.refuse_field(place || '.step', 'it does not go with log');
  elsif is_log and low <= 0 then
    perform internal.refuse_field(place || '.min', 'it must be above 0 for log');
  end if;
  foreach key in array array['min', 'max', 'step'] loop
    if given -> 'integer' = 'true' and (internal.number_in(given, key) % 1 <> 0 or abs(internal.number_in(given, key)) > 9007199254740991) then
      perform internal.refuse_field(place || '.' || key, 'a whole number is expected');
    end if;
  end loop;
end
$$;

create function internal.check_path(path text, config jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  parts text[] := string_to_array(path, '.');
begin
  if path = '' or '' = any (parts) or length(path) > 500 then
    perform internal.refuse_field('space.' || path, 'a path in the configuration is expected, such as hyperparameters.learning_rate');
  end if;
  for depth in 1 .. cardinality(parts) - 1 loop
    if jsonb_typeof(config #> parts[1:depth]) not in ('object', 'null') then
      perform internal.refuse_field('space.' || path, format('%s is not an object in the configuration', array_to_string(parts[1:depth], '.')));
    end if;
  end loop;
end
$$;

create function internal.check_space(space jsonb, config jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  p record;
  outer_path text;
begin
  if jsonb_typeof(space) is distinct from 'object' or space = '{}' then
    perform internal.refuse_field('space', 'an object of parameters and their values is expected');
  end if;
  for p in select 'space.' || e.key as place, e.key as path, e.value as given from jsonb_each(space) e order by e.key loop
    perform internal.check_path(p.path, config);
    select e.key into outer_path from jsonb_each(space) e where starts_with(p.path, e.key || '.') limit 1;
    if outer_path is not null then
      perform internal.refuse_field(p.place, format('it is inside of %s, which is varied too', outer_path));
    elsif jsonb_typeof(p.given) <> 'object' then
      perform internal.refuse_field(p.place, 'an object is expected, with values, or with min and max');
    end if;
    perform internal.refuse_unknown_keys(p.place, p.given, array['values', 'min', 'max', 'log', 'step', 'integer']);
    if p.given ? 'values' then
      perform internal.check_value_list(p.place, p.given);
    else
      perform internal.check_number_range(p.place, p.given);
    end if;
  end loop;
end
$$;

create function internal.points_of(given jsonb) returns numeric
language sql immutable set search_path = ''
as $$
  -- How many values a parameter has; null if there is no end to them.
  select case when given ? 'values' then jsonb_array_length(given -> 'values')
    when given ? 'step' or given -> 'integer' = 'true'
      then div(internal.number_in(given, 'max') - internal.number_in(given, 'min'), coalesce(internal.number_in(given, 'step'), 1)) + 1 end
$$;

create function internal.grid_points(method text, space jsonb) returns integer
language plpgsql immutable set search_path = ''
as $$
-- The number of points of a grid or of seeds.
declare
  points numeric := 1;
  p record;
begin
  if method = 'seeds' and (select count(*) <> 1 or not bool_and(e.value ? 'values') from jsonb_each(space) e) then
    perform internal.refuse_field('space', 'seeds are the values of one parameter: {"seed": {"values": [0, 1, 2]}}');
  end if;
  for p in select e.key, internal.points_of(e.value) as points from jsonb_each(space) e order by e.key loop
    if p.points is null then
      perform internal.refuse_field('space.' || p.key, 'a grid needs values, a step, or integer: true');
    end if;
    points := points * p.points;
  end loop;
  if points > 10000 then
    perform internal.refuse_field('space', format('the grid has %s points; at most 10000 are possible', case when points < 1e15 then points::text else 'too many' end));
  end if;
  return points;
end
$$;

-- Requests ------------------------------------------------------------------------------------------------------------------------

create function internal.check_early_stopping(given jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if jsonb_typeof(given) <> 'object' then
    perform internal.refuse_field('early_stopping', 'an object is expected, with after_steps, min_trials and percentile');
  end if;
  perform internal.refuse_unknown_keys('early_stopping', given, array['after_steps', 'min_trials', 'percentile']);
  if given ? 'after_steps' and (internal.number_in(given, 'after_steps') between 0 and 9007199254740991 and internal.number_in(given, 'after_steps') % 1 = 0) is not true then
    perform internal.refuse_field('early_stopping.after_steps', 'a whole number from 0 is expected');
  elsif given ? 'min_trials' and (internal.number_in(given, 'min_trials') between 1 and 10000 and internal.number_in(given, 'min_trials') % 1 = 0) is not true then
    perform internal.refuse_field('early_stopping.min_trials', 'a whole number from 1 to 10000 is expected');
  elsif given ? 'percentile' and (internal.number_in(given, 'percentile') > 0 and internal.number_in(given, 'percentile') < 100) is not true then
    perform internal.refuse_field('early_stopping.percentile', 'a number between 0 and 100 is expected');
  end if;
end
$$;

create function internal.check_sweep(sweep jsonb) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if jsonb_typeof(sweep) is distinct from 'object' then
    perform internal.refuse_field('sweep', 'an object is expected');
  end if;
  perform internal.refuse_unknown_keys(null, sweep, array['id', 'name', 'method', 'template', 'space', 'metric', 'direction', 'max_trials', 'max_concurrent', 'seed', 'early_stopping', 'job_config']);
  if coalesce(length(sweep ->> 'name'), 0) not between 1 and 500 then
    perform internal.refuse_field('name', '1 to 500 characters are expected');
  elsif coalesce(sweep ->> 'method' in ('grid', 'random', 'bayesian', 'seeds'), false) is false then
    perform internal.refuse_field('method', 'it is grid, random, bayesian or seeds');
  elsif coalesce(sweep ->> 'direction', 'maximize') not in ('maximize', 'minimize') then
    perform internal.refuse_field('direction', 'it is maximize or minimize');
  elsif coalesce(length(sweep ->> 'metric'), 0) not between 1 and 500 then
    perform internal.refuse_field('metric', 'the name of the metric that decides is expected');
  elsif jsonb_typeof(sweep -> 'template') is distinct from 'object' or jsonb_typeof(sweep #> '{template,config}') is distinct from 'object' then
    perform internal.refuse_field('template', 'an object is expected, with name, algorithm, environment and config');
  elsif coalesce(length(sweep #>> '{template,name}'), 0) not between 1 and 490 then
    perform internal.refuse_field('template.name', '1 to 490 characters are expected');
  end if;
  perform internal.refuse_unknown_keys('template', sweep -> 'template', array['name', 'algorithm', 'environment', 'config']);
  perform internal.check_space(sweep -> 'space', sweep #> '{template,config}');
  perform internal.check_early_stopping(nullif(sweep -> 'early_stopping', 'null'));
end
$$;

create function internal.trials_of(sweep jsonb) returns integer
language plpgsql immutable set search_path = ''
as $$
-- How many trials a sweep has: a grid and seeds have no more than their points, and by default all of them.
declare
  asked integer := internal.whole_number(sweep, 'max_trials', 1, 10000, null);
begin
  if sweep ->> 'method' in ('grid', 'seeds') then
    return least(asked, internal.grid_points(sweep ->> 'method', sweep -> 'space'));
  elsif asked is null then
    perform internal.refuse_field('max_trials', 'the number of trials is expected');
  end if;
  return asked;
end
$$;

create function internal.read_sweep(sweep jsonb) returns public.sweeps
language plpgsql immutable set search_path = ''
as $$
-- The row that a request asks for, or a refusal that names the field.
declare
  asked public.sweeps;
begin
  perform internal.check_sweep(sweep);
  asked.id := internal.as_uuid(sweep, 'id');
  asked.name := sweep ->> 'name';
  asked.method := sweep ->> 'method';
  asked.template := sweep -> 'template';
  asked.space := sweep -> 'space';
  asked.metric := sweep ->> 'metric';
  asked.direction := coalesce(sweep ->> 'direction', 'maximize');
  asked.max_trials := internal.trials_of(sweep);
  asked.max_concurrent := internal.whole_number(sweep, 'max_concurrent', 1, 1000, 1);
  asked.seed := internal.whole_number(sweep, 'seed', 0, 2147483647, 0);
  asked.early_stopping := nullif(sweep -> 'early_stopping', 'null');
  asked.job_config := internal.check_job_config(coalesce(nullif(sweep -> 'job_config', 'null'), '{}'), 'job_config');
  return asked;
end
$$;

create function public.preview_sweep(sweep jsonb) returns jsonb
language plpgsql immutable set search_path = ''
as $$
declare
  asked public.sweeps := internal.read_sweep(sweep);
begin
  return jsonb_build_object('trials', asked.max_trials, 'points', case when asked.method in ('grid', 'seeds') then internal.grid_points(asked.method, asked.space) end,
    'values', (select jsonb_object_agg(e.key, internal.points_of(e.value)) from jsonb_each(asked.space) e));
end
$$;
comment on function public.preview_sweep is 'Check a request as request_sweep does, without making anything. Returns {trials, points, values}: how many runs it would make, how many points a grid has, and how many values each parameter; null where there is no end to them.';

create function internal.add_sweep(asked public.sweeps, owner uuid) returns public.sweeps
language plpgsql security definer set search_path = ''
as $$
declare
  made public.sweeps;
begin
  insert into public.sweeps (id, name, method, template, space, metric, direction, max_trials, max_concurrent, seed, early_stopping, job_config, owner_id)
  values (coalesce(asked.id, internal.new_id()), asked.name, asked.method, asked.template, asked.space, asked.metric, asked.direction, asked.max_trials, asked.max_concurrent,
    asked.seed, asked.early_stopping, asked.job_config, owner)
  on conflict (id) do nothing
  returning * into made;
  if found then
    perform internal.note('sweep.started', 'sweeps', made.id, made.name);
  else
    select * into made from public.sweeps s where s.id = asked.id;
  end if;
  return made;
end
$$;

create function public.request_sweep(sweep jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('start a sweep');
  return to_jsonb(internal.add_sweep(internal.read_sweep(sweep), auth.uid()));
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
    perform internal.refuse_field('lease_id', format('%s was lost, or its sweep has ended', of_lease_id), 'OM409');
  elsif owner is not null and sweep.owner_id is distinct from owner then
    perform internal.fail('OM403', 'lease_id', format('sweep %s: not yours to change; ask its owner or an admin', sweep.id));
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
      perform internal.refuse_field('trial', format('the next of sweep %s is %s of %s, not %s', sweep.id, sweep.next_trial, sweep.max_trials, number), 'OM409');
    elsif internal.active_trials(sweep.id) >= sweep.max_concurrent then
      perform internal.refuse_field('max_concurrent', format('%s trials of sweep %s are active', sweep.max_concurrent, sweep.id), 'OM409');
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

create function internal.stop_trials(of_sweep_id uuid, numbers integer[]) returns integer[]
language plpgsql security definer set search_path = ''
as $$
-- Stop the trials that are active, and return which those are. Runs are locked before their jobs, as by all that writes both.
declare
  job_ids uuid[];
  stopped integer[];
begin
  perform 1 from public.training_runs r join public.sweep_trials t on t.training_run_id = r.id
  where t.sweep_id = of_sweep_id and (numbers is null or t.trial = any (numbers)) order by r.id for update of r;
  select coalesce(array_agg(j.id), '{}'), coalesce(array_agg(t.trial), '{}') into job_ids, stopped
  from public.sweep_trials t join public.jobs j on j.training_run_id = t.training_run_id
  where t.sweep_id = of_sweep_id and (numbers is null or t.trial = any (numbers)) and internal.is_active_job(j.status);
  perform internal.require_own_jobs(job_ids, null);
  perform internal.stop_locked_jobs(job_ids);
  return stopped;
end
$$;

create function internal.prune(of_lease_id uuid, number integer, owner uuid) returns boolean
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps := internal.lock_leased_sweep(of_lease_id, owner);
  stopped integer[] := internal.stop_trials(sweep.id, array[number]);
begin
  update public.sweep_trials t set pruned_at = coalesce(t.pruned_at, now()) where t.sweep_id = sweep.id and t.trial = any (stopped);
  return stopped <> '{}';
end
$$;

create function public.prune_trial(lease_id uuid, trial integer) returns boolean
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('prune a trial');
  return internal.prune(lease_id, trial, internal.owner_to_match());
end
$$;
comment on function public.prune_trial is 'Stop a trial early, under the sweep''s lease. Returns whether it was active; one that has ended stays as it is.';

create function internal.change_sweep(of_lease_id uuid, changes jsonb, owner uuid) returns public.sweeps
language plpgsql security definer set search_path = ''
as $$
declare
  sweep public.sweeps := internal.lock_leased_sweep(of_lease_id, owner);
begin
  perform internal.refuse_unknown_keys(null, changes, array['status', 'message', 'importances']);
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
begin
  select * into sweep from public.sweeps s where s.id = of_sweep_id for update;
  if not found then
    perform internal.fail('OM404', 'sweep_id', format('sweep %s: unknown id', of_sweep_id));
  elsif owner is not null and sweep.owner_id is distinct from owner then
    perform internal.fail('OM403', 'sweep_id', format('sweep %s: not yours to change; ask its owner or an admin', of_sweep_id));
  end if;
  if sweep.status in ('pending', 'running') then
    update public.sweeps s set status = 'cancelled' where s.id = of_sweep_id returning * into sweep;
    delete from internal.orchestrator_leases l where l.subject_id = of_sweep_id;
    perform internal.stop_trials(of_sweep_id, null);
    perform internal.note('sweep.stopped', 'sweeps', sweep.id, sweep.name);
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
language sql stable set search_path = '' set jit = off
as $$
  -- Only of chunks that reach as far as the last one of which nothing is hidden: a long series has many.
  select coalesce((select p.value from public.metric_chunks c left join public.metric_axes a on a.id = c.axis_id
  cross join lateral unnest(coalesce(a.steps, c.steps), c.values, coalesce(a.times, c.times)) as p (step, value, recorded_at)
  where c.training_run_id = run_id and c.name = metric and p.value is not null and (c.visible_to is null or p.step <= c.visible_to)
    and least(c.last_step, c.visible_to) >= coalesce((
      select max(f.last_step) from public.metric_chunks f where f.training_run_id = run_id and f.name = metric and (f.visible_to is null or f.visible_to >= f.last_step)), 0)
  order by p.step desc, p.recorded_at desc limit 1),
  -- Of an archived run, the value that was kept.
  (select (k.figures -> 'metrics' ->> metric)::double precision from public.archives k where k.training_run_id = run_id))
$$;

create function public.sweep_overview(sweep_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  sweep public.sweeps;
begin
  select * into sweep from public.sweeps s where s.id = sweep_id;
  if not found then
    perform internal.fail('OM404', 'sweep_id', format('sweep %s: unknown id', sweep_id));
  end if;
  return jsonb_build_object('sweep', to_jsonb(sweep), 'trials', (
    select coalesce(jsonb_agg(jsonb_build_object('trial', t.trial, 'training_run_id', t.training_run_id, 'parameters', t.parameters, 'is_pruned', t.pruned_at is not null,
        'name', r.name, 'status', r.status, 'progress', r.progress, 'current_step', r.current_step, 'started_at', r.started_at, 'finished_at', r.finished_at,
        'job_id', j.id, 'job_status', j.status, 'message', coalesce(j.status_message, r.status_message),
        'seconds_since_end', case when not internal.is_active_job(j.status) then extract(epoch from now() - j.finished_at) end, 'value', internal.last_value(t.training_run_id, sweep.metric)) order by t.trial), '[]')
    from public.sweep_trials t left join public.training_runs r on r.id = t.training_run_id
    left join lateral (select * from public.jobs j where j.training_run_id = t.training_run_id order by j.created_at desc limit 1) j on true
    where t.sweep_id = sweep_id));
end
$$;
comment on function public.sweep_overview is 'A sweep with its trials: parameters, status, the last value of its metric, and how long ago its job ended. Returns {sweep, trials}.';

revoke execute on function internal.refuse_field, internal.refuse_unknown_keys, internal.number_in, internal.is_double, internal.check_value_list, internal.check_number_range, internal.check_path, internal.check_space,
  internal.points_of, internal.grid_points, internal.check_early_stopping, internal.check_sweep, internal.trials_of, internal.read_sweep, internal.add_sweep, internal.claim_sweeps, internal.lock_leased_sweep,
  internal.with_parameters, internal.active_trials, internal.make_trial, internal.stop_trials, internal.prune, internal.change_sweep, internal.stop_own_sweep, internal.last_value from public;
grant execute on function internal.refuse_field, internal.refuse_unknown_keys, internal.number_in, internal.is_double, internal.check_value_list, internal.check_number_range, internal.check_path, internal.check_space,
  internal.points_of, internal.grid_points, internal.check_early_stopping, internal.check_sweep, internal.trials_of, internal.read_sweep, internal.add_sweep, internal.claim_sweeps, internal.make_trial, internal.prune, internal.change_sweep, internal.stop_own_sweep,
  internal.last_value to authenticated, service_role;
revoke execute on function public.preview_sweep, public.request_sweep, public.claim_sweeps, public.add_trial, public.prune_trial, public.update_sweep, public.stop_sweep, public.sweep_overview
  from public, anon, authenticated, service_role;
grant execute on function public.preview_sweep, public.request_sweep, public.claim_sweeps, public.add_trial, public.prune_trial, public.update_sweep, public.stop_sweep, public.sweep_overview to authenticated, service_role;
