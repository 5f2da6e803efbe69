/** What a channel wants to hear of: its `postgres_changes`, as clients write them. */
import { isObject } from "./protocol.ts";

const MAX_BINDINGS = 100;
const EVENTS = ["*", "INSERT", "UPDATE", "DELETE"];
const FILTER = /^([^=]+)=(eq|neq|lt|lte|gt|gte|in)\.(.*)$/s;

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
  operator: "eq" | "neq" | "lt" | "lte" | "gt" | "gte" | "in";
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
    if (typeof filter !== "string" || !readFilter(filter)) throw badFilter(filter);
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
    `filter ${JSON.stringify(filter)} is not like column=eq.value; operators are eq, neq, lt, lte, gt, gte, in.(a,b)`,
  );
}

/** The one table of a binding, or null for all of its schema. */
export function tableOf({ table }: Binding): string | null {
  return table === undefined || table === "" || table === "*" ? null : table;
}

/** A filter's parts; null if it is none. */
export function readFilter(text: string): Filter | null {
  const found = FILTER.exec(text);
  if (!found) return null;
  const [, column, operator, value] = found;
  if (operator !== "in") return { column, operator: operator as Filter["operator"], values: [value] };
  const list = /^\((.*)\)$/s.exec(value)?.[1];
  return list === undefined ? null : { column, operator, values: list === "" ? [] : list.split(",") };
}
