/** The SQL of inserts, updates and deletes; the values go in as one JSON parameter that Postgres itself takes apart. */
import type { JsonBody } from "./body.ts";
import { ApiError } from "./errors.ts";
import type { Condition } from "./filters.ts";
import type { Node } from "./plan.ts";
import type { Preferences } from "./prefer.ts";
import type { Query } from "./query_string.ts";
import { conditionSql } from "./read.ts";
import type { Column, Relation } from "./schema.ts";
import { column, empty, identifier, join, literal, parameter, qualified, raw, type Sql, sql } from "./sql.ts";

/** Counts the rows that an upsert inserts: those it changes are taken off again. */
export const INSERTED = "openmanus_rl.inserted";

export interface Write {
  method: string;
  relation: Relation;
  query: Query;
  preferences: Preferences;
  body: JsonBody | null;
  /** The columns to return; empty for none. */
  returning: string[];
}

export function writeSql(write: Write): Sql {
  switch (write.method) {
    case "PATCH":
      return updateSql(write);
    case "DELETE":
      return deleteSql(write);
    default:
      return insertSql(write);
  }
}

/** Of no table's name, so that a table of any name can be written. */
const BODY = "pgrst_body";

function insertSql({ method, relation, query, preferences, body, returning }: Write): Sql {
  const columns = knownColumns(relation, body!.names);
  const isPut = method === "PUT";
  const merges = isPut || preferences.resolution === "merge-duplicates";
  const names = columns.map(({ name }) => identifier(name));
  const into = columns.length > 0 ? sql` (${join(names, ", ")})` : empty;
  const conditions = isPut ? putConditions(relation, query) : [];
  if (merges) conditions.push(counting("+ 1"));
  return sql`insert into ${qualified(relation.schema, relation.name)} as ${identifier(relation.name)}${into}
    select ${join(columns.map(({ name }) => column(BODY, name)), ", ")}
    from ${rowsSql(body!, columns, preferences.missing === "default")} ${where(conditions)}
    ${conflictSql(relation, query, isPut ? "merge-duplicates" : preferences.resolution, names, isPut)}
    ${returningSql(relation, returning)}`;
}

function conflictSql(
  relation: Relation,
  { onConflict }: Query,
  resolution: Preferences["resolution"],
  names: Sql[],
  isPut: boolean,
): Sql {
  const keys = isPut ? relation.primaryKey : onConflict ?? relation.primaryKey;
  if (!resolution || keys.length === 0) return empty;
  const target = sql`on conflict (${join(keys.map(identifier), ", ")})`;
  if (resolution === "ignore-duplicates" || names.length === 0) return sql`${target} do nothing`;
  const changes = names.map((name) => sql`${name} = excluded.${name}`);
  return sql`${target} do update set ${join(changes, ", ")} where ${counting("- 1")}`;
}

/** True for every row, counting it on the way. */
function counting(step: "+ 1" | "- 1"): Sql {
  const count = `coalesce(nullif(current_setting('${INSERTED}', true), ''), '0')::int ${step}`;
  return raw(`set_config('${INSERTED}', (${count})::text, true) is not null`);
}

function putConditions(relation: Relation, query: Query): Sql[] {
  const filters = query.conditions.map(({ item }) => item);
  const key = relation.primaryKey;
  const isKey = key.length > 0 && filters.length === key.length &&
    filters.every((filter) =>
      filter.kind === "filter" && !filter.isNegated && filter.operation.kind === "compare" &&
      filter.operation.operator === "=" && filter.field.path.length === 0 && key.includes(filter.field.name)
    );
  if (!isKey) {
    const message = "Filters must include all and only primary key columns with 'eq' operators";
    throw new ApiError(405, "PGRST105", message);
  }
  return filters.map((filter) => conditionSql(filter, rootOf(relation, BODY)));
}

function updateSql({ relation, query, preferences, body, returning }: Write): Sql {
  const columns = knownColumns(relation, body!.names);
  const table = qualified(relation.schema, relation.name);
  if (columns.length === 0 || body!.text.trim() === "[]") {
    const names = returning.length > 0 ? returning.map((name) => column(relation.name, name)) : [raw("1")];
    return sql`select ${join(names, ", ")} from ${table} as ${identifier(relation.name)} where false`;
  }
  checkFiltered("UPDATE", query);
  const changes = columns.map(({ name }) => sql`${identifier(name)} = ${column(BODY, name)}`);
  return sql`update ${table} as ${identifier(relation.name)} set ${join(changes, ", ")}
    from ${rowsSql(body!, columns, preferences.missing === "default")} ${where(rootConditions(relation, query))}
    ${returningSql(relation, returning)}`;
}

