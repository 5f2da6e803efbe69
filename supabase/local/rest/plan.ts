/** A request's rows and what is embedded in them, as a tree in which every name is resolved. */
import { ApiError, FAIRLY_NEAR, nearest } from "./errors.ts";
import type { Condition } from "./filters.ts";
import type { OrderTerm, Placed, Query, Range } from "./query_string.ts";
import type { Relationship } from "./relationships.ts";
import { EXPOSED_SCHEMA, type Relation, type Schema } from "./schema.ts";
import type { SelectField, SelectItem, SelectRelation } from "./select.ts";

export interface Node {
  /** What it is called in the request: an alias, or the relation's name. */
  name: string;
  /** Null for the result of a function that returns no rows of an exposed relation. */
  relation: Relation | null;
  /** What the relation is called in SQL. */
  alias: string;
  fields: SelectField[];
  children: Embed[];
  conditions: Condition[];
  order: OrderTerm[];
  range: Range;
}

export interface Embed extends Node {
  relationship: Relationship;
  target: SelectRelation;
  /** What the embedded rows are called in the SQL of their parent. */
  join: string;
  /** What the rows it is embedded in are called in SQL, and the junction table between. */
  parent: string;
  junction: string;
}

interface Options {
  isWrite?: boolean;
  /** What the Range header asks for. */
  range?: Range | null;
}

export class Planner {
  #taken = new Set<string>();
  #embeds = 0;

  constructor(readonly schema: Schema, readonly maxRows: number | null) {}

  /** The tree of a request; conditions on its own rows are left out for writes, which apply them as they write. */
  plan(name: string, relation: Relation | null, query: Query, { isWrite = false, range = null }: Options): Node {
    const root = this.#node(name, relation, this.#alias(name), query.select, 0);
    for (const { path, item } of query.conditions) {
      if (path.length > 0 || !isWrite) nodeAt(root, path).conditions.push(item);
    }
    // Of several, the first counts.
    for (const { path, item } of query.order.toReversed()) nodeAt(root, path).order = item;
    if (!isWrite) this.#limit(root, query.limits, range);
    return root;
  }

  #limit(root: Node, limits: Placed<{ limit?: number; offset?: number }>[], range: Range | null): void {
    for (const { path, item } of limits) {
      const { range } = nodeAt(root, path);
      if (item.limit !== undefined) range.limit = item.limit;
      if (item.offset !== undefined) range.offset = item.offset;
    }
    if (range) root.range = intersection(root.range, range);
    const restrict = (node: Node) => {
      node.range.limit = Math.min(node.range.limit ?? Infinity, this.maxRows ?? Infinity);
      if (node.range.limit === Infinity) node.range.limit = null;
      node.children.forEach(restrict);
    };
    restrict(root);
  }

  #node(name: string, relation: Relation | null, alias: string, items: SelectItem[], depth: number): Node {
    const fields = items.filter((item) => item.kind === "field");
    if (!this.schema.allowsAggregates && fields.some((field) => field.aggregate)) {
      throw new ApiError(400, "PGRST123", "Use of aggregate functions is not allowed");
    }
    const embedded = items.filter((item) => item.kind === "relation");
    return {
      name,
      relation,
      alias,
      fields: fields.map(named),
      children: embedded.map((target) => this.#embed(name, relation, alias, target, depth + 1)),
      conditions: [],
      order: [],
      range: { offset: 0, limit: null },
    };
  }

  #embed(origin: string, relation: Relation | null, parent: string, target: SelectRelation, depth: number): Embed {
    const relationship = this.#relationship(relation?.name ?? origin, target);
    const { to } = relationship;
    const alias = this.#alias(to.name, depth);
    const node = this.#node(to.name, to, alias, target.items, depth);
    const join = this.#alias(`embed ${++this.#embeds}`);
    const junction = relationship.kind === "junction" ? this.#alias(relationship.junction.name, depth) : "";
    const name = target.alias ?? target.name;
    return { ...node, name, relationship, target, join, parent, junction };
  }

  /** A name of its own for a relation: an inner one must not hide an outer one that its conditions speak of. */
  #alias(name: string, depth?: number): string {
    let alias = depth === undefined ? name : `${shortened(name)}_${depth}`;
    while (this.#taken.has(alias)) alias += "_";
    this.#taken.add(alias);
    return alias;
  }

  #relationship(origin: string, { name, hint }: SelectRelation): Relationship {
    const all = this.schema.relationships.get(origin) ?? [];
    const found = all.filter((relationship) => fits(relationship, name, hint));
    // A function of that name stands for the relationship that it overrides.
    const computed = found.filter(({ kind }) => kind === "computed");
    const candidates = computed.length > 0 ? computed : found;
    if (candidates.length === 1) return candidates[0];
    if (candidates.length === 0) throw noRelationship(origin, name, hint, all, this.schema);
    throw ambiguous(origin, name, candidates);
  }
}

