/**
 * Values on their way into Postgres, converted by Postgres itself as PostgREST has it do.
 *
 * Supabase Lite binds every value as a parameter of its own: numbers lose digits, a JSON string is taken for JSON text,
 * and more than 65,535 values in a request are too many. Here the request's JSON goes to Postgres as one parameter.
 */
import type { AnyAST, IntrospectResult } from "@supabase/lite";
import {
  IdentifierNode,
  InsertQueryNode,
  type KyselyPlugin,
  type OperationNode,
  type PluginTransformQueryArgs,
  type PluginTransformResultArgs,
  type QueryResult,
  type RootOperationNode,
  sql,
  type UnknownRow,
} from "kysely";
import { AsyncLocalStorage } from "node:async_hooks";
import { type Catalog, type Column, EXPOSED_SCHEMA } from "./catalog.ts";
import { parseJson } from "./types.ts";

interface Insert {
  columns: string[];
  types: Map<string, Column>;
  /** JSON text: an array of objects. */
  rows: string;
  missingIsDefault: boolean;
}

/** The request being answered: its JSON body as it came, and the insert that was made of it. */
interface CurrentRequest {
  body: string;
  insert?: Insert;
}

export const currentRequest = new AsyncLocalStorage<CurrentRequest>();

/** Rewrite a parsed request so that its values reach Postgres unharmed. */
export function keepValuesExact(ast: AnyAST, catalog: Catalog, schema: IntrospectResult): AnyAST {
  const request = currentRequest.getStore();
  if (!request?.body) return ast;
  if (ast.type === "rpc") return exactArguments(ast, request.body, schema);
  const columns = catalog.get(ast.from ?? "");
  if (!columns || ast.values === undefined) return ast;
  if (ast.type === "update") return exactUpdate(ast, request.body, columns);
  return exactInsert(ast, request, columns);
}

type Row = Record<string, unknown>;

const isRow = (value: unknown): value is Row => typeof value === "object" && value !== null && !Array.isArray(value);

function exactInsert(ast: AnyAST, request: CurrentRequest, columns: Map<string, Column>): AnyAST {
  const rows = Array.isArray(ast.values) ? ast.values : [ast.values];
  const names = namesOf(rows, ast.$meta?.columns);
  // What is wrong with the request is for Lite to say.
  if (!names || names.some((name) => !columns.has(name) || columns.get(name)!.generated)) return ast;
  request.insert = {
    columns: names,
    types: columns,
    rows: Array.isArray(ast.values) ? request.body : `[${request.body}]`,
    missingIsDefault: ast.$meta?.missing === "default",
  };
  // PUT compares its one row with the URL; elsewhere one row without values stands for all.
  if (ast.type === "put") return ast;
  const placeholder = Object.fromEntries(names.map((name) => [name, null]));
  return { ...ast, values: [placeholder] };
}

/** The columns to be written; null when the rows do not agree on them. */
function namesOf(rows: unknown[], columns: string[] | undefined): string[] | null {
  if (rows.length === 0 || !rows.every(isRow)) return null;
  if (columns) return columns.length > 0 ? [...new Set(columns)] : null;
  const names = Object.keys(rows[0]);
  const same = rows.every((row) => {
    const keys = Object.keys(row);
    return keys.length === names.length && names.every((name) => Object.hasOwn(row, name));
  });
  return same && names.length > 0 ? names : null;
}

function exactUpdate(ast: AnyAST, body: string, columns: Map<string, Column>): AnyAST {
  const parsed = parseJson(body);
  const row = Array.isArray(parsed) ? parsed[0] : parsed;
  if (!isRow(row) || Object.keys(row).some((name) => !columns.has(name))) return ast;
  const wanted = ast.$meta?.columns;
  const entries = Object.entries(row).filter(([name]) => !wanted || wanted.includes(name));
  const values = Object.fromEntries(entries.map(([name, value]) => [name, asColumn(value, columns.get(name)!.type)]));
  return { ...ast, values };
}

/** An expression whose value is what this JSON value means for a column of the type. */
function asColumn(value: unknown, type: string) {
  const record = JSON.stringify({ value });
  return sql`(select value from json_to_record(${record}::json) as _(value ${sql.raw(type)}))`;
}

function exactArguments(ast: AnyAST, body: string, schema: IntrospectResult): AnyAST {
  if (ast.httpMethod === "GET" || !isRow(ast.args) || "_raw" in ast.args) return ast;
  const names = Object.keys(ast.args);
  const types = argumentTypes(ast.function ?? "", names, schema);
  const exact = parseJson(body);
  if (!types || !isRow(exact)) return ast;
  return { ...ast, args: Object.fromEntries(names.map((name) => [name, asArgument(exact[name], types.get(name)!)])) };
}

/** The types of these arguments; null unless exactly one function takes them. */
function argumentTypes(name: string, names: string[], schema: IntrospectResult): Map<string, string> | null {
  const candidates = (schema.functions ?? []).filter((candidate) =>
    candidate.name === name && candidate.schema === EXPOSED_SCHEMA && !candidate.has_variadic &&
    names.every((argument) => candidate.arg_names.includes(argument)) &&
    candidate.arg_names.slice(0, candidate.arg_names.length - candidate.arg_defaults)
      .every((argument) => names.includes(argument))
  );
  if (candidates.length !== 1) return null;
  const [{ arg_names, arg_types }] = candidates;
  return new Map(arg_names.map((argument, i) => [argument, arg_types[i]]));
}

function asArgument(value: unknown, type: string): unknown {
  if (value === null || value === undefined) return null;
  if (type === "json" || type === "jsonb") return JSON.stringify(value);
  return typeof value === "object" ? asColumn(value, type) : value;
}

/** Replaces the values of an insert by the rows of the request. */
export class InsertFromJson implements KyselyPlugin {
  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    const insert = currentRequest.getStore()?.insert;
    if (!insert || !InsertQueryNode.is(node)) return node;
    return InsertQueryNode.cloneWith(node, { values: rowsOf(insert, columnsOf(node)) });
  }

  transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    return Promise.resolve(result);
  }
}

function columnsOf(node: InsertQueryNode): string[] {
  return (node.columns ?? []).map(({ column }) => (column as unknown as IdentifierNode).name);
}

function rowsOf({ types, rows, missingIsDefault }: Insert, columns: string[]): OperationNode {
  const names = sql.join(columns.map((name) => sql.id(name)));
  const definitions = sql.join(columns.map((name) => sql`${sql.id(name)} ${sql.raw(types.get(name)!.type)}`));
  if (!missingIsDefault) {
    return sql`select ${names} from json_to_recordset(${rows}::json) as _(${definitions})`.toOperationNode();
  }
  const defaults = columns.flatMap((name) => {
    const expression = types.get(name)!.default;
    return expression === null ? [] : [sql.lit(name), sql`(${sql.raw(expression)})`];
  });
  // Evaluated for each row: two rows must not get the same generated id.
  return sql`select ${names} from jsonb_array_elements(${rows}::jsonb) as element,
    jsonb_to_record(jsonb_build_object(${sql.join(defaults)}) || element) as _(${definitions})`.toOperationNode();
}
