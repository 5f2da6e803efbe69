/** The tables whose changes are told: those of the publication `supabase_realtime`, as on hosted projects. */
import type postgres from "postgres";
import { JoinRefused } from "./bindings.ts";

export const PUBLICATION = "supabase_realtime";

export interface TableColumn {
  name: string;
  /** As in `columns` of a change: `timestamptz`. */
  type: string;
  /** The type to cast its values to: that of a domain's values, and without a limit such as that of `varchar(3)`. */
  cast: string;
}

export interface Table {
  schema: string;
  name: string;
  key: string[];
  isProtected: boolean;
  columns: TableColumn[];
}

/** Describe the published tables of a schema, or the one of that name. */
export async function publishedTables(sql: postgres.Sql, schema: string, name: string | null): Promise<Table[]> {
  return await sql<Table[]>`
    select n.nspname as schema, c.relname as name, c.relrowsecurity as "isProtected",
      coalesce((
        select json_agg(a.attname order by array_position(i.indkey::int2[], a.attnum)) from pg_catalog.pg_index i
        join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
        where i.indrelid = c.oid and i.indisprimary), '[]') as key,
      (select json_agg(json_build_object('name', a.attname, 'type', t.typname,
          'cast', (
            with recursive base (id, under) as (
              select t.oid, t.typbasetype union all
              select u.oid, u.typbasetype from base join pg_catalog.pg_type u on u.oid = base.under)
            select pg_catalog.format_type(base.id, -1) from base where base.under = 0)) order by a.attnum)
        from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
    from pg_catalog.pg_publication_tables p
    join pg_catalog.pg_namespace n on n.nspname = p.schemaname
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
    where p.pubname = ${PUBLICATION} and p.schemaname = ${schema} and (${name}::text is null or p.tablename = ${name})
    order by c.relname`;
}

/** Refuse tables that cannot be followed, with what to do about it. */
export function checkFollowed(tables: Table[], schema: string, name: string | null): void {
  if (tables.length === 0) {
    const add = `alter publication ${PUBLICATION} add table ${schema}.${name ?? "…"}`;
    throw new JoinRefused(
      `changes of ${schema}.${name ?? "*"} are not published; as the owner of the table run: ${add}`,
    );
  }
  const keyless = tables.find(({ key }) => key.length === 0);
  if (keyless && name !== null) {
    throw new JoinRefused(`${schema}.${name} has no primary key, by which its rows are found`);
  }
}

/** Whether this Postgres tells changes at all: the reason why not, or null. */
export async function reasonNotToFollow(sql: postgres.Sql): Promise<string | null> {
  const [{ level, may, published }] = await sql<{ level: string; may: boolean; published: boolean }[]>`
    select current_setting('wal_level') as level,
      (select r.rolreplication or r.rolsuper from pg_catalog.pg_roles r where r.rolname = session_user) as may,
      exists (select from pg_catalog.pg_publication p where p.pubname = ${PUBLICATION}) as published`;
  if (level !== "logical") return `this Postgres has wal_level ${level}; changes of tables need wal_level logical`;
  if (!may) return "the gateway's role may not replicate; run: alter role … with replication";
  if (!published) return `there is no publication ${PUBLICATION}; run: create publication ${PUBLICATION}`;
  return null;
}

export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
export const qualified = ({ schema, name }: Table) => `${quoted(schema)}.${quoted(name)}`;
