/** The schema cache: relations, how they relate, and functions, read from Postgres' catalogue. */
import type postgres from "postgres";
import { type ForeignKey, type Relationship, relationshipsOf } from "./relationships.ts";
import { AGGREGATES, EXPOSED_SCHEMA, FOREIGN_KEYS, RELATIONS, ROUTINES, VIEWS } from "./catalogue.ts";
import { viewOrigins } from "./views.ts";

export { EXPOSED_SCHEMA };

export interface Column {
  name: string;
  /** Its place in the relation, dropped columns counted. */
  number: number;
  /** As SQL writes it, schema and modifiers included: `numeric(10,2)`, `text[]`, `public.mood`. */
  type: string;
  /** The type itself, or the one below a domain. */
  baseType: string;
  /** The SQL expression of its default; null when there is none. */
  default: string | null;
  /** Functions that a domain's casts name: how its values are written as JSON, and read from JSON and from text. */
  toJson: string | null;
  fromJson: string | null;
  fromText: string | null;
}

/** A column of a relation, by object id. */
export interface ColumnId {
  relation: string;
  column: string;
}

export interface Relation {
  id: string;
  schema: string;
  name: string;
  isView: boolean;
  /** What a statement may do to it, for whoever has the right. */
  isInsertable: boolean;
  isUpdatable: boolean;
  isDeletable: boolean;
  columns: Map<string, Column>;
  primaryKey: string[];
  /** The column sets of primary keys and unique constraints. */
  uniqueKeys: string[][];
  /** Of a view's column: the columns of tables it shows. */
  origins: Map<string, ColumnId[]>;
}

export interface Parameter {
  name: string;
  type: string;
  isRequired: boolean;
  isVariadic: boolean;
}

export interface Routine {
  name: string;
  parameters: Parameter[];
  volatility: "volatile" | "stable" | "immutable";
  returnsSet: boolean;
  /** Rows with columns, rather than a value. */
  returnsRows: boolean;
  returnsVoid: boolean;
  /** The exposed relation whose rows it returns. */
  relation: string | null;
  /** Whether it is declared to return one row at most. */
  returnsOne: boolean;
  /** Of a function that returns a domain named after a media type: what its value is sent as. */
  mediaType: string | null;
  returnsBytes: boolean;
}

export interface Schema {
  /** The exposed relations by name. */
  relations: Map<string, Relation>;
  /** From each exposed relation's name to all exposed others. */
  relationships: Map<string, Relationship[]>;
  routines: Map<string, Routine[]>;
  /** Whether `pages.sum()` is allowed, which `alter role authenticator set pgrst.db_aggregates_enabled` switches on. */
  allowsAggregates: boolean;
  /** Which reading of the schema this is. */
  version: number;
}

let readings = 0;

export async function readSchema(sql: postgres.Sql): Promise<Schema> {
  return await sql.begin("read only", async (transaction) => {
    // Names come out with their schema, whatever the search path of a request is.
    await transaction`select set_config('search_path', '', true)`;
    const all = await readRelations(transaction);
    const [foreignKeys, routines, views, [{ allowsAggregates }]] = [
      await transaction<ForeignKey[]>`${transaction.unsafe(FOREIGN_KEYS)}`,
      await transaction<RoutineRow[]>`${transaction.unsafe(ROUTINES)}`,
      await transaction<{ id: string; definition: string }[]>`${transaction.unsafe(VIEWS)}`,
      await transaction<{ allowsAggregates: boolean }[]>`${transaction.unsafe(AGGREGATES)}`,
    ];
    for (const { id, definition } of views) {
      const view = all.get(id);
      if (view) view.origins = viewOrigins(definition, view, all);
    }
    for (const view of all.values()) if (view.isView) resolveOrigins(view, all);
    const relations = new Map<string, Relation>();
    for (const relation of all.values()) if (relation.schema === EXPOSED_SCHEMA) relations.set(relation.name, relation);
    const functions = routines.map((row) => ({ ...row, volatility: VOLATILITIES[row.volatility] }));
    const byName = (routine: Routine) => routine.name;
    return {
      relations,
      relationships: relationshipsOf(all, relations, foreignKeys, functions.filter((row) => row.computedOf)),
      routines: Map.groupBy<string, Routine>(functions.filter((row) => row.isCallable), byName),
      allowsAggregates,
      version: ++readings,
    };
  }) as Schema;
}

interface RoutineRow extends Omit<Routine, "volatility"> {
  volatility: keyof typeof VOLATILITIES;
  isCallable: boolean;
  /** The relation whose row is its only parameter, where it returns rows of `relation`. */
  computedOf: string | null;
}

const VOLATILITIES = { v: "volatile", s: "stable", i: "immutable" } as const;

interface RelationRow extends Omit<Relation, "columns" | "origins"> {
  columns: Column[];
}

async function readRelations(sql: postgres.TransactionSql): Promise<Map<string, Relation>> {
  const rows = await sql<RelationRow[]>`${sql.unsafe(RELATIONS)}`;
  return new Map(rows.map((row) => {
    const columns = new Map(row.columns.map((column) => [column.name, column]));
    return [row.id, { ...row, columns, origins: new Map() }];
  }));
}

/** Follow views of views down to tables; a view's primary key is that of the tables it shows. */
function resolveOrigins(view: Relation, all: Map<string, Relation>): void {
  const follow = ({ relation, column }: ColumnId, depth: number): ColumnId[] => {
    const source = all.get(relation);
    if (!source || depth > 16) return [];
    if (!source.isView) return [{ relation, column }];
    return (source.origins.get(column) ?? []).flatMap((origin) => follow(origin, depth + 1));
  };
  for (const [name, origins] of view.origins) view.origins.set(name, origins.flatMap((origin) => follow(origin, 0)));
  view.primaryKey = [...view.origins].filter(([, origins]) =>
    origins.some(({ relation, column }) => all.get(relation)!.primaryKey.includes(column))
  ).map(([name]) => name);
}
