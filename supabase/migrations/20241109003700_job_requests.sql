-- Asking for training jobs: what can be asked, the task that SkyPilot is given, requests, stopping and retrying.

-- What can be asked -------------------------------------------------------------------------------------------------------------

create function internal.job_options() returns table (name text, kind text, low numeric, high numeric, is_remote boolean)
language sql immutable set search_path = ''
as $$
  -- Remote ones are for SkyPilot only.
  values
    ('backend', 'text', null::numeric, null::numeric, false), ('metrics_interval', 'number', 1, 1e9, false), ('frame_interval', 'number', 0, 1e9, false),
    ('max_restarts', 'number', 0, 1000, false), ('timeout_minutes', 'number', 1, 1e6, false), ('stop_grace_seconds', 'number', 0, 86400, false), ('env', 'variables', null, null, false),
    ('infra', 'text', null, null, true), ('cloud', 'text', null, null, true), ('accelerator', 'text', null, null, true), ('use_spot', 'boolean', null, null, true),
    ('cpus', 'amount', null, null, true), ('memory', 'amount', null, null, true), ('disk_size_gb', 'number', 1, 1e5, true), ('image', 'text', null, null, true),
    ('autostop_minutes', 'number', 0, 1e5, true), ('package', 'text', null, null, true), ('extras', 'text', null, null, true), ('setup', 'text', null, null, true),
    ('secrets', 'names', null, null, true)
$$;

