-- Reading one rollout of any length, a page of turns at a time.

create function public.rollout_outline(rollout_id uuid) returns jsonb
-- Without parallel workers: starting them takes longer than the query.
language plpgsql stable set search_path = '' set jit = off set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
begin
  perform internal.require_rollout(rollout_outline.rollout_id);
  return (
    with calls as materialized (
      select a.step_number, t.tool_name, count(*) as n, count(*) filter (where not t.success) as errors
      from public.agent_states a join public.tool_calls t on t.agent_state_id = a.id
      where a.rollout_id = rollout_outline.rollout_id group by a.step_number, t.tool_name
    ), called as (select c.step_number, sum(c.n) as n, sum(c.errors) as errors from calls c group by c.step_number
    ), rewarded as (
      select w.step_number, sum(w.reward) as reward from public.rewards w
      where w.rollout_id = rollout_outline.rollout_id and w.step_number is not null group by w.step_number
    ), turns as (
      select a.step_number, w.reward, coalesce(c.n, 0) as tools, coalesce(c.errors, 0) as errors, a.duration_ms,
        -- In bytes: counting characters would read all texts.
        coalesce(octet_length(a.observation), 0) + coalesce(octet_length(a.action), 0) + coalesce(octet_length(a.thought), 0) as chars
      from public.agent_states a left join called c using (step_number) left join rewarded w using (step_number)
      where a.rollout_id = rollout_outline.rollout_id)
    select jsonb_build_object('turns', count(*),
      'step_numbers', coalesce(jsonb_agg(t.step_number order by t.step_number), '[]'),
      'rewards', coalesce(jsonb_agg(t.reward order by t.step_number), '[]'),
      'tools', coalesce(jsonb_agg(t.tools order by t.step_number), '[]'),
      'tool_errors', coalesce(jsonb_agg(t.errors order by t.step_number), '[]'),
      'durations_ms', coalesce(jsonb_agg(t.duration_ms order by t.step_number), '[]'),
      'chars', coalesce(jsonb_agg(t.chars order by t.step_number), '[]'),
      'tool_names', (select coalesce(jsonb_object_agg(c.tool_name, c.n), '{}') from (select tool_name, sum(n) as n from calls group by tool_name) c))
    from turns t);
end
$$;
comment on function public.rollout_outline is 'All turns of a rollout in columns, for an overview: {turns, step_numbers, rewards, tools, tool_errors, durations_ms, chars, tool_names}. chars is in bytes.';

-- Turns -------------------------------------------------------------------------------------------------------------------------

create function internal.cut_json(name text, value jsonb, max_chars integer) returns jsonb
language sql immutable set search_path = ''
as $$
  -- {name: value}; a long value is cut as text, with {name_cut: true}.
  select case when length(value::text) > max_chars then jsonb_build_object(name, left(value::text, max_chars), name || '_cut', true)
    else jsonb_build_object(name, value) end
$$;

create function internal.prompt_length(tokens_from integer, prompt integer[], prompt_ids integer[]) returns bigint
language sql immutable set search_path = ''
as $$
  select case
    when tokens_from is null then cardinality(prompt_ids)
    when prompt is null then tokens_from + coalesce(cardinality(prompt_ids), 0)
    else (select coalesce(sum(prompt[i + 1] - prompt[i]), 0) from generate_series(1, cardinality(prompt), 2) i) end
$$;

create function internal.turn_tool_calls(turn_id uuid, max_chars integer) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  return (select coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'position', t.position, 'tool_name', t.tool_name,
      'tool_input_chars', length(t.tool_input::text), 'tool_output', left(t.tool_output, max_chars), 'tool_output_chars', length(t.tool_output),
      'success', t.success, 'error_message', left(t.error_message, max_chars), 'execution_time_ms', t.execution_time_ms)
    || internal.cut_json('tool_input', t.tool_input, max_chars) order by t.position), '[]')
  from public.tool_calls t where t.agent_state_id = turn_id);
end
$$;

create function internal.turn_generations(turn_id uuid) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  return (select coalesce(jsonb_agg(jsonb_build_object('id', g.id, 'position', g.position, 'model', g.model, 'policy_version', g.policy_version,
      'completion_tokens', cardinality(g.completion_ids), 'prompt_tokens', internal.prompt_length(g.tokens_from, g.prompt, g.prompt_ids),
      'mean_logprob', (select avg(l) from unnest(g.logprobs) l), 'mean_advantage', (select avg(v) from unnest(g.advantages) v),
      'finish_reason', g.finish_reason, 'has_logprobs', g.logprobs is not null) order by g.position), '[]')
  from public.generations g where g.agent_state_id = turn_id);
