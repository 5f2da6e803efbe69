/** The schema cache: relations, how they relate, and functions, read from Postgres' catalogue. */
import type postgres from "postgres";
import { type ForeignKey, type Relationship, relationshipsOf } from "./relationships.ts";
import { viewOrigins } from "./views.ts";

export const EXPOSED_SCHEMA = "public";

export interface Column {
  name: string;
  /** Its place in the relation, dropped columns counted. */
  number: number;
  /** As SQL writes it, schema and modifiers included: `numeric(10,2)`, `text[]`, `public.mood`. */
  type: string;
  /** The type itself, or the one below a domain. */
  baseType: string;
  /** The SQL expression of its default; null when there is none. */
  default: string | null;
}

/** A column of a relation, by object id. */
export interface ColumnId {
  relation: string;
  column: string;
}

export interface Relation {
  id: string;
  schema: string;
  name: string;
  isView: boolean;
  columns: Map<string, Column>;
  primaryKey: string[];
  /** The column sets of primary keys and unique constraints. */
  uniqueKeys: string[][];
  /** Of a view's column: the columns of tables it shows. */
  origins: Map<string, ColumnId[]>;
}

export interface Parameter {
  name: string;
  type: string;
  isRequired: boolean;
  isVariadic: boolean;
}

export interface Routine {
  name: string;
  parameters: Parameter[];
  volatility: "volatile" | "stable" | "immutable";
  returnsSet: boolean;
  /** Rows with columns, rather than a value. */
  returnsRows: boolean;
  returnsVoid: boolean;
  /** The exposed relation whose rows it returns. */
  relation: string | null;
  /** Whether it is declared to return one row at most. */
  returnsOne: boolean;
}

export interface Schema {
  /** The exposed relations by name. */
  relations: Map<string, Relation>;
  /** From each exposed relation's name to all exposed others. */
  relationships: Map<string, Relationship[]>;
  routines: Map<string, Routine[]>;
}

export async function readSchema(sql: postgres.Sql): Promise<Schema> {
  return await sql.begin("read only", async (transaction) => {
    // Names come out with their schema, whatever the search path of a request is.
    await transaction`select set_config('search_path', '', true)`;
    const all = await readRelations(transaction);
    const [foreignKeys, routines, views] = [
      await transaction<ForeignKey[]>`${transaction.unsafe(FOREIGN_KEYS)}`,
      await transaction<RoutineRow[]>`${transaction.unsafe(ROUTINES)}`,
      await transaction<{ id: string; definition: string }[]>`${transaction.unsafe(VIEWS)}`,
    ];
    for (const { id, definition } of views) {
      const view = all.get(id);
      if (view) view.origins = viewOrigins(definition, view, all);
    }
    for (const view of all.values()) if (view.isView) resolveOrigins(view, all);
    const relations = new Map<string, Relation>();
    for (const relation of all.values()) if (relation.schema === EXPOSED_SCHEMA) relations.set(relation.name, relation);
    const functions = routines.map((row) => ({ ...row, volatility: VOLATILITIES[row.volatility] }));
    const byName = (routine: Routine) => routine.name;
    return {
      relations,
      relationships: relationshipsOf(all, relations, foreignKeys, functions.filter((row) => row.computedOf)),
      routines: Map.groupBy<string, Routine>(functions, byName),
    };
  }) as Schema;
}

interface RoutineRow extends Omit<Routine, "volatility"> {
  volatility: keyof typeof VOLATILITIES;
  /** The relation whose row is its only parameter, where it returns rows of `relation`. */
  computedOf: string | null;
}

const VOLATILITIES = { v: "volatile", s: "stable", i: "immutable" } as const;

interface RelationRow extends Omit<Relation, "columns" | "origins"> {
  columns: Column[];
}

async function readRelations(sql: postgres.TransactionSql): Promise<Map<string, Relation>> {
  const rows = await sql<RelationRow[]>`${sql.unsafe(RELATIONS)}`;
  return new Map(rows.map((row) => {
    const columns = new Map(row.columns.map((column) => [column.name, column]));
    return [row.id, { ...row, columns, origins: new Map() }];
  }));
}

/** Follow views of views down to tables; a view's primary key is that of the tables it shows. */
function resolveOrigins(view: Relation, all: Map<string, Relation>): void {
  const follow = ({ relation, column }: ColumnId, depth: number): ColumnId[] => {
    const source = all.get(relation);
    if (!source || depth > 16) return [];
    if (!source.isView) return [{ relation, column }];
    return (source.origins.get(column) ?? []).flatMap((origin) => follow(origin, depth + 1));
  };
  for (const [name, origins] of view.origins) view.origins.set(name, origins.flatMap((origin) => follow(origin, 0)));
  view.primaryKey = [...view.origins].filter(([, origins]) =>
    origins.some(({ relation, column }) => all.get(relation)!.primaryKey.includes(column))
  ).map(([name]) => name);
}

const RELATIONS = `
  select c.oid::text as "id", n.nspname as "schema", c.relname as "name", c.relkind in ('v', 'm') as "isView",
    coalesce((
      select json_agg(json_build_object(
        'name', a.attname,
        'number', a.attnum,
        'type', format_type(a.atttypid, a.atttypmod),
        'baseType', format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null),
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

const FOREIGN_KEYS = `
  select con.conname as "name", con.conrelid::text as "from", con.confrelid::text as "to", (
    select json_agg(json_build_array(a.attname, b.attname) order by pair.position)
    from unnest(con.conkey, con.confkey) with ordinality as pair (here, there, position)
    join pg_attribute a on a.attrelid = con.conrelid and a.attnum = pair.here
    join pg_attribute b on b.attrelid = con.confrelid and b.attnum = pair.there
  ) as "columns"
  from pg_constraint con where con.contype = 'f' and con.conparentid = 0
  order by con.conname`;

const VIEWS = `
  select c.oid::text as "id", r.ev_action::text as "definition"
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_rewrite r on r.ev_class = c.oid and r.rulename = '_RETURN'
  where c.relkind in ('v', 'm') and n.nspname not in ('pg_catalog', 'information_schema')`;

// A parameter of type character or bit would cut its argument to one.
const ROUTINES = `
  select p.proname as "name", p.provolatile as "volatility", p.proretset as "returnsSet",
    not p.proretset or p.prorows = 1 as "returnsOne",
    p.prorettype = 'void'::regtype as "returnsVoid",
    (r.typtype = 'c' or coalesce(p.proargmodes::text[] && '{t,b,o}', false)) as "returnsRows",
    case when rn.nspname = '${EXPOSED_SCHEMA}' then rc.relname end as "relation",
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
  join pg_type r on r.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
  left join pg_class rc on rc.oid = r.typrelid and rc.relkind <> 'c'
  left join pg_namespace rn on rn.oid = rc.relnamespace
  left join pg_type at on p.pronargs = 1 and at.oid = p.proargtypes[0]
  left join pg_class ac on ac.oid = at.typrelid and ac.relkind <> 'c'
  left join pg_namespace an on an.oid = ac.relnamespace
  where p.prokind = 'f' and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  order by p.proname, p.oid`;
