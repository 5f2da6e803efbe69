/** What a channel wants to hear of: its `postgres_changes`, checked against what is followed here. */
import { isObject } from "./protocol.ts";

const MAX_BINDINGS = 100;
const COLUMNS = ["id", "training_run_id"];
const FILTER = /^(\w+)=eq\.(.+)$/;

/** The one table that is followed. */
export const SCHEMA = "public";
export const TABLE = "activity";

export interface ActivityRow {
  id: string;
  training_run_id: string | null;
  changed_at: string;
}

/** A binding as the client gave it, which it compares with what comes back. */
export interface Binding {
  id: number;
  event: string;
  schema: string;
  table: string;
  filter?: string;
}

/** A join that can't be served, in words for whoever wrote it. */
export class JoinRefused extends Error {}

let lastId = 0;

/** Read the bindings of a join; each gets a number of its own, by which its changes are sent. */
export function readBindings(payload: Record<string, unknown>): Binding[] {
  const config = isObject(payload.config) ? payload.config : {};
  const asked = Array.isArray(config.postgres_changes) ? config.postgres_changes : [];
  if (asked.length === 0) {
    throw new JoinRefused(`only postgres_changes of ${SCHEMA}.${TABLE} are served here, and none are asked for`);
  }
  if (asked.length > MAX_BINDINGS) throw new JoinRefused(`more than ${MAX_BINDINGS} bindings in one channel`);
  return asked.map(readBinding);
}

function readBinding(asked: unknown): Binding {
  const { event, schema, table, filter } = isObject(asked) ? asked : {};
  if (schema !== SCHEMA || table !== TABLE) {
    throw new JoinRefused(`changes of ${schema}.${table ?? "*"} are not followed here; follow ${SCHEMA}.${TABLE}`);
  }
  if (event !== "*" && event !== "UPDATE") {
    throw new JoinRefused(`event ${JSON.stringify(event)} is not supported; use "*"`);
  }
  if (filter === undefined || filter === null || filter === "") return { id: ++lastId, event, schema, table };
  const column = typeof filter === "string" ? FILTER.exec(filter)?.[1] : undefined;
  if (column === undefined || !COLUMNS.includes(column)) {
    throw new JoinRefused(
      `filter ${JSON.stringify(filter)} is not one of ${COLUMNS.map((c) => `${c}=eq.…`).join(", ")}`,
    );
  }
  return { id: ++lastId, event, schema, table, filter: filter as string };
}

/** The numbers of the bindings that a row is for. */
export function matching(bindings: readonly Binding[], row: ActivityRow): number[] {
  return bindings.filter(({ filter }) => {
    const [, column, value] = (filter && FILTER.exec(filter)) || [];
    return column === undefined || row[column as keyof ActivityRow] === value.toLowerCase();
  }).map((binding) => binding.id);
}

/** A changed row as Realtime tells it. */
export function change(row: ActivityRow, ids: number[]): Record<string, unknown> {
  const columns = [
    { name: "id", type: "uuid" },
    { name: "training_run_id", type: "uuid" },
    { name: "changed_at", type: "timestamptz" },
  ];
  return {
    ids,
    data: {
      schema: SCHEMA,
      table: TABLE,
      commit_timestamp: new Date(row.changed_at).toISOString(),
      type: "UPDATE",
      columns,
      record: row,
      old_record: { id: row.id },
      errors: null,
    },
  };
}
