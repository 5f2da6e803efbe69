-- Environments, tasks, and the validators that check a task's outcome.

create table public.environments (
  id uuid primary key default internal.new_id(),
  name text not null unique check (length(name) between 1 and 500),
  kind text,
  description text,
  spec jsonb not null default '{}',
  source text,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.environments is 'An environment of rollouts. Rollouts reference it by name; a row here is optional.';
create unique index environments_by_owner on public.environments (owner_id, id);

create table public.tasks (
  id uuid primary key default internal.new_id(),
  external_id text,
  environment text,
  name text,
  description text not null check (description <> ''),
  expected_answer text,
  split text,
  metadata jsonb not null default '{}',
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.tasks is 'What an agent is asked to do. Importing again updates tasks by environment and external id.';
-- A task without an external id has no natural key: many may share an environment.
create unique index tasks_by_external_id on public.tasks (environment, external_id) nulls not distinct where external_id is not null;
create unique index tasks_by_age on public.tasks (created_at desc, id);
create unique index tasks_by_owner on public.tasks (owner_id, id);

create table public.validators (
  id uuid primary key default internal.new_id(),
  task_id uuid not null references public.tasks (id) on delete cascade,
  external_id text not null default 'default' check (external_id <> ''),
  kind text not null check (kind <> ''),
  spec jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (task_id, external_id)
);
comment on table public.validators is 'How a task''s outcome is checked.';

create trigger touch_updated_at before update on public.environments for each row execute function internal.touch_updated_at();
create trigger touch_updated_at before update on public.tasks for each row execute function internal.touch_updated_at();
create trigger touch_updated_at before update on public.validators for each row execute function internal.touch_updated_at();

create function internal.owns_task(of_task_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from public.tasks t where t.id = of_task_id and t.owner_id = auth.uid()) $$;

revoke execute on function internal.owns_task from public;
grant execute on function internal.owns_task to authenticated, service_role;

select internal.protect('public.environments', 'owner_id = (select auth.uid())');
select internal.protect('public.tasks', 'owner_id = (select auth.uid())');
select internal.protect('public.validators', 'internal.owns_task(task_id)');
