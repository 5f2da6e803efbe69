-- Turns of the newest rollouts (pg_temp.turned), and of the three that are hard to show: long, with a large output, hostile.

-- Texts are made once and used often.
create function pg_temp.prose(n bigint, topic bigint, words integer) returns text
language sql stable
as $$
  select string_agg(pg_temp.pick(array['the', 'a', 'of', 'to', 'in', 'on', 'and', 'then', 'with', 'from', 'desk', 'drawer', 'cabinet', 'lamp', 'mug', 'shelf', 'door',
    'kitchen', 'open', 'closed', 'is', 'you', 'see', 'nothing', 'page', 'button', 'price', 'result', 'error', 'value', 'function', 'test', 'passes', 'line', 'file',
    'search', 'query', 'click', 'answer'], 1000 * n + i, topic), ' ') from generate_series(1, words) i
$$;

create temporary table pool on commit drop as
select n, pg_temp.prose(n, 60, 20 + (n * 7 % 140)::integer) as observation, 'I should ' || pg_temp.prose(n, 61, 8 + (n * 3 % 50)::integer) || '.' as thought,
  format('%s(''%s'')', pg_temp.pick(array['search', 'browser.click', 'python', 'bash', 'read_file'], n, 62), pg_temp.prose(n, 63, 3)) as action,
  pg_temp.prose(n, 64, 5 + (n * 11 % 115)::integer) as output, pg_temp.prose(n, 65, 12) as line
from generate_series(0, 399) n;
create unique index on pg_temp.pool (n);

create temporary table hostile on commit drop as
select h.n - 1 as number, h.text from jsonb_array_elements_text(current_setting('fill.hostile_texts')::jsonb) with ordinality h (text, n);

create temporary table turns on commit drop as
select t.*, pg_temp.made_id(12, t.n) as id, t.made_at + t.number * interval '3 seconds' as created_at, h.text as hostile,
  -- The newest tenth of the rollouts have tokens.
  case when t.place <= greatest(400, s.turned / 10) then 10 + floor(30 * pg_temp.chance(t.n, 66))::integer end as tokens,
  -- Rollouts of one group see the same at first, and in every other group do the same as well.
  case when t.number = 0 and t.group_id is not null then abs(hashtext(t.group_id::text)) % 400 else floor(400 * pg_temp.chance(t.n, 67)) end as seen,
  case when t.number = 0 and hashtext(t.group_id::text) % 2 = 0 then abs(hashtext(t.group_id::text)) % 400 else floor(400 * pg_temp.chance(t.n, 68)) end as done
from pg_temp.sizes s cross join (
  select row_number() over (order by o.place nulls last, o.rollout_id, k) as n, o.*, k as number
  from (
    select place, null as name, id, training_run_id, group_id, step_count, model, policy_version, created_at from pg_temp.turned
    union all
    select null, o.agent, o.id, o.training_run_id, null, o.step_count, o.model, o.policy_version, o.created_at
    from pg_temp.sizes s, public.rollouts o where o.id in (select pg_temp.made_id(5, s.rollouts - 1 - n) from generate_series(0, 2) n)
  ) o (place, name, rollout_id, training_run_id, group_id, step_count, model, policy_version, made_at)
  cross join generate_series(0, coalesce(o.step_count, 1) - 1) k) t
left join pg_temp.hostile h on t.name = 'hostile_rollout' and h.number = t.number;
create unique index on pg_temp.turns (n);

insert into public.agent_states (id, rollout_id, training_run_id, step_number, observation, action, thought, memory_summary, info, model_response,
  duration_ms, model_duration_ms, environment_duration_ms, created_at)
select t.id, t.rollout_id, t.training_run_id, t.number, coalesce(t.hostile, seen.observation), coalesce(t.hostile, done.action), coalesce(t.hostile, done.thought),
  t.hostile, case when t.hostile is not null then jsonb_build_object(left(t.hostile, 80), t.hostile) end, r.response,
  d.thinking + d.acting, d.thinking, d.acting, t.created_at
from pg_temp.turns t join pg_temp.pool seen on seen.n = t.seen join pg_temp.pool done on done.n = t.done
cross join lateral (select 200 + 3800 * pg_temp.chance(t.n, 69) as thinking, 5 + 895 * pg_temp.chance(t.n, 70) as acting) d
left join lateral (
  select jsonb_build_object('choices', jsonb_build_array(jsonb_build_object('finish_reason', 'stop', 'logprobs', jsonb_build_object('content',
    jsonb_agg(jsonb_build_object('token', ' ' || pg_temp.prose(t.n, i, 1), 'logprob', -8 * pg_temp.chance(100 * t.n + i, 71) ^ 6)))))) as response
  from generate_series(1, t.tokens) i) r on t.tokens is not null and t.place % 3 = 0
order by t.n;

