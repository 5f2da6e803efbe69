/** What a channel wants to hear of: its `postgres_changes`, as clients write them. */
import { Scanner } from "../rest/scanner.ts";
import { isObject } from "./protocol.ts";

const MAX_BINDINGS = 100;
const MAX_CONDITIONS = 20;
const EVENTS = ["*", "INSERT", "UPDATE", "DELETE"];
export const OPERATORS = [
  ...["eq", "neq", "lt", "lte", "gt", "gte", "in", "like", "ilike", "match", "imatch", "is", "isdistinct"],
] as const;
const HEAD = `[^=,()"]+=(?:not\\.)?(?:${OPERATORS.join("|")})\\.`;
/** A comma is part of a value unless a condition follows it. */
const END = `(?=,${HEAD}|$)`;
const READ_HEAD = new RegExp(`([^=]+)=(not\\.)?(${OPERATORS.join("|")})\\.`, "y");
const READ_END = new RegExp(END, "y");
const READ_VALUE = new RegExp(`[^]*?${END}`, "y");
const READ_ITEM = new RegExp(`[^]*?(?=,|\\)${END})`, "y");

/** A binding as the client gave it, which it compares with what comes back, and as it is understood. */
export interface Binding {
  id: number;
  event: string;
  schema: string;
  table?: string;
  filter?: string;
  select?: string[];
}

export interface Filter {
  column: string;
  isNegated: boolean;
  operator: typeof OPERATORS[number];
  values: string[];
}

/** A join that can't be served, in words for whoever wrote it. */
export class JoinRefused extends Error {}

let lastId = 0;

/** Read the bindings of a join; each gets a number of its own, by which its changes are sent. */
export function readBindings(config: Record<string, unknown>): Binding[] {
  const asked = Array.isArray(config.postgres_changes) ? config.postgres_changes : [];
  if (asked.length > MAX_BINDINGS) throw new JoinRefused(`more than ${MAX_BINDINGS} bindings in one channel`);
  return asked.map(readBinding);
}

function readBinding(asked: unknown): Binding {
  const { event, schema, table, filter, select } = isObject(asked) ? asked : {};
  if (typeof event !== "string" || !EVENTS.includes(event)) {
    throw new JoinRefused(`event ${JSON.stringify(event)} is not one of ${EVENTS.join(", ")}`);
  }
  if (typeof schema !== "string") throw new JoinRefused("a binding needs a schema");
  if (table !== undefined && typeof table !== "string") throw new JoinRefused("table is not a text");
  const binding: Binding = { id: ++lastId, event, schema };
  if (table !== undefined) binding.table = table;
  if (filter !== undefined && filter !== null && filter !== "") {
    if (typeof filter !== "string" || !readFilters(filter)) throw badFilter(filter);
    if (tableOf(binding) === null) throw new JoinRefused("a filter needs a table");
    binding.filter = filter;
  }
  if (select !== undefined && select !== null) {
    if (!Array.isArray(select) || !select.every((name) => typeof name === "string")) {
      throw new JoinRefused("select is a list of columns");
    }
    binding.select = select;
  }
  return binding;
}

function badFilter(filter: unknown): JoinRefused {
  return new JoinRefused(
    `filter ${JSON.stringify(filter)} is not like column=eq.value, or up to ${MAX_CONDITIONS} of them with commas ` +
      `between; operators are ${OPERATORS.join(", ")}, and not. before any of them`,
  );
}

/** The one table of a binding, or null for all of its schema. */
export function tableOf({ table }: Binding): string | null {
  return table === undefined || table === "" || table === "*" ? null : table;
}

/** The conditions of a filter, all of which must hold; null if it is none. */
export function readFilters(text: string): Filter[] | null {
  const scanner = new Scanner(text, "filter");
  const filters: Filter[] = [];
  do {
    const head = scanner.match(READ_HEAD);
    if (!head || filters.length === MAX_CONDITIONS) return null;
    const [, column, negation, operator] = head;
    const values = operator === "in" ? readList(scanner) : [readValue(scanner)];
    if (!values || !scanner.match(READ_END)) return null;
    filters.push({ column, isNegated: negation !== undefined, operator: operator as Filter["operator"], values });
  } while (scanner.take(","));
  return filters;
}

function readValue(scanner: Scanner): string {
  const quoted = scanner.attempt(() => {
    const value = scanner.quoted();
    return scanner.match(READ_END) && value;
  });
  return quoted ?? scanner.match(READ_VALUE)![0];
}

function readList(scanner: Scanner): string[] | null {
  if (!scanner.take("(")) return null;
  if (scanner.take(")")) return [];
  const values: string[] = [];
  do {
    const value = scanner.quoted() ?? scanner.match(READ_ITEM)?.[0];
    if (value === undefined) return null;
    values.push(value);
  } while (scanner.take(","));
  return scanner.take(")") ? values : null;
}
