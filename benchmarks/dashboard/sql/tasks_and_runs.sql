-- Who, what is asked, and the runs as far as their rollouts need to know them. Needs the one row of pg_temp.sizes.

insert into auth.users (id, aud, role, email, email_confirmed_at, confirmation_token, recovery_token, email_change, email_change_token_new)
select pg_temp.made_id(1, u.n), 'authenticated', 'authenticated', u.email, now(), '', '', '', ''
from unnest(array['ada', 'grace', 'edsger', 'barbara', 'alan', 'margaret']) with ordinality p (name, n)
cross join lateral (select p.n, p.name || '.' || current_setting('fill.seed') || '@example.com' as email) u;

insert into public.members (user_id, role, display_name)
select pg_temp.made_id(1, n), case n when 1 then 'admin' else 'editor' end, name
from unnest(array['Ada Lovelace', 'Grace Hopper', 'Edsger W. Dijkstra', 'Barbara Liskov', 'Alan Turing', 'Margaret Hamilton']) with ordinality p (name, n);

create temporary table filled_tasks on commit drop as
select n as number, pg_temp.made_id(2, n) as id,
  pg_temp.pick(array['alfworld', 'webshop', 'babyai', 'gaia', 'swe-gym', 'sokoban'], n, 1) as environment,
  case when n = 2 then current_setting('fill.hostile')
  else format('%s %s and %s %s (%s)',
    pg_temp.pick(array['Find', 'Put away', 'Heat', 'Compare', 'Explain', 'Repair', 'Count'], n, 2),
    pg_temp.pick(array['the red mug', 'two candles', 'the cheapest running shoes', 'the failing test', 'the second author', 'all open windows'], n, 3),
    pg_temp.pick(array['place it on', 'write down', 'send it to', 'verify', 'look behind'], n, 4),
    pg_temp.pick(array['the desk', 'its price', 'the customer', 'the result', 'the shelf'], n, 5), n) end as description
from pg_temp.sizes, generate_series(1, tasks) n;

insert into public.tasks (id, external_id, environment, name, description, expected_answer, split, owner_id, created_at, updated_at)
select t.id, format('task-%s-%s', current_setting('fill.seed'), t.number), t.environment, case when t.number % 3 = 0 then 'Task ' || t.number end, t.description,
  case when t.number % 2 = 0 then pg_temp.pick(array['42', 'on the desk', 'yes', '17.99 EUR', 'Kernighan'], t.number, 6) end,
  case when t.number % 5 = 0 then 'test' else 'train' end, pg_temp.made_id(1, 1 + t.number % 6),
  made_at, made_at
from pg_temp.filled_tasks t, lateral (select now() - interval '100 days' + t.number * interval '1 minute' as made_at) m;

insert into public.validators (id, task_id, external_id, kind, spec)
select pg_temp.made_id(3, t.number * 2 + v), t.id, case v when 0 then 'default' else 'judge' end,
  case v when 0 then 'exact_match' else 'llm_judge' end, case v when 0 then '{"ignore_case": true}' else '{"model": "judge-1", "threshold": 0.5}' end::jsonb
from pg_temp.filled_tasks t, generate_series(0, 1) v where v = 0 or t.number % 4 = 0;

insert into public.environments (id, name, kind, description)
select pg_temp.made_id(11, n), name, 'gym', 'An environment of the benchmark' from
  unnest(array['alfworld', 'webshop', 'babyai', 'gaia', 'swe-gym', 'sokoban']) with ordinality e (name, n)
on conflict (name) do nothing;

-- The last three are the large run, the one with many points and the one with many metrics.
create temporary table filled_runs on commit drop as
select n as number, pg_temp.made_id(4, n) as id, n > runs - 3 as special,
  case when n > runs - 3 then 'alfworld' else pg_temp.pick(array['alfworld', 'webshop', 'babyai', 'gaia', 'swe-gym', 'sokoban'], n, 11) end as environment,
  case when n > runs - 3 then 'GRPO' else pg_temp.pick(array['GRPO', 'GRPO', 'PPO', 'DAPO', 'RLOO', 'REINFORCE++', 'SFT'], n, 12) end as algorithm,
  pg_temp.pick(array['Qwen/Qwen3-4B', 'Qwen/Qwen3-8B', 'meta-llama/Llama-3.1-8B-Instruct', 'google/gemma-3-12b-it'], n, 13) as model
from pg_temp.sizes, generate_series(1, runs) n;
create unique index on pg_temp.filled_runs (number);
analyze pg_temp.filled_runs, pg_temp.filled_tasks;
