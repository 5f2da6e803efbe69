/** Which function is called with which arguments: those of the address, of a form, of JSON or CSV, or the whole body. */
import { argumentsOf, checkJsonType, fromCsv, mediaTypeOf, readText } from "./body.ts";
import { type Arguments, findRoutine } from "./call.ts";
import type { Query } from "./query_string.ts";
import type { Routine, Schema } from "./schema.ts";

interface Chosen {
  routine: Routine;
  args: Arguments;
}

export function givenArguments(schema: Schema, name: string, values: [string, string][]): Chosen {
  const names = [...new Set(values.map(([name]) => name))];
  return { routine: findRoutine(schema, name, names, null).routine, args: { kind: "text", values } };
}

export async function postedArguments(schema: Schema, name: string, query: Query, request: Request): Promise<Chosen> {
  const type = mediaTypeOf(request);
  if (type === "application/octet-stream") {
    const bytes = new Uint8Array(await request.arrayBuffer());
    const value = `\\x${bytes.toHex()}`;
    return { routine: findRoutine(schema, name, [], type).routine, args: { kind: "body", value } };
  }
  const text = await readText(request);
  if (type === "text/plain" || type === "text/xml") {
    return { routine: findRoutine(schema, name, [], type).routine, args: { kind: "body", value: text } };
  }
  if (type === "application/x-www-form-urlencoded") {
    return givenArguments(schema, name, [...new URLSearchParams(text)]);
  }
  if (type === "text/csv") {
    const body = argumentsOf(JSON.stringify(fromCsv(text)), null);
    return { routine: findRoutine(schema, name, body.names, null).routine, args: { kind: "json", body } };
  }
  checkJsonType(type);
  const body = argumentsOf(text, query.columns);
  const { routine, takesBody } = findRoutine(schema, name, body.names, "application/json");
  return { routine, args: takesBody ? { kind: "body", value: body.text } : { kind: "json", body } };
}
