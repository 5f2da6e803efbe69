-- Finding rollouts by their columns and by the text and tool calls of their turns.

-- Texts -------------------------------------------------------------------------------------------------------------------------

create function internal.snippet(of_text text, place integer) returns text
language sql immutable set search_path = ''
as $$ select substr(of_text, greatest(place - 60, 1), 160) $$;

create function internal.next_step_with(of_rollout_id uuid, pattern text, after_step integer) returns integer
language plpgsql stable set search_path = ''
as $$
-- The next turn that may contain a text. Its fields are searched as one text, which is faster; a match may span two of them.
begin
  return (
    select a.step_number from public.agent_states a
    where a.rollout_id = of_rollout_id and a.step_number > after_step
      and (concat_ws(e'\n', a.observation, a.thought, a.action, a.memory_summary) ~* pattern
        -- A scalar subquery: for `exists`, Postgres may choose to read the whole table.
        or (select true from public.tool_calls t where t.agent_state_id = a.id and concat_ws(e'\n', t.tool_input, t.tool_output) ~* pattern limit 1))
    order by a.step_number limit 1);
end
$$;

create function internal.texts_with(of_rollout_id uuid, step integer, pattern text) returns table (field text, found text)
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_column
begin
  return query
  select f.field, f.found from public.agent_states a cross join lateral (
    values (-4, 'observation', a.observation), (-3, 'thought', a.thought), (-2, 'action', a.action), (-1, 'memory_summary', a.memory_summary)
    union all
    select t.position, i.field, i.found from public.tool_calls t
    cross join lateral (values ('tool_input', t.tool_input::text), ('tool_output', t.tool_output)) i (field, found)
    where t.agent_state_id = a.id) f (place, field, found)
  where a.rollout_id = of_rollout_id and a.step_number = step and f.found ~* pattern
  order by f.place, f.field;
end
$$;

create function internal.first_match(of_rollout_id uuid, pattern text) returns jsonb
language plpgsql stable set search_path = ''
as $$
-- The first match of a text in a rollout, or null.
declare
  step integer;
  m record;
begin
  select f.field, f.found into m from public.rollouts r
  cross join lateral (values ('task_description', r.task_description), ('error', r.error)) f (field, found)
  where r.id = of_rollout_id and f.found ~* pattern order by f.field desc limit 1;
  while not found loop
    step := internal.next_step_with(of_rollout_id, pattern, coalesce(step, -1));
    if step is null then
      return null;
    end if;
    select t.field, t.found into m from internal.texts_with(of_rollout_id, step, pattern) t limit 1;
  end loop;
  return jsonb_build_object('step_number', step, 'field', m.field, 'snippet', internal.snippet(m.found, regexp_instr(m.found, pattern, 1, 1, 0, 'i')));
end
$$;

-- Filters and order -------------------------------------------------------------------------------------------------------------

create function internal.filters_of_rollouts() returns jsonb
language sql immutable set search_path = ''
as $$
  select '{"training_run_id": "uuid", "group_id": "uuid", "task_id": "uuid", "environment": "text", "status": "texts", "source": "texts",
    "step_from": "integer", "step_to": "integer", "reward_from": "number", "reward_to": "number", "turns_from": "integer", "turns_to": "integer",
    "model": "text", "tool": "text", "tool_failed": "flag", "text": "text", "created_from": "time", "created_to": "time",
    "include_rewound": "flag", "sort": "text"}'::jsonb
$$;

create function internal.checked_rollout_filters(filters jsonb) returns jsonb
language plpgsql immutable set search_path = ''
as $$
declare
  f jsonb := '{"sort": "newest"}' || internal.checked_filters(filters, internal.filters_of_rollouts());
begin
  if f ->> 'sort' not in ('newest', 'oldest', 'reward_high', 'reward_low') then
    perform internal.fail('OM400', 'sort', format('sort: newest, oldest, reward_high and reward_low are possible, not %s', f ->> 'sort'));
  end if;
  if f ->> 'sort' in ('reward_high', 'reward_low') and not f ? 'training_run_id' then
    perform internal.fail('OM400', 'sort', format('sort: %s is possible within a run only; add training_run_id', f ->> 'sort'));
  end if;
  return f;
end
$$;