/** As pg-safeupdate, which hosted projects load for the Data API: a forgotten filter must not cost a table. */
function checkFiltered(command: "UPDATE" | "DELETE", query: Query): void {
  if (query.conditions.some(({ path }) => path.length === 0)) return;
  throw new ApiError(400, "21000", `${command} requires a WHERE clause`);
}

function deleteSql({ relation, query, returning }: Write): Sql {
  checkFiltered("DELETE", query);
  return sql`delete from ${qualified(relation.schema, relation.name)} as ${identifier(relation.name)}
    ${where(rootConditions(relation, query))} ${returningSql(relation, returning)}`;
}

function rootConditions(relation: Relation, query: Query): Sql[] {
  const own: Condition[] = query.conditions.filter(({ path }) => path.length === 0).map(({ item }) => item);
  return own.map((condition) => conditionSql(condition, rootOf(relation, relation.name)));
}

function rootOf(relation: Relation, alias: string): Node {
  const range = { offset: 0, limit: null };
  return { name: relation.name, relation, alias, fields: [], children: [], conditions: [], order: [], range };
}

function where(conditions: Sql[]): Sql {
  return conditions.length > 0 ? sql`where ${join(conditions, " and ")}` : empty;
}

/** The rows of the body as a table of the columns' types; a domain may have a function that reads it from JSON. */
function rowsSql(body: JsonBody, columns: Column[], missingIsDefault: boolean): Sql {
  if (!columns.some(({ fromJson }) => fromJson)) return elementsSql(body, columns, missingIsDefault);
  const given = columns.map((column) => column.fromJson ? { ...column, type: "json" } : column);
  const values = columns.map(({ name, fromJson }) =>
    fromJson ? sql`${raw(fromJson)}(${column(BODY, name)}) as ${identifier(name)}` : column(BODY, name)
  );
  return sql`(select ${join(values, ", ")} from ${elementsSql(body, given, missingIsDefault)}) as ${identifier(BODY)}`;
}

/** With `missingIsDefault`, what a row leaves out has its default. */
function elementsSql({ text, isArray }: JsonBody, columns: Column[], missingIsDefault: boolean): Sql {
  const list = isArray ? text : `[${text}]`;
  if (columns.length === 0) return sql`json_array_elements(${parameter(list)}::json) as ${identifier(BODY)}`;
  const definitions = join(columns.map(({ name, type }) => sql`${identifier(name)} ${raw(type)}`), ", ");
  const defaults = columns.filter((column) => column.default !== null);
  if (!missingIsDefault || defaults.length === 0) {
    return sql`json_to_recordset(${parameter(list)}::json) as ${identifier(BODY)} (${definitions})`;
  }
  const pairs = defaults.map((column) => sql`${literal(column.name)}, (${raw(column.default!)})`);
  // Evaluated for each row: two rows must not get the same generated id.
  return sql`jsonb_array_elements(${parameter(list)}::jsonb) as "pgrst_element",
    jsonb_to_record(jsonb_build_object(${join(pairs, ", ")}) || "pgrst_element") as ${
    identifier(BODY)
  } (${definitions})`;
}

function knownColumns(relation: Relation, names: string[]): Column[] {
  return names.map((name) => {
    const known = relation.columns.get(name);
    if (known) return known;
    const message = `Could not find the '${name}' column of '${relation.name}' in the schema cache`;
    throw new ApiError(400, "PGRST204", message);
  });
}

function returningSql(relation: Relation, names: string[]): Sql {
  const columns = names.length > 0 ? names.map((name) => column(relation.name, name)) : [raw("1")];
  return sql`returning ${join(columns, ", ")}`;
}

/** The columns that a write or a call must return for the rows asked for: all that the request speaks of. */
export function neededColumns(root: Node, relation: Relation): string[] {
  const ordered = root.order.filter(({ relation }) => relation === undefined);
  const names = new Set([...root.fields.map(({ name }) => name), ...ordered.map(({ field }) => field.name)]);
  const isComputed = root.children.some(({ relationship }) => relationship.kind === "computed");
  if (root.fields.length + root.children.length === 0 || names.has("*") || isComputed) return ["*"];
  for (const { relationship } of root.children) {
    const pairs = relationship.kind === "key"
      ? relationship.columns
      : relationship.kind === "junction"
      ? relationship.near
      : [];
    for (const [name] of pairs) names.add(name);
  }
  for (const name of relation.primaryKey) names.add(name);
  for (const name of root.conditions.flatMap(fieldNames)) if (!isEmbedded(root, name)) names.add(name);
  return [...names];
}

function fieldNames(condition: Condition): string[] {
  return condition.kind === "filter" ? [condition.field.name] : condition.conditions.flatMap(fieldNames);
}

function isEmbedded(root: Node, name: string): boolean {
  return root.children.some((child) => child.name === name);
}
