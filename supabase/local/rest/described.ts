/** What the document of the API says beside the schema cache: comments, types and rights, read as the caller. */
import type postgres from "postgres";
import { EXPOSED_SCHEMA } from "./catalogue.ts";

export interface DescribedColumn {
  name: string;
  description: string | null;
  type: string;
  isNullable: boolean;
  maxLength: number | null;
  default: string | null;
  enum: string[] | null;
}

export interface DescribedRelation {
  name: string;
  description: string | null;
  columns: DescribedColumn[];
}

export interface DescribedParameter {
  name: string;
  type: string;
  isRequired: boolean;
  isVariadic: boolean;
}

export interface DescribedRoutine {
  name: string;
  description: string | null;
  isVolatile: boolean;
  parameters: DescribedParameter[];
}

export interface Description {
  comment: string | null;
  relations: DescribedRelation[];
  routines: DescribedRoutine[];
}

/** Relations and functions that the caller has any right to. */
export async function describe(sql: postgres.TransactionSql): Promise<Description> {
  // Types come out with their schema.
  await sql`select set_config('search_path', '', true)`;
  const [{ comment }] = await sql.unsafe<{ comment: string | null }[]>(COMMENT);
  const relations = await sql.unsafe<DescribedRelation[]>(RELATIONS);
  const routines = await sql.unsafe<DescribedRoutine[]>(ROUTINES);
  return { comment, relations, routines };
}

const COMMENT = `
  select obj_description(oid, 'pg_namespace') as "comment" from pg_catalog.pg_namespace where nspname = '${EXPOSED_SCHEMA}'`;

const RELATIONS = `
  select c.relname as "name", obj_description(c.oid, 'pg_class') as "description", (
    select coalesce(json_agg(json_build_object(
      'name', a.attname,
      'description', col_description(c.oid, a.attnum),
      'type', format_type(shown.type, null),
      'isNullable', not (a.attnotnull or t.typtype = 'd' and t.typnotnull),
      'maxLength', case when shown.type in ('varchar'::regtype, 'bpchar'::regtype) and a.atttypmod > 4
        then a.atttypmod - 4 end,
      'default', case when a.attgenerated = '' then coalesce(pg_get_expr(d.adbin, d.adrelid), t.typdefault) end,
      'enum', (select json_agg(e.enumlabel order by e.enumsortorder) from pg_catalog.pg_enum e where e.enumtypid = shown.type)
    ) order by a.attnum), '[]')
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_type t on t.oid = a.atttypid
    cross join lateral (select case when t.typtype = 'd' then t.typbasetype else t.oid end as type) shown
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  ) as "columns"
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = '${EXPOSED_SCHEMA}'
  where c.relkind in ('r', 'v', 'm', 'f', 'p') and not c.relispartition
    and (pg_has_role(c.relowner, 'usage') or has_table_privilege(c.oid, 'select, insert, update, delete, truncate, references, trigger')
      or has_any_column_privilege(c.oid, 'select, insert, update, references'))
  order by c.relname`;

const ROUTINES = `
  select p.proname as "name", obj_description(p.oid, 'pg_proc') as "description", p.provolatile = 'v' as "isVolatile", (
    select coalesce(json_agg(json_build_object(
      'name', input.name,
      'type', regexp_replace(format_type(input.type, null), '^"?${EXPOSED_SCHEMA}"?\\.', ''),
      'isRequired', input.position <= p.pronargs - p.pronargdefaults and input.mode <> 'v',
      'isVariadic', input.mode = 'v'
    ) order by input.position), '[]')
    from (
      select coalesce(names.name, '') as name, types.type, coalesce(modes.mode, 'i') as mode,
        row_number() over (order by types.position) as position
      from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as types (type, position)
      left join unnest(p.proargnames) with ordinality as names (name, position) using (position)
      left join unnest(p.proargmodes) with ordinality as modes (mode, position) using (position)
      where coalesce(modes.mode, 'i') in ('i', 'b', 'v')
    ) input
  ) as "parameters"
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace and n.nspname = '${EXPOSED_SCHEMA}'
  where p.prokind = 'f' and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
    and has_function_privilege(p.oid, 'execute')
  order by p.proname, p.oid`;
