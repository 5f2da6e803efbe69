-- A list of lists where a list of numbers is expected is the record's own fault: refuse it alone, and write its neighbours.

create or replace function internal.refusal_code(state text) returns text
language sql immutable set search_path = ''
as $$
  -- NULL: not the record's fault (a deadlock, a full disk, a bug), so not a reason to refuse it.
  select case
    when state like 'OM%' then state
    when state = '23503' then 'OM404'
    when state in ('23505', '23P01') then 'OM409'
    when state = '42501' then 'OM403'
    -- 0A000: functions of arrays that know one dimension only, as the checks of metric chunks call them.
    when state like '22%' or state like '23%' or state in ('54000', '0A000') then 'OM400'
  end
$$;
