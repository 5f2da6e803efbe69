-- What orchestrators call: claiming jobs under leases, telling how they go, restarting lost attempts, logs. And what a training process calls when it begins.

create function internal.save_orchestrator(orchestrator jsonb, owner uuid) returns uuid
language plpgsql security definer set search_path = ''
as $$
declare
  saved uuid;
begin
  insert into public.orchestrators as o (id, name, host, pid, version, backends, max_jobs, owner_id)
  values (coalesce(internal.as_uuid(orchestrator, 'id'), internal.new_id()), coalesce(nullif(orchestrator ->> 'name', ''), orchestrator ->> 'host'), orchestrator ->> 'host',
    internal.whole_number(orchestrator, 'pid', 0, 2147483647, null), orchestrator ->> 'version',
    array(select b from jsonb_array_elements_text(case jsonb_typeof(orchestrator -> 'backends') when 'array' then orchestrator -> 'backends' else '[]' end) b),
    internal.whole_number(orchestrator, 'max_jobs', 1, 10000, 1), owner)
  on conflict (id) do update set heartbeat_at = now(), state = 'active', stopped_at = null
    where o.owner_id is not distinct from excluded.owner_id
  returning o.id into saved;
  if saved is null then
    perform internal.fail('OM403', 'id', format('orchestrator %s: it is another user''s', orchestrator ->> 'id'));
  end if;
  delete from public.orchestrators o where o.heartbeat_at < now() - interval '30 days';
  return saved;
end
$$;