create function internal.rollout_tests(f jsonb) returns text
language sql immutable set search_path = ''
as $$
  -- Conditions on the columns of a rollout.
  select 'true' || coalesce(string_agg(' and ' || format(t.test, f ->> t.name), '' order by t.name), '')
    || case when coalesce((f ->> 'include_rewound')::boolean, false) then '' else ' and r.rewound_at is null' end
  from (values
    ('training_run_id', 'r.training_run_id = %L::uuid'), ('group_id', 'r.group_id = %L::uuid'), ('task_id', 'r.task_id = %L::uuid'),
    ('environment', 'r.environment = %L'), ('model', 'r.model = %L'),
    ('status', 'r.status in (select jsonb_array_elements_text(%L::jsonb))'),
    ('source', 'r.source in (select jsonb_array_elements_text(%L::jsonb))'),
    ('step_from', 'r.step >= %L::bigint'), ('step_to', 'r.step <= %L::bigint'),
    -- Postgres sorts NaN above every number; it is in no range.
    ('reward_from', 'r.total_reward >= %L::double precision and r.total_reward < ''NaN'''),
    ('reward_to', 'r.total_reward <= %L::double precision'),
    ('turns_from', 'r.step_count >= %L::bigint'), ('turns_to', 'r.step_count <= %L::bigint'),
    ('created_from', 'r.created_at >= %L::timestamptz'), ('created_to', 'r.created_at <= %L::timestamptz')) t (name, test)
  where f ? t.name
$$;

create function internal.are_few_rollouts(condition text) returns boolean
language plpgsql stable set search_path = ''
as $$
declare
  n bigint;
begin
  execute format('select count(*) from (select from public.rollouts r where %s limit 5001) few', condition) into n;
  return n <= 5000;
end
$$;

create function internal.rollout_scope(f jsonb) returns text
language plpgsql stable set search_path = ''
as $$
-- The index range to scan: the smallest that one index gives. The order of the results does not depend on it.
declare
  of_run text := format('r.training_run_id = %L::uuid', f ->> 'training_run_id');
  of_steps text := format('%s and r.rewound_at is null and r.step >= %L::bigint and r.step <= %L::bigint',
    of_run, coalesce(f ->> 'step_from', '0'), coalesce(f ->> 'step_to', '9223372036854775807'));
  of_status text := format('r.status in (%s)', (select string_agg(quote_literal(s), ', ') from jsonb_array_elements_text(f -> 'status') s));
begin
  if f ? 'group_id' then
    return format('r.group_id = %L::uuid', f ->> 'group_id');
  elsif f ->> 'sort' in ('reward_high', 'reward_low') then
    return of_run;
  elsif f ? 'training_run_id' and f ?| array['step_from', 'step_to'] and not f @> '{"include_rewound": true}'
      and internal.are_few_rollouts(of_steps) then
    return of_steps;
  elsif f ? 'status' and internal.are_few_rollouts(of_status) then
    return of_status;
  elsif f ? 'task_id' then
    return format('r.task_id = %L::uuid', f ->> 'task_id');
  elsif f ? 'training_run_id' then
    return of_run || case when f ? 'environment' then format(' and r.environment = %L', f ->> 'environment') else '' end;
  elsif jsonb_array_length(f -> 'status') = 1 then
    return of_status;
  elsif f ? 'environment' then
    return format('r.environment = %L', f ->> 'environment');
  end if;
  return 'true';
end
$$;

create function internal.bounded_scope(f jsonb) returns text
language sql stable set search_path = ''
as $$
  -- Filters on the sort column bound the scan.
  select internal.rollout_scope(f) || coalesce(string_agg(' and ' || format(b.bound, f ->> b.name), ''), '')
  from (values
    (false, 'created_from', 'r.created_at >= %L::timestamptz'), (false, 'created_to', 'r.created_at <= %L::timestamptz'),
    (true, 'reward_from', 'r.total_reward >= %L::double precision'), (true, 'reward_to', 'r.total_reward <= %L::double precision')
  ) b (of_reward, name, bound)
  where f ? b.name and b.of_reward = (f ->> 'sort' in ('reward_high', 'reward_low'))
$$;

create function internal.rollout_order(sort text, shown boolean) returns text
language sql immutable set search_path = ''
as $$
  -- The order of the indexes, forwards or backwards; with `shown`, rollouts without a reward come last instead of first.
  select case sort
    when 'newest' then 'r.created_at desc, r.id'
    when 'oldest' then 'r.created_at, r.id desc'
    when 'reward_low' then 'r.total_reward, r.id'
    when 'reward_high' then case when shown then 'r.total_reward is null, r.total_reward = ''NaN'', ' else '' end || 'r.total_reward desc, r.id desc'
  end
$$;