/** Postgres cuts names off after 63 bytes, the number that tells them apart included. */
function shortened(name: string): string {
  return new TextEncoder().encode(name).length <= 50 ? name : [...name].slice(0, 12).join("");
}

function intersection(left: Range, right: Range): Range {
  const end = ({ offset, limit }: Range) => limit === null ? Infinity : offset + limit;
  const offset = Math.max(left.offset, right.offset);
  const last = Math.min(end(left), end(right));
  return { offset, limit: last === Infinity ? null : Math.max(last - offset, 0) };
}

/** Fields inside JSON are named after the last key. */
function named(field: SelectField): SelectField {
  if (field.alias !== undefined || field.path.length === 0 || field.aggregate) return field;
  const key = field.path.findLast((step) => !step.isIndex)?.key;
  return { ...field, alias: key ?? field.name };
}

export function nodeAt(root: Node, path: string[]): Node {
  let node = root;
  for (const name of path) {
    const child = node.children.find((child) => child.name === name) ??
      node.children.find((child) => child.target.name === name);
    if (!child) throw notEmbedded(name);
    node = child;
  }
  return node;
}

export function notEmbedded(name: string): ApiError {
  return new ApiError(400, "PGRST108", `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });
}

function fits(relationship: Relationship, target: string, hint: string | undefined): boolean {
  const { to } = relationship;
  if (relationship.kind === "computed") return relationship.routine === target;
  if (relationship.kind === "junction") {
    return target === to.name && (hint === undefined || hint === relationship.junction.name);
  }
  const { from, columns, constraint, isReferencing, cardinality } = relationship;
  const [here, there] = columns.length === 1 ? columns[0] : [undefined, undefined];
  if (from === to) {
    // One key, two ways: by the relation's name its children, by the column's name its parent.
    if (hint === undefined) return isReferencing ? target === here : target === to.name;
    if (target !== to.name) return false;
    return !isReferencing && (hint === there || hint === constraint) ||
      // A row that refers to at most one other has no list of children to be told from.
      isReferencing && cardinality === "one-to-one" && hint === here;
  }
  if (hint === undefined) {
    return target === to.name || !to.isView && (target === constraint || target === here);
  }
  return target === to.name && (hint === constraint || hint === here || hint === there);
}

function noRelationship(origin: string, target: string, hint: string | undefined, all: Relationship[], schema: Schema) {
  const using = hint === undefined ? "" : `' using the hint '${hint}`;
  const names = all.map(({ to }) => to.name);
  const wrong = names.length > 0 ? target : origin;
  const like = names.includes(target)
    ? null
    : names.length > 0
    ? nearest(target, names, FAIRLY_NEAR)
    : nearest(origin, schema.relationships.keys());
  return new ApiError(
    400,
    "PGRST200",
    `Could not find a relationship between '${origin}' and '${target}' in the schema cache`,
    {
      details: `Searched for a foreign key relationship between '${origin}' and '${target}${using}' in the schema ` +
        `'${EXPOSED_SCHEMA}', but no matches were found.`,
      hint: like && `Perhaps you meant '${like}' instead of '${wrong}'.`,
    },
  );
}

function ambiguous(origin: string, target: string, found: Relationship[]): ApiError {
  const candidates = found.toSorted(inOrder);
  const names = candidates.map((candidate) => `'${candidate.to.name}!${hintOf(candidate)}'`).join(", ");
  return new ApiError(
    300,
    "PGRST201",
    `Could not embed because more than one relationship was found for '${origin}' and '${target}'`,
    {
      details: candidates.map(describe),
      hint: `Try changing '${target}' to one of the following: ${names}. ` +
        `Find the desired relationship in the 'details' key.`,
    },
  );
}

const KINDS = ["one-to-many", "many-to-one", "one-to-one"];

/** The order in which a choice is offered, whatever order the catalogue has. */
function inOrder(left: Relationship, right: Relationship): number {
  const [ours, theirs] = [rankOf(left), rankOf(right)];
  const i = ours.findIndex((part, i) => part !== theirs[i]);
  return i < 0 ? 0 : ours[i] < theirs[i] ? -1 : 1;
}

function rankOf(relationship: Relationship): (string | number)[] {
  const { from, to } = relationship;
  const isView = [Number(from.isView), Number(to.isView)];
  if (relationship.kind === "computed") return [to.name, KINDS.length + 1, relationship.routine];
  if (relationship.kind === "junction") {
    const { junction, constraints, near, far } = relationship;
    return [
      to.name,
      KINDS.length,
      junction.schema,
      junction.name,
      ...constraints,
      ...near.flat(),
      ...far.flat(),
      ...isView,
    ];
  }
  const { cardinality, constraint, columns } = relationship;
  return [to.name, KINDS.indexOf(cardinality), constraint, ...columns.flat(), ...isView];
}

function hintOf(relationship: Relationship): string {
  if (relationship.kind === "computed") return relationship.routine;
  return relationship.kind === "junction" ? relationship.junction.name : relationship.constraint;
}

function describe(relationship: Relationship): Record<string, string> {
  const { from, to } = relationship;
  const embedding = `${from.name} with ${to.name}`;
  const list = (names: string[]) => `(${names.join(", ")})`;
  if (relationship.kind === "computed") return { embedding };
  if (relationship.kind === "junction") {
    const { junction, constraints: [near, far] } = relationship;
    const [nearColumns, farColumns] = [
      relationship.near.map(([, name]) => name),
      relationship.far.map(([name]) => name),
    ];
    return {
      cardinality: "many-to-many",
      embedding,
      relationship: `${junction.name} using ${near}${list(nearColumns)} and ${far}${list(farColumns)}`,
    };
  }
  const { cardinality, constraint, columns } = relationship;
  const [here, there] = [columns.map(([name]) => name), columns.map(([, name]) => name)];
  return {
    cardinality,
    embedding,
    relationship: `${constraint} using ${from.name}${list(here)} and ${to.name}${list(there)}`,
  };
}

/** The names of the columns that a node's rows have, in order. */
export function outputNames(node: Node): string[] {
  const own = node.fields.flatMap((field) => {
    if (field.alias !== undefined) return [field.alias];
    if (field.aggregate) return [field.aggregate];
    return field.name === "*" ? [...node.relation?.columns.keys() ?? []] : [field.name];
  });
  const embedded = node.children.filter(isShown).flatMap((child) =>
    child.target.isSpread ? outputNames(child) : [child.name]
  );
  return [...own, ...embedded];
}

/** Whether anything of an embedded relation is asked for; `books!inner()` only filters. */
export function isShown(child: Embed): boolean {
  return child.fields.length > 0 || child.children.some(isShown);
}
