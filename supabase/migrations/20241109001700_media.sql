-- Media: frames, screenshots, videos and other files in storage, and what they show.

create table public.media (
  id uuid primary key default internal.new_id(),
  training_run_id uuid references public.training_runs (id) on delete cascade,
  rollout_id uuid references public.rollouts (id) on delete cascade,
  agent_state_id uuid,
  kind text not null check (kind in ('frame', 'screenshot', 'image', 'video', 'audio', 'file')),
  bucket text not null default 'media',
  path text not null check (path <> ''),
  content_type text,
  size_bytes bigint check (size_bytes >= 0),
  checksum text,
  width integer check (width > 0),
  height integer check (height > 0),
  duration_ms double precision check (duration_ms >= 0),
  metadata jsonb not null default '{}',
  timeline integer not null default 0,
  rewound_at timestamptz,
  owner_id uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now()
);
comment on table public.media is 'A file in storage that belongs to a run, a rollout or a turn. Many rows may reference one file.';
comment on column public.media.rewound_at is 'When a rewind of the run hid the frame; null if it is visible. Media of rollouts are hidden with their rollouts.';
create unique index media_of_a_run on public.media (training_run_id, id);
create unique index media_of_a_rollout on public.media (rollout_id, id);
create unique index media_of_a_turn on public.media (agent_state_id, id);
create unique index media_by_owner on public.media (owner_id, id);

select internal.refer('public.media', 'agent_state_id', 'public.agent_states');
select internal.relate('public.media', 'agent_state_id', 'public.agent_states');
select internal.hold_to_lease('public.media', 'rollout_id', 'agent_state_id');
select internal.pin('public.media', 'training_run_id', 'rollout_id', 'agent_state_id');
select internal.protect('public.media',
  'internal.owns_or_owns_run(training_run_id, owner_id)
   and (rollout_id is null or internal.owns_rollout(rollout_id, training_run_id))
   and (agent_state_id is null or internal.owns_turn(agent_state_id, training_run_id))',
  'internal.is_public_run(training_run_id)');
