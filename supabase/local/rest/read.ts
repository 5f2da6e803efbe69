/** The SQL that reads a tree of rows; Postgres writes the JSON, so that no value passes through JavaScript. */
import { ApiError } from "./errors.ts";
import type { Condition, Filter, Operation } from "./filters.ts";
import { type Embed, isShown, type Node, notEmbedded, outputNames } from "./plan.ts";
import type { OrderTerm, Range } from "./query_string.ts";
import { isToOne } from "./relationships.ts";
import type { Field } from "./scanner.ts";
import { EXPOSED_SCHEMA, type Relation } from "./schema.ts";
import type { SelectField } from "./select.ts";
import {
  arrayLiteral,
  column,
  empty,
  identifier,
  join,
  literal,
  parameter,
  qualified,
  raw,
  type Sql,
  sql,
} from "./sql.ts";

/** One output column of a node. */
interface Output {
  sql: Sql;
  isAggregate: boolean;
}

/** `select … from … where … order by … limit …` for a node; `source` replaces the relation it reads from. */
export function readSql(node: Node, source?: Sql, isHoisted = false): Sql {
  const isGrouped = !isHoisted && hasAggregates(node);
  const outputs = [
    ...node.fields.flatMap((field) => fieldOutputs(node, field, isGrouped, isHoisted)),
    ...node.children.filter(isShown).flatMap((child) => embedOutputs(child, isGrouped, isHoisted)),
  ];
  const list = outputs.length > 0 ? join(outputs.map(({ sql }) => sql), ", ") : everything(node);
  return sql`select ${list} ${fromSql(node, source)} ${whereSql(conditionsOf(node))}${
    isGrouped ? groupBy(outputs) : empty
  }${orderSql(node)}${limitSql(node.range)}`;
}

/** What is read where nothing is selected: every column, unless the request only embeds to filter by. */
function everything(node: Node): Sql {
  return !isEmbed(node) && node.children.length > 0 ? empty : column(node.alias, "*");
}

/** `select 1 from … where …`, a row for each row that the node has without its limit. */
export function countSql(node: Node, source?: Sql): Sql {
  const inner = node.children.filter((child) => child.target.join === "inner").map(existsSql);
  return sql`select 1 from ${tableSql(node, source)} ${whereSql([...conditionsOf(node, true), ...inner])}`;
}

function existsSql(child: Embed): Sql {
  return sql`exists (${countSql(child)})`;
}

// From

function tableSql(node: Node, source?: Sql): Sql {
  const alias = identifier(node.alias);
  if (!isEmbed(node)) return sql`${source ?? relationSql(node.relation!)} as ${alias}`;
  const { relationship, junction } = node;
  if (relationship.kind === "computed") {
    const { from, routine } = relationship;
    const row = sql`${identifier(node.parent)}::${relationSql(from)}`;
    return sql`${qualified(EXPOSED_SCHEMA, routine)}(${row}) as ${alias}`;
  }
  const table = sql`${relationSql(node.relation!)} as ${alias}`;
  if (relationship.kind === "key") return table;
  return sql`${table}, ${relationSql(relationship.junction)} as ${identifier(junction)}`;
}

function fromSql(node: Node, source?: Sql): Sql {
  return join([sql`from ${tableSql(node, source)}`, ...node.children.map(joinSql)], " ");
}

/** The embedded rows beside each row: the row itself where there is at most one, else one row of lists. */
function joinSql(child: Embed): Sql {
  const alias = identifier(child.join);
  const isInner = child.target.join === "inner";
  const rows = readSql(child, undefined, isHoistedSpread(child));
  const kind = raw(isInner ? "inner" : "left");
  if (isToOne(child.relationship)) return sql`${kind} join lateral (${rows}) as ${alias} on true`;
  const lists = child.target.isSpread
    ? outputNames(child).map((name) => sql`json_agg(${column(child.join, name)}) as ${identifier(name)}`)
    : [sql`json_agg(${column(child.join, "*")}) as "rows"`];
  const list = join([sql`count(*) as "row count"`, ...lists], ", ");
  // Without any row there is no list either, so that an inner join drops the parent.
  const having = isInner ? raw(" having count(*) > 0") : empty;
  return sql`${kind} join lateral (select ${list} from (${rows}) as ${alias}${having}) as ${alias} on true`;
}

function relationSql({ schema, name }: Relation): Sql {
  return qualified(schema, name);
}

function isEmbed(node: Node): node is Embed {
  return "relationship" in node;
}

// Select

