/** What the Data API must know of columns beyond Supabase Lite's own schema cache. */
import type { IntrospectResult } from "@supabase/lite";
import type postgres from "postgres";

export interface Column {
  /** As SQL writes it, such as `numeric(10,2)` or `text[]`. */
  type: string;
  /** The SQL expression of its default; null when there is none. */
  default: string | null;
  generated: boolean;
}

/** The columns of each exposed relation, by its name. */
export type Catalog = Map<string, Map<string, Column>>;

export const EXPOSED_SCHEMA = "public";

export async function readCatalog(sql: postgres.Sql): Promise<Catalog> {
  const rows = await sql<
    { relation: string; name: string; type: string; default: string | null; generated: boolean }[]
  >`
    select c.relname as relation, a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
      a.attgenerated <> '' or a.attidentity = 'a' as generated,
      case
        when a.attidentity <> '' then format('nextval(%L)', pg_get_serial_sequence(a.attrelid::regclass::text, a.attname))
        when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid)
      end as default
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = ${EXPOSED_SCHEMA}
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relkind in ('r', 'v', 'm', 'f', 'p')`;
  const catalog: Catalog = new Map();
  for (const { relation, name, ...column } of rows) {
    if (!catalog.has(relation)) catalog.set(relation, new Map());
    catalog.get(relation)!.set(name, column);
  }
  return catalog;
}

/**
 * The schema cache without what is not exposed.
 *
 * Lite looks tables up by name alone in places, so that a table of `auth` would answer for one of ours.
 */
export function exposedOnly(schema: IntrospectResult): IntrospectResult {
  const exposed = <T extends { schema: string }>(items: T[]) => items.filter((item) => item.schema === EXPOSED_SCHEMA);
  return {
    ...schema,
    tables: exposed(schema.tables),
    columns: exposed(schema.columns),
    indexes: exposed(schema.indexes),
    foreign_keys: exposed(schema.foreign_keys).filter((key) => (key.ref_schema ?? EXPOSED_SCHEMA) === EXPOSED_SCHEMA),
    primary_keys: exposed(schema.primary_keys),
    views: exposed(schema.views),
    check_constraints: exposed(schema.check_constraints),
    unique_constraints: exposed(schema.unique_constraints),
    comments: exposed(schema.comments),
    functions: exposed(schema.functions ?? []),
    partitions: exposed(schema.partitions ?? []),
  };
}
