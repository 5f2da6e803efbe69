-- Chats and prompts that grow with every turn are stored once: a turn holds its new messages and their place in the rollout's
-- conversation, so that storage grows with the conversation and not with its square. These functions return the whole.

create function internal.places(stretches integer[]) returns table (number bigint, place integer)
language sql immutable parallel safe set search_path = ''
as $$
  -- The positions in the given ranges, in order.
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
    perform internal.fail('OM404', 'agent_state_id', format('turn %s: unknown id', agent_state_id));
  end if;
  if turn.messages_from is null then
    return turn.messages;
  end if;
  return (
    with known as materialized (
      select t.messages_from + m.number::integer - 1 as place, m.message
      from public.agent_states t cross join lateral jsonb_array_elements(t.messages) with ordinality m (message, number)
      where t.rollout_id = turn.rollout_id and t.messages_from < (select max(s) from unnest(turn.stretches) s))
    -- A message whose turn is missing is returned as null.
    select coalesce(jsonb_agg(k.message order by p.number), '[]')
    from internal.places(turn.stretches) p left join known k using (place));
end
$$;
comment on function public.turn_chat is 'The whole chat of a turn, including messages that other turns hold; null if unknown.';

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
    perform internal.fail('OM404', 'generation_id', format('generation %s: unknown id', generation_id));
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
comment on function public.generation_prompt is 'All tokens of a generation''s prompt, including those that other generations hold; null if unknown.';

revoke execute on function internal.places from public;
grant execute on function internal.places to anon, authenticated, service_role;
revoke execute on function public.turn_chat, public.generation_prompt from public, anon, authenticated, service_role;
grant execute on function public.turn_chat, public.generation_prompt to anon, authenticated, service_role;