end
$$;

create function internal.turn_sights(turn_id uuid, max_chars integer) returns jsonb
language plpgsql stable set search_path = ''
as $$
begin
  return jsonb_build_object(
    'observations', (select coalesce(jsonb_agg(jsonb_build_object('position', o.position, 'kind', o.kind, 'text', left(o.text, max_chars),
        'text_chars', length(o.text), 'media_path', o.media_path) order by o.position), '[]')
      from public.observations o where o.agent_state_id = turn_id),
    'media', (select coalesce(jsonb_agg(jsonb_build_object('id', m.id, 'kind', m.kind, 'bucket', m.bucket, 'path', m.path,
        'content_type', m.content_type, 'width', m.width, 'height', m.height, 'duration_ms', m.duration_ms) order by m.id), '[]')
      from public.media m where m.agent_state_id = turn_id));
end
$$;

create function public.rollout_turns(rollout_id uuid, from_step integer default 0, turn_count integer default 50, max_chars integer default 4000)
returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
begin
  perform internal.require_rollout(rollout_turns.rollout_id), internal.check_range('turn_count', turn_count, 1, 200),
    internal.check_range('max_chars', max_chars, 0, 1000000), internal.check_range('from_step', from_step, 0, 2147483647);
  return (
    select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'step_number', a.step_number, 'created_at', a.created_at,
        'duration_ms', a.duration_ms, 'model_duration_ms', a.model_duration_ms, 'environment_duration_ms', a.environment_duration_ms,
        'observation', left(a.observation, max_chars), 'observation_chars', length(a.observation),
        'action', left(a.action, max_chars), 'action_chars', length(a.action),
        'thought', left(a.thought, max_chars), 'thought_chars', length(a.thought),
        'memory_summary', left(a.memory_summary, max_chars), 'memory_summary_chars', length(a.memory_summary),
        'has_messages', a.messages is not null, 'has_model_response', a.model_response is not null,
        'tool_calls', internal.turn_tool_calls(a.id, max_chars), 'generations', internal.turn_generations(a.id),
        'rewards', (select coalesce(jsonb_agg(jsonb_build_object('reward_type', w.reward_type, 'reward', w.reward, 'details', w.details) order by w.reward_type), '[]')
          from public.rewards w where w.rollout_id = rollout_turns.rollout_id and w.step_number = a.step_number))
      || internal.cut_json('info', a.info, max_chars) || internal.turn_sights(a.id, max_chars) order by a.step_number), '[]')
    from (select * from public.agent_states a where a.rollout_id = rollout_turns.rollout_id and a.step_number >= from_step
          order by a.step_number limit turn_count) a);
end
$$;
comment on function public.rollout_turns is 'Turns of a rollout from a step on, with their parts; texts are cut to max_chars.';

-- Tokens ------------------------------------------------------------------------------------------------------------------------

