-- Chance that is the same every time: a hash of what is asked about. Small enough that Postgres writes them into the queries.

create function pg_temp.chance(n bigint, topic bigint) returns double precision
language sql stable
as $$ select (hashint8extended(n, topic + 1000 * current_setting('fill.seed')::bigint) & 1048575) / 1048576.0::double precision $$;

create function pg_temp.pick(choices text[], n bigint, topic bigint) returns text
language sql stable
as $$ select choices[1 + floor(pg_temp.chance(n, topic) * cardinality(choices))::integer] $$;

-- A UUIDv7 that tells nothing of when it was made, so that the same rows have the same ids in every database. Kinds: 1 users, 2 tasks,
-- 3 validators, 4 runs, 5 rollouts, 6 groups, 7 steps, 8 checkpoints, 9 evaluations, 10 history.
create function pg_temp.made_id(kind integer, n bigint) returns uuid
language sql stable
as $$
  select (lpad(to_hex(1767225600000 + n), 12, '0') || '7' || lpad(to_hex(kind), 3, '0') || 'b'
    || substr(md5(n || ':' || kind || ':' || current_setting('fill.seed')), 1, 15))::uuid
$$;