create function internal.rollouts_after(sort text, after jsonb) returns text[]
language sql immutable set search_path = ''
as $$
  -- Conditions that together select the rows after a cursor; each is one range of the index.
  select array(select format(c, coalesce(after ->> 'created_at', after ->> 'reward'), after ->> 'id') from unnest(case
    when sort = 'newest' and after is not null then
      array['r.created_at = %1$L::timestamptz and r.id > %2$L::uuid', 'r.created_at < %1$L::timestamptz']
    when sort = 'oldest' and after is not null then
      array['r.created_at = %1$L::timestamptz and r.id < %2$L::uuid', 'r.created_at > %1$L::timestamptz']
    when sort = 'reward_low' and after ->> 'reward' is not null then
      array['(r.total_reward, r.id) > (%1$L::double precision, %2$L::uuid)', 'r.total_reward is null']
    when sort = 'reward_low' and after is not null then array['r.total_reward is null and r.id > %2$L::uuid']
    when sort = 'reward_high' and after is null then array['r.total_reward < ''NaN''', 'r.total_reward = ''NaN''', 'r.total_reward is null']
    when sort = 'reward_high' and after ->> 'reward' = 'NaN' then array['r.total_reward = ''NaN'' and r.id < %2$L::uuid', 'r.total_reward is null']
    when sort = 'reward_high' and after ->> 'reward' is not null then
      array['(r.total_reward, r.id) < (%1$L::double precision, %2$L::uuid)', 'r.total_reward = ''NaN''', 'r.total_reward is null']
    when sort = 'reward_high' then array['r.total_reward is null and r.id < %2$L::uuid']
    else array['true'] end) c)
$$;

-- Finding rollouts --------------------------------------------------------------------------------------------------------------

create function internal.rollout_rows(ids uuid[]) returns table (id uuid, place bigint, shown jsonb)
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_column
begin
  return query
  select r.id, i.place, jsonb_build_object(
    'id', r.id, 'training_run_id', r.training_run_id, 'run_name', t.name, 'group_id', r.group_id, 'task_id', r.task_id,
    'task_description', left(r.task_description, 300), 'environment', r.environment, 'source', r.source, 'status', r.status,
    'total_reward', r.total_reward, 'step_count', r.step_count, 'step', r.step, 'episode_number', r.episode_number, 'agent', r.agent, 'model', r.model,
    'policy_version', r.policy_version, 'error', left(r.error, 300), 'started_at', r.started_at, 'finished_at', r.finished_at,
    'created_at', r.created_at, 'rewound_at', r.rewound_at,
    'overridden', coalesce((select o.verdict is not null from public.validation_overrides o where o.rollout_id = r.id
      order by o.created_at desc, o.id desc limit 1), false))
  from unnest(ids) with ordinality i (id, place)
  join public.rollouts r on r.id = i.id
  left join public.training_runs t on t.id = r.training_run_id;
end
$$;

create function internal.next_rollouts(sort text, scope text, tests text, after jsonb, how_many integer,
  out ids uuid[], out places integer[], out looked integer, out last_id uuid)
language plpgsql stable set search_path = ''
as $$
-- Read the next rows of the scan; return those that pass the tests, and the last one read.
declare
  stretches text := (
    select string_agg(format('(select r.id, r.created_at, r.total_reward, r.training_run_id, r.group_id, r.task_id, r.environment, r.model,
        r.status, r.source, r.step, r.step_count, r.rewound_at
      from public.rollouts r where %s and %s order by %s limit %s)',
      scope, c, internal.rollout_order(sort, shown => false), how_many), ' union all ')
    from unnest(internal.rollouts_after(sort, after)) c);
begin
  execute format($sql$
    with looked as materialized (
      select r.id, coalesce(%1$s, false) as fits, row_number() over (order by %2$s)::integer as place
      from (%3$s) r order by %2$s limit %4$s)
    select coalesce(array_agg(l.id order by l.place) filter (where l.fits), '{}'),
      coalesce(array_agg(l.place order by l.place) filter (where l.fits), '{}'), count(*), (array_agg(l.id order by l.place desc))[1]
    from looked l $sql$, tests, internal.rollout_order(sort, shown => true), stretches, how_many)
  into ids, places, looked, last_id;
end
$$;

create function internal.has_called(of_rollout_id uuid, tool text, failed boolean) returns boolean
language plpgsql stable set search_path = ''
as $$
-- Whether a rollout called a tool (null: any). With `failed`, whether one of the calls failed; false also matches rollouts without calls.
begin
  if failed is null then
    return exists (select 1 from public.agent_states a join public.tool_calls t on t.agent_state_id = a.id
      where a.rollout_id = of_rollout_id and t.tool_name = tool);
  end if;
  return failed = exists (select 1 from public.agent_states a join public.tool_calls t on t.agent_state_id = a.id
      where a.rollout_id = of_rollout_id and t.success = false and (tool is null or t.tool_name = tool))
    and (failed or tool is null or internal.has_called(of_rollout_id, tool, null));
