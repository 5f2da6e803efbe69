/** Changes of `public.activity`, which every Postgres can tell: all of them as updates. */
import { type Binding, JoinRefused, readFilters } from "./bindings.ts";

const COLUMNS = ["id", "training_run_id"];
export const SCHEMA = "public";
export const TABLE = "activity";

export interface ActivityRow {
  id: string;
  training_run_id: string | null;
  changed_at: string;
}

export function isActivity({ schema, table }: Binding): boolean {
  return schema === SCHEMA && table === TABLE;
}

/** Refuse what is never told of this table. */
export function checkActivity({ event, filter }: Binding): void {
  if (event !== "*" && event !== "UPDATE") {
    throw new JoinRefused(`changes of ${SCHEMA}.${TABLE} are told as UPDATE; use "*" instead of ${event}`);
  }
  const filters = readFilters(filter ?? "") ?? [];
  const isKnown = filters.length === 1 && filters[0].operator === "eq" && !filters[0].isNegated &&
    COLUMNS.includes(filters[0].column);
  if (filter && !isKnown) {
    const known = COLUMNS.map((name) => `${name}=eq.…`).join(", ");
    throw new JoinRefused(`filter ${JSON.stringify(filter)} is not one of ${known}`);
  }
}

/** The numbers of the bindings that a row is for. */
export function matching(bindings: readonly Binding[], row: ActivityRow): number[] {
  return bindings.filter(({ filter }) => {
    return (readFilters(filter ?? "") ?? []).every(({ column, values }) =>
      row[column as keyof ActivityRow] === values[0].toLowerCase()
    );
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
