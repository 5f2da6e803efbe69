/** A binding of tables, resolved against the database: which tables it means, and what its filter compares. */
import type postgres from "postgres";
import { type Binding, type Filter, JoinRefused, readFilter, tableOf } from "./bindings.ts";
import type { Change } from "./pgoutput.ts";
import { checkFollowed, publishedTables, type TableColumn } from "./tables.ts";

/** Types of which equal values have equal texts. */
const PLAIN = new Set(["uuid", "text", "varchar", "int2", "int4", "int8", "bool", "name"]);

export interface Followed extends Binding {
  compared: (Filter & { column: string; cast: string; isPlain: boolean }) | null;
}

/** Resolve the bindings of a join; refuse those that would never tell anything. */
export async function follow(sql: postgres.Sql, bindings: Binding[]): Promise<Followed[]> {
  const followed: Followed[] = [];
  for (const binding of bindings) {
    const name = tableOf(binding);
    const tables = await publishedTables(sql, binding.schema, name);
    checkFollowed(tables, binding.schema, name);
    const filter = readFilter(binding.filter ?? "");
    followed.push({ ...binding, compared: filter && await compared(sql, filter, tables[0].columns, binding) });
  }
  return followed;
}

async function compared(sql: postgres.Sql, filter: Filter, columns: TableColumn[], { filter: text }: Binding) {
  const column = columns.find(({ name }) => name === filter.column);
  if (!column) throw new JoinRefused(`filter ${JSON.stringify(text)}: there is no column ${filter.column}`);
  const values: string[] = [];
  for (const value of filter.values) {
    try {
      const [row] = await sql.unsafe(`select ($1::text::${column.cast})::text as value`, [value]);
      values.push(row.value);
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      if (!code?.startsWith("22")) throw error;
      throw new JoinRefused(`filter ${JSON.stringify(text)}: ${message}`);
    }
  }
  return { ...filter, values, cast: column.cast, isPlain: PLAIN.has(column.type) };
}

export function isFor({ schema, event, ...binding }: Followed, { relation, type }: Change): boolean {
  const table = tableOf({ schema, event, ...binding });
  return relation.schema === schema && (table === null || table === relation.table) &&
    (event === "*" || event === type);
}

/** Whether a plain value is what a filter asks for; null where Postgres must compare. */
export function matchesPlainly({ operator, values, isPlain }: Filter & { isPlain: boolean }, value: string | null) {
  if (value === null) return false;
  if (!isPlain) return null;
  switch (operator) {
    case "eq":
    case "in":
      return values.includes(value);
    case "neq":
      return !values.includes(value);
    default:
      return null;
  }
}
