/** What a relation or a function may be asked, as `OPTIONS` tells it. */
import { noRoutine } from "./call.ts";
import { ApiError, nearest } from "./errors.ts";
import { EXPOSED_SCHEMA, type Schema } from "./schema.ts";

/** What may be done with a relation or a function, by anybody who has the right. */
export function allowed(schema: Schema, isCall: boolean, name: string): string {
  if (isCall) {
    const routines = schema.routines.get(name);
    if (!routines) throw noRoutine(schema, name, [], null);
    const reads = routines.some(({ volatility }) => volatility !== "volatile");
    return reads ? "OPTIONS,GET,HEAD,POST" : "OPTIONS,POST";
  }
  const relation = schema.relations.get(name);
  if (!relation) throw noTable(name, schema);
  const { isInsertable, isUpdatable, isDeletable, primaryKey } = relation;
  return [
    "OPTIONS,GET,HEAD",
    ...isInsertable ? ["POST"] : [],
    ...isInsertable && isUpdatable && primaryKey.length > 0 ? ["PUT"] : [],
    ...isUpdatable ? ["PATCH"] : [],
    ...isDeletable ? ["DELETE"] : [],
  ].join();
}

export function noTable(name: string, { relations }: Schema): ApiError {
  const like = nearest(name, relations.keys());
  const message = `Could not find the table '${EXPOSED_SCHEMA}.${name}' in the schema cache`;
  const hint = like && `Perhaps you meant the table '${EXPOSED_SCHEMA}.${like}'`;
  return new ApiError(404, "PGRST205", message, { hint });
}