create function internal.option_problem(kind text, given jsonb, low numeric, high numeric) returns text
language sql immutable set search_path = ''
as $$
  select case kind
    when 'text' then case when jsonb_typeof(given) <> 'string' or length(given #>> '{}') not between 1 and 10000 then 'a text is expected' end
    when 'amount' then case when coalesce(given #>> '{}', '') !~ '^[0-9]+([.][0-9]+)?[+x]?$' or jsonb_typeof(given) not in ('string', 'number') then 'a number is expected, such as 4 or "4+"' end
    when 'boolean' then case when jsonb_typeof(given) <> 'boolean' then 'true or false is expected' end
    when 'number' then case when jsonb_typeof(given) <> 'number' or case when jsonb_typeof(given) = 'number' then (given #>> '{}')::numeric % 1 <> 0 or (given #>> '{}')::numeric not between low and high end
      then format('a whole number from %s to %s is expected', low, high) end
    when 'variables' then case when jsonb_typeof(given) <> 'object' or exists (
        select 1 from jsonb_each(case jsonb_typeof(given) when 'object' then given else '{}' end) e
        where e.key !~ '^[A-Za-z_][A-Za-z0-9_]*$' or jsonb_typeof(e.value) <> 'string') then 'an object of variables and their texts is expected' end
    when 'names' then case when jsonb_typeof(given) <> 'array' or exists (
        select 1 from jsonb_array_elements(case jsonb_typeof(given) when 'array' then given else '[]' end) e
        where jsonb_typeof(e) <> 'string' or e #>> '{}' !~ '^[A-Za-z_][A-Za-z0-9_]*$') then 'a list of names of variables is expected' end
  end
$$;

create function internal.secret_in_job_config(asked jsonb) returns text
language sql immutable set search_path = ''
as $$
  -- Where a configuration holds a secret: it is kept, and shown with the task.
  select f.path from (
    select 'env.' || e.key as path from jsonb_each_text(coalesce(asked -> 'env', '{}')) e
    where e.value <> '' and (e.key ~* '(^|_)(API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|ROLE_?KEY|SECRET(_KEY)?|PASSWORD|PASSWD|TOKEN)$' or asked -> 'secrets' ? e.key or e.value ~ '://[^/@[:space:]]*:[^/@[:space:]$]+@')
    union all
    select o.key from jsonb_each_text(asked) o where o.key in ('package', 'setup', 'image') and o.value ~ '://[^/@[:space:]]*:[^/@[:space:]$]+@') f
  order by f.path limit 1
$$;

create function internal.check_job_config(config jsonb, place text default 'config') returns jsonb
language plpgsql immutable set search_path = ''
as $$
-- Return the configuration with its backend, or refuse it; `place` is the field that holds it.
declare
  field text;
  problem text;
  asked jsonb;
  remote boolean;
begin
  if jsonb_typeof(config) is distinct from 'object' then
    perform internal.fail('OM400', place, place || ': an object is expected');
  end if;
  asked := jsonb_strip_nulls(config);
  select e.key into field from jsonb_each(asked) e where not exists (select 1 from internal.job_options() o where o.name = e.key) order by e.key limit 1;
  if field is not null then
    perform internal.fail('OM400', concat_ws('.', place, field), format('%s.%s: there is no such option; there are %s', place, field,
      (select string_agg(o.name, ', ' order by o.name) from internal.job_options() o)));
  end if;
  select o.name, internal.option_problem(o.kind, asked -> o.name, o.low, o.high) into field, problem from internal.job_options() o
  where asked ? o.name and internal.option_problem(o.kind, asked -> o.name, o.low, o.high) is not null order by o.name limit 1;
  if field is not null then
    perform internal.fail('OM400', concat_ws('.', place, field), format('%s.%s: %s', place, field, problem));
  end if;
  field := internal.secret_in_job_config(asked);
  if field is not null then
    perform internal.fail('OM400', concat_ws('.', place, field), format('%s.%s: it holds a secret, which everybody would see in the task; %s', place, field,
      case when field like 'env.%' then 'set the variable where the orchestrator runs, and for SkyPilot name it in secrets' else 'name a variable that holds it in secrets, and use that' end));
  end if;
  -- 100.0 is 100.
  asked := asked || (select coalesce(jsonb_object_agg(o.name, (asked ->> o.name)::numeric::bigint), '{}') from internal.job_options() o where o.kind = 'number' and asked ? o.name);
  select o.name into field from internal.job_options() o where o.is_remote and asked ? o.name order by o.name limit 1;
  remote := field is not null;
  -- Whoever names an accelerator or an infrastructure means another machine.
  asked := jsonb_build_object('backend', case when remote then 'skypilot' else 'local' end) || asked;
  if asked ->> 'backend' not in ('local', 'skypilot') then
    perform internal.fail('OM400', place || '.backend', format('%s.backend: it is local or skypilot, not %s', place, asked ->> 'backend'));
  elsif asked ->> 'backend' = 'local' and remote then
    perform internal.fail('OM400', concat_ws('.', place, field), format('%s.%s: it is for the backend skypilot; leave it out, or choose that', place, field));
  elsif asked ? 'infra' and asked ? 'cloud' then
    perform internal.fail('OM400', place || '.cloud', place || '.cloud: give infra or cloud, not both');
  elsif asked ->> 'accelerator' !~ '^[A-Za-z0-9._-]+(:[0-9]+)?$' then
    perform internal.fail('OM400', place || '.accelerator', format('%s.accelerator: %s is not a name and a number, such as A10:1', place, asked ->> 'accelerator'));
  end if;
  return asked;
end
$$;

-- The task ----------------------------------------------------------------------------------------------------------------------

create function internal.job_name(job_id uuid, attempt integer) returns text
language sql immutable set search_path = ''
as $$ select 'omrl-' || left(replace(job_id::text, '-', ''), 8) || right(replace(job_id::text, '-', ''), 8) || '-' || attempt $$;

create function internal.job_task(job_id uuid, attempt integer, run_id uuid, config jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
  -- As SkyPilot reads it from YAML. Values of null are given at launch: the address of the database, and secrets.
  select jsonb_strip_nulls(jsonb_build_object('name', internal.job_name(job_id, attempt),
      'resources', jsonb_build_object('infra', coalesce(config ->> 'infra', config ->> 'cloud'), 'accelerators', config ->> 'accelerator', 'use_spot', config -> 'use_spot',
        'cpus', config ->> 'cpus', 'memory', config ->> 'memory', 'disk_size', config -> 'disk_size_gb', 'image_id', config ->> 'image',
        -- The machine of a managed job is removed with the job; Slurm, which has no controller of managed jobs, gets a cluster.
        'autostop', case when coalesce(config ->> 'infra', config ->> 'cloud') ilike 'slurm%' then jsonb_build_object('idle_minutes', coalesce((config ->> 'autostop_minutes')::integer, 5), 'down', true) end)))
    || jsonb_build_object(
      -- What says which run it is wins over variables of the same names.
      'envs', coalesce(config -> 'env', '{}')
        || jsonb_build_object('SUPABASE_URL', null, 'RUN_ID', run_id, 'OPENMANUS_RL_JOB_ID', job_id, 'OPENMANUS_RL_JOB_ATTEMPT', attempt::text,
          'METRICS_INTERVAL', coalesce(config ->> 'metrics_interval', '100'), 'FRAME_INTERVAL', coalesce(config ->> 'frame_interval', '1000')),
      'secrets', jsonb_build_object('SUPABASE_SERVICE_ROLE_KEY', null)
        || (select coalesce(jsonb_object_agg(e, null), '{}') from jsonb_array_elements_text(coalesce(config -> 'secrets', '[]')) e),
      'setup', format(E'set -e\n[ -x "$HOME/openmanus-rl-training/bin/python" ] || "$HOME/.local/bin/uv" venv --quiet --python ''>=3.11'' "$HOME/openmanus-rl-training"\n'
        '"$HOME/.local/bin/uv" pip install --quiet --python "$HOME/openmanus-rl-training/bin/python" %s\n%s',
        '''' || replace(coalesce(config ->> 'package', format('openmanus-rl[%s]', coalesce(config ->> 'extras', 'training'))), '''', '''"''"''') || '''',
        coalesce(E'export PATH="$HOME/openmanus-rl-training/bin:$PATH"\n' || (config ->> 'setup') || E'\n', '')),
      -- Replaces the shell, so that signals reach it.
      'run', E'export PATH="$HOME/openmanus-rl-training/bin:$PATH"\nexec python -m openmanus_rl.training.train\n')
$$;

create function internal.as_yaml_text(value jsonb) returns text
language plpgsql immutable set search_path = ''
as $$
declare
  written text := value::text;
  one text;
begin
  -- Quoted as JSON does. What YAML does not read as it is, or takes for the end of a line, is escaped.
  for one in select distinct m[1] from regexp_matches(written, E'[\\u007f-\\u00a0\\u2028\\u2029\\ufeff\\ufffe\\uffff]', 'g') m loop
    written := replace(written, one, '\u' || lpad(to_hex(ascii(one)), 4, '0'));
  end loop;
  return written;
end
$$;

create function internal.as_yaml(value jsonb, indent text default '') returns text
language plpgsql immutable set search_path = ''
as $$
-- Block style, in the order of a SkyPilot task; texts of several lines as literal blocks, other texts quoted.
declare
  entry record;
  written text := '';
begin
  for entry in
    select e.key, e.value from jsonb_each(value) e
    order by array_position(array['name', 'resources', 'envs', 'secrets', 'setup', 'run'], e.key), e.key
  loop
    written := written || indent || case when entry.key ~ '^[A-Za-z_][A-Za-z0-9_]*$' then entry.key else to_jsonb(entry.key)::text end || ':' || case
      when jsonb_typeof(entry.value) = 'object' and entry.value <> '{}' then E'\n' || internal.as_yaml(entry.value, indent || '  ')
      when jsonb_typeof(entry.value) = 'string' and entry.value #>> '{}' like E'%\n' and entry.value #>> '{}' !~ E'[\u0001-\u0009\u000b-\u001f\u007f-\u00a0\u2028\u2029\ufeff\ufffe\uffff]|^\\s|\n\n$'
        then E' |\n' || regexp_replace(regexp_replace(entry.value #>> '{}', E'^(?=.)', indent || '  ', 'gn'), E'\n$', '') || E'\n'
      else ' ' || internal.as_yaml_text(entry.value) || E'\n' end;
  end loop;
  return written;
end
$$;

-- Requests ----------------------------------------------------------------------------------------------------------------------

create function internal.require_own_run(of_run_id uuid, owner uuid) returns public.training_runs
language plpgsql security definer set search_path = ''
as $$
declare
  r public.training_runs;
begin
  select * into r from public.training_runs t where t.id = of_run_id for update;
  if not found then
    perform internal.fail('OM404', 'run_id', format('training run %s: unknown id', of_run_id));
  elsif owner is not null and r.owner_id is distinct from owner then
    perform internal.fail('OM403', 'run_id', format('training run %s: not yours to change; ask its owner or an admin', of_run_id));
  end if;
  return r;
end
$$;

create function public.preview_job(run_id uuid, config jsonb default '{}') returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  asked jsonb := internal.check_job_config(config);
  task jsonb;
begin
  perform internal.require_run(run_id);
  task := internal.job_task('00000000-0000-0000-0000-000000000000', 1, run_id, asked);
  return jsonb_build_object('config', asked, 'task', task, 'yaml', internal.as_yaml(task));
end
$$;
comment on function public.preview_job is 'The task that a job of this configuration would give to SkyPilot, as JSON and as YAML. Nothing is launched.';

create function internal.add_job(job_id uuid, run public.training_runs, asked jsonb, owner uuid) returns public.jobs
language plpgsql security definer set search_path = ''
as $$
declare
  active uuid;
  job public.jobs;
begin
  select j.id into active from public.jobs j where j.training_run_id = run.id and internal.is_active_job(j.status);
  if active is not null then
    perform internal.fail('OM409', 'run_id', format('training run %s: job %s is active; stop it first', run.id, active));
  elsif run.status = 'completed' then
    perform internal.fail('OM409', 'run_id', format('training run %s: it has completed; clone it to train again', run.id));
  -- One that was created as running, and not heard of since, is trained by nobody yet.
  elsif run.status = 'running' and run.heartbeat_at > run.created_at and run.heartbeat_at > now() - make_interval(secs => run.heartbeat_timeout_seconds) then
    perform internal.fail('OM409', 'run_id', format('training run %s: it is running already; stop it first, or clone it', run.id));
  end if;
  insert into public.jobs (id, training_run_id, backend, name, config, yaml, max_restarts, owner_id)
  values (job_id, run.id, asked ->> 'backend', run.name, asked, internal.as_yaml(internal.job_task(job_id, 1, run.id, asked)), internal.whole_number(asked, 'max_restarts', 0, 1000, 3), owner)
  returning * into job;
  return job;
end
$$;

create function public.request_job(run_id uuid, config jsonb default '{}', job_id uuid default null) returns jsonb
language plpgsql set search_path = ''
as $$
#variable_conflict use_variable
declare
  asked jsonb := internal.check_job_config(config);
  run public.training_runs;
  job public.jobs;
begin
  perform internal.require_editor('launch a job');
  run := internal.require_own_run(run_id, internal.owner_to_match());
  select * into job from public.jobs j where j.id = job_id;
  if not found then
    job := internal.add_job(coalesce(job_id, internal.new_id()), run, asked, auth.uid());
    perform internal.note('job.launched', 'jobs', job.id, run.name, jsonb_build_object('training_run_id', run_id, 'backend', job.backend));
  elsif job.training_run_id is distinct from run_id then
    perform internal.fail('OM409', 'job_id', format('job %s: it is of another run', job_id));
  end if;
  return jsonb_build_object('job', to_jsonb(job), 'yaml', job.yaml);
end
$$;
comment on function public.request_job is 'Ask for a job that trains a run; an orchestrator launches it. A repeated request with the same job_id answers the same. Returns {job, yaml}.';

-- Stopping and retrying ---------------------------------------------------------------------------------------------------------

create function internal.check_own_jobs(job_ids uuid[], owner uuid) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  missing uuid;
begin
  select i into missing from unnest(job_ids) i where not exists (select 1 from public.jobs j where j.id = i) limit 1;
  if missing is not null then
    perform internal.fail('OM404', 'job_id', format('job %s: unknown id', missing));
  end if;
  select j.id into missing from public.jobs j left join public.training_runs r on r.id = j.training_run_id
  where j.id = any (job_ids) and owner is not null and coalesce(r.owner_id, j.owner_id) is distinct from owner limit 1;
  if missing is not null then
    perform internal.fail('OM403', 'job_id', format('job %s: not yours to change; ask its owner or an admin', missing));
  end if;
end
$$;

create function internal.require_own_jobs(job_ids uuid[], owner uuid) returns void
language plpgsql security definer set search_path = ''
as $$
-- Lock jobs after their runs, as all that writes both does.
begin
  perform 1 from public.training_runs r where r.id in (select j.training_run_id from public.jobs j where j.id = any (job_ids)) order by r.id for update;
  perform 1 from public.jobs j where j.id = any (job_ids) order by j.id for update;
  perform internal.check_own_jobs(job_ids, owner);
end
$$;

create function internal.stop_locked_jobs(job_ids uuid[]) returns void
language plpgsql security definer set search_path = ''
as $$
begin
  update public.jobs j set status = 'cancelled', status_message = 'stopped before it was launched' where j.id = any (job_ids) and j.status = 'pending';
  update public.jobs j set stop_requested_at = coalesce(j.stop_requested_at, now()) where j.id = any (job_ids) and internal.is_active_job(j.status);
  update public.training_runs r set stop_requested_at = coalesce(r.stop_requested_at, now())
  from public.jobs j where j.id = any (job_ids) and internal.is_active_job(j.status) and r.id = j.training_run_id and r.status = 'running';
end
$$;

create function public.stop_jobs(job_ids uuid[]) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('stop a job'), internal.require_own_jobs(job_ids, internal.owner_to_match());
  perform internal.stop_locked_jobs(job_ids);
  perform internal.note_many('job.stopped', 'jobs', job_ids);
  return (select coalesce(jsonb_agg(to_jsonb(j) order by j.created_at, j.id), '[]') from public.jobs j where j.id = any (job_ids));
end
$$;
comment on function public.stop_jobs is 'Stop jobs: one that waits is cancelled at once, one that trains ends after its current step, with a checkpoint. Those that have ended stay as they are. Returns the jobs.';

create function internal.ask_run_to_stop(of_run_id uuid) returns void
language sql security definer set search_path = ''
as $$ update public.training_runs r set stop_requested_at = coalesce(r.stop_requested_at, now()) where r.id = of_run_id and r.status = 'running' $$;

create function public.stop_run(run_id uuid) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  run public.training_runs;
  job_ids uuid[];
begin
  perform internal.require_editor('stop a run');
  run := internal.require_own_run(run_id, internal.owner_to_match());
  job_ids := array(select j.id from public.jobs j where j.training_run_id = run_id and internal.is_active_job(j.status));
  if run.status <> 'running' and job_ids = '{}' then
    perform internal.fail('OM409', 'run_id', format('training run %s: it is %s, there is nothing to stop', run_id, run.status));
  end if;
  perform internal.require_own_jobs(job_ids, null), internal.stop_locked_jobs(job_ids), internal.ask_run_to_stop(run_id);
  perform internal.note('run.stopped', 'training_runs', run_id, run.name);
  return (select to_jsonb(r) from public.training_runs r where r.id = run_id);
end
$$;
comment on function public.stop_run is 'Ask a run to end after its current step, with a checkpoint, and its job with it. Returns the run.';

create function internal.retry_locked_job(of_job_id uuid) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  job public.jobs;
  active uuid;
begin
  select * into job from public.jobs j where j.id = of_job_id;
  if job.status not in ('failed', 'cancelled') then
    perform internal.fail('OM409', 'job_id', format('job %s: it is %s; failed and cancelled jobs can be tried again', of_job_id, job.status));
  elsif job.training_run_id is null then
    perform internal.fail('OM409', 'job_id', format('job %s: its run was deleted', of_job_id));
  end if;
  select j.id into active from public.jobs j where j.training_run_id = job.training_run_id and internal.is_active_job(j.status);
  if active is not null then
    perform internal.fail('OM409', 'job_id', format('training run %s: job %s is active; stop it first', job.training_run_id, active));
  elsif (select r.status = 'completed' from public.training_runs r where r.id = job.training_run_id) then
    perform internal.fail('OM409', 'job_id', format('training run %s: it has completed; clone it to train again', job.training_run_id));
  end if;
  update public.jobs j set status = 'pending', attempt = j.attempt + 1, restarts = 0, stop_requested_at = null, exit_code = null, external_id = null, host = null,
    orchestrator_id = null, started_at = null, earlier_cost_usd = coalesce(j.cost_usd, 0), yaml = internal.as_yaml(internal.job_task(j.id, j.attempt + 1, j.training_run_id, j.config))
  where j.id = of_job_id;
end
$$;

create function public.retry_job(job_id uuid) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  run_id uuid := (select j.training_run_id from public.jobs j where j.id = job_id);
begin
  perform internal.require_editor('retry a job');
  if run_id is not null then
    perform internal.require_own_run(run_id, internal.owner_to_match());
  end if;
  perform internal.require_own_jobs(array[job_id], internal.owner_to_match()), internal.retry_locked_job(job_id);
  perform internal.note('job.retried', 'jobs', job_id);
  return (select to_jsonb(j) from public.jobs j where j.id = job_id);
end
$$;
comment on function public.retry_job is 'Put a failed or cancelled job back into the queue; its run goes on from its last checkpoint. Returns the job.';

revoke execute on function internal.job_options, internal.option_problem, internal.secret_in_job_config, internal.check_job_config, internal.job_name, internal.job_task, internal.as_yaml_text,
  internal.as_yaml, internal.require_own_run,
  internal.add_job, internal.check_own_jobs, internal.require_own_jobs, internal.stop_locked_jobs, internal.ask_run_to_stop, internal.retry_locked_job from public;
grant execute on function internal.job_options, internal.option_problem, internal.secret_in_job_config, internal.check_job_config, internal.job_name, internal.job_task, internal.as_yaml_text,
  internal.as_yaml, internal.require_own_run,
  internal.add_job, internal.check_own_jobs, internal.require_own_jobs, internal.stop_locked_jobs, internal.ask_run_to_stop, internal.retry_locked_job to authenticated, service_role;
revoke execute on function public.preview_job, public.request_job, public.stop_jobs, public.stop_run, public.retry_job from public, anon, authenticated, service_role;
grant execute on function public.preview_job, public.request_job, public.stop_jobs, public.stop_run, public.retry_job to authenticated, service_role;
