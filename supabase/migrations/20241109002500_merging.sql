-- Merging of staged records: one function per kind, internal.merge_<kind>(low, high).
--   * A record with a new id is inserted. For kinds that can change, a record with a known id updates the fields that it gives: objects
--     are merged, except specs and solutions, and null clears a field, unless it is required. For other kinds, a known id changes nothing.
--   * A status change whose status_change_id is in status_history was applied before and changes nothing.

create function internal.refuse_move(field text) returns void
language plpgsql set search_path = ''
as $$
begin
  if field is not null then
    perform internal.fail('OM409', field,
      format('%s: a record cannot move to another parent; omit %s, or create a new record', field, field));
  end if;
end
$$;

create function internal.define_merge(kind text, joins text default '', derived jsonb default '{}', folds boolean default false) returns void
language plpgsql set search_path = ''
as $body$
-- Create internal.merge_<kind>(low, high) from the table's columns. `derived` maps a column to an expression over the tables in `joins`.
-- With `folds`, a row that begins and ends within a batch is written once.
-- A migration that adds a column calls this again. Every join is by a key, so that a plan made for one record also
-- suits a thousand.
declare
  can_change boolean := (select k.can_change from internal.record_kinds() k where k.kind = define_merge.kind);
  has_status boolean := exists (select 1 from internal.record_columns(kind) where name = 'status_change_id');
  -- Parents never change.
  fixed text[] := array(
    select name from internal.record_columns(kind) where name = any (array['training_run_id', 'training_step_id',
      'evaluation_id', 'group_id', 'rollout_id', 'agent_state_id', 'task_id', 'checkpoint_id'])
      and not (kind in ('evaluations', 'rollouts') and name in ('checkpoint_id', 'task_id')));
  names text := (select string_agg(format('%I', name), ', ') from internal.record_columns(kind));
  -- Parents and the ids of changes cannot be cleared: null is ignored.
  clearable text[] := array(
    select name from internal.record_columns(kind) where can_change and not (name = any (fixed))
      and name not in ('id', 'created_at', 'owner_id', 'training_run_id', 'status_change_id'));
  inserted text := (
    select string_agg(coalesce(
      -- Null stays null: if it were derived, the same record again would clear it.
      case when derived ? name and name = any (clearable) and not is_required then format('case when %L = any (s.cleared) then null else %s end', name, derived ->> name) end,
      derived ->> name, case
      when default_value is null or default_value like 'NULL%' then format('s.%I', name)
      else format('coalesce(s.%I, %s)', name, default_value) end), ', ')
    from internal.record_columns(kind));
  updated text := (
    select string_agg(format(case when name = any (clearable) then '%1$I = case when %1$L = any (s.cleared) then %2$s else %3$s end' else '%1$I = %3$s' end, name,
      -- Null is refused for a required field, unless it still has its default: the record may be a repetition.
      case when is_required and default_value is not null then format('case when t.%1$I = %2$s then t.%1$I end', name, default_value) else 'null' end,
      case
        -- A spec is one document: what is left out of a new one is not meant to stay.
        when type = 'jsonb' and name not in ('spec', 'solution') then format('case when jsonb_typeof(t.%1$I) = ''object'' and jsonb_typeof(s.%1$I) = ''object'' then t.%1$I || s.%1$I
                                  else coalesce(s.%1$I, t.%1$I) end', name)
        -- A new status has its own message, or none.
        when name = 'status_message' then 'case when s.status <> t.status then s.status_message else coalesce(s.status_message, t.status_message) end'
        when name = 'status_change_id' then 'coalesce(s.status_change_id, case when s.status <> t.status then internal.new_id() else t.status_change_id end)'
        else format('coalesce(s.%1$I, t.%1$I)', name) end), ', ')
    from internal.record_columns(kind)
    where name not in ('id', 'created_at', 'owner_id') and not (name = any (fixed)));
  -- The values of a row that begins with the record s and ends with e.
  folded text := (
    select string_agg(format('%1$I = ', name) || case
      when name in ('created_at', 'owner_id') or name = any (fixed) or derived ? name then format('(b.s).%I', name)
      when name = 'started_at' then 'coalesce(e.started_at, (b.s).started_at, (b.s).created_at, now())'
      when name = 'finished_at' then 'coalesce(e.finished_at, (b.s).finished_at, now())'
      when type = 'jsonb' then format('case when jsonb_typeof((b.s).%1$I) = ''object'' and jsonb_typeof(e.%1$I) = ''object'' then (b.s).%1$I || e.%1$I
                                else coalesce(e.%1$I, (b.s).%1$I) end', name)
      else format('coalesce(e.%1$I, (b.s).%1$I)', name) end, ', ')
    from internal.record_columns(kind) where name not in ('id', 'status', 'status_message', 'status_change_id'));
  -- The end says nothing new of a parent, of the timeline, or of what is derived.
  foldable text := (
    select string_agg(format(case when name = any (fixed) or name = 'timeline' then '(e.%1$I is null or e.%1$I = (b.s).%1$I)' else 'e.%1$I is null' end, name), ' and ')
    from internal.record_columns(kind) where name = any (fixed) or derived ? name);
  -- The field, if any, in which a record names another parent than its row.
  culprit text := coalesce('case ' || (
    select string_agg(format('when t.%1$I is distinct from s.%1$I and s.%1$I is not null then %1$L', f), ' ') from unnest(fixed) f) || ' end',
    'null::text');
begin
  if not can_change then
    execute format($sql$
      create or replace function internal.%1$I(low integer, high integer) returns void
      language plpgsql set search_path = '' as $fn$
      declare
        added bigint;
      begin
        insert into %2$s (%3$s)
        select %4$s from pg_temp.%5$I s %6$s where s.ordinal between low and high
        order by s.ordinal
        on conflict (id) do nothing;
        get diagnostics added = row_count;

        -- Only a known id, or a record that gives a derived column, can name another parent.
        if added < (select count(*) + count(*) filter (where num_nonnulls(%8$s) > 0) from pg_temp.%5$I s where s.ordinal between low and high) then
          perform internal.refuse_move((
            select %7$s from pg_temp.%5$I s join %2$s t on t.id = s.id
            where s.ordinal between low and high and %7$s is not null limit 1));
        end if;
      end $fn$ $sql$, 'merge_' || kind, internal.table_of(kind), names, inserted, 'stage_' || kind, joins, culprit,
      coalesce((select string_agg(format('s.%I', key), ', ') from jsonb_object_keys(derived) key where key = any (fixed)), 'null'));
  else
    execute format($sql$
      create or replace function internal.%1$I(low integer, high integer) returns void
      language plpgsql set search_path = '' as $fn$
      declare
        made uuid[];
        wanted bigint;
        done bigint;
        current_round integer := 1;
        endings text[] := internal.next_statuses(%12$L, 'running');
      begin
        -- Round 1 inserts new ids. Later rounds update rows, one record per id at a time, in the order of the batch.
        update pg_temp.%5$I s set round = r.round
        from (select o.ordinal, row_number() over (partition by o.id order by o.ordinal)
                + (exists (select 1 from %2$s t where t.id = o.id))::integer as round
              from pg_temp.%5$I o where o.ordinal between low and high) r
        where s.ordinal = r.ordinal;
        %10$s
        with added as (
          insert into %2$s (%3$s)
          select %4$s from pg_temp.%5$I s %6$s where s.ordinal between low and high and s.round = 1
          order by s.id
          on conflict (id) do nothing
          returning id)
        select coalesce(array_agg(id), '{}') into made from added;
        %11$s
        -- Rows that another session inserted meanwhile are updated.
        update pg_temp.%5$I s set round = s.round + 1
        where s.ordinal between low and high and s.id = any (array(
          select o.id from pg_temp.%5$I o where o.ordinal between low and high and o.round = 1 and not o.id = any (made)));

        perform internal.refuse_move((
          select %8$s from pg_temp.%5$I s join %2$s t on t.id = s.id
          where s.ordinal between low and high and %8$s is not null limit 1));

        loop
          current_round := current_round + 1;
          exit when not exists (select 1 from pg_temp.%5$I s where s.ordinal between low and high and s.round = current_round);
          %9$s
          select count(*) into wanted from pg_temp.%5$I s where s.ordinal between low and high and s.round = current_round;
          update %2$s t set %7$s
          from pg_temp.%5$I s
          where t.id = s.id and s.ordinal between low and high and s.round = current_round;
          get diagnostics done = row_count;
          if done < wanted and exists (select 1 from pg_temp.%5$I s where s.ordinal between low and high and s.round = current_round
                                       and not exists (select 1 from %2$s t where t.id = s.id)) then
            perform internal.fail('OM404', 'id', 'unknown id; it was deleted meanwhile');
          elsif done < wanted then
            raise exception using errcode = 'OM403', message = 'not yours to change; ask its owner or an admin';
          end if;
        end loop;
      end $fn$ $sql$, 'merge_' || kind, internal.table_of(kind), names, inserted, 'stage_' || kind, joins, updated, culprit,
      case when has_status then format($skip$
          -- Skip changes that are in the history: they were applied before.
          update pg_temp.%I s set round = 0
          where s.ordinal between low and high and s.round = current_round
            and exists (select 1 from public.status_history h where h.entity_id = s.id and h.id = s.status_change_id);$skip$, 'stage_' || kind) end,
      case when folds then format($fold$
        -- Fold rows that begin and end in this batch. The beginning stays as round -1, for the status history.
        update pg_temp.%1$I e set round = 1, %2$s
        from (
          select o.ordinal, lag(o) over (partition by o.id order by o.ordinal) as s, count(*) over (partition by o.id) as records
          from pg_temp.%1$I o where o.ordinal between low and high) b
        where e.ordinal = b.ordinal and b.records = 2 and (b.s).round = 1 and e.round = 2
          and (b.s).status = 'running' and (b.s).status_change_id is not null and e.status_change_id <> (b.s).status_change_id
          and e.status = any (array_remove(endings, 'pending')) and (b.s).cleared is null and e.cleared is null and %4$s;
        update pg_temp.%1$I s set round = -1
        from (
          select o.ordinal, lead(o.round) over (partition by o.id order by o.ordinal) as next_round
          from pg_temp.%1$I o where o.ordinal between low and high) b
        where s.ordinal = b.ordinal and s.round = 1 and b.next_round = 1;
        perform set_config('openmanus_rl.folding', %3$L, true);$fold$, 'stage_' || kind, folded, kind, foldable) end,
      case when folds then $unfold$perform set_config('openmanus_rl.folding', '', true);$unfold$ end,
      kind);
  end if;
  execute format('revoke execute on function internal.%I(integer, integer) from public', 'merge_' || kind);
  execute format('grant execute on function internal.%I(integer, integer) to authenticated, service_role', 'merge_' || kind);
end
$body$;

revoke execute on function internal.refuse_move, internal.define_merge from public;
grant execute on function internal.refuse_move to authenticated, service_role;

-- Kinds -------------------------------------------------------------------------------------------------------------------------

select internal.define_merge('environments');
select internal.define_merge('tasks');
select internal.define_merge('validators');
select internal.define_merge('training_runs');
-- A record without a timeline belongs to the run's current one.
select internal.define_merge('training_steps', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('model_checkpoints', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('evaluations', 'left join public.training_runs p on p.id = s.training_run_id', '{"timeline": "coalesce(s.timeline, p.timeline, 0)"}');
select internal.define_merge('evaluation_results',
  'left join public.model_checkpoints p on p.id = s.checkpoint_id',
  '{"training_run_id": "p.training_run_id"}');
select internal.define_merge('rollout_groups',
  'left join public.training_steps p on p.id = s.training_step_id left join public.evaluations e on e.id = s.evaluation_id',
  '{"training_run_id": "coalesce(p.training_run_id, e.training_run_id)"}');
select internal.define_merge('rollouts',
  'left join public.rollout_groups g on g.id = s.group_id
   left join public.training_steps n on n.id = g.training_step_id
   left join public.evaluations e on e.id = g.evaluation_id
   left join public.training_runs p on p.id = coalesce(g.training_run_id, s.training_run_id)',
  '{"training_run_id": "case when g.id is null then s.training_run_id else g.training_run_id end",
    "task_id": "coalesce(s.task_id, g.task_id)",
    "task_description": "coalesce(s.task_description, g.task_description)",
    "environment": "coalesce(s.environment, e.environment, p.environment, case when p.id is not null then ''default'' end)",
    "source": "coalesce(s.source, case e.kind when ''eval'' then ''evaluation'' else e.kind end, ''training'')",
    "step": "coalesce(n.step, e.step, s.step)",
    "timeline": "coalesce(s.timeline, n.timeline, e.timeline, p.timeline, 0)"}',
  folds => true);
select internal.define_merge('agent_states', 'left join public.rollouts p on p.id = s.rollout_id', '{"training_run_id": "p.training_run_id"}');
select internal.define_merge('observations', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.observations t where t.agent_state_id = s.agent_state_id))"}');
select internal.define_merge('generations', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.generations t where t.agent_state_id = s.agent_state_id))"}');
select internal.define_merge('tool_calls', 'left join public.agent_states p on p.id = s.agent_state_id',
  '{"training_run_id": "p.training_run_id",
    "position": "coalesce(s.position, (select coalesce(max(t.position) + 1, 0) from public.tool_calls t where t.agent_state_id = s.agent_state_id))"}');
select internal.define_merge('rewards', 'left join public.rollouts p on p.id = s.rollout_id', '{"training_run_id": "p.training_run_id"}');
-- Named after its validator, so that a verdict can be identified after the validator is deleted.
select internal.define_merge('validations',
  'left join public.rollouts p on p.id = s.rollout_id left join public.validators v on v.id = s.validator_id',
  '{"training_run_id": "p.training_run_id", "validator_name": "coalesce(s.validator_name, v.external_id, ''default'')"}');
select internal.define_merge('media',
  'left join public.rollouts p on p.id = s.rollout_id
   left join public.training_runs r on r.id = s.training_run_id and p.id is null',
  '{"training_run_id": "case when p.id is null then s.training_run_id else p.training_run_id end",
    "timeline": "coalesce(s.timeline, p.timeline, r.timeline, 0)"}');

-- Metric chunks are wide and only grow: one statement merges them, without rewriting each in its staging table, after another for the
-- axes: one record of each has its steps and times. Known rows are looked up one by one (`limit 1`): Postgres cannot know how few
-- records are staged, and would read all chunks of all runs.
create function internal.merge_metric_chunks(low integer, high integer) returns void
language plpgsql set search_path = ''
as $$
begin
  perform internal.refuse_move((
    select m.field from pg_temp.stage_metric_chunks s
    left join lateral (select k.training_run_id, k.axis_id, true as is_known from public.metric_chunks k where k.id = s.id limit 1) k on true
    left join lateral (select a.training_run_id from public.metric_axes a where a.id = s.axis_id limit 1) a on true
    cross join lateral (select case when s.training_run_id <> k.training_run_id then 'training_run_id'
      when (k.is_known and s.axis_id is distinct from k.axis_id) or s.training_run_id <> a.training_run_id then 'axis_id' end as field) m
    where s.ordinal between low and high and m.field is not null limit 1));

  insert into public.metric_axes as t (id, training_run_id, steps, times)
  select distinct on (s.axis_id) s.axis_id,
    coalesce(s.training_run_id, (select a.training_run_id from public.metric_axes a where a.id = s.axis_id)), s.steps, s.times
  from pg_temp.stage_metric_chunks s
  where s.ordinal between low and high and s.axis_id is not null and num_nonnulls(s.steps, s.times) > 0
  order by s.axis_id, cardinality(s.steps) desc, s.ordinal
  on conflict (id) do update set steps = excluded.steps, times = excluded.times
  where cardinality(excluded.steps) > t.points;

  insert into public.metric_chunks as t (id, training_run_id, timeline, name, axis_id, steps, values, times)
  select s.id, coalesce(s.training_run_id, k.training_run_id),
    coalesce(s.timeline, k.timeline, (select r.timeline from public.training_runs r where r.id = s.training_run_id), 0), coalesce(s.name, k.name),
    s.axis_id, case when s.axis_id is null then s.steps end, s.values, case when s.axis_id is null then s.times end
  from pg_temp.stage_metric_chunks s
  left join lateral (select k.training_run_id, k.timeline, k.name from public.metric_chunks k where k.id = s.id limit 1) k on true
  where s.ordinal between low and high
    -- Of several records of a chunk, the longest: the others are earlier states of it.
    and not exists (select 1 from pg_temp.stage_metric_chunks o where o.id = s.id and o.ordinal between low and high and o.ordinal <> s.ordinal
      and (cardinality(o.values), o.ordinal) > (cardinality(s.values), s.ordinal))
  order by s.id
  on conflict (id) do update set steps = excluded.steps, values = excluded.values, times = excluded.times
  where cardinality(excluded.values) > cardinality(t.values);
end
$$;

revoke execute on function internal.merge_metric_chunks from public;
grant execute on function internal.merge_metric_chunks to authenticated, service_role;
