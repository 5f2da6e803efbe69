-- The foundation: the schema of internal functions, and helpers that the tables of the later migrations use.

create schema internal;
comment on schema internal is 'Rules and helpers. Not exposed by the API.';
grant usage on schema internal to anon, authenticated, service_role;

-- Errors ------------------------------------------------------------------------------------------------------------------------

create function internal.fail(code text, field text, message text) returns void
language plpgsql set search_path = ''
as $$
-- Raise an error that names the field to blame. In the detail too: the API does not pass on the column.
begin
  raise exception using errcode = code, column = field, message = message, detail = jsonb_build_object('field', field)::text;
end
$$;

-- Ids and timestamps ------------------------------------------------------------------------------------------------------------

create function internal.new_id() returns uuid
language sql volatile set search_path = ''
as $$
  -- A UUIDv7: 48 bits of milliseconds, then random. Rows made together lie together in the index.
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1),
    'hex')::uuid
$$;

create function internal.touch_updated_at() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- A write that changes nothing leaves updated_at as it is.
  if new is distinct from old then
    new.updated_at := now();
  end if;
  return new;
end
$$;

-- Parents that never change -----------------------------------------------------------------------------------------------------

create function internal.refuse_new_place() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform internal.fail('OM409', tg_argv[0],
    format('%s %s: it cannot move to another %s; create a new one',
      rtrim(replace(tg_table_name, '_', ' '), 's'), old.id, replace(regexp_replace(tg_argv[0], '_id$', ''), '_', ' ')));
end
$$;

create function internal.pin(target regclass, variadic columns text[]) returns void
language plpgsql set search_path = ''
as $$
-- Parents never change: the children of a row carry the same run. Except when the queue sets the turns of a lost attempt aside.
begin
  for i in 1 .. cardinality(columns) loop
    execute format('create trigger %I before update of %I on %s for each row when (old.%2$I is distinct from new.%2$I and current_setting(''openmanus_rl.setting_aside'', true) is distinct from ''on'')
      execute function internal.refuse_new_place(%2$L)', 'pin_' || columns[i], columns[i], target);
  end loop;
end
$$;

-- Compression -------------------------------------------------------------------------------------------------------------------

create function internal.compress(target regclass, variadic columns text[]) returns void
language plpgsql set search_path = ''
as $$
-- lz4 where this server was built with it: twice as fast as pglz, about as small.
begin
  if 'lz4' = any ((select enumvals from pg_catalog.pg_settings where name = 'default_toast_compression')::text[]) then
    for i in 1 .. cardinality(columns) loop
      execute format('alter table %s alter column %I set compression lz4', target, columns[i]);
    end loop;
  end if;
end
$$;

-- Numbers -----------------------------------------------------------------------------------------------------------------------

create function internal.to_double(value numeric) returns double precision
language sql immutable parallel safe set search_path = ''
as $$
  -- The cast raises an error for a value too close to zero for a double.
  select case when abs(value) < 1e-300 then 0 else value::double precision end
$$;

create function internal.is_finite(value double precision) returns boolean
language sql immutable parallel safe set search_path = ''
as $$ select value > '-infinity'::double precision and value < 'infinity'::double precision $$;

-- Column defaults and policies run as the caller, who needs these; the other functions are the owner's.
revoke execute on function internal.fail, internal.new_id, internal.touch_updated_at, internal.refuse_new_place, internal.pin, internal.compress,
  internal.to_double, internal.is_finite from public;
grant execute on function internal.fail, internal.new_id, internal.to_double, internal.is_finite to anon, authenticated, service_role;