function fieldOutputs(node: Node, field: SelectField, isGrouped: boolean, isHoisted: boolean): Output[] {
  if (field.name === "*" && !field.aggregate) {
    // Grouping needs each column by itself, and so do domains that are written in a way of their own.
    const isPlain = !isGrouped && ![...node.relation?.columns.values() ?? []].some(({ toJson }) => toJson);
    if (isPlain) return [{ sql: column(node.alias, "*"), isAggregate: false }];
    return outputNames({ ...node, fields: [field], children: [] })
      .map((name) => ({ sql: represented(node, { name, path: [] }, true), isAggregate: false }));
  }
  const name = field.alias ?? field.aggregate ?? (field.cast === undefined ? undefined : field.name);
  const label = name === undefined ? empty : sql` as ${identifier(name)}`;
  if (isHoisted && field.aggregate) {
    const value = field.name === "*" ? raw("1") : cast(fieldSql(node, field), field.cast);
    return [{ sql: sql`${value}${label}`, isAggregate: false }];
  }
  if (!field.aggregate) {
    const value = cast(represented(node, field, name === undefined), field.cast);
    return [{ sql: sql`${value}${label}`, isAggregate: false }];
  }
  const value = field.name === "*" ? raw("*") : cast(fieldSql(node, field), field.cast);
  const result = aggregated(field, value);
  return [{ sql: sql`${result}${label}`, isAggregate: true }];
}

/** A field as it is written: a domain may have a function that makes JSON of it. */
function represented(node: Node, field: Field, isNamed: boolean): Sql {
  const value = fieldSql(node, field);
  const toJson = field.path.length === 0 ? node.relation?.columns.get(field.name)?.toJson : null;
  if (!toJson) return value;
  return sql`${raw(toJson)}(${value})${isNamed ? sql` as ${identifier(field.name)}` : empty}`;
}

function aggregated({ aggregate, aggregateCast }: SelectField, value: Sql): Sql {
  return cast(sql`${raw(aggregate!)}(${value})`, aggregateCast);
}

function cast(value: Sql, type: string | undefined): Sql {
  // The grammar lets only letters, digits, spaces and _ into a type.
  return type === undefined ? value : sql`cast(${value} as ${raw(type)})`;
}

function embedOutputs(child: Embed, isGrouped: boolean, isHoisted: boolean): Output[] {
  const plain = (expression: Sql): Output => ({ sql: expression, isAggregate: false });
  const toOne = isToOne(child.relationship);
  if (!child.target.isSpread) {
    const value = toOne
      ? sql`row_to_json(${column(child.join, "*")})`
      : sql`coalesce(${column(child.join, "rows")}, '[]')`;
    // JSON cannot be grouped by, its binary form can.
    return [plain(sql`${value}${raw(isGrouped || isHoisted ? "::jsonb" : "")} as ${identifier(child.name)}`)];
  }
  if (!toOne) {
    return outputNames(child).map((name) =>
      plain(sql`coalesce(${column(child.join, name)}, '[]') as ${identifier(name)}`)
    );
  }
  const hoisted = isHoisted ? new Map<string, SelectField>() : hoistedAggregates(child);
  return outputNames(child).map((name) => {
    const field = hoisted.get(name);
    const value = column(child.join, name);
    if (!field) return plain(value);
    return { sql: sql`${aggregated(field, value)} as ${identifier(name)}`, isAggregate: true };
  });
}

function groupBy(outputs: Output[]): Sql {
  const positions = outputs.flatMap(({ isAggregate }, i) => isAggregate ? [] : [raw(String(i + 1))]);
  return positions.length > 0 ? sql` group by ${join(positions, ", ")}` : empty;
}

/** Aggregates of a spread row are computed where it is spread to: there are the groups. */
function isHoistedSpread(child: Embed): boolean {
  if (!child.target.isSpread || !hasAggregates(child)) return false;
  if (isToOne(child.relationship)) return true;
  throw new ApiError(400, "PGRST127", "Feature not implemented", {
    details: "Aggregates are not implemented for one-to-many or many-to-many spreads.",
  });
}

function hasAggregates(node: Node): boolean {
  return node.fields.some((field) => field.aggregate) ||
    node.children.some((child) => child.target.isSpread && isToOne(child.relationship) && hasAggregates(child));
}

function hoistedAggregates(child: Embed): Map<string, SelectField> {
  const own = child.fields.filter((field) => field.aggregate)
    .map((field): [string, SelectField] => [field.alias ?? field.aggregate!, field]);
  const nested = child.children.filter(({ target, relationship }) => target.isSpread && isToOne(relationship));
  return new Map([...nested.flatMap((spread) => [...hoistedAggregates(spread)]), ...own]);
}

// Fields

export function fieldSql(node: Pick<Node, "alias" | "relation">, field: Field): Sql {
  const value = column(node.alias, field.name);
  if (field.path.length === 0) return value;
  const type = node.relation?.columns.get(field.name)?.baseType;
  // Columns of other types are looked into as the JSON they would be; converting JSON would miss its indexes.
  const document = type === "json" || type === "jsonb" ? value : sql`to_jsonb(${value})`;
  const steps = field.path.map(({ asText, key, isIndex }) =>
    sql`${raw(asText ? " ->> " : " -> ")}${isIndex ? raw(String(BigInt(key))) : literal(key)}`
  );
  return sql`(${document}${join(steps, "")})`;
}

// Where

function whereSql(conditions: Sql[]): Sql {
  return conditions.length > 0 ? sql`where ${join(conditions, " and ")} ` : empty;
}

