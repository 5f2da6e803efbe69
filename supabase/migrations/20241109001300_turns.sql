-- Turns of a rollout: what the agent observed, thought, generated, did and called.
-- These tables have the most rows: few indexes, only columns that are used, references instead of foreign keys, and none to the run, whose
-- deletion reaches them through the rollout.

create table public.agent_states (
  id uuid primary key default internal.new_id(),
  rollout_id uuid not null,
  training_run_id uuid,
  step_number integer not null check (step_number >= 0),
  reward double precision,
  observation text,
  action text,
  thought text,
  memory_summary text,
  messages jsonb,
  messages_from integer check (messages_from >= 0),
  chat integer[],
  model_response jsonb,
  info jsonb,
  duration_ms double precision check (duration_ms >= 0),
  model_duration_ms double precision check (model_duration_ms >= 0),
  environment_duration_ms double precision check (environment_duration_ms >= 0),
  created_at timestamptz not null default now(),
  unique (rollout_id, step_number),
  constraint agent_states_chat_has_a_place check (chat is null or messages_from is not null),
  constraint agent_states_chat_in_pairs check (cardinality(chat) % 2 = 0)
);
comment on table public.agent_states is 'One turn of a rollout.';
comment on column public.agent_states.reward is 'The turn''s reward of type `step`, without details. The view `rewards` shows it with all others.';
comment on column public.agent_states.messages is 'The new messages of the chat, or all of them if messages_from is null. turn_chat() returns the whole chat.';
comment on column public.agent_states.messages_from is 'The position of the first of these messages among all messages of the rollout''s turns.';
comment on column public.agent_states.chat is 'The chat as ranges [from, to, from, to, …) of the rollout''s messages; null: all of them up to this turn''s last.';

create table public.observations (
  id uuid primary key default internal.new_id(),
  agent_state_id uuid not null,
  training_run_id uuid,
  position smallint not null default 0 check (position >= 0),
  kind text not null check (kind <> ''),
  text text,
  media_path text,
  unique (agent_state_id, position)
);
comment on table public.observations is 'Further observations of a turn: a screenshot, a page, an accessibility tree.';

create table public.generations (
  id uuid primary key default internal.new_id(),
  agent_state_id uuid not null,
  training_run_id uuid,
  position smallint not null default 0 check (position >= 0),
  model text,
  policy_version bigint,
  prompt_ids integer[],
  tokens_from integer check (tokens_from >= 0),
  prompt integer[],
  completion_ids integer[],
  logprobs real[],
  mask boolean[],
  advantages real[],
  finish_reason text,
  unique (agent_state_id, position),
  constraint generations_prompt_has_a_place check (prompt is null or tokens_from is not null),
  constraint generations_prompt_in_pairs check (cardinality(prompt) % 2 = 0),
  constraint generations_logprobs_match_completion check (cardinality(logprobs) = cardinality(completion_ids)),
  constraint generations_mask_matches_completion check (cardinality(mask) = cardinality(completion_ids)),
  constraint generations_advantages_match_completion check (cardinality(advantages) in (1, cardinality(completion_ids)))
);
comment on table public.generations is 'The tokens of the prompt and the completion. A single advantage applies to the whole completion.';
comment on column public.generations.prompt_ids is 'The new tokens of the prompt, or all of them if tokens_from is null. generation_prompt() returns the whole prompt.';
comment on column public.generations.tokens_from is 'The position of the first of these tokens, prompt then completion, among all tokens of the rollout''s generations.';
comment on column public.generations.prompt is 'The prompt as ranges [from, to, from, to, …) of the rollout''s tokens; null: all of them up to the last new token of this prompt.';

create table public.tool_calls (
  id uuid primary key default internal.new_id(),
  agent_state_id uuid not null,
  training_run_id uuid,
  position smallint not null default 0 check (position >= 0),
  tool_name text not null check (tool_name <> ''),
  tool_input jsonb,
  tool_output text,
  success boolean,
  error_message text,
  execution_time_ms double precision check (execution_time_ms >= 0),
  created_at timestamptz not null default now(),
  unique (agent_state_id, position)
);
comment on table public.tool_calls is 'A tool call of a turn. An output that is not text is stored as JSON.';

select internal.compress('public.agent_states', 'observation', 'action', 'thought', 'memory_summary', 'messages', 'model_response', 'info');
select internal.compress('public.observations', 'text');
select internal.compress('public.generations', 'prompt_ids', 'completion_ids', 'logprobs', 'mask', 'advantages');
select internal.compress('public.tool_calls', 'tool_input', 'tool_output');

select internal.refer('public.agent_states', 'rollout_id', 'public.rollouts');
select internal.refer('public.observations', 'agent_state_id', 'public.agent_states');
select internal.refer('public.generations', 'agent_state_id', 'public.agent_states');
select internal.refer('public.tool_calls', 'agent_state_id', 'public.agent_states');

select internal.hold_to_lease('public.agent_states', 'rollout_id');
select internal.hold_to_lease('public.observations', 'agent_state_id');
select internal.hold_to_lease('public.generations', 'agent_state_id');
select internal.hold_to_lease('public.tool_calls', 'agent_state_id');

select internal.relate('public.agent_states', 'rollout_id', 'public.rollouts');
select internal.relate('public.observations', 'agent_state_id', 'public.agent_states');
select internal.relate('public.generations', 'agent_state_id', 'public.agent_states');
select internal.relate('public.tool_calls', 'agent_state_id', 'public.agent_states');

select internal.pin('public.rollouts', 'id');
select internal.pin('public.agent_states', 'id', 'rollout_id', 'training_run_id');
select internal.pin('public.observations', 'agent_state_id', 'training_run_id');
select internal.pin('public.generations', 'agent_state_id', 'training_run_id');
select internal.pin('public.tool_calls', 'agent_state_id', 'training_run_id');

create function internal.owns_turn(of_agent_state_id uuid, of_run_id uuid) returns boolean
language sql stable security definer set search_path = ''
as $$
  select exists (
    select 1 from public.agent_states a
    where a.id = of_agent_state_id and a.training_run_id is not distinct from of_run_id
      and internal.owns_rollout(a.rollout_id, of_run_id))
$$;

revoke execute on function internal.owns_turn from public;
grant execute on function internal.owns_turn to authenticated, service_role;

select internal.protect('public.agent_states', 'internal.owns_rollout(rollout_id, training_run_id)', 'internal.is_public_run(training_run_id)');
select internal.protect('public.observations', 'internal.owns_turn(agent_state_id, training_run_id)', 'internal.is_public_run(training_run_id)');
select internal.protect('public.generations', 'internal.owns_turn(agent_state_id, training_run_id)', 'internal.is_public_run(training_run_id)');
select internal.protect('public.tool_calls', 'internal.owns_turn(agent_state_id, training_run_id)', 'internal.is_public_run(training_run_id)');
