-- What the pages of rollouts ask: find them by what happened in them, and read one of any length, a stretch at a time.

-- By age within a task, as every other list of rollouts is.
create unique index rollouts_of_a_task_by_age on public.rollouts (task_id, created_at desc, id);
drop index public.rollouts_of_a_task;
alter index public.rollouts_of_a_task_by_age rename to rollouts_of_a_task;
create unique index rollouts_by_status on public.rollouts (status, created_at desc, id);
create unique index rollouts_of_a_run_by_reward on public.rollouts (training_run_id, total_reward, id);

-- Filters and cursors -----------------------------------------------------------------------------------------------------------

create function internal.checked_value(name text, value jsonb, kind text) returns jsonb
language plpgsql immutable set search_path = ''
as $$
-- The value as a filter of that kind takes it, or OM400 with its name.
declare
  given text := value #>> '{}';
  type text := jsonb_typeof(value);
  expected text;
begin
  expected := case kind
    when 'uuid' then case when type <> 'string' then 'an id' end
    when 'time' then case when type <> 'string' then 'a time' end
    -- Of a longer one no pattern can be made.
    when 'text' then case when type <> 'string' then 'a text' when length(given) > 1000 then 'a text of at most 1000 characters' end
    when 'texts' then case
      when type = 'array' and value <> '[]' and not value @? '$[*] ? (@.type() != "string")' then null
      when type <> 'string' then 'a text or a list of texts' end
    when 'flag' then case when type <> 'boolean' then 'true or false' end
    when 'number' then case when type <> 'number' then 'a number' end
    when 'integer' then case when type <> 'number' or value::numeric % 1 <> 0 then 'a whole number' end
  end;
  if expected is null then
    begin
      return case kind
        when 'uuid' then to_jsonb(given::uuid)
        when 'time' then to_jsonb(given::timestamptz)
        when 'number' then to_jsonb(given::double precision)
        when 'integer' then to_jsonb(given::numeric::bigint)
        when 'texts' then case when type = 'array' then value else jsonb_build_array(value) end
        else value end;
    exception when data_exception then
      expected := case kind when 'uuid' then 'an id' when 'time' then 'a time' else 'a number that is not as large' end;
    end;
  end if;
  raise exception using errcode = 'OM400', column = name, message = format('%s: %s is expected, not %s', name, expected, left(value::text, 100));
end
$$;

create function internal.checked_filters(filters jsonb, kinds jsonb) returns jsonb
language plpgsql immutable set search_path = ''
as $$
-- Filters with their values checked; one that is null or an empty text filters nothing.
declare
  name text;
  value jsonb;
  checked jsonb := '{}';
begin
  if filters is null then
    return checked;
  end if;
  if jsonb_typeof(filters) <> 'object' then
    raise exception using errcode = 'OM400', column = 'filters', message = 'filters: an object is expected, such as {"status": "failed"}';
  end if;
  for name, value in select e.key, e.value from jsonb_each(filters) e loop
    if not kinds ? name then
      raise exception using errcode = 'OM400', column = name,
        message = format('%s: no such filter; there are %s', name, (select string_agg(k, ', ' order by k) from jsonb_object_keys(kinds) k));
    end if;
    if value not in ('null', '""') then
      checked := checked || jsonb_build_object(name, internal.checked_value(name, value, kinds ->> name));
    end if;
  end loop;
  return checked;
end
$$;

create function internal.checked_cursor(after jsonb, key text) returns jsonb
language plpgsql immutable set search_path = ''
as $$
-- A cursor {<key>, id} as an earlier page gave it. A reward may be null or what JSON has no number for.
begin
  if after is null or after = 'null' then
    return null;
  end if;
  if jsonb_typeof(after) = 'object' and after ? key and after - array[key, 'id'] = '{}' and after ->> 'id' is not null
    and (key = 'reward' or after ->> key is not null) then
    begin
      return jsonb_build_object('id', (after ->> 'id')::uuid::text,
        key, case key when 'reward' then (after ->> key)::double precision::text else (after ->> key)::timestamptz::text end);
    exception when data_exception then
      null;
    end;
  end if;
  raise exception using errcode = 'OM400', column = 'after',
    message = format('after: %s is not the "next" of an earlier page of the same sort; leave it out to begin anew', left(after::text, 100));