-- None, one or two; of the special rollouts one. One in twelve fails.
insert into public.tool_calls (id, agent_state_id, training_run_id, position, tool_name, tool_input, tool_output, success, error_message, execution_time_ms, created_at)
select pg_temp.made_id(13, 2 * t.n + k), t.id, t.training_run_id, k,
  coalesce(left(t.hostile, 60), pg_temp.pick(array['search', 'browser.click', 'python', 'bash', 'read_file'], c.n, 72)),
  case when t.hostile is not null then jsonb_build_object(left(t.hostile, 40), t.hostile)
       else jsonb_build_object('query', p.action, 'limit', 1 + floor(20 * pg_temp.chance(c.n, 73))) end,
  case when c.large then (select left(string_agg(lpad(i::text, 7) || ' ' || l.line || E'\n', '' order by i), s.output_bytes::integer)
                          from generate_series(0, s.output_bytes / 20) i join pg_temp.pool l on l.n = i % 397)
       when not c.failed then coalesce(t.hostile, p.output) end,
  not c.failed, case when c.failed then pg_temp.pick(array['FileNotFoundError: no such file: answer.txt', 'exit code 1', 'timed out after 30 s', 'HTTP 503'], c.n, 74)
                     else t.hostile end, 3 + 2997 * pg_temp.chance(c.n, 75), t.created_at
from pg_temp.sizes s cross join pg_temp.turns t
cross join lateral generate_series(0, case when t.name is null then (array[0, 1, 1, 2])[1 + floor(4 * pg_temp.chance(t.n, 76))::integer] else 1 end - 1) k
cross join lateral (select 2 * t.n + k as n, t.name = 'big_output_rollout' and t.number = 1 as large,
  t.hostile is null and t.name is distinct from 'big_output_rollout' and pg_temp.chance(2 * t.n + k, 77) < 1 / 12.0 as failed) c
join pg_temp.pool p on p.n = floor(400 * pg_temp.chance(c.n, 78))
order by t.n, k;

insert into internal.rewards (id, rollout_id, training_run_id, step_number, reward_type, reward, details, created_at)
select pg_temp.made_id(14, row_number() over (order by r.rollout_id, r.step_number)), r.* from (
  select id as rollout_id, training_run_id, coalesce(step_count, 1) - 1 as step_number, 'outcome', total_reward, null::jsonb, created_at
  from pg_temp.turned where total_reward is not null
  union all
  select id, training_run_id, null, 'format', 0, jsonb_build_object('valid_actions', coalesce(step_count, 1)), created_at
  from pg_temp.turned where total_reward is not null
  union all
  select rollout_id, training_run_id, number, 'step', (array[-0.1, 0.05, 0.2])[1 + floor(3 * pg_temp.chance(n, 79))::integer], null, made_at
  from pg_temp.turns where name = 'long_rollout' and number % 10 = 9
  union all
  select rollout_id, training_run_id, number, hostile, 1, jsonb_build_object('why', hostile), made_at from pg_temp.turns where hostile is not null and number = 0
) r;

insert into public.generations (id, agent_state_id, training_run_id, model, policy_version, completion_ids, logprobs, mask, advantages, finish_reason)
select pg_temp.made_id(15, t.n), t.id, t.training_run_id, t.model, t.policy_version, g.ids, g.logprobs, g.mask, array[2 * pg_temp.chance(t.n, 80) - 1], 'stop'
from pg_temp.turns t cross join lateral (
  select array_agg(floor(150000 * pg_temp.chance(100 * t.n + i, 81))::integer order by i) as ids,
    array_agg(-8 * pg_temp.chance(100 * t.n + i, 71) ^ 6 order by i) as logprobs, array_agg(true) as mask
  from generate_series(1, t.tokens) i) g
where t.tokens is not null
order by t.n;

insert into public.observations (id, agent_state_id, training_run_id, position, kind, text)
select pg_temp.made_id(16, t.n), t.id, t.training_run_id, 0, case when t.hostile is null then 'accessibility_tree' else 'page' end, coalesce(t.hostile, p.observation)
from pg_temp.turns t join pg_temp.pool p on p.n = t.done where t.place % 20 = 0 or t.hostile is not null
order by t.n;

-- Verdicts that agree with the statuses.
insert into public.validations (id, rollout_id, training_run_id, validator_name, verdict, score, expected, actual, message, created_at)
select pg_temp.made_id(17, place), id, training_run_id, 'exact_match', case status when 'success' then 'pass' else 'fail' end, (status = 'success')::integer, '42',
  case status when 'success' then '42' else 'something else' end, null, created_at
from pg_temp.turned where status in ('success', 'failed')
union all
select pg_temp.made_id(17, 0), rollout_id, training_run_id, 'exact_match', 'pass', 1, hostile, hostile, hostile, made_at from pg_temp.turns where hostile is not null and number = 0;
