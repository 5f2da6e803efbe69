/** JSON Schemas of the functions' valibot schemas, for the OpenAPI document. */
import { type JsonSchema, toJsonSchema } from "npm:@valibot/to-json-schema@1.8.0";
import type { Schema } from "../_shared/input.ts";

/** What a client may send, or is answered: the side of a schema before anything is transformed. */
export function jsonSchema(schema: Schema): JsonSchema {
  const { $schema: _, ...converted } = toJsonSchema(schema, {
    target: "draft-2020-12",
    typeMode: "input",
    // Said by metadata beside them.
    ignoreActions: ["check", "raw_check", "to_lower_case", "transform"],
    overrideSchema: ({ valibotSchema }) => (valibotSchema.type === "custom" ? {} : undefined),
  });
  return converted;
}
