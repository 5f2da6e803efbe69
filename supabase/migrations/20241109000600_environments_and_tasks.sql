-- Environments, tasks, and the validators that check a task's outcome.

create table public.environments (
  id uuid primary key default internal.new_id(),
  name text not null unique check (length(name) between 1 and 500),
  kind text,
  description text,
  spec jsonb not null default '{}',
  version integer not null default 1,
  is_draft boolean not null default false,
  source text,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.environments is 'An environment of rollouts or of training. Runs and rollouts reference it by name; a row here is optional. `kind` and `spec` say how it is started; `version` counts their changes.';
comment on column public.environments.is_draft is 'It was imported, and a person has not confirmed it yet.';
create unique index environments_by_owner on public.environments (owner_id, id);
create unique index environments_by_change on public.environments (updated_at desc, id);

create table public.environment_versions (
  id uuid primary key default internal.new_id(),
  environment_id uuid not null references public.environments (id) on delete cascade,
  version integer not null,
  kind text,
  spec jsonb not null,
  preview text check (preview like 'data:image/png;base64,%' and length(preview) <= 500000),
  preview_error text,
  created_by uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  unique (environment_id, version)
);
comment on table public.environment_versions is 'What an environment was in each of its versions. `preview` is a picture of it, or `preview_error` says why there is none.';
create unique index environment_versions_by_author on public.environment_versions (created_by, id);

create table public.tasks (
  id uuid primary key default internal.new_id(),
  external_id text,
  environment text,
  name text,
  description text not null check (description <> ''),
  expected_answer text,
  solution jsonb,
  files_path text,
  version integer not null default 1,
  split text,
  metadata jsonb not null default '{}',
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.tasks is 'What an agent is asked to do. Importing again updates tasks by environment and external id. `version` counts the changes of what is asked or expected.';
comment on column public.tasks.solution is 'How the task is solved, for the agents `oracle` and `scripted`: {"script": …}, {"answer": …} or {"actions": […]}.';
comment on column public.tasks.files_path is 'An archive in the bucket task-files: the folder of a Harbor task.';
-- A task without an external id has no natural key: many may share an environment.
create unique index tasks_by_external_id on public.tasks (environment, external_id) nulls not distinct where external_id is not null;
create unique index tasks_with_an_external_id on public.tasks (external_id, id) where external_id is not null;
create unique index tasks_by_age on public.tasks (created_at desc, id);
create unique index tasks_by_owner on public.tasks (owner_id, id);

create table public.validators (
  id uuid primary key default internal.new_id(),
  task_id uuid not null references public.tasks (id) on delete cascade,
  external_id text not null default 'default' check (external_id <> ''),
  kind text not null check (kind <> ''),
  spec jsonb not null default '{}',
  version integer not null default 1,
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (task_id, external_id)
);
comment on table public.validators is 'How a task''s outcome is checked. `version` counts the changes of kind and spec.';
comment on column public.validators.retired_at is 'When an import of the task no longer named it: it is kept for its verdicts, and no longer run.';

create trigger touch_updated_at before update on public.environments for each row execute function internal.touch_updated_at();
create trigger touch_updated_at before update on public.tasks for each row execute function internal.touch_updated_at();
create trigger touch_updated_at before update on public.validators for each row execute function internal.touch_updated_at();

-- Versions ----------------------------------------------------------------------------------------------------------------------

create function internal.count_version() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.version := old.version + 1;
  return new;
end
$$;

create trigger count_version before update on public.environments for each row
  when ((old.kind, old.spec) is distinct from (new.kind, new.spec)) execute function internal.count_version();
create trigger count_version before update on public.tasks for each row
  when ((old.description, old.expected_answer, old.solution, old.files_path, old.environment, old.metadata) is distinct from
        (new.description, new.expected_answer, new.solution, new.files_path, new.environment, new.metadata))
  execute function internal.count_version();
create trigger count_version before update on public.validators for each row
  when ((old.kind, old.spec) is distinct from (new.kind, new.spec)) execute function internal.count_version();

create function internal.keep_version() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  insert into public.environment_versions (environment_id, version, kind, spec) values (new.id, new.version, new.kind, new.spec);
  return null;
end
$$;

create trigger keep_first_version after insert on public.environments for each row execute function internal.keep_version();
create trigger keep_version after update on public.environments for each row when (old.version <> new.version) execute function internal.keep_version();

create function internal.keep_trained_environment() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if exists (select 1 from public.training_runs r where r.environment = old.name and r.environment_version is not null) then
    perform internal.fail('OM409', 'name', format('environment %s: a run trained on it, and its versions are kept with the run', old.name));
  end if;
  return old;
end
$$;

create trigger keep_trained_environment before delete on public.environments for each row execute function internal.keep_trained_environment();

create function internal.store_preview(of_environment_id uuid, of_version integer, preview text, preview_error text) returns void
language sql security definer set search_path = ''
as $$
  update public.environment_versions v set preview = store_preview.preview, preview_error = store_preview.preview_error
  where v.environment_id = of_environment_id and v.version = of_version
$$;

create function public.save_preview(environment_id uuid, version integer, preview text default null, preview_error text default null) returns boolean
language plpgsql set search_path = ''
as $$
begin
  if current_user = 'authenticated' and not internal.is_editor() then
    raise exception using errcode = 'OM403', message = 'save a preview: only editors and admins may; ask an admin for the role';
  end if;
  if not exists (select 1 from public.environment_versions v where v.environment_id = save_preview.environment_id and v.version = save_preview.version) then
    perform internal.fail('OM404', 'version', format('environment %s: it has no version %s', environment_id, version));
  end if;
  perform internal.store_preview(environment_id, version, preview, preview_error);
  return true;
end
$$;
comment on function public.save_preview is 'Keep the picture of a version of an environment, a PNG as a data: URL, or why there is none.';

create function internal.owns_task(of_task_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from public.tasks t where t.id = of_task_id and t.owner_id = auth.uid()) $$;

revoke execute on function internal.count_version, internal.keep_version, internal.keep_trained_environment, internal.store_preview, internal.owns_task from public;
grant execute on function internal.store_preview, internal.owns_task to authenticated, service_role;
revoke execute on function public.save_preview from public, anon, authenticated, service_role;
grant execute on function public.save_preview to authenticated, service_role;

select internal.protect('public.environments', 'owner_id = (select auth.uid())');
select internal.protect('public.environment_versions', 'false', writable => false);
select internal.protect('public.tasks', 'owner_id = (select auth.uid())');
select internal.protect('public.validators', 'internal.owns_task(task_id)');
-- Versions belong to their triggers.
select internal.reserve('public.environments', 'version');
select internal.reserve('public.tasks', 'version');
select internal.reserve('public.validators', 'version');

-- Importing again -----------------------------------------------------------------------------------------------------------------

create function public.keep_validators(task_ids uuid[], validator_ids uuid[]) returns integer
language sql set search_path = ''
as $$
  with changed as (
    update public.validators v set retired_at = case when v.id = any (validator_ids) then null else now() end
    where v.task_id = any (task_ids) and (v.retired_at is null) <> (v.id = any (validator_ids)) returning 1)
  select count(*)::integer from changed
$$;
comment on function public.keep_validators is 'Of all validators of these tasks, use exactly these: others are retired. Returns how many that changed.';
revoke execute on function public.keep_validators from public, anon, authenticated, service_role;
grant execute on function public.keep_validators to authenticated, service_role;
