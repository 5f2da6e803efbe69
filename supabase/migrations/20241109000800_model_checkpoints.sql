-- Model checkpoints: where the weights are stored, and how good they are.

create table public.model_checkpoints (
  id uuid primary key default internal.new_id(),
  training_run_id uuid not null references public.training_runs (id) on delete cascade,
  checkpoint_number bigint not null check (checkpoint_number >= 0),
  step bigint check (step >= 0),
  storage_path text,
  size_bytes bigint check (size_bytes >= 0),
  checksum text,
  metrics jsonb not null default '{}',
  metadata jsonb not null default '{}',
  timeline integer not null default 0,
  rewound_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.model_checkpoints is 'A checkpoint of a run. storage_path is within the bucket model-checkpoints.';
create unique index model_checkpoints_of_a_run on public.model_checkpoints (training_run_id, checkpoint_number, id);
-- A number is unique among the checkpoints that no rewind has hidden.
create unique index model_checkpoints_that_count on public.model_checkpoints (training_run_id, checkpoint_number) where rewound_at is null;

create trigger touch_updated_at before update on public.model_checkpoints for each row execute function internal.touch_updated_at();
select internal.pin('public.model_checkpoints', 'training_run_id');
select internal.protect('public.model_checkpoints', 'internal.owns_run(training_run_id)', 'internal.is_public_run(training_run_id)');