function conditionsOf(node: Node, isCount = false): Sql[] {
  const filters = node.conditions.map((condition) => conditionSql(condition, node, isCount));
  return isEmbed(node) ? [...joinConditions(node), ...filters] : filters;
}

function joinConditions(child: Embed): Sql[] {
  const { relationship, alias, junction, parent } = child;
  const equal = (left: string, right: string, pairs: [string, string][]) =>
    pairs.map(([a, b]) => sql`${column(left, a)} = ${column(right, b)}`);
  if (relationship.kind === "computed") return [];
  if (relationship.kind === "key") return equal(parent, alias, relationship.columns);
  return [...equal(parent, junction, relationship.near), ...equal(junction, alias, relationship.far)];
}

/** A condition on a node's rows; one about an embedded relation asks whether there are any such rows. */
export function conditionSql(condition: Condition, node: Node, isCount = false): Sql {
  const negation = raw(condition.isNegated ? "not " : "");
  if (condition.kind === "junction") {
    const parts = condition.conditions.map((inner) => conditionSql(inner, node, isCount));
    return sql`${negation}(${join(parts, ` ${condition.operator} `)})`;
  }
  const child = condition.field.path.length === 0 &&
    node.children.find((child) => child.name === condition.field.name);
  if (child && condition.operation.kind === "is" && /null$/.test(condition.operation.value)) {
    return emptinessSql(condition, child, isCount);
  }
  return sql`${negation}${operationSql(fieldSql(node, condition.field), condition.operation, node, condition.field)}`;
}

function emptinessSql({ isNegated, operation }: Filter, child: Embed, isCount: boolean): Sql {
  const wantsRows = isNegated === (operation.kind === "is" && operation.value === "null");
  if (isCount) return sql`${raw(wantsRows ? "" : "not ")}${existsSql(child)}`;
  if (isToOne(child.relationship)) {
    return sql`${identifier(child.join)} is ${raw(wantsRows ? "" : "not ")}distinct from null`;
  }
  return sql`${column(child.join, "row count")} ${raw(wantsRows ? ">" : "=")} 0`;
}

function operationSql(value: Sql, operation: Operation, node: Node, field: Field): Sql {
  const fromText = field.path.length === 0 ? node.relation?.columns.get(field.name)?.fromText : null;
  const read = (text: string) => fromText ? sql`${raw(fromText)}(${parameter(text)}::text)` : parameter(text);
  switch (operation.kind) {
    case "compare":
      return sql`${value} ${raw(operation.operator)} ${
        /like|~/.test(operation.operator) ? parameter(operation.value) : read(operation.value)
      }`;
    case "each":
      return sql`${value} ${raw(`${operation.operator} ${operation.quantifier}`)}(${parameter(operation.value)})`;
    case "in":
      if (fromText) return sql`${value} = any(array[${join(operation.values.map(read), ", ")}])`;
      return sql`${value} = any(${parameter(arrayLiteral(operation.values))})`;
    case "is":
      return sql`${value} is ${raw(operation.value)}`;
    case "distinct":
      return sql`${value} is distinct from ${read(operation.value)}`;
    case "search":
      return searchSql(value, operation, node, field);
  }
}

function searchSql(
  value: Sql,
  { parser, language, value: words }: Operation & { kind: "search" },
  node: Node,
  field: Field,
): Sql {
  const configuration = language === undefined ? empty : sql`${parameter(language)}::regconfig, `;
  const type = field.path.length === 0 ? node.relation?.columns.get(field.name)?.baseType : "text";
  // What the type is of a function's column is not known: then it is left as it is.
  const isVector = type === "tsvector" || type === undefined;
  const document = isVector ? value : sql`to_tsvector(${configuration}${value})`;
  return sql`${document} @@ ${raw(parser)}(${configuration}${parameter(words)})`;
}

// Order and limit

function orderSql(node: Node): Sql {
  if (node.order.length === 0) return empty;
  return sql` order by ${join(node.order.map((term) => orderTermSql(node, term)), ", ")}`;
}

function orderTermSql(node: Node, { field, relation, direction, nulls }: OrderTerm): Sql {
  const suffix = raw(`${direction ? ` ${direction}` : ""}${nulls ? ` nulls ${nulls}` : ""}`);
  if (relation === undefined) return sql`${fieldSql(node, field)}${suffix}`;
  const child = node.children.find(({ name }) => name === relation);
  if (!child) throw notEmbedded(relation);
  if (!isToOne(child.relationship)) {
    throw new ApiError(400, "PGRST118", `A related order on '${relation}' is not possible`, {
      details: `'${node.name}' and '${relation}' do not form a many-to-one or one-to-one relationship`,
    });
  }
  return sql`${fieldSql({ alias: child.join, relation: child.relation }, field)}${suffix}`;
}

/** As parameters, so that every page is the same statement. */
function limitSql({ limit, offset }: Range): Sql {
  const count = limit === null ? empty : sql` limit ${parameter(String(limit))}`;
  return offset > 0 ? sql`${count} offset ${parameter(String(offset))}` : count;
}