create function internal.token_texts(response jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
  -- The texts of the tokens in a response in OpenAI's format.
  select jsonb_path_query_array(c.content, '$[*].token')
  from (select coalesce(response #> '{choices,0,logprobs,content}', response #> '{logprobs,content}') as content) c
  where jsonb_typeof(c.content) = 'array'
$$;

create function public.turn_generation(generation_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
declare
  answer jsonb;
begin
  select jsonb_build_object('completion_ids', to_jsonb(coalesce(g.completion_ids, '{}')), 'logprobs', to_jsonb(g.logprobs), 'mask', to_jsonb(g.mask),
    'advantages', to_jsonb(g.advantages),
    'tokens', case when jsonb_array_length(k.tokens) = cardinality(g.completion_ids) then k.tokens end)
  into answer
  from public.generations g join public.agent_states a on a.id = g.agent_state_id
  cross join lateral (select internal.token_texts(a.model_response) as tokens) k
  where g.id = generation_id;
  if answer is null then
    perform internal.fail('OM404', 'generation_id', format('generation %s: unknown id', generation_id));
  end if;
  return answer;
end
$$;
comment on function public.turn_generation is 'A generation token by token: {completion_ids, logprobs, mask, advantages, tokens}; tokens are texts, if the model''s response had them.';

-- Searching ---------------------------------------------------------------------------------------------------------------------

create function internal.places_in(of_text text, pattern text, needle_length integer, max_places integer) returns setof integer
language sql immutable set search_path = ''
as $$
  -- A match lies between two parts. The parts are read one by one, up to the limit: a common letter has a million matches.
  select p.place from (
    select (sum(length(s.part) + needle_length) over (order by s.number))::integer - needle_length as place, s.number < max(s.number) over () as is_followed
    from (select regexp_split_to_table(of_text, pattern, 'i') as part, generate_series(1, max_places + 1) as number limit max_places + 1) s
    where s.part is not null) p
  where p.is_followed order by p.place
$$;

create function public.search_rollout(rollout_id uuid, text text, max_matches integer default 500) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_variable
declare
  pattern text := internal.literal_pattern(text);
  step integer := -1;
  matches jsonb := '[]';
begin
  perform internal.require_rollout(rollout_id), internal.check_range('max_matches', max_matches, 1, 10000);
  if coalesce(text, '') = '' then
    perform internal.fail('OM400', 'text', 'text: something to look for is expected');
  end if;
  perform internal.checked_value('text', to_jsonb(text), 'text');
  loop
    step := internal.next_step_with(rollout_id, pattern, step);
    exit when step is null or jsonb_array_length(matches) > max_matches;
    matches := matches || (
      select coalesce(jsonb_agg(jsonb_build_object('step_number', step, 'field', t.field, 'snippet', internal.snippet(t.found, p.place + 1), 'at', p.place)), '[]')
      from internal.texts_with(rollout_id, step, pattern) t cross join lateral internal.places_in(t.found, pattern, length(text), max_matches + 1) p (place));
  end loop;
  return jsonb_build_object(
    'matches', (select coalesce(jsonb_agg(m.found order by m.place), '[]') from jsonb_array_elements(matches) with ordinality m (found, place) where m.place <= max_matches),
    'more', jsonb_array_length(matches) > max_matches);
end
$$;
comment on function public.search_rollout is 'Find a text in the turns of a rollout, ignoring case: {matches: [{step_number, field, snippet, at}], more}.';

-- Rewards -----------------------------------------------------------------------------------------------------------------------

create function public.rollout_rewards(rollout_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
begin
  perform internal.require_rollout(rollout_rewards.rollout_id);
  return (
    select coalesce(jsonb_agg(to_jsonb(c) order by c.reward_type), '[]')
    from (select w.reward_type, sum(w.reward) as sum, count(*) as count, min(w.reward) as min, max(w.reward) as max
          from public.rewards w where w.rollout_id = rollout_rewards.rollout_id group by w.reward_type) c);
end
$$;
comment on function public.rollout_rewards is 'The rewards of a rollout by component: [{reward_type, sum, count, min, max}].';

-- The answer and the video -----------------------------------------------------------------------------------------------------

create function public.rollout_result(rollout_id uuid, max_chars integer default 3000) returns jsonb
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_column
declare
  answer text;
begin
  perform internal.require_rollout(rollout_result.rollout_id);
  select case jsonb_typeof(r.result) when 'string' then r.result #>> '{}' else jsonb_pretty(r.result) end into answer
  from public.rollouts r where r.id = rollout_result.rollout_id;
  return (select jsonb_build_object('text', left(answer, max_chars), 'chars', length(answer)) where answer is not null);
end
$$;
comment on function public.rollout_result is 'The answer of a rollout as text, cut to max_chars: {text, chars}; null if it has none.';

create function public.video_times(rollout_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
begin
  perform internal.require_rollout(video_times.rollout_id);
  return (
    select jsonb_build_object('step_numbers', coalesce(jsonb_agg(t.step_number order by t.step_number), '[]'),
      'seconds', coalesce(jsonb_agg(t.seconds order by t.step_number), '[]'))
    from (select a.step_number, case when jsonb_typeof(a.info -> 'video_seconds') = 'number' then (a.info ->> 'video_seconds')::numeric end as seconds
          from public.agent_states a where a.rollout_id = video_times.rollout_id) t
    where t.seconds between 0 and 1e6);
end
$$;
comment on function public.video_times is 'When in the video of its rollout each turn began, for turns that say so (info.video_seconds): {step_numbers, seconds}.';

revoke execute on function internal.cut_json, internal.prompt_length, internal.turn_tool_calls, internal.turn_generations,
  internal.turn_sights, internal.token_texts, internal.places_in from public;
grant execute on function internal.cut_json, internal.prompt_length, internal.turn_tool_calls, internal.turn_generations,
  internal.turn_sights, internal.token_texts, internal.places_in to anon, authenticated, service_role;
revoke execute on function public.rollout_outline, public.rollout_turns, public.turn_generation, public.search_rollout,
  public.rollout_rewards, public.rollout_result, public.video_times from public, anon, authenticated, service_role;
grant execute on function public.rollout_outline, public.rollout_turns, public.turn_generation, public.search_rollout,
  public.rollout_rewards, public.rollout_result, public.video_times to anon, authenticated, service_role;