end
$$;

create function internal.check_range(name text, value integer, low integer, high integer) returns void
language plpgsql immutable set search_path = ''
as $$
begin
  if value is null or value not between low and high then
    raise exception using errcode = 'OM400', column = name, message = format('%s is %s: %s to %s are possible', name, coalesce(value::text, 'null'), low, high);
  end if;
end
$$;

-- Texts -------------------------------------------------------------------------------------------------------------------------

create function internal.literal_pattern(text text) returns text
language sql immutable set search_path = ''
-- As a regular expression that means itself: `~*` reads long texts twice as fast as `ilike` does.
as $$ select '***=' || text $$;

create function internal.snippet(of_text text, place integer) returns text
language sql immutable set search_path = ''
as $$ select substr(of_text, greatest(place - 60, 1), 160) $$;

create function internal.next_step_with(of_rollout_id uuid, pattern text, after_step integer) returns integer
language plpgsql stable set search_path = ''
as $$
-- The next turn that may hold a text: its texts are read as one, which is faster, so that the text may also lie across two of them.
begin
  return (
    select a.step_number from public.agent_states a
    where a.rollout_id = of_rollout_id and a.step_number > after_step
      and (concat_ws(e'\n', a.observation, a.thought, a.action, a.memory_summary) ~* pattern
        -- A scalar: of `exists`, Postgres may think that it is best to read the whole table first.
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
-- Where a text is first found in a rollout; null: nowhere.
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
    'total_reward', r.total_reward, 'step_count', r.step_count, 'step', r.step, 'episode_number', r.episode_number, 'model', r.model,
    'policy_version', r.policy_version, 'error', left(r.error, 300), 'started_at', r.started_at, 'finished_at', r.finished_at,
    'created_at', r.created_at, 'rewound_at', r.rewound_at,
    'overridden', coalesce((select o.verdict is not null from public.validation_overrides o where o.rollout_id = r.id
      order by o.created_at desc, o.id desc limit 1), false))
  from unnest(ids) with ordinality i (id, place)
  join public.rollouts r on r.id = i.id
  left join public.training_runs t on t.id = r.training_run_id;
end
$$;

create function internal.rollout_tests(f jsonb) returns text
language sql immutable set search_path = ''
as $$
  -- What can be told of a rollout by its row alone.
  select 'true' || coalesce(string_agg(' and ' || format(t.test, f ->> t.name), '' order by t.name), '')
    || case when coalesce((f ->> 'include_rewound')::boolean, false) then '' else ' and r.rewound_at is null' end
  from (values
    ('training_run_id', 'r.training_run_id = %L::uuid'), ('group_id', 'r.group_id = %L::uuid'), ('task_id', 'r.task_id = %L::uuid'),
    ('environment', 'r.environment = %L'), ('model', 'r.model = %L'),
    ('status', 'r.status in (select jsonb_array_elements_text(%L::jsonb))'),
    ('source', 'r.source in (select jsonb_array_elements_text(%L::jsonb))'),
    ('step_from', 'r.step >= %L::bigint'), ('step_to', 'r.step <= %L::bigint'),
    -- Postgres takes NaN for larger than any number; it is in no range.
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
-- What the walk is over: as few rollouts as one index finds. The order in which they are shown is the same by each of them.
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
  -- Ranges of what the walk is ordered by are where it begins and ends.
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
  -- As the indexes are ordered, forwards or backwards; `shown`: with what has no reward at the end, where an index has it first.
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
  -- Conditions that, one after the other, give what comes after a cursor; each is a stretch of the index.
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

create function internal.next_rollouts(sort text, scope text, tests text, after jsonb, how_many integer,
  out ids uuid[], out places integer[], out looked integer, out last_id uuid)
language plpgsql stable set search_path = ''
as $$
-- Look at the next so many of a walk: which of them pass the tests, and which was the last.
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
-- Whether a rollout called a tool (null: any). failed: whether one of those calls failed; that none did is true of who made none.
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
-- Null: what happened in the rollout is not what was asked for. Else where the text was found, or {} if there is none to find.
begin
  if f ?| array['tool', 'tool_failed'] and not internal.has_called(of_rollout_id, f ->> 'tool', (f ->> 'tool_failed')::boolean) then
    return null;
  end if;
  return case when f ? 'text' then internal.first_match(of_rollout_id, internal.literal_pattern(f ->> 'text')) else '{}' end;
end
$$;

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
    raise exception using errcode = 'OM400', column = 'sort', message = format('sort: newest, oldest, reward_high and reward_low are possible, not %s', f ->> 'sort');
  end if;
  if f ->> 'sort' in ('reward_high', 'reward_low') and not f ? 'training_run_id' then
    raise exception using errcode = 'OM400', column = 'sort', message = format('sort: %s is possible within a run only; add training_run_id', f ->> 'sort');
  end if;
  return f;
end
$$;

create function public.find_rollouts(filters jsonb default '{}', after jsonb default null, page_size integer default 50, budget_ms integer default 300)
returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_variable
-- A walk along an index that looks at every rollout in its way, and ends when the page is full or the time is over.
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
      -- At the last of the batch nothing is left behind.
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
comment on function public.find_rollouts is 'Rollouts by what is known of them and by what happened in them, a page at a time, in bounded time: {rollouts, next, searched, searched_to}. With next as `after` it goes on, also from a page that time cut short.';

-- One rollout -------------------------------------------------------------------------------------------------------------------

create function internal.require_rollout(rollout_id uuid) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if not exists (select 1 from public.rollouts r where r.id = rollout_id) then
    raise exception using errcode = 'OM404', column = 'rollout_id', message = format('rollout %s: unknown id', rollout_id);
  end if;
end
$$;

create function public.rollout_outline(rollout_id uuid) returns jsonb
-- Alone: other workers would take longer to begin than this takes.
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
        -- In bytes: to count characters, all texts would have to be read.
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
comment on function public.rollout_outline is 'All turns of a rollout in columns, for a map of it: {turns, step_numbers, rewards, tools, tool_errors, durations_ms, chars, tool_names}. chars is in bytes.';

create function internal.cut_json(name text, value jsonb, max_chars integer) returns jsonb
language sql immutable set search_path = ''
as $$
  -- {name: value}, or, of one that is long, its text cut and {name_cut: true}.
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
comment on function public.rollout_turns is 'Turns of a rollout from a step on, with what belongs to them, texts cut to max_chars.';

create function internal.token_texts(response jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
  -- Of an answer in the shape of OpenAI's, the texts of its tokens.
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
    raise exception using errcode = 'OM404', column = 'generation_id', message = format('generation %s: unknown id', generation_id);
  end if;
  return answer;
end
$$;
comment on function public.turn_generation is 'A generation token by token: {completion_ids, logprobs, mask, advantages, tokens}; tokens are texts, where the model''s answer had them.';

create function internal.places_in(of_text text, pattern text, needle_length integer, max_places integer) returns setof integer
language sql immutable set search_path = ''
as $$
  -- Between a stretch and the next is a place. Stretches are handed out one by one: a common letter is not listed a million times.
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
    raise exception using errcode = 'OM400', column = 'text', message = 'text: something to look for is expected';
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
comment on function public.search_rollout is 'Where a text stands in the turns of a rollout, whatever its case: {matches: [{step_number, field, snippet, at}], more}.';

-- A group -----------------------------------------------------------------------------------------------------------------------

create function internal.parting_step(rollout_ids uuid[]) returns integer
language plpgsql stable set search_path = ''
as $$
-- The first step at which rollouts saw or did different things, or some had ended. Who has no turns is not compared, nor who is still on the way there.
declare
  compared uuid[] := array(select i from unnest(rollout_ids) i where exists (select 1 from public.agent_states a where a.rollout_id = i));
  at_step integer := -1;
  ended bigint;
  ways bigint;
begin
  while cardinality(compared) > 1 loop
    at_step := (select min(n.step_number) from unnest(compared) i cross join lateral (
      select a.step_number from public.agent_states a where a.rollout_id = i and a.step_number > at_step order by a.step_number limit 1) n);
    exit when at_step is null;
    select count(distinct (coalesce(a.observation, ''), coalesce(a.action, ''))) filter (where a.id is not null),
      count(*) filter (where a.id is null and r.status not in ('pending', 'running'))
    into ways, ended
    from public.rollouts r left join public.agent_states a on a.rollout_id = r.id and a.step_number = at_step where r.id = any (compared);
    if ways + ended > 1 then
      return at_step;
    end if;
  end loop;
  return null;
end
$$;

create function public.group_comparison(group_id uuid) returns jsonb
language plpgsql stable set search_path = '' set jit = off
as $$
#variable_conflict use_column
declare
  g record;
  ids uuid[];
  parts_at integer;
begin
  select k.*, coalesce(s.step, e.step) as step into g from public.rollout_groups k
  left join public.training_steps s on s.id = k.training_step_id left join public.evaluations e on e.id = k.evaluation_id
  where k.id = group_comparison.group_id;
  if not found then
    raise exception using errcode = 'OM404', column = 'group_id', message = format('group %s: unknown id', group_id);
  end if;
  -- Those that a rewind hid too: the group counts them, and is hidden with them.
  ids := array(select r.id from public.rollouts r where r.group_id = g.id order by r.id limit 200);
  parts_at := internal.parting_step(ids);
  return jsonb_build_object(
    'group', (select jsonb_object_agg(e.key, e.value) from jsonb_each(to_jsonb(g)) e where e.key = any (array['id', 'number', 'training_run_id',
      'training_step_id', 'step', 'evaluation_id', 'task_id', 'task_description', 'rollout_count', 'completed_count', 'success_count', 'reward_mean', 'reward_std'])),
    'no_variance', case when g.reward_count > 1 then g.reward_std = 0 end,
    'parts_at', parts_at,
    'rollouts', (
      select coalesce(jsonb_agg(r.shown || jsonb_build_object(
        'advantage', (select avg(v.mean) from public.agent_states a join public.generations n on n.agent_state_id = a.id
          cross join lateral (select avg(u) as mean from unnest(n.advantages) u) v where a.rollout_id = r.id),
        'computed_advantage', ((r.shown ->> 'total_reward')::double precision - g.reward_mean) / nullif(g.reward_std, 0),
        'at_parting', (select jsonb_build_object('observation', left(a.observation, 1000), 'action', left(a.action, 1000), 'thought', left(a.thought, 1000))
          from public.agent_states a where a.rollout_id = r.id and a.step_number = parts_at)) order by r.place), '[]')
      from internal.rollout_rows(ids) r));
end
$$;
comment on function public.group_comparison is 'The rollouts of a group side by side: their rewards and advantages, and where they first part.';

revoke execute on function internal.checked_value, internal.checked_filters, internal.checked_cursor, internal.check_range, internal.literal_pattern,
  internal.snippet, internal.next_step_with, internal.texts_with, internal.first_match, internal.rollout_rows, internal.rollout_tests, internal.are_few_rollouts,
  internal.rollout_scope, internal.bounded_scope, internal.rollout_order, internal.rollouts_after, internal.next_rollouts, internal.has_called,
  internal.match_of_rollout, internal.filters_of_rollouts, internal.checked_rollout_filters, internal.require_rollout, internal.cut_json,
  internal.prompt_length, internal.turn_tool_calls, internal.turn_generations, internal.turn_sights, internal.token_texts, internal.places_in,
  internal.parting_step from public;
grant execute on function internal.checked_value, internal.checked_filters, internal.checked_cursor, internal.check_range, internal.literal_pattern,
  internal.snippet, internal.next_step_with, internal.texts_with, internal.first_match, internal.rollout_rows, internal.rollout_tests, internal.are_few_rollouts,
  internal.rollout_scope, internal.bounded_scope, internal.rollout_order, internal.rollouts_after, internal.next_rollouts, internal.has_called,
  internal.match_of_rollout, internal.filters_of_rollouts, internal.checked_rollout_filters, internal.require_rollout, internal.cut_json,
  internal.prompt_length, internal.turn_tool_calls, internal.turn_generations, internal.turn_sights, internal.token_texts, internal.places_in,
  internal.parting_step to anon, authenticated, service_role;
revoke execute on function public.find_rollouts, public.rollout_outline, public.rollout_turns, public.turn_generation, public.search_rollout,
  public.group_comparison from public, anon, authenticated, service_role;
grant execute on function public.find_rollouts, public.rollout_outline, public.rollout_turns, public.turn_generation, public.search_rollout,
  public.group_comparison to anon, authenticated, service_role;
-- Asked for public runs too.
grant execute on function internal.is_completed, internal.is_finite to anon;
