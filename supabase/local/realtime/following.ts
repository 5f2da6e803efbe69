/** A binding of tables, resolved against the database: which tables it means, and what its filter compares. */
import type postgres from "postgres";
import { type Binding, type Filter, JoinRefused, readFilters, tableOf } from "./bindings.ts";
import type { Change } from "./pgoutput.ts";
import { checkFollowed, publishedTables, type TableColumn } from "./tables.ts";

/** Types of which equal values have equal texts. */
const PLAIN = new Set(["uuid", "text", "varchar", "int2", "int4", "int8", "bool", "name"]);
const SIGNS: Record<string, string> = { eq: "=", neq: "<>", lt: "<", lte: "<=", gt: ">", gte: ">=" };
const PATTERNS: Record<string, string> = { like: "like", ilike: "ilike", match: "~", imatch: "~*" };
const TRUTHS = ["true", "false", "unknown"];

/** A condition on a column, whose values are as the column's type writes them. */
export interface Compared extends Filter {
  cast: string;
  isPlain: boolean;
}

export interface Followed extends Binding {
  compared: Compared[];
}

/** Resolve the bindings of a join; refuse those that would never tell anything. */
export async function follow(sql: postgres.Sql, bindings: Binding[]): Promise<Followed[]> {
  const followed: Followed[] = [];
  for (const binding of bindings) {
    const name = tableOf(binding);
    const tables = await publishedTables(sql, binding.schema, name);
    checkFollowed(tables, binding.schema, name);
    const compared: Compared[] = [];
    for (const filter of readFilters(binding.filter ?? "") ?? []) {
      compared.push(await resolved(sql, filter, tables[0].columns, binding));
    }
    followed.push({ ...binding, compared });
  }
  return followed;
}

async function resolved(sql: postgres.Sql, filter: Filter, columns: TableColumn[], { filter: text }: Binding) {
  const refused = (reason: string) => new JoinRefused(`filter ${JSON.stringify(text)}: ${reason}`);
  const column = columns.find(({ name }) => name === filter.column);
  if (!column) throw refused(`there is no column ${filter.column}`);
  const { operator, values: [first] } = filter;
  if (operator === "is" && first !== "null" && !(TRUTHS.includes(first) && column.cast === "boolean")) {
    throw refused("is compares with null, and booleans with true, false and unknown");
  }
  const isAsGiven = operator === "is" || operator === "isdistinct" && first === "null";
  const values: string[] = isAsGiven ? filter.values : [];
  for (const value of isAsGiven ? [] : filter.values) {
    try {
      const read = PATTERNS[operator] ? `case when '' ${PATTERNS[operator]} $1 then $1 else $1 end` : `$1::text`;
      const cast = PATTERNS[operator] ? "text" : column.cast;
      const [row] = await sql.unsafe(`select ((${read})::${cast})::text as value`, [value]);
      values.push(row.value);
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      if (!code?.startsWith("22")) throw error;
      throw refused(message);
    }
  }
  return { ...filter, values, cast: column.cast, isPlain: PLAIN.has(column.type) };
}

export function isFor({ schema, event, ...binding }: Followed, { relation, type }: Change): boolean {
  const table = tableOf({ schema, event, ...binding });
  return relation.schema === schema && (table === null || table === relation.table) &&
    (event === "*" || event === type);
}

/** Whether a plain value is what a condition asks for; null where Postgres must compare. */
export function matchesPlainly({ operator, values, isPlain, isNegated }: Compared, value: string | null) {
  if (!isPlain || !["eq", "neq", "in"].includes(operator)) return null;
  if (value === null) return false;
  return values.includes(value) !== (operator === "neq") !== isNegated;
}

/** The condition in SQL, on the text `value`, with the texts of its values in the array `asked`. */
export function comparison({ operator, values, cast, isNegated }: Compared): string {
  const first = "asked[1]";
  const [left, right] = [`value::${cast}`, `${first}::${cast}`];
  const plain = () => {
    if (operator === "in") return `exists (select from unnest(asked) one where ${left} = one::${cast})`;
    if (operator === "is") return values[0] === "null" ? "value is null" : `${left} is ${values[0]}`;
    if (operator === "isdistinct") return `${left} is distinct from ${values[0] === "null" ? "null" : right}`;
    return PATTERNS[operator] ? `value ${PATTERNS[operator]} ${first}` : `${left} ${SIGNS[operator]} ${right}`;
  };
  return isNegated ? `not (${plain()})` : plain();
}
