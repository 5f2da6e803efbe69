/** What the schema cache asks of Postgres' catalogue. */

export const EXPOSED_SCHEMA = "public";

/** The type below a domain, however many domains it is made of. */
const BASE_TYPES = `
  recursive domains as (
    select oid, oid as base, typbasetype as next from pg_type
    union all
    select domains.oid, t.oid, t.typbasetype from domains join pg_type t on t.oid = domains.next
  ), base_types as (select oid, base from domains where next = 0)`;

/** Implicit casts of domains by functions, which say how values are to be written and read. */
const REPRESENTATIONS = `
  representations as (
    select castsource as source, casttarget as target,
      (select format('%I.%I', n.nspname, p.proname) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where p.oid = castfunc) as function
    from pg_cast where castcontext = 'i' and castmethod = 'f'
  )`;

const representation = (source: string, target: string) =>
  `(select r.function from representations r join pg_type d on d.oid = t.oid and d.typtype = 'd'
    where r.source = ${source} and r.target = ${target})`;

export const RELATIONS = `
  with ${BASE_TYPES}, ${REPRESENTATIONS}
  select c.oid::text as "id", n.nspname as "schema", c.relname as "name", c.relkind in ('v', 'm') as "isView",
    pg_relation_is_updatable(c.oid, true) & 8 = 8 as "isInsertable",
    pg_relation_is_updatable(c.oid, true) & 4 = 4 as "isUpdatable",
    pg_relation_is_updatable(c.oid, true) & 16 = 16 as "isDeletable",
    coalesce((
      select json_agg(json_build_object(
        'name', a.attname,
        'number', a.attnum,
        'type', format_type(a.atttypid, a.atttypmod),
        'baseType', format_type((select base from base_types where oid = t.oid), null),
        'toJson', ${representation("t.oid", "'json'::regtype")},
        'fromJson', ${representation("'json'::regtype", "t.oid")},
        'fromText', ${representation("'text'::regtype", "t.oid")},
        'default', case
          when a.attidentity <> '' then (
            select format('nextval(%L)', own.objid::regclass) from pg_depend own
            where own.classid = 'pg_class'::regclass and own.refclassid = 'pg_class'::regclass
              and own.refobjid = a.attrelid and own.refobjsubid = a.attnum and own.deptype = 'i'
          )
          when a.attgenerated = '' then coalesce(pg_get_expr(d.adbin, d.adrelid), t.typdefault)
        end
      ) order by a.attnum)
      from pg_attribute a
      join pg_type t on t.oid = a.atttypid
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ), '[]') as "columns",
    coalesce(k.primary_key, '[]') as "primaryKey", coalesce(k.unique_keys, '[]') as "uniqueKeys"
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join lateral (
    select json_agg(keys.columns) as unique_keys, (json_agg(keys.columns) filter (where keys.contype = 'p'))->0 as primary_key
    from (
      select con.contype, (
        select json_agg(a.attname order by key.position)
        from unnest(con.conkey) with ordinality as key (number, position)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = key.number
      ) as columns
      from pg_constraint con where con.conrelid = c.oid and con.contype in ('p', 'u')
    ) keys
  ) k on true
  where c.relkind in ('r', 'v', 'm', 'f', 'p') and not c.relispartition
    and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')`;

export const FOREIGN_KEYS = `
  select con.conname as "name", con.conrelid::text as "from", con.confrelid::text as "to", (
    select json_agg(json_build_array(a.attname, b.attname) order by pair.position)
    from unnest(con.conkey, con.confkey) with ordinality as pair (here, there, position)
    join pg_attribute a on a.attrelid = con.conrelid and a.attnum = pair.here
    join pg_attribute b on b.attrelid = con.confrelid and b.attnum = pair.there
  ) as "columns"
  from pg_constraint con where con.contype = 'f' and con.conparentid = 0
  order by con.conrelid, con.conname`;

export const AGGREGATES = `
  select exists (
    select from pg_db_role_setting s join pg_roles r on r.oid = s.setrole, unnest(s.setconfig) as setting
    where r.rolname = 'authenticator' and setting ~* '^pgrst\\.db_aggregates_enabled=(true|on|t|1|yes)$'
  ) as "allowsAggregates"`;

export const VIEWS = `
  select c.oid::text as "id", r.ev_action::text as "definition"
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_rewrite r on r.ev_class = c.oid and r.rulename = '_RETURN'
  where c.relkind in ('v', 'm') and n.nspname not in ('pg_catalog', 'information_schema')`;

// A parameter of type character or bit would cut its argument to one.
export const ROUTINES = `
  with ${BASE_TYPES}
  select p.proname as "name", p.provolatile as "volatility", p.proretset as "returnsSet",
    not p.proretset or p.prorows = 1 as "returnsOne",
    p.prorettype = 'void'::regtype as "returnsVoid",
    (r.typtype = 'c' or coalesce(p.proargmodes::text[] && '{t,b,o}', false)) as "returnsRows",
    case when rn.nspname = '${EXPOSED_SCHEMA}' then rc.relname end as "relation",
    case when not p.proretset and t.typtype = 'd' and t.typname ~ '^[^ /]+/[^ /]+$' then t.typname end as "mediaType",
    r.oid = 'bytea'::regtype as "returnsBytes",
    -- Without names arguments cannot be given, unless the whole body is the only one.
    p.pronargs = 0 or not '' = any(coalesce(p.proargnames, '{""}')) or p.pronargs = 1 and p.proargtypes[0] in (
      'json'::regtype, 'jsonb'::regtype, 'text'::regtype, 'xml'::regtype, 'bytea'::regtype) as "isCallable",
    case when p.pronargs = 1 and an.nspname = '${EXPOSED_SCHEMA}' and rn.nspname = '${EXPOSED_SCHEMA}'
      then ac.relname end as "computedOf",
    coalesce((
      select json_agg(json_build_object(
        'name', coalesce(input.name, ''),
        'type', case input.type
          when 'bit'::regtype then 'bit varying'
          when 'bit[]'::regtype then 'bit varying[]'
          when 'character'::regtype then 'character varying'
          when 'character[]'::regtype then 'character varying[]'
          else format_type(input.type, null)
        end,
        'isRequired', input.position <= p.pronargs - p.pronargdefaults,
        'isVariadic', input.mode = 'v'
      ) order by input.position)
      from (
        select every.name, every.type, every.mode, row_number() over (order by every.position) as position
        from (
          select names.name, types.type, coalesce(modes.mode, 'i') as mode, types.position
          from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as types (type, position)
          left join unnest(p.proargnames) with ordinality as names (name, position) using (position)
          left join unnest(p.proargmodes) with ordinality as modes (mode, position) using (position)
        ) every
        where every.mode in ('i', 'b', 'v')
      ) input
    ), '[]') as "parameters"
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace and n.nspname = '${EXPOSED_SCHEMA}'
  join pg_type t on t.oid = p.prorettype
  join pg_type r on r.oid = (select base from base_types where oid = t.oid)
  left join pg_class rc on rc.oid = r.typrelid and rc.relkind <> 'c'
  left join pg_namespace rn on rn.oid = rc.relnamespace
  left join pg_type at on p.pronargs = 1 and at.oid = p.proargtypes[0]
  left join pg_class ac on ac.oid = at.typrelid and ac.relkind <> 'c'
  left join pg_namespace an on an.oid = ac.relnamespace
  where p.prokind = 'f' and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  order by p.proname, p.oid`;