end
$$;

create function internal.match_of_rollout(of_rollout_id uuid, f jsonb) returns jsonb
language plpgsql stable set search_path = ''
as $$
-- Null: the rollout does not match. Otherwise the place of the text, or {} without a text filter.
begin
  if f ?| array['tool', 'tool_failed'] and not internal.has_called(of_rollout_id, f ->> 'tool', (f ->> 'tool_failed')::boolean) then
    return null;
  end if;
  return case when f ? 'text' then internal.first_match(of_rollout_id, internal.literal_pattern(f ->> 'text')) else '{}' end;
end
$$;

create function public.find_rollouts(filters jsonb default '{}', after jsonb default null, page_size integer default 50, budget_ms integer default 300)
returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_variable
-- Scan an index range and test every rollout in it, until the page is full or the time is over.
declare
  stop_at timestamptz := clock_timestamp() + make_interval(secs => budget_ms / 1000.0);
  f jsonb := internal.checked_rollout_filters(filters);
  key text := case when f ->> 'sort' in ('newest', 'oldest') then 'created_at' else 'reward' end;
  place jsonb := internal.checked_cursor(after, key);
  scope text := internal.bounded_scope(f);
  tests text := internal.rollout_tests(f);
  is_slow boolean := f ?| array['tool', 'tool_failed', 'text'];
  how_many integer := page_size + 1;
  searched bigint := 0;
  searched_to timestamptz;
  last_id uuid;
  at_end boolean := false;
  found uuid[] := '{}';
  matches jsonb[] := '{}';
  match jsonb;
  batch record;
begin
  perform internal.check_range('page_size', page_size, 1, 1000), internal.check_range('budget_ms', budget_ms, 0, 60000);
  while not at_end and cardinality(found) < page_size and (last_id is null or clock_timestamp() < stop_at) loop
    batch := internal.next_rollouts(f ->> 'sort', scope, tests, place, how_many);
    at_end := batch.looked < how_many;
    last_id := coalesce(batch.last_id, last_id);
    for i in 1 .. cardinality(batch.ids) loop
      match := case when is_slow then internal.match_of_rollout(batch.ids[i], f) else '{}' end;
      if match is not null then
        found := found || batch.ids[i];
        matches := matches || nullif(match, '{}');
      end if;
      -- After the last row of the batch there is nothing to skip.
      if batch.places[i] < batch.looked and (cardinality(found) = page_size or (is_slow and clock_timestamp() >= stop_at)) then
        last_id := batch.ids[i];
        batch.looked := batch.places[i];
        at_end := false;
        exit;
      end if;
    end loop;
    searched := searched + batch.looked;
    how_many := least(how_many * 2, 4000);
    select case key when 'reward' then jsonb_build_object('reward', r.total_reward, 'id', r.id) else jsonb_build_object('created_at', r.created_at, 'id', r.id) end, r.created_at
    into place, searched_to from public.rollouts r where r.id = last_id;
  end loop;
  return jsonb_build_object(
    'rollouts', (select coalesce(jsonb_agg(r.shown || jsonb_build_object('match', matches[r.place]) order by r.place), '[]') from internal.rollout_rows(found) r),
    'next', case when not at_end then place end, 'searched', searched, 'searched_to', searched_to);
end
$$;
comment on function public.find_rollouts is 'Find rollouts by their columns and by the text and tool calls of their turns, a page at a time, in bounded time: {rollouts, next, searched, searched_to}. Pass next as `after` to continue, also if the page ended early for time.';

revoke execute on function internal.snippet, internal.next_step_with, internal.texts_with, internal.first_match,
  internal.filters_of_rollouts, internal.checked_rollout_filters, internal.rollout_tests, internal.are_few_rollouts, internal.rollout_scope,
  internal.bounded_scope, internal.rollout_order, internal.rollouts_after, internal.rollout_rows, internal.next_rollouts,
  internal.has_called, internal.match_of_rollout from public;
grant execute on function internal.snippet, internal.next_step_with, internal.texts_with, internal.first_match,
  internal.filters_of_rollouts, internal.checked_rollout_filters, internal.rollout_tests, internal.are_few_rollouts, internal.rollout_scope,
  internal.bounded_scope, internal.rollout_order, internal.rollouts_after, internal.rollout_rows, internal.next_rollouts,
  internal.has_called, internal.match_of_rollout to anon, authenticated, service_role;
revoke execute on function public.find_rollouts from public, anon, authenticated, service_role;
grant execute on function public.find_rollouts to anon, authenticated, service_role;
