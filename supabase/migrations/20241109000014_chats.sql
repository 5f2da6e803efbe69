-- Chats and prompts that grow with every turn, stored once: a turn holds what is new in it and says where that lies in its rollout's
-- conversation, so that storage grows with the conversation and not with its square.

alter table public.agent_states
  add column messages_from integer check (messages_from >= 0),
  add column chat integer[],
  add constraint agent_states_chat_has_a_place check (chat is null or messages_from is not null),
  add constraint agent_states_chat_in_pairs check (cardinality(chat) % 2 = 0);
comment on column public.agent_states.messages is 'What is new in the chat; all of it where messages_from is null. turn_chat() answers the whole.';
comment on column public.agent_states.messages_from is 'The place of the first of these messages among all that the rollout''s turns hold.';
comment on column public.agent_states.chat is 'The chat as stretches [from, to, from, to, …) of the rollout''s messages; null: all of them up to this turn''s last.';

alter table public.generations
  add column tokens_from integer check (tokens_from >= 0),
  add column prompt integer[],
  add constraint generations_prompt_has_a_place check (prompt is null or tokens_from is not null),
  add constraint generations_prompt_in_pairs check (cardinality(prompt) % 2 = 0);
comment on column public.generations.prompt_ids is 'What is new in the prompt; all of it where tokens_from is null. generation_prompt() answers the whole.';
comment on column public.generations.tokens_from is 'The place of the first of these tokens, prompt then completion, among all that the rollout''s generations hold.';
comment on column public.generations.prompt is 'The prompt as stretches [from, to, from, to, …) of the rollout''s tokens; null: all of them up to the last that is new in this prompt.';

select internal.define_merge('agent_states', 'left join public.rollouts p on p.id = s.rollout_id', '{"training_run_id": "p.training_run_id"}');
select internal.define_merge('generations', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.generations t where t.agent_state_id = s.agent_state_id))"}');

create function internal.places(stretches integer[]) returns table (number bigint, place integer)
language sql immutable parallel safe set search_path = ''
as $$
  -- The places that stretches name, one after the other.
  select row_number() over (order by i, p), p
  from generate_series(1, cardinality(stretches), 2) i cross join lateral generate_series(stretches[i], stretches[i + 1] - 1) p
$$;

create function public.turn_chat(agent_state_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
declare
  turn record;
begin
  select t.rollout_id, t.messages, t.messages_from,
    coalesce(t.chat, array[0, t.messages_from + jsonb_array_length(t.messages)]) as stretches
  into turn from public.agent_states t where t.id = turn_chat.agent_state_id;
  if not found then
    raise exception using errcode = 'OM404', column = 'agent_state_id', message = format('turn %s: unknown id', agent_state_id);
  end if;
  if turn.messages_from is null then
    return turn.messages;
  end if;
  return (
    with known as materialized (
      select t.messages_from + m.number::integer - 1 as place, m.message
      from public.agent_states t cross join lateral jsonb_array_elements(t.messages) with ordinality m (message, number)
      where t.rollout_id = turn.rollout_id and t.messages_from < (select max(s) from unnest(turn.stretches) s))
    -- A message whose turn is not there is null: it is missing, and seen to be.
    select coalesce(jsonb_agg(k.message order by p.number), '[]')
    from internal.places(turn.stretches) p left join known k using (place));
end
$$;
comment on function public.turn_chat is 'The whole chat that a turn was given, however little of it the turn itself holds; null where it is unknown.';

create function public.generation_prompt(generation_id uuid) returns integer[]
language plpgsql stable set search_path = '' set jit = off
as $$
declare
  generation record;
begin
  select g.prompt_ids, g.tokens_from, a.rollout_id, coalesce(g.prompt, array[0, g.tokens_from + coalesce(cardinality(g.prompt_ids), 0)]) as stretches
  into generation
  from public.generations g join public.agent_states a on a.id = g.agent_state_id where g.id = generation_id;
  if not found then
    raise exception using errcode = 'OM404', column = 'generation_id', message = format('generation %s: unknown id', generation_id);
  end if;
  if generation.tokens_from is null then
    return generation.prompt_ids;
  end if;
  return (
    with known as materialized (
      select g.tokens_from + t.number::integer - 1 as place, t.token
      from public.agent_states a join public.generations g on g.agent_state_id = a.id
      cross join lateral unnest(g.prompt_ids || g.completion_ids) with ordinality t (token, number)
      where a.rollout_id = generation.rollout_id and g.tokens_from < (select max(s) from unnest(generation.stretches) s))
    select coalesce(array_agg(k.token order by p.number), '{}')
    from internal.places(generation.stretches) p left join known k using (place));
end
$$;
comment on function public.generation_prompt is 'All tokens of the prompt that a generation was made from, however few of them it holds itself; null where they are unknown.';

revoke execute on function internal.places from public;
grant execute on function internal.places to anon, authenticated, service_role;
revoke execute on function public.turn_chat, public.generation_prompt from public, anon, authenticated, service_role;
grant execute on function public.turn_chat, public.generation_prompt to anon, authenticated, service_role;
