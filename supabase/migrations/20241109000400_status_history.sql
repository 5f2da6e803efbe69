-- The history of every status, filled by the triggers of internal.track_status.

create table public.status_history (
  id uuid not null default internal.new_id(),
  entity text not null,
  entity_id uuid not null,
  training_run_id uuid references public.training_runs (id) on delete cascade,
  old_status text,
  new_status text not null,
  message text,
  changed_by uuid,
  -- The clock's time, not the transaction's: one batch may hold several changes of a row.
  changed_at timestamptz not null default clock_timestamp(),
  primary key (entity_id, id)
);
comment on table public.status_history is 'Every status change of every table with a status, written by a trigger. The id identifies the change, so that a repeated change is recognized. Deleted with its row.';
create unique index status_history_of_an_entity on public.status_history (entity_id, changed_at, id);
create unique index status_history_of_a_run on public.status_history (training_run_id, entity_id, id);

select internal.protect('public.status_history', 'false', 'internal.is_public_run(training_run_id)', writable => false);
