/** Calling functions: which one is meant, and the SQL that calls it. */
import type { JsonBody } from "./body.ts";
import { ApiError, FAIRLY_NEAR, nearest } from "./errors.ts";
import { EXPOSED_SCHEMA, type Parameter, type Routine, type Schema } from "./schema.ts";
import { arrayLiteral, column, identifier, join, parameter, qualified, raw, type Sql, sql } from "./sql.ts";

export type Arguments =
  | { kind: "json"; body: JsonBody }
  | { kind: "text"; values: [name: string, value: string][] }
  /** The whole body is the one unnamed argument. */
  | { kind: "body"; value: string };

/** What the unnamed parameter's type must be for a body of this media type. */
const UNNAMED: Record<string, string[]> = {
  "application/json": ["json", "jsonb"],
  "text/plain": ["text"],
  "text/xml": ["xml"],
  "application/octet-stream": ["bytea"],
};

/** The one function of that name that takes these arguments; else the one that takes the whole body. */
export function findRoutine(
  schema: Schema,
  name: string,
  names: string[],
  mediaType: string | null,
): { routine: Routine; takesBody: boolean } {
  const overloads = schema.routines.get(name) ?? [];
  const isRawBody = mediaType !== null && mediaType !== "application/json" && mediaType in UNNAMED;
  const matching = isRawBody ? [] : overloads.filter((routine) => takes(routine, names));
  if (matching.length === 1) return { routine: matching[0], takesBody: false };
  const unnamed = mediaType === null
    ? []
    : overloads.filter(({ parameters }) =>
      parameters.length === 1 && parameters[0].name === "" && UNNAMED[mediaType]?.includes(parameters[0].type)
    );
  if (matching.length === 0 && unnamed.length === 1) return { routine: unnamed[0], takesBody: true };
  if (matching.length + unnamed.length === 0) throw noRoutine(schema, name, names, mediaType);
  throw ambiguous(matching.length > 0 ? matching : unnamed);
}

function takes({ parameters }: Routine, names: string[]): boolean {
  const known = (name: string) => name !== "" && parameters.some((parameter) => parameter.name === name);
  return names.every(known) &&
    parameters.every(({ name, isRequired }) => !isRequired || names.includes(name));
}

export function noRoutine(schema: Schema, name: string, names: string[], mediaType: string | null): ApiError {
  const called = `${EXPOSED_SCHEMA}.${name}`;
  const isRawBody = mediaType !== null && mediaType !== "application/json";
  const list = names.length > 0 ? `(${names.join(", ")})` : " without parameters";
  const orBody = mediaType === "application/json" ? " or with a single unnamed json/jsonb parameter" : "";
  const sought = isRawBody
    ? ` with a single unnamed ${UNNAMED[mediaType][0]} parameter`
    : names.length > 0
    ? ` with parameter${names.length > 1 ? "s" : ""} ${names.join(", ")}${orBody}`
    : `${list}${orBody}`;
  const like = isRawBody ? null : likeRoutine(schema, name, names);
  return new ApiError(
    404,
    "PGRST202",
    `Could not find the function ${called}${isRawBody ? "" : list} in the schema cache`,
    {
      details: `Searched for the function ${called}${sought}, but no matches were found in the schema cache.`,
      hint: like && `Perhaps you meant to call the function ${EXPOSED_SCHEMA}.${like}`,
    },
  );
}

/** The function of that name whose parameters are most like those given, or the one whose name is most like it. */
function likeRoutine(schema: Schema, name: string, names: string[]): string | null {
  const overloads = schema.routines.get(name);
  if (!overloads) return nearest(name, schema.routines.keys());
  const listed = (parameters: string[]) => `(${parameters.toSorted().join(", ")})`;
  const signatures = overloads.map(({ parameters }) => listed(parameters.map((parameter) => parameter.name)));
  const like = nearest(listed(names), signatures, FAIRLY_NEAR);
  return like && name + like;
}

function ambiguous(routines: Routine[]): ApiError {
  const signatures = routines.map(({ name, parameters }) =>
    `${EXPOSED_SCHEMA}.${name}(${parameters.map(({ name, type }) => `${name} => ${type}`).join(", ")})`
  );
  const message = `Could not choose the best candidate function between: ${signatures.join(", ")}`;
  return new ApiError(300, "PGRST203", message, {
    hint: "Try renaming the parameters or the function itself in the database so function overloading can be resolved",
  });
}

export const isScalar = ({ returnsRows }: Routine) => !returnsRows;

/** These columns of the rows that a call returns; a value is a row with the one column `pgrst_scalar`. */
export function callSql(routine: Routine, args: Arguments, columns: string[]): Sql {
  const name = qualified(EXPOSED_SCHEMA, routine.name);
  if (args.kind === "json") {
    const given = routine.parameters.filter((parameter) => args.body.names.includes(parameter.name));
    if (given.length > 0) return fromJson(routine, name, given, args.body, columns);
    return called(routine, sql`${name}()`, columns);
  }
  if (args.kind === "body") {
    return called(routine, sql`${name}(${parameter(args.value)}::${raw(routine.parameters[0].type)})`, columns);
  }
  const values = Map.groupBy(args.values, ([name]) => name);
  const given = routine.parameters.filter((parameter) => values.has(parameter.name));
  const written = given.map((parameter) =>
    namedArgument(parameter, textArgument(parameter, values.get(parameter.name)!.map(([, value]) => value)))
  );
  return called(routine, sql`${name}(${join(written, ", ")})`, columns);
}

function called(routine: Routine, call: Sql, columns: string[]): Sql {
  if (isScalar(routine)) return sql`select ${call} as "pgrst_scalar"`;
  return sql`select ${listOf(columns)} from ${call} as "call"`;
}

/** By name rather than all of them where that will do: a computed column is a function of the row that is called. */
function listOf(columns: string[]): Sql {
  return join(columns.map((name) => column("call", name)), ", ");
}

function fromJson(routine: Routine, name: Sql, given: Parameter[], body: JsonBody, columns: string[]): Sql {
  const { text, isArray } = body;
  const definitions = given.map((parameter) => sql`${identifier(parameter.name)} ${raw(parameter.type)}`);
  const list = isArray ? text : `[${text}]`;
  const source = sql`(select * from json_to_recordset(${parameter(list)}::json)
    as _ (${join(definitions, ", ")}) limit 1) as "arguments"`;
  const written = given.map((parameter) => namedArgument(parameter, column("arguments", parameter.name)));
  const call = sql`${name}(${join(written, ", ")})`;
  if (isScalar(routine)) return sql`select ${call} as "pgrst_scalar" from ${source}`;
  return sql`select ${listOf(columns)} from ${source}, lateral ${call} as "call"`;
}

function namedArgument({ name, isVariadic }: Parameter, value: Sql): Sql {
  return sql`${raw(isVariadic ? "variadic " : "")}${identifier(name)} => ${value}`;
}

/** Text as Postgres reads it for the type; of a name that is repeated, the last counts, or all for a variadic one. */
function textArgument({ type, isVariadic }: Parameter, values: string[]): Sql {
  return sql`${parameter(isVariadic ? arrayLiteral(values) : values.at(-1)!)}::${raw(type)}`;
}