create function public.register_orchestrator(orchestrator jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('register an orchestrator');
  if jsonb_typeof(orchestrator) is distinct from 'object' or coalesce(orchestrator ->> 'host', '') = '' or length(orchestrator ->> 'name') > 500 then
    perform internal.fail('OM400', 'orchestrator', 'orchestrator: an object is expected, with a host and a name of at most 500 characters');
  end if;
  return jsonb_build_object('orchestrator_id', internal.save_orchestrator(orchestrator, auth.uid()));
end
$$;
comment on function public.register_orchestrator is 'Register an orchestrator: {id, name, host, pid, version, backends, max_jobs}. Returns {orchestrator_id}.';

create function internal.beat_orchestrator(of_id uuid, new_state text, owner uuid) returns public.orchestrators
language plpgsql security definer set search_path = ''
as $$
declare
  found_one public.orchestrators;
begin
  update public.orchestrators o set heartbeat_at = now(), state = new_state, stopped_at = case new_state when 'stopped' then now() end
  where o.id = of_id and (owner is null or o.owner_id = owner) returning * into found_one;
  if not found then
    perform internal.fail('OM404', 'orchestrator_id', format('orchestrator %s: unknown id; register it first', of_id));
  end if;
  return found_one;
end
$$;

-- Leases ------------------------------------------------------------------------------------------------------------------------

create function internal.is_leased(of_subject_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from internal.orchestrator_leases l where l.subject_id = of_subject_id and l.expires_at > clock_timestamp()) $$;

create function internal.lease(of_subject_id uuid, of_orchestrator_id uuid, lease_seconds double precision) returns uuid
language sql security definer set search_path = ''
as $$
  insert into internal.orchestrator_leases as l (subject_id, lease_id, orchestrator_id, expires_at)
  values (of_subject_id, internal.new_id(), of_orchestrator_id, clock_timestamp() + make_interval(secs => lease_seconds))
  on conflict (subject_id) do update set lease_id = excluded.lease_id, orchestrator_id = excluded.orchestrator_id, expires_at = excluded.expires_at
  returning l.lease_id
$$;

create function internal.claim_jobs(o public.orchestrators, wanted integer, lease_seconds double precision, owner uuid) returns jsonb
language plpgsql security definer set search_path = ''
as $$
-- First what another orchestrator left, which is already counted, then up to `wanted` that wait. Local jobs are left to their machine.
declare
  job public.jobs;
  given jsonb := '[]';
  taken integer := 0;
begin
  for job in
    select * from public.jobs j
    where internal.is_active_job(j.status) and j.backend = any (o.backends) and (j.status = 'pending' or j.backend <> 'local' or j.host = o.host)
      and not internal.is_leased(j.id)
      and (owner is null or coalesce((select r.owner_id from public.training_runs r where r.id = j.training_run_id), j.owner_id) = owner)
    order by j.status = 'pending', j.created_at, j.id for update skip locked
  loop
    -- Read again: the rows were locked one by one.
    continue when internal.is_leased(job.id);
    exit when job.status = 'pending' and taken >= wanted;
    if job.status = 'pending' then
      taken := taken + 1;
      update public.jobs j set status = 'launching', host = o.host, orchestrator_id = o.id where j.id = job.id returning * into job;
    else
      update public.jobs j set orchestrator_id = o.id where j.id = job.id and j.orchestrator_id is distinct from o.id;
    end if;
    given := given || jsonb_build_object('job', to_jsonb(job), 'lease_id', internal.lease(job.id, o.id, lease_seconds),
      'name', internal.job_name(job.id, job.attempt), 'task', internal.job_task(job.id, job.attempt, job.training_run_id, job.config),
      'run', (select to_jsonb(r) from public.training_runs r where r.id = job.training_run_id));
  end loop;
  return given;
end
$$;

create function public.claim_jobs(orchestrator_id uuid, wanted integer default 1, lease_seconds double precision default 60) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('claim jobs'), internal.check_lease_seconds(lease_seconds);
  return jsonb_build_object('claims', internal.claim_jobs(internal.beat_orchestrator(orchestrator_id, 'active', internal.owner_to_match()), wanted, lease_seconds, internal.owner_to_match()));
end
$$;
comment on function public.claim_jobs is 'Lease jobs to an orchestrator: those that another one left, and up to `wanted` that wait, of its backends. Returns {claims: [{job, lease_id, name, task, run}]}; `name` is that of the attempt at its backend.';

create function internal.renew_leases(of_orchestrator_id uuid, lease_ids uuid[], lease_seconds double precision) returns jsonb
language plpgsql security definer set search_path = ''
as $$
begin
  update internal.orchestrator_leases l set expires_at = clock_timestamp() + make_interval(secs => lease_seconds)
  where l.lease_id = any (lease_ids) and l.orchestrator_id = of_orchestrator_id;
  return (select coalesce(jsonb_agg(jsonb_build_object('lease_id', l.lease_id, 'subject_id', l.subject_id,
      'stop_requested', case when s.id is null then j.stop_requested_at is not null or j.training_run_id is null else s.status not in ('pending', 'running') end,
      -- Since its process began: a run that is to be resumed has ended before.
      'run_ended_seconds', case when r.status not in ('pending', 'running') and r.finished_at >= a.began_at then extract(epoch from clock_timestamp() - r.finished_at) end)), '[]')
    from internal.orchestrator_leases l left join public.jobs j on j.id = l.subject_id left join public.sweeps s on s.id = l.subject_id
      left join public.training_runs r on r.id = j.training_run_id left join internal.job_attempts a on a.job_id = j.id and a.attempt = j.attempt
    where l.lease_id = any (lease_ids) and l.orchestrator_id = of_orchestrator_id);
end
$$;

create function public.renew_jobs(orchestrator_id uuid, lease_ids uuid[], lease_seconds double precision default 60) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('renew leases'), internal.check_lease_seconds(lease_seconds), internal.beat_orchestrator(orchestrator_id, 'active', internal.owner_to_match());
  return jsonb_build_object('leases', internal.renew_leases(orchestrator_id, lease_ids, lease_seconds));
end
$$;
comment on function public.renew_jobs is 'Renew an orchestrator''s leases of jobs and sweeps, which is its heartbeat. Returns {leases: [{lease_id, subject_id, stop_requested, run_ended_seconds}]}; a lease that is missing was lost or has ended. `run_ended_seconds` is how long ago the run of a job ended in this attempt.';

create function internal.drop_leases(of_orchestrator_id uuid, lease_ids uuid[]) returns integer
language sql security definer set search_path = ''
as $$
  with dropped as (delete from internal.orchestrator_leases l where l.orchestrator_id = of_orchestrator_id and (lease_ids is null or l.lease_id = any (lease_ids)) returning 1)
  select count(*)::integer from dropped
$$;

create function public.retire_orchestrator(orchestrator_id uuid) returns integer
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('retire an orchestrator'), internal.beat_orchestrator(orchestrator_id, 'stopped', internal.owner_to_match());
  return internal.drop_leases(orchestrator_id, null);
end
$$;
comment on function public.retire_orchestrator is 'An orchestrator ends: its jobs go on, and the next orchestrator follows them. Returns how many those are.';

-- Telling how a job goes ------------------------------------------------------------------------------------------------------

create function internal.lock_leased_job(of_lease_id uuid) returns public.jobs
language plpgsql security definer set search_path = ''
as $$
-- The run is locked before its job, as by all that writes both.
declare
  of_job_id uuid := (select l.subject_id from internal.orchestrator_leases l where l.lease_id = of_lease_id);
  job public.jobs;
begin
  perform 1 from public.training_runs r where r.id = (select j.training_run_id from public.jobs j where j.id = of_job_id) for update;
  select * into job from public.jobs j where j.id = of_job_id for update;
  perform 1 from internal.orchestrator_leases l where l.lease_id = of_lease_id for update;
  if not found or job.id is null then
    perform internal.fail('OM409', 'lease_id', format('lease %s: it was lost, or its job has ended', of_lease_id));
  end if;
  return job;
end
$$;

create function internal.end_run_of(job public.jobs) returns void
language plpgsql security definer set search_path = ''
as $$
-- A job has ended; so has its run, whatever its process did not get to say.
begin
  delete from internal.orchestrator_leases l where l.subject_id = job.id;
  update public.training_runs r set
    status = case job.status when 'succeeded' then 'completed' when 'failed' then 'failed' else 'interrupted' end,
    status_message = coalesce(job.status_message, case job.status when 'cancelled' then 'its job was stopped' end)
  where r.id = job.training_run_id and r.status in ('pending', 'running') and not (r.status = 'pending' and job.status = 'cancelled');
end
$$;

create function internal.change_job(of_lease_id uuid, changes jsonb, owner uuid) returns public.jobs
language plpgsql security definer set search_path = ''
as $$
declare
  job public.jobs := internal.lock_leased_job(of_lease_id);
  field text;
begin
  perform internal.require_own_jobs(array[job.id], owner);
  select e.key into field from jsonb_each(changes) e where e.key not in ('status', 'message', 'external_id', 'yaml', 'exit_code', 'cost_usd') order by e.key limit 1;
  if field is not null then
    perform internal.fail('OM400', field, format('%s: an orchestrator changes status, message, external_id, yaml, exit_code, cost_usd', field));
  end if;
  update public.jobs j set status = coalesce(changes ->> 'status', j.status),
    status_message = case when changes ? 'message' then left(changes ->> 'message', 10000) when coalesce(changes ->> 'status', j.status) <> j.status then null else j.status_message end,
    external_id = coalesce(changes ->> 'external_id', j.external_id), yaml = coalesce(changes ->> 'yaml', j.yaml),
    exit_code = coalesce((changes ->> 'exit_code')::integer, j.exit_code), cost_usd = coalesce(j.earlier_cost_usd + (changes ->> 'cost_usd')::numeric, j.cost_usd)
  where j.id = job.id returning * into job;
  if not internal.is_active_job(job.status) then
    perform internal.end_run_of(job);
  end if;
  return job;
end
$$;

create function public.update_job(lease_id uuid, changes jsonb) returns jsonb
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('change a job');
  return to_jsonb(internal.change_job(lease_id, changes, internal.owner_to_match()));
end
$$;
comment on function public.update_job is 'Tell how a job goes: {status, message, external_id, yaml, exit_code, cost_usd}, under its lease. `cost_usd` is that of the present attempt. With a final status the lease ends, and the run too if it had not. Returns the job.';

create function internal.restart(of_lease_id uuid, of_attempt integer, reason text, owner uuid) returns public.jobs
language plpgsql security definer set search_path = ''
as $$
declare
  job public.jobs := internal.lock_leased_job(of_lease_id);
begin
  perform internal.require_own_jobs(array[job.id], owner);
  if job.attempt <> of_attempt then
    return job;
  elsif job.stop_requested_at is not null or job.training_run_id is null then
    return internal.change_job(of_lease_id, jsonb_build_object('status', 'cancelled', 'message', reason), owner);
  elsif job.restarts >= job.max_restarts then
    return internal.change_job(of_lease_id, jsonb_build_object('status', 'failed', 'message', format('%s, after %s restarts', reason, job.restarts)), owner);
  end if;
  update public.jobs j set status = 'launching', status_message = reason, attempt = j.attempt + 1, restarts = j.restarts + 1, external_id = null, exit_code = null, earlier_cost_usd = coalesce(j.cost_usd, 0),
    yaml = internal.as_yaml(internal.job_task(j.id, j.attempt + 1, j.training_run_id, j.config))
  where j.id = job.id returning * into job;
  return job;
end
$$;

create function public.restart_job(lease_id uuid, attempt integer, reason text) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  job public.jobs;
begin
  perform internal.require_editor('restart a job');
  job := internal.restart(lease_id, attempt, reason, internal.owner_to_match());
  return jsonb_build_object('job', to_jsonb(job), 'name', internal.job_name(job.id, job.attempt), 'task', internal.job_task(job.id, job.attempt, job.training_run_id, job.config));
end
$$;
comment on function public.restart_job is 'An attempt was lost: begin the next, or end the job if it was asked to stop or has had its restarts. Repeated for the same attempt, it changes nothing. Returns {job, name, task}.';

create function internal.begin(of_job_id uuid, of_attempt integer, of_token text, owner uuid) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  job public.jobs;
  first_token text;
begin
  perform internal.require_own_jobs(array[of_job_id], owner);
  select * into job from public.jobs j where j.id = of_job_id;
  if job.attempt <> of_attempt or not internal.is_active_job(job.status) then
    perform internal.fail('OM409', 'attempt', format('job %s: attempt %s is over; it is %s in attempt %s', of_job_id, of_attempt, job.status, job.attempt));
  elsif job.stop_requested_at is not null then
    perform internal.fail('OM409', 'stop_requested_at', format('job %s: it was asked to stop', of_job_id));
  end if;
  insert into internal.job_attempts (job_id, attempt, token) values (of_job_id, of_attempt, of_token) on conflict do nothing;
  select a.token into first_token from internal.job_attempts a where a.job_id = of_job_id and a.attempt = of_attempt;
  if first_token <> of_token then
    perform internal.fail('OM409', 'token', format('job %s: another process trains in attempt %s', of_job_id, of_attempt));
  end if;
end
$$;

create function public.begin_attempt(job_id uuid, attempt integer, token text) returns boolean
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('begin an attempt'), internal.begin(job_id, attempt, token, internal.owner_to_match());
  return true;
end
$$;
comment on function public.begin_attempt is 'A training process begins an attempt of a job. The first token wins; another process, or an attempt that is over, is refused, so that a job that was launched twice trains once.';

-- Logs --------------------------------------------------------------------------------------------------------------------------

create function internal.add_log(of_lease_id uuid, of_attempt integer, start bigint, piece text, owner uuid) returns bigint
language plpgsql security definer set search_path = ''
as $$
declare
  of_job_id uuid := (select l.subject_id from internal.orchestrator_leases l where l.lease_id = of_lease_id);
  expected bigint;
begin
  -- The job before its lease, as by all that locks both: the foreign key of the log locks it, too.
  perform 1 from public.jobs j where j.id = of_job_id for key share;
  perform 1 from internal.orchestrator_leases l where l.lease_id = of_lease_id for share;
  if not found then
    perform internal.fail('OM409', 'lease_id', format('lease %s: it was lost, or its job has ended', of_lease_id));
  end if;
  perform internal.check_own_jobs(array[of_job_id], owner);
  expected := coalesce((select g.start + g.bytes from public.job_logs g where g.job_id = of_job_id and g.attempt = of_attempt order by g.start desc limit 1), 0);
  -- Repeated, or from an orchestrator that knew less: the caller goes on from the answer.
  if start = expected and piece <> '' then
    insert into public.job_logs (job_id, attempt, start, bytes, text) values (of_job_id, of_attempt, start, octet_length(piece), piece);
    expected := expected + octet_length(piece);
  end if;
  return expected;
end
$$;

create function public.append_job_log(lease_id uuid, attempt integer, start bigint, text text) returns bigint
language plpgsql set search_path = ''
as $$
begin
  perform internal.require_editor('write a log');
  if octet_length(text) > 1048576 then
    perform internal.fail('OM413', 'text', 'text: at most 1 MiB at a time');
  end if;
  return internal.add_log(lease_id, attempt, start, text, internal.owner_to_match());
end
$$;
comment on function public.append_job_log is 'Add to the log of an attempt, under the job''s lease. `start` is where the text begins, in bytes; what is there already changes nothing. Returns where the next text begins.';

create function public.read_job_logs(job_id uuid, attempt integer default null, after bigint default 0, max_bytes integer default 262144) returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_variable
declare
  job public.jobs;
  of_attempt integer;
  read jsonb;
begin
  select * into job from public.jobs j where j.id = job_id;
  if not found then
    perform internal.fail('OM404', 'job_id', format('job %s: unknown id', job_id));
  end if;
  of_attempt := coalesce(attempt, job.attempt);
  with pieces as (
    select g.start, g.bytes, g.text, sum(g.bytes) over (order by g.start) as so_far from public.job_logs g
    where g.job_id = job_id and g.attempt = of_attempt and g.start >= after order by g.start limit 1000)
  select jsonb_build_object('text', coalesce(string_agg(p.text, '' order by p.start), ''), 'next', coalesce(max(p.start + p.bytes), after)) into read
  from pieces p where p.so_far - p.bytes < max_bytes;
  return read || jsonb_build_object('attempt', of_attempt, 'attempts', job.attempt, 'status', job.status,
    'end', coalesce((select g.start + g.bytes from public.job_logs g where g.job_id = job_id and g.attempt = of_attempt order by g.start desc limit 1), 0));
end
$$;
comment on function public.read_job_logs is 'Read the log of a job''s attempt (the last by default) from a place that an earlier answer named as `next`. Returns {attempt, attempts, status, text, next, end}.';

revoke execute on function internal.save_orchestrator, internal.beat_orchestrator, internal.is_leased, internal.lease, internal.claim_jobs, internal.renew_leases, internal.drop_leases,
  internal.lock_leased_job, internal.end_run_of, internal.change_job, internal.restart, internal.begin, internal.add_log from public;
grant execute on function internal.save_orchestrator, internal.beat_orchestrator, internal.claim_jobs, internal.renew_leases, internal.drop_leases,
  internal.change_job, internal.restart, internal.begin, internal.add_log to authenticated, service_role;
revoke execute on function public.register_orchestrator, public.claim_jobs, public.renew_jobs, public.retire_orchestrator, public.update_job, public.restart_job, public.begin_attempt,
  public.append_job_log, public.read_job_logs from public, anon, authenticated, service_role;
grant execute on function public.register_orchestrator, public.claim_jobs, public.renew_jobs, public.retire_orchestrator, public.update_job, public.restart_job, public.begin_attempt,
  public.append_job_log, public.read_job_logs to authenticated, service_role;
