/** The query string of a request, read once. */
import { ApiError } from "./errors.ts";
import { type Condition, readJunction, readParameter } from "./filters.ts";
import { type Field, Scanner } from "./scanner.ts";
import { readSelect, type SelectItem } from "./select.ts";

export interface OrderTerm {
  field: Field;
  /** The embedded row whose field it is, for `order=author(name)`. */
  relation?: string;
  direction?: "asc" | "desc";
  nulls?: "first" | "last";
}

/** Something that applies to the rows asked for, or to embedded ones: `books.order`, `authors.name`. */
export interface Placed<T> {
  path: string[];
  item: T;
}

export interface Range {
  offset: number;
  limit: number | null;
}

export interface Query {
  select: SelectItem[];
  conditions: Placed<Condition>[];
  order: Placed<OrderTerm[]>[];
  limits: Placed<{ limit?: number; offset?: number }>[];
  columns: string[] | null;
  onConflict: string[] | null;
  /** Of a function that is called with GET: name and text of each argument, in order. */
  args: [name: string, value: string][];
  /** Names of the fields that filters are about, for PUT. */
  filtered: string[];
}

/** Not about rows: the key may stand in the query. */
const IGNORED = new Set(["apikey"]);

/** What PostgREST takes for an operator, so that it is no argument either when it cannot be read. */
const CERTAIN_OPERATOR = /^(not|in|is)\./;

/** Read a query string; for a function called with GET, what is no filter is an argument. */
export function readQuery({ search }: URL, takesArguments = false): Query {
  // A name without `=` says nothing.
  const parts = search.slice(1).split("&").filter((part) => part.includes("="));
  const parameters = new URLSearchParams(parts.join("&"));
  const query: Query = {
    select: readSelect(parameters.get("select") ?? "*"),
    conditions: [],
    order: [],
    limits: [],
    columns: readNames(parameters.get("columns"), "columns parameter"),
    onConflict: readNames(parameters.get("on_conflict"), "on_conflict parameter"),
    args: [],
    filtered: [],
  };
  for (const [key, value] of parameters) {
    if (IGNORED.has(key) || key === "select" || key === "columns" || key === "on_conflict") continue;
    const last = key.slice(key.lastIndexOf(".") + 1);
    if (last === "order") query.order.push({ path: readPath(key).path, item: readOrder(value) });
    else if (last === "limit" || last === "offset") addLimit(query, key, last, value);
    else if (last === "and" || last === "or") query.conditions.push(readLogic(key, last, value));
    else addFilter(query, key, value, takesArguments);
  }
  return query;
}

function addFilter(query: Query, key: string, value: string, takesArguments: boolean): void {
  let operation;
  try {
    operation = readParameter(value);
  } catch (error) {
    if (!takesArguments || !(error instanceof ApiError) || CERTAIN_OPERATOR.test(value)) throw error;
    query.args.push([key, value]);
    return;
  }
  const { path, field } = readPath(key);
  query.filtered.push(key);
  query.conditions.push({ path, item: { kind: "filter", field, ...operation } });
}

function addLimit(query: Query, key: string, last: "limit" | "offset", value: string): void {
  if (!/^-?\d+$/.test(value)) return;
  const count = Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  if (last === "limit" && count < 0) throw rangeError("Limit should be greater than or equal to zero.");
  query.limits.push({ path: readPath(key).path, item: { [last]: Math.max(count, 0) } });
}

export function rangeError(details: string, headers: Record<string, string> = {}): ApiError {
  return new ApiError(416, "PGRST103", "Requested range not satisfiable", { details, headers });
}

/** The parameters in one order, whichever they came in. */
export function canonical(parameters: URLSearchParams): string {
  const pairs = [...parameters].filter(([name]) => !IGNORED.has(name));
  pairs.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
  return pairs.map(([name, value]) => `${queryPart(name)}=${queryPart(value)}`).join("&");
}

/** Encoded but for what may stand in a query string as it is. */
function queryPart(text: string): string {
  return encodeURIComponent(text).replace(/%(3A|40|24|2C)/g, decodeURIComponent);
}

function readPath(key: string): { path: string[]; field: Field } {
  const scanner = new Scanner(key, "tree path");
  const names = [scanner.name()];
  while (scanner.take(".")) names.push(scanner.name());
  const field = { name: names.pop()!, path: scanner.jsonPath() };
  if (!scanner.atEnd) scanner.fail('"." or "->"');
  return { path: names, field };
}

function readLogic(key: string, operator: "and" | "or", value: string): Placed<Condition> {
  const names = readPath(key).path;
  const path = names.filter((name) => name !== "not");
  return { path, item: readJunction(value, operator, path.length < names.length) };
}

function readNames(text: string | null, what: string): string[] | null {
  if (text === null) return null;
  const scanner = new Scanner(text, what);
  const names = new Set<string>();
  do {
    scanner.spaces();
    names.add(scanner.name());
    scanner.spaces();
  } while (scanner.take(","));
  if (!scanner.atEnd) scanner.fail('","');
  return [...names];
}

function readOrder(text: string): OrderTerm[] {
  const scanner = new Scanner(text, "order");
  const terms: OrderTerm[] = [];
  do terms.push(readOrderTerm(scanner)); while (scanner.take(","));
  if (!scanner.atEnd) scanner.fail('delimiter (.), "," or end of input', "'");
  return terms;
}

const ORDER_END = /(?=[ \t,]|$)/y;

function readOrderTerm(scanner: Scanner): OrderTerm {
  const first = scanner.field();
  const term: OrderTerm = { field: first };
  if (first.path.length === 0 && scanner.take("(")) {
    term.relation = first.name;
    term.field = scanner.field();
    scanner.expect(")");
  }
  if (scanner.take(".")) {
    term.direction = scanner.match(/asc|desc/y)?.[0] as OrderTerm["direction"];
    if (term.direction === undefined) term.nulls = readNulls(scanner, '"asc", "desc", "nullsfirst" or "nullslast"');
    else if (scanner.take(".")) term.nulls = readNulls(scanner, '"nullsfirst" or "nullslast"');
    else if (!scanner.match(ORDER_END)) scanner.fail('delimiter (.), "," or end of input', "'");
  }
  scanner.spaces();
  return term;
}

function readNulls(scanner: Scanner, expected: string): OrderTerm["nulls"] {
  const nulls = scanner.match(/nulls(first|last)/y)?.[1] ?? scanner.fail(expected);
  if (!scanner.match(ORDER_END)) scanner.fail('"," or end of input', "'");
  return nulls as OrderTerm["nulls"];
}
