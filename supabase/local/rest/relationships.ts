/** How relations relate: along foreign keys, through junction tables, and by functions that return rows for a row. */
import type { Relation } from "./schema.ts";

export interface ForeignKey {
  name: string;
  from: string;
  to: string;
  columns: [here: string, there: string][];
}

type Pairs = [here: string, there: string][];

interface Base {
  from: Relation;
  to: Relation;
}

/** Along a foreign key, of either side. */
export interface KeyRelationship extends Base {
  kind: "key";
  cardinality: "many-to-one" | "one-to-many" | "one-to-one";
  constraint: string;
  columns: Pairs;
  /** Whether `from` holds the foreign key. */
  isReferencing: boolean;
}

export interface JunctionRelationship extends Base {
  kind: "junction";
  junction: Relation;
  constraints: [string, string];
  /** Columns of `from` and of the junction, and of the junction and `to`. */
  near: Pairs;
  far: Pairs;
}

export interface ComputedRelationship extends Base {
  kind: "computed";
  routine: string;
  isToOne: boolean;
}

export type Relationship = KeyRelationship | JunctionRelationship | ComputedRelationship;

export function isToOne(relationship: Relationship): boolean {
  if (relationship.kind === "computed") return relationship.isToOne;
  return relationship.kind === "key" && relationship.cardinality !== "one-to-many";
}

interface Computed {
  name: string;
  computedOf: string | null;
  relation: string | null;
  returnsOne: boolean;
}

/** Every relationship between exposed relations, by the name of the one it starts from. */
export function relationshipsOf(
  all: Map<string, Relation>,
  exposed: Map<string, Relation>,
  foreignKeys: ForeignKey[],
  computed: Computed[],
): Map<string, Relationship[]> {
  const shown = (id: string, columns: string[]) => showing([...exposed.values()], id, columns);
  const keys: KeyRelationship[] = [];
  for (const key of foreignKeys) {
    const isUnique = all.get(key.from)?.uniqueKeys.some((unique) => sameNames(unique, key.columns.map(([a]) => a)));
    for (const [from, here] of shown(key.from, key.columns.map(([name]) => name))) {
      for (const [to, there] of shown(key.to, key.columns.map(([, name]) => name))) {
        const columns = here.map((name, i): [string, string] => [name, there[i]]);
        const back = columns.map(([a, b]): [string, string] => [b, a]);
        const shared = { kind: "key", constraint: key.name } as const;
        const [forth, other] = isUnique
          ? ["one-to-one", "one-to-one"] as const
          : ["many-to-one", "one-to-many"] as const;
        keys.push({ ...shared, from, to, columns, cardinality: forth, isReferencing: true });
        keys.push({ ...shared, from: to, to: from, columns: back, cardinality: other, isReferencing: false });
      }
    }
  }
  const found: Relationship[] = [...keys, ...junctions(keys)];
  for (const { name, computedOf, relation, returnsOne } of computed) {
    const [from, to] = [exposed.get(computedOf ?? ""), exposed.get(relation ?? "")];
    if (from && to) found.push({ kind: "computed", from, to, routine: name, isToOne: returnsOne });
  }
  return Map.groupBy(found, ({ from }) => from.name);
}

/** The exposed relations that show these columns of a table: itself, and views of it, once for each way they do. */
function showing(exposed: Relation[], id: string, columns: string[]): [Relation, string[]][] {
  return exposed.flatMap((relation): [Relation, string[]][] => {
    if (relation.id === id) return [[relation, columns]];
    if (!relation.isView) return [];
    const shownAs = columns.map((column) =>
      [...relation.origins].filter(([, origins]) =>
        origins.some((origin) => origin.relation === id && origin.column === column)
      ).map(([name]) => name)
    );
    return combinations(shownAs).map((names) => [relation, names]);
  });
}

/** Every choice of one from each list. */
function combinations(lists: string[][]): string[][] {
  return lists.reduce<string[][]>(
    (chosen, list) => chosen.flatMap((names) => list.map((name) => [...names, name])),
    [[]],
  );
}

/** Through a table whose primary key holds the columns of two foreign keys, each of which many rows may share. */
function junctions(keys: KeyRelationship[]): JunctionRelationship[] {
  const referencing = keys.filter(({ cardinality }) => cardinality === "many-to-one");
  const byTable = Map.groupBy(referencing, ({ from }) => from);
  return [...byTable].flatMap(([junction, outgoing]) => {
    const inKey = outgoing.filter(({ columns }) => columns.every(([name]) => junction.primaryKey.includes(name)));
    return inKey.flatMap((near) =>
      inKey.filter((far) => far.constraint !== near.constraint).map((far): JunctionRelationship => ({
        kind: "junction",
        from: near.to,
        to: far.to,
        junction,
        constraints: [near.constraint, far.constraint],
        near: near.columns.map(([here, there]) => [there, here]),
        far: far.columns,
      }))
    );
  });
}

function sameNames(left: string[], right: string[]): boolean {
  return left.length === right.length && left.every((name) => right.includes(name));
}
